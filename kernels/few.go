package kernels

import "unsafe"

// fewBytes is up to how many bytes Reduce adds two sources without looking for a kernel:
// to get there takes longer than that.
const fewBytes = 64

// sumFew is Reduce for the sum of two sources of the most usual types. It reports false,
// and has done nothing, if the arguments are others, or are not as they should be.
func sumFew(dst, a, b []byte, t Type) bool {
	if len(a) != len(dst) || len(b) != len(dst) {
		return false
	}
	switch t {
	case TypeFloat32:
		return sumWords[float32](dst, a, b)
	case TypeFloat64:
		return sumWords[float64](dst, a, b)
	case TypeInt32, TypeUint32:
		return sumWords[uint32](dst, a, b)
	case TypeInt64, TypeUint64:
		return sumWords[uint64](dst, a, b)
	}
	return false
}

func sumWords[E uint32 | uint64 | float32 | float64](dst, a, b []byte) bool {
	var zero E
	n, d, x, y := uintptr(len(dst)), address(dst), address(a), address(b)
	if (d|x|y)&(unsafe.Alignof(zero)-1) != 0 || n%unsafe.Sizeof(zero) != 0 || partly(d-x, n) || partly(d-y, n) {
		return false
	}
	sum2(view[E](dst, 0, int(n/unsafe.Sizeof(zero))), view[E](a, 0, int(n/unsafe.Sizeof(zero))), view[E](b, 0, int(n/unsafe.Sizeof(zero))))
	return true
}

// partly says whether two buffers of n bytes that begin gap bytes apart, either way,
// overlap but are not the same.
func partly(gap, n uintptr) bool { return gap != 0 && (gap < n || -gap < n) }
