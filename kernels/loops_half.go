package kernels

import "math"

// format tells the two 16-bit floating-point formats apart.
type format uint8

const (
	float16Format format = iota
	bfloat16Format
)

// The loops of this file read sources of the length of their first argument.
// Accumulators are float32. The conversions to float32 round each step, as Go
// would be free not to do if a product met a sum.

// load sets acc to the values of src.
func (f format) load(acc []float32, src []uint16) {
	src = src[:len(acc)]
	if f == float16Format {
		for i := range acc {
			acc[i] = f16to32(src[i])
		}
		return
	}
	for i := range acc {
		acc[i] = b16to32(src[i])
	}
}

// add adds the values of src to acc.
func (f format) add(acc []float32, src []uint16) {
	src = src[:len(acc)]
	if f == float16Format {
		for i := range acc {
			acc[i] = float32(acc[i] + f16to32(src[i]))
		}
		return
	}
	for i := range acc {
		acc[i] = float32(acc[i] + b16to32(src[i]))
	}
}

// mul multiplies acc by the values of src.
func (f format) mul(acc []float32, src []uint16) {
	src = src[:len(acc)]
	if f == float16Format {
		for i := range acc {
			acc[i] = float32(acc[i] * f16to32(src[i]))
		}
		return
	}
	for i := range acc {
		acc[i] = float32(acc[i] * b16to32(src[i]))
	}
}

// store sets dst to acc, rounded.
func (f format) store(dst []uint16, acc []float32) {
	acc = acc[:len(dst)]
	if f == float16Format {
		for i := range dst {
			u := math.Float32bits(acc[i])
			if f16InRange(u) {
				dst[i] = f32to16Normal(u)
			} else {
				dst[i] = f32to16Rare(u)
			}
		}
		return
	}
	for i := range dst {
		dst[i] = f32tob16(acc[i])
	}
}

// sum2 sets dst to the rounded sums of two sources, either of which may be the
// same memory: the step of a ring, and not worth an accumulator.
func (f format) sum2(dst, a, b []uint16) {
	a, b = a[:len(dst)], b[:len(dst)]
	if f == float16Format {
		for i := range dst {
			u := math.Float32bits(f16to32(a[i]) + f16to32(b[i]))
			if f16InRange(u) {
				dst[i] = f32to16Normal(u)
			} else {
				dst[i] = f32to16Rare(u)
			}
		}
		return
	}
	for i := range dst {
		dst[i] = f32tob16(b16to32(a[i]) + b16to32(b[i]))
	}
}
