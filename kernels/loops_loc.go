package kernels

import "unsafe"

const f64Inf = 0x7FF << 52 // +Inf as binary64

// pair is a value and its index in memory. A floating-point value is seen as
// its representation.
type pair[I int32 | int64] struct{ value, index I }

// locOrder says how the values of a type compare: as integers, their keys.
// Keys of floats are those of loops_order.go, with NaNs at both ends; integers
// are their own keys.
type locOrder[I int32 | int64] struct {
	flipped I // the bits that are flipped in keys of negative values: none, or all but the sign
	last    I // the greatest key that is no NaN
	turned  I // all bits, which turns the order round, for MaxLoc; else none
}

// key returns the key of a value, which is below all others for a NaN.
func (o locOrder[I]) key(v I) I {
	k := v ^ v>>(8*unsafe.Sizeof(v)-1)&o.flipped
	if k > o.last || k < ^o.last {
		return ^allButSign[I]()
	}
	return k ^ o.turned
}

// allButSign is the greatest I.
func allButSign[I int32 | int64]() I {
	var i I
	return I(^uint64(0) >> (65 - 8*unsafe.Sizeof(i)))
}

// loc2 sets dst to the pair with the least key of two sources, of equal ones to
// that with the lowest index. Either may be the same memory as dst.
func loc2[I int32 | int64](dst, a, b []pair[I], o locOrder[I]) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		x, y := a[i], b[i]
		k, l := o.key(x.value), o.key(y.value)
		if l < k || l == k && y.index < x.index {
			x, k = y, l
		}
		if k < ^o.last {
			x.value = allButSign[I]() // the canonical NaN
		}
		dst[i] = x
	}
}
