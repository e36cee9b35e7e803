package elementwise

import (
	"encoding/binary"
	"math"
	"sync/atomic"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/internal/mapped"
)

// Red combines src into dst, each element by one atomic instruction or a
// compare-and-swap. Lengths are equal and multiples of 16.
func Red(dst, src []byte, op transport.RedOp, typ kernels.Type) {
	switch typ.Size() {
	case 8:
		for o := 0; o < len(src); o += 8 {
			red64(mapped.Word(dst, uint64(o)), binary.NativeEndian.Uint64(src[o:]), op, typ)
		}
	case 4:
		for o := 0; o < len(src); o += 4 {
			red32(mapped.Word32(dst, uint64(o)), binary.NativeEndian.Uint32(src[o:]), op, typ)
		}
	case 2: // two elements share a word: that both change at once does no harm
		for o := 0; o < len(src); o += 4 {
			v := binary.NativeEndian.Uint32(src[o:])
			w := mapped.Word32(dst, uint64(o))
			for {
				old := w.Load()
				lo := combine16(uint16(old), uint16(v), op, typ)
				hi := combine16(uint16(old>>16), uint16(v>>16), op, typ)
				if w.CompareAndSwap(old, uint32(lo)|uint32(hi)<<16) {
					break
				}
			}
		}
	}
}

// red64 returns the old value.
func red64(w *atomic.Uint64, v uint64, op transport.RedOp, typ kernels.Type) uint64 {
	for {
		old := w.Load()
		n := combine64(old, v, op, typ)
		// A word that stays as it is was combined all the same; but not to write
		// would lose the order that a write gives.
		if w.CompareAndSwap(old, n) {
			return old
		}
	}
}

func red32(w *atomic.Uint32, v uint32, op transport.RedOp, typ kernels.Type) uint32 {
	for {
		old := w.Load()
		if w.CompareAndSwap(old, combine32(old, v, op, typ)) {
			return old
		}
	}
}

func combine64(a, b uint64, op transport.RedOp, typ kernels.Type) uint64 {
	switch {
	case op == transport.RedAdd && typ == kernels.TypeFloat64:
		return math.Float64bits(math.Float64frombits(a) + math.Float64frombits(b))
	case op == transport.RedMin && typ == kernels.TypeInt64:
		return uint64(min(int64(a), int64(b)))
	case op == transport.RedMax && typ == kernels.TypeInt64:
		return uint64(max(int64(a), int64(b)))
	}
	return combineWords(a, b, op)
}

func combine32(a, b uint32, op transport.RedOp, typ kernels.Type) uint32 {
	switch {
	case op == transport.RedAdd && typ == kernels.TypeFloat32:
		return math.Float32bits(math.Float32frombits(a) + math.Float32frombits(b))
	case op == transport.RedMin && typ == kernels.TypeInt32:
		return uint32(min(int32(a), int32(b)))
	case op == transport.RedMax && typ == kernels.TypeInt32:
		return uint32(max(int32(a), int32(b)))
	}
	return combineWords(a, b, op)
}

// combineWords combines unsigned words.
func combineWords[W uint32 | uint64](a, b W, op transport.RedOp) W {
	switch op {
	case transport.RedAnd:
		return a & b
	case transport.RedOr:
		return a | b
	case transport.RedXor:
		return a ^ b
	case transport.RedAdd:
		return a + b
	case transport.RedMin:
		return min(a, b)
	case transport.RedMax:
		return max(a, b)
	}
	return b // AtomExch
}

// combine16 combines two float16 or bfloat16 elements as a reduction of two
// sources does.
func combine16(a, b uint16, op transport.RedOp, typ kernels.Type) uint16 {
	kop := kernelOp(op)
	if typ == kernels.TypeBFloat16 {
		d := [1]kernels.BFloat16{kernels.BFloat16FromBits(a)}
		s := [1]kernels.BFloat16{kernels.BFloat16FromBits(b)}
		_ = kernels.ReduceSlices(d[:], kop, d[:], s[:])
		return d[0].Bits()
	}
	d := [1]kernels.Float16{kernels.Float16FromBits(a)}
	s := [1]kernels.Float16{kernels.Float16FromBits(b)}
	_ = kernels.ReduceSlices(d[:], kop, d[:], s[:])
	return d[0].Bits()
}

// kernelOp is the reduction operator of an arithmetic RedOp.
func kernelOp(op transport.RedOp) kernels.Op {
	switch op {
	case transport.RedMin:
		return kernels.Min
	case transport.RedMax:
		return kernels.Max
	}
	return kernels.Sum
}
