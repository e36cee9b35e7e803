package elementwise

import (
	"encoding/binary"
	"unsafe"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
)

// PullRed stores the reduction of the sources, in their order, in dst, which may
// be one of them. Lengths are equal and multiples of 16. It is faster if dst is
// aligned to the element size. The operator is one that kernels has for the type,
// or a bitwise one.
func PullRed(dst []byte, srcs [][]byte, op transport.RedOp, typ kernels.Type) error {
	switch op {
	case transport.RedAnd, transport.RedOr, transport.RedXor:
		combineBits(dst, srcs, op)
		return nil
	}
	return reduce(dst, srcs, typ, kernelOp(op))
}

// combineBits works on 8 bytes at a time, whatever the word. All sources are
// read before dst is written, which may be one of them.
func combineBits(dst []byte, srcs [][]byte, op transport.RedOp) {
	for o := 0; o < len(dst); o += 8 {
		v := binary.NativeEndian.Uint64(srcs[0][o:])
		for _, s := range srcs[1:] {
			v = combine64(v, binary.NativeEndian.Uint64(s[o:]), op, kernels.TypeUint64)
		}
		binary.NativeEndian.PutUint64(dst[o:], v)
	}
}

// reduce reduces into dst wherever it is. What kernels refuses, because dst is
// not aligned or overlaps a source, goes through a block of its own: the
// operation is booked and can't be refused any more.
func reduce(dst []byte, srcs [][]byte, typ kernels.Type, op kernels.Op) error {
	if kernels.Reduce(dst, srcs, typ, op) == nil {
		return nil
	}
	block := make([]uint64, 512)
	aligned := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(block))), 8*len(block))
	part := make([][]byte, len(srcs))
	for o := 0; o < len(dst); o += len(aligned) {
		n := min(len(aligned), len(dst)-o)
		for i, s := range srcs {
			part[i] = s[o : o+n]
		}
		if err := kernels.Reduce(aligned[:n], part, typ, op); err != nil {
			return err
		}
		copy(dst[o:], aligned[:n])
	}
	return nil
}
