package kernels_test

import (
	"fmt"
	"testing"

	"github.com/weft-go/weft/kernels"
)

// The rates are those of the result: bytes written per second. The buffers are
// 64 KiB each, which the second-level cache holds.
func BenchmarkReduce(b *testing.B) {
	const bytes = 64 << 10
	for t := kernels.TypeInt8; t.Valid(); t++ {
		for _, op := range operators(t) {
			for _, n := range []int{2, 4, 8} {
				b.Run(fmt.Sprintf("%v/%v/%d", t, op, n), func(b *testing.B) {
					srcs := make([][]byte, n)
					for i := range srcs {
						srcs[i] = benchSource(t, bytes, i)
					}
					dst := kernels.Bytes(make([]uint64, bytes/8))
					b.SetBytes(bytes)
					for b.Loop() {
						if err := kernels.Reduce(dst, srcs, t, op); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

// benchSource gives numbers of magnitudes between 1/2 and 2 for the
// floating-point types, so that no product leaves their range.
func benchSource(t kernels.Type, bytes, seed int) []byte {
	buf := kernels.Bytes(make([]uint64, bytes/8))
	x := uint32(seed)*2654435761 + 1
	value := func() float32 {
		x = x*1664525 + 1013904223
		f := 0.5 + float32(x>>8)/(1<<24)*1.5
		if x&128 != 0 {
			return -f
		}
		return f
	}
	switch t {
	case kernels.TypeFloat16:
		for i, s := 0, kernels.Slice[kernels.Float16](buf); i < len(s); i++ {
			s[i] = kernels.Float16FromFloat32(value())
		}
	case kernels.TypeBFloat16:
		for i, s := 0, kernels.Slice[kernels.BFloat16](buf); i < len(s); i++ {
			s[i] = kernels.BFloat16FromFloat32(value())
		}
	case kernels.TypeFloat8E4M3:
		for i, s := 0, kernels.Slice[kernels.Float8E4M3](buf); i < len(s); i++ {
			s[i] = kernels.Float8E4M3FromFloat32(value())
		}
	case kernels.TypeFloat8E5M2:
		for i, s := 0, kernels.Slice[kernels.Float8E5M2](buf); i < len(s); i++ {
			s[i] = kernels.Float8E5M2FromFloat32(value())
		}
	case kernels.TypeFloat32, kernels.TypeComplex64:
		for i, s := 0, kernels.Slice[float32](buf); i < len(s); i++ {
			s[i] = value()
		}
	case kernels.TypeFloat64, kernels.TypeComplex128:
		for i, s := 0, kernels.Slice[float64](buf); i < len(s); i++ {
			s[i] = float64(value())
		}
	default:
		for i, s := 0, kernels.Slice[uint32](buf); i < len(s); i++ {
			value()
			s[i] = x
		}
	}
	return buf
}
