package kernels

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// The rates are those of the result: bytes written per second. All sources and
// the destination are of the length given. An iteration is a burst of calls of
// some 16 KiB at least; best-GB/s is the rate of the fastest, which other work
// on the machine hardly changes.
func BenchmarkTiers(b *testing.B) {
	for _, typ := range []Type{TypeFloat32, TypeFloat64, TypeBFloat16, TypeFloat16, TypeInt32, TypeFloat8E4M3} {
		for _, op := range []Op{Sum, Max, Avg} {
			for _, k := range []int{2, 4} {
				for _, size := range []int{32, 256, 4 << 10, 64 << 10, 4 << 20} {
					srcs := make([][]byte, k)
					for i := range srcs {
						srcs[i] = numbersForBench(typ, size, i)
					}
					dst := Bytes(make([]uint64, size/8))
					for with := plain; with <= best(); with++ {
						b.Run(fmt.Sprintf("%v/%v/%d/%d/%v", typ, op, k, size, with), func(b *testing.B) {
							calls := max(1, 16<<10/size)
							b.SetBytes(int64(calls * size))
							least := time.Hour
							for b.Loop() {
								start := time.Now()
								for range calls {
									runWith(with, dst, srcs, size/typ.Size(), typ, op, divisor(op, k))
								}
								least = min(least, time.Since(start))
							}
							b.ReportMetric(float64(calls*size)/float64(least.Nanoseconds()), "best-GB/s")
						})
					}
				}
			}
		}
	}
}

// numbersForBench returns ordinary numbers, between 1/2 and 2 in magnitude where
// they are floats.
func numbersForBench(typ Type, size, seed int) []byte {
	r := rand.New(rand.NewPCG(uint64(seed), 0))
	b := Bytes(make([]uint64, size/8))
	for i := range size / typ.Size() {
		f := 0.5 + 1.5*r.Float32()
		if r.IntN(2) == 0 {
			f = -f
		}
		switch typ {
		case TypeFloat32:
			view[float32](b, i, i+1)[0] = f
		case TypeFloat64:
			view[float64](b, i, i+1)[0] = float64(f)
		case TypeFloat16:
			view[uint16](b, i, i+1)[0] = f32to16(f)
		case TypeBFloat16:
			view[uint16](b, i, i+1)[0] = f32tob16(f)
		case TypeFloat8E4M3:
			b[i] = e4m3Format.round(f)
		default:
			view[int32](b, i, i+1)[0] = int32(f * 1000)
		}
	}
	return b
}
