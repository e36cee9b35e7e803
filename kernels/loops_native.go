package kernels

import "unsafe"

// native is the constraint of the types that Go computes with.
type native interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64
}

// The loops of this file read two to four sources of the length of dst. dst may
// be the same memory as any of them: each element is read before it is written.
// The conversions to E round each step to E, as Go would be free not to do if a
// product met a sum.

// sum2 sets dst to a + b.
func sum2[E native](dst, a, b []E) {
	a = a[:len(dst)]
	b = b[:len(dst)]
	for i := range dst {
		dst[i] = E(a[i] + b[i])
	}
}

// sum3 sets dst to (a + b) + c.
func sum3[E native](dst, a, b, c []E) {
	a = a[:len(dst)]
	b = b[:len(dst)]
	c = c[:len(dst)]
	for i := range dst {
		dst[i] = E(E(a[i]+b[i]) + c[i])
	}
}

// sum4 sets dst to ((a + b) + c) + d.
func sum4[E native](dst, a, b, c, d []E) {
	a = a[:len(dst)]
	b = b[:len(dst)]
	c = c[:len(dst)]
	d = d[:len(dst)]
	for i := range dst {
		dst[i] = E(E(E(a[i]+b[i])+c[i]) + d[i])
	}
}

// prod2 sets dst to a * b.
func prod2[E native](dst, a, b []E) {
	a = a[:len(dst)]
	b = b[:len(dst)]
	for i := range dst {
		dst[i] = E(a[i] * b[i])
	}
}

// prod3 sets dst to (a * b) * c.
func prod3[E native](dst, a, b, c []E) {
	a = a[:len(dst)]
	b = b[:len(dst)]
	c = c[:len(dst)]
	for i := range dst {
		dst[i] = E(E(a[i]*b[i]) * c[i])
	}
}

// prod4 sets dst to ((a * b) * c) * d.
func prod4[E native](dst, a, b, c, d []E) {
	a = a[:len(dst)]
	b = b[:len(dst)]
	c = c[:len(dst)]
	d = d[:len(dst)]
	for i := range dst {
		dst[i] = E(E(E(a[i]*b[i])*c[i]) * d[i])
	}
}

// lesser is min. Processors move words, not bytes, on a condition, so that min
// of two bytes would be a branch, and one that cannot be predicted.
func lesser[E native](x, y E) E {
	if unsafe.Sizeof(x) == 1 {
		return E(min(int(x), int(y)))
	}
	return min(x, y)
}

// greater is max, as lesser is min.
func greater[E native](x, y E) E {
	if unsafe.Sizeof(x) == 1 {
		return E(max(int(x), int(y)))
	}
	return max(x, y)
}

// min2 sets dst to the least of two sources, NaNs to nan.
func min2[E native](dst, a, b []E, nan E) {
	a = a[:len(dst)]
	b = b[:len(dst)]
	for i := range dst {
		r := lesser(a[i], b[i])
		if r != r {
			r = nan
		}
		dst[i] = r
	}
}

// min3 sets dst to the least of three sources, NaNs to nan.
func min3[E native](dst, a, b, c []E, nan E) {
	a = a[:len(dst)]
	b = b[:len(dst)]
	c = c[:len(dst)]
	for i := range dst {
		r := lesser(lesser(a[i], b[i]), c[i])
		if r != r {
			r = nan
		}
		dst[i] = r
	}
}

// min4 sets dst to the least of four sources, NaNs to nan.
func min4[E native](dst, a, b, c, d []E, nan E) {
	a = a[:len(dst)]
	b = b[:len(dst)]
	c = c[:len(dst)]
	d = d[:len(dst)]
	for i := range dst {
		r := lesser(lesser(lesser(a[i], b[i]), c[i]), d[i])
		if r != r {
			r = nan
		}
		dst[i] = r
	}
}

// max2 sets dst to the greatest of two sources, NaNs to nan.
func max2[E native](dst, a, b []E, nan E) {
	a = a[:len(dst)]
	b = b[:len(dst)]
	for i := range dst {
		r := greater(a[i], b[i])
		if r != r {
			r = nan
		}
		dst[i] = r
	}
}

// max3 sets dst to the greatest of three sources, NaNs to nan.
func max3[E native](dst, a, b, c []E, nan E) {
	a = a[:len(dst)]
	b = b[:len(dst)]
	c = c[:len(dst)]
	for i := range dst {
		r := greater(greater(a[i], b[i]), c[i])
		if r != r {
			r = nan
		}
		dst[i] = r
	}
}

// max4 sets dst to the greatest of four sources, NaNs to nan.
func max4[E native](dst, a, b, c, d []E, nan E) {
	a = a[:len(dst)]
	b = b[:len(dst)]
	c = c[:len(dst)]
	d = d[:len(dst)]
	for i := range dst {
		r := greater(greater(greater(a[i], b[i]), c[i]), d[i])
		if r != r {
			r = nan
		}
		dst[i] = r
	}
}

// divide divides the elements of dst by n: integers as if in 64 bits and toward
// zero, floats by n rounded to E. The conditions are constant for each E.
func divide[E native](dst []E, n int) {
	var zero E
	switch {
	case E(1)/2 != 0: // a float
		by := E(n)
		for i, x := range dst {
			dst[i] = x / by
		}
	case zero-1 < 0: // signed
		by := int64(n)
		for i, x := range dst {
			dst[i] = E(int64(x) / by)
		}
	default:
		by := uint64(n)
		for i, x := range dst {
			dst[i] = E(uint64(x) / by)
		}
	}
}
