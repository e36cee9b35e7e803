package kernels

// The loops of this file read sources of the length of their first argument.
// Accumulators are float32, as for the 16-bit formats.

// load sets acc to the values of src.
func (f *float8Format) load(acc []float32, src []uint8) {
	src = src[:len(acc)]
	for i := range acc {
		acc[i] = f.wide[src[i]]
	}
}

// add adds the values of src to acc.
func (f *float8Format) add(acc []float32, src []uint8) {
	src = src[:len(acc)]
	for i := range acc {
		acc[i] = float32(acc[i] + f.wide[src[i]])
	}
}

// mul multiplies acc by the values of src.
func (f *float8Format) mul(acc []float32, src []uint8) {
	src = src[:len(acc)]
	for i := range acc {
		acc[i] = float32(acc[i] * f.wide[src[i]])
	}
}

// store sets dst to acc, rounded.
func (f *float8Format) store(dst []uint8, acc []float32) {
	acc = acc[:len(dst)]
	for i := range dst {
		dst[i] = f.round(acc[i])
	}
}

// key8 is the key of an 8-bit number: as int, keys order as the numbers do, −0
// before +0, with the NaNs at both ends.
func key8(h uint8) int {
	k := int(int8(h))
	return k ^ k>>8&0x7F
}

// order2 sets dst to the least of two sources, or to the greatest, NaNs to the
// canonical one. Either may be the same memory as dst.
func (f *float8Format) order2(dst, a, b []uint8, greatest bool) {
	a, b = a[:len(dst)], b[:len(dst)]
	last := int(f.last)
	for i := range dst {
		x, y := key8(a[i]), key8(b[i])
		low, high := min(x, y), max(x, y)
		k := low
		if greatest {
			k = high
		}
		r := uint8(k ^ k>>8&0x7F)
		if low < ^last || high > last {
			r = float8NaN
		}
		dst[i] = r
	}
}
