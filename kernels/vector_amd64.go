//go:build !noasm

package kernels

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// best returns the best tier that this processor has.
func best() tier {
	x := &cpu.X86
	switch {
	case !x.HasAVX2 || !x.HasF16C:
		return plain
	case !x.HasAVX512F || !x.HasAVX512BW || !x.HasAVX512DQ || !x.HasAVX512VL || !x.HasBMI2:
		return avx2
	}
	return avx512
}

const (
	// callBytes is about what one call of a kernel moves. The runtime cannot
	// stop a goroutine in assembly: this many bytes are some ten microseconds.
	callBytes = 256 << 10
	// vectorBytes is the greatest vector. Parts of a buffer are multiples of it,
	// and the last part, which takes what is left over, is no shorter.
	vectorBytes = 64
	// avx2Bytes is the least that a kernel of AVX2 takes: its last vector may
	// overlap the one before it, but not the end of the buffer.
	avx2Bytes = 32
)

// vectorSum is vector for the sum of all bytes of two sources, at least avx2Bytes and few enough
// for one call of a kernel, without a look at what else could be asked of it.
func vectorSum(dst []byte, srcs [][]byte, t Type) bool {
	d, s := unsafe.SliceData(dst), unsafe.SliceData(srcs)
	switch chosen {
	case avx512:
		return reduceAVX512(d, s, 2, 0, len(dst), 1, t, Sum)
	case avx2:
		return reduceAVX2(d, s, 2, 0, len(dst), 1, t, Sum)
	}
	return false
}

// vector is run with the given tier, and reports whether that has a kernel for
// it. If not, nothing was done.
func vector(with tier, dst []byte, srcs [][]byte, n int, t Type, op Op, divisor int) bool {
	bytes := n * t.Size()
	if with == avx2 && bytes < avx2Bytes {
		return false
	}
	part := bytes
	if bytes*(len(srcs)+1) > callBytes {
		part = max(callBytes/(len(srcs)+1), vectorBytes) &^ (vectorBytes - 1)
	}
	divides := op == Avg && (t == TypeInt64 || t == TypeUint64) // for which there is no instruction
	if divides {
		op, part = Sum, blockBytes // divided while still in the cache
	}
	d, s := unsafe.SliceData(dst), unsafe.SliceData(srcs)
	for from := 0; from < bytes; {
		to := from + part
		if to > bytes-vectorBytes {
			to = bytes
		}
		var done bool
		if with == avx512 {
			done = reduceAVX512(d, s, len(srcs), from, to, divisor, t, op)
		} else {
			done = reduceAVX2(d, s, len(srcs), from, to, divisor, t, op)
		}
		if !done {
			return false
		}
		switch {
		case divides && t == TypeInt64:
			divide(view[int64](dst, from/8, to/8), divisor)
		case divides:
			divide(view[uint64](dst, from/8, to/8), divisor)
		}
		from = to
	}
	return true
}
