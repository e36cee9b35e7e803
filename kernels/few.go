package kernels

import "unsafe"

// fewBytes is up to how many bytes Reduce adds two sources without a look at what else could be
// asked of it, and loopBytes up to how many it does so without a kernel: to get there takes longer
// than that.
const (
	fewBytes  = 4 << 10
	loopBytes = 64
)

// sumFew is Reduce for the sum of two sources of the most usual types. It reports false,
// and has done nothing, if the arguments are others, or are not as they should be.
func sumFew(dst []byte, srcs [][]byte, t Type) bool {
	switch t {
	case TypeFloat32:
		return sumWords[float32](dst, srcs, t)
	case TypeFloat64:
		return sumWords[float64](dst, srcs, t)
	case TypeInt32, TypeUint32:
		return sumWords[uint32](dst, srcs, t)
	case TypeInt64, TypeUint64:
		return sumWords[uint64](dst, srcs, t)
	}
	return false
}

func sumWords[E uint32 | uint64 | float32 | float64](dst []byte, srcs [][]byte, t Type) bool {
	var zero E
	a, b := srcs[0], srcs[1]
	n, d, x, y := uintptr(len(dst)), address(dst), address(a), address(b)
	if len(a) != len(dst) || len(b) != len(dst) || (d|x|y)&(unsafe.Alignof(zero)-1) != 0 ||
		n%unsafe.Sizeof(zero) != 0 || partly(d-x, n) || partly(d-y, n) {
		return false
	}
	elems := int(n / unsafe.Sizeof(zero))
	if n > loopBytes {
		return vectorSum(dst, srcs, t)
	}
	sum2(view[E](dst, 0, elems), view[E](a, 0, elems), view[E](b, 0, elems))
	return true
}

// partly says whether two buffers of n bytes that begin gap bytes apart, either way,
// overlap but are not the same.
func partly(gap, n uintptr) bool { return gap != 0 && (gap < n || -gap < n) }
