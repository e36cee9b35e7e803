package pointer

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
)

// Red implements [transport.Transport].
func (t *Transport) Red(c transport.Completion, dst transport.Handle, src []byte, op transport.RedOp, typ kernels.Type) error {
	return t.red(c, dst, src, op, typ, unicast, counter{})
}

// RedCounted implements [transport.Transport].
func (t *Transport) RedCounted(c transport.Completion, dst transport.Handle, src []byte, op transport.RedOp, typ kernels.Type, counterOffset uint64) error {
	return t.red(c, dst, src, op, typ, unicast, counter{true, counterOffset})
}

// RedMultimem implements [transport.Transport].
func (t *Transport) RedMultimem(c transport.Completion, dst transport.Handle, src []byte, op transport.RedOp, typ kernels.Type) error {
	return t.red(c, dst, src, op, typ, multicast, counter{})
}

func (t *Transport) red(c transport.Completion, dst transport.Handle, src []byte, op transport.RedOp, typ kernels.Type, cast casting, count counter) error {
	if !transport.RedSupports(op, typ) {
		return fmt.Errorf("pointer: red %v on %v: %w", op, typ, transport.ErrUnsupported)
	}
	e, err := t.access(c, dst, len(src), cast, count, len(src)/transport.Granule)
	if err != nil {
		return err
	}
	for i := range e.replicas {
		r := &e.replicas[i]
		redBytes(r.data[dst.Offset:dst.Offset+uint64(len(src))], src, op, typ)
		if count.counts {
			r.count(count.offset, len(src))
		} else {
			r.bell.ringIfArmed()
		}
	}
	return nil
}

// redBytes combines src into dst, each element by one atomic instruction or a
// compare-and-swap. Lengths are equal and multiples of 16.
func redBytes(dst, src []byte, op transport.RedOp, typ kernels.Type) {
	switch typ.Size() {
	case 8:
		for o := 0; o < len(src); o += 8 {
			red64(word(dst, uint64(o)), binary.NativeEndian.Uint64(src[o:]), op, typ)
		}
	case 4:
		for o := 0; o < len(src); o += 4 {
			red32(word32(dst, uint64(o)), binary.NativeEndian.Uint32(src[o:]), op, typ)
		}
	case 2: // two elements share a word: that both change at once does no harm
		for o := 0; o < len(src); o += 4 {
			v := binary.NativeEndian.Uint32(src[o:])
			w := word32(dst, uint64(o))
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
