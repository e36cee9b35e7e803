package kernels

// Min and Max of the 16-bit formats compare keys: the representations with the
// lower 15 bits flipped if the sign is set. As int16, keys order as the numbers
// do, −0 before +0. NaNs are the keys beyond those of the infinities, at both
// ends; a NaN at the end that would lose is moved to the one that wins.
//
// The loops read sources of the length of their first argument; inf is the key
// (and representation) of +Inf.

// inf returns the key of +Inf.
func (f format) inf() int16 {
	if f == float16Format {
		return f16Inf
	}
	return b16Inf
}

// flip turns a representation into its key, and back.
func flip(k int16) int16 { return k ^ k>>15&0x7FFF }

// leastKey is the key for Min, where the lower end wins.
func leastKey(h uint16, inf int16) int16 {
	k := flip(int16(h))
	if k > inf {
		k = -0x8000
	}
	return k
}

// greatestKey is the key for Max, where the upper end wins. (^inf is the key
// of −Inf.)
func greatestKey(h uint16, inf int16) int16 {
	k := flip(int16(h))
	if k < ^inf {
		k = 0x7FFF
	}
	return k
}

// fromLeast turns the result of Min back into a representation.
func fromLeast(k, inf int16) uint16 {
	h := uint16(flip(k))
	if k < ^inf {
		h = halfNaN
	}
	return h
}

// fromGreatest turns the result of Max back into a representation.
func fromGreatest(k, inf int16) uint16 {
	h := uint16(flip(k))
	if k > inf {
		h = halfNaN
	}
	return h
}

// least2 sets dst to the least of two sources, either of which may be the same
// memory.
func least2(dst, a, b []uint16, inf int16) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = fromLeast(min(leastKey(a[i], inf), leastKey(b[i], inf)), inf)
	}
}

// greatest2 sets dst to the greatest of two sources, either of which may be
// the same memory.
func greatest2(dst, a, b []uint16, inf int16) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = fromGreatest(max(greatestKey(a[i], inf), greatestKey(b[i], inf)), inf)
	}
}

// leastFirst sets acc to the least keys of two sources.
func leastFirst(acc []int16, a, b []uint16, inf int16) {
	a, b = a[:len(acc)], b[:len(acc)]
	for i := range acc {
		acc[i] = min(leastKey(a[i], inf), leastKey(b[i], inf))
	}
}

// leastNext lowers acc to the keys of one more source.
func leastNext(acc []int16, src []uint16, inf int16) {
	src = src[:len(acc)]
	for i := range acc {
		acc[i] = min(acc[i], leastKey(src[i], inf))
	}
}

// greatestFirst sets acc to the greatest keys of two sources.
func greatestFirst(acc []int16, a, b []uint16, inf int16) {
	a, b = a[:len(acc)], b[:len(acc)]
	for i := range acc {
		acc[i] = max(greatestKey(a[i], inf), greatestKey(b[i], inf))
	}
}

// greatestNext raises acc to the keys of one more source.
func greatestNext(acc []int16, src []uint16, inf int16) {
	src = src[:len(acc)]
	for i := range acc {
		acc[i] = max(acc[i], greatestKey(src[i], inf))
	}
}

// fromKeys sets dst to the numbers of the keys in acc, NaNs at either end to
// the canonical one.
func fromKeys(dst []uint16, acc []int16, inf int16) {
	acc = acc[:len(dst)]
	for i := range dst {
		k := acc[i]
		h := uint16(flip(k))
		if k > inf || k < ^inf {
			h = halfNaN
		}
		dst[i] = h
	}
}
