package kernels

import "unsafe"

// word is the constraint of the types that stand for the bits of any element
// of their size.
type word interface {
	uint8 | uint16 | uint32 | uint64
}

// The loops of this file read two sources of the length of dst, either of
// which may be the same memory.

// bitwise2 sets dst to the bits of a and b combined by BitAnd, BitOr or BitXor.
func bitwise2[W word](dst, a, b []W, op Op) {
	a, b = a[:len(dst)], b[:len(dst)]
	switch op {
	case BitAnd:
		for i := range dst {
			dst[i] = a[i] & b[i]
		}
	case BitOr:
		for i := range dst {
			dst[i] = a[i] | b[i]
		}
	default:
		for i := range dst {
			dst[i] = a[i] ^ b[i]
		}
	}
}

// truth returns what the logical operators need to know of a type: the bits of
// which one is set at least in a true value, and the representation of 1. The
// sign does not make a float true.
func truth(t Type) (magnitude, one uint64) {
	switch t {
	case TypeFloat8E4M3:
		return 0x7F, 0x38
	case TypeFloat8E5M2:
		return 0x7F, 0x3C
	case TypeFloat16:
		return 0x7FFF, 0x3C00
	case TypeBFloat16:
		return 0x7FFF, 0x3F80
	case TypeFloat32:
		return 0x7FFFFFFF, 0x3F800000
	case TypeFloat64:
		return 0x7FFFFFFFFFFFFFFF, 0x3FF0000000000000
	}
	return ^uint64(0), 1
}

// nonzero returns 1 if any bit of x is set, else 0, without a branch.
func nonzero[W word](x W) W { return (x | -x) >> (8*unsafe.Sizeof(x) - 1) }

// logical2 sets dst to one or to 0, by LogicalAnd or LogicalOr of the truth of
// a and b.
func logical2[W word](dst, a, b []W, op Op, magnitude, one W) {
	a, b = a[:len(dst)], b[:len(dst)]
	if op == LogicalAnd {
		for i := range dst {
			dst[i] = one & -(nonzero(a[i]&magnitude) & nonzero(b[i]&magnitude))
		}
		return
	}
	for i := range dst {
		dst[i] = one & -nonzero((a[i]|b[i])&magnitude)
	}
}
