package kernels

import (
	"math"
	"strconv"
)

// Float16 is an IEEE 754 binary16 number: 1 sign bit, 5 exponent bits,
// 10 fraction bits. Its zero value is +0. The == operator compares bits, so
// that a NaN equals itself and +0 differs from −0.
//
// It is a struct, and not an integer, so that a named type over it is told
// apart from a named type over uint16. Use [AsFloat16] to see a slice of
// 16-bit integers as Float16.
type Float16 struct{ f16 uint16 }

// BFloat16 is the upper half of an IEEE 754 binary32 number: 1 sign bit,
// 8 exponent bits, 7 fraction bits. Its zero value is +0. The == operator
// compares bits, so that a NaN equals itself and +0 differs from −0.
//
// Use [AsBFloat16] to see a slice of 16-bit integers as BFloat16.
type BFloat16 struct{ bf16 uint16 }

// Float16FromFloat32 rounds f to the nearest Float16, ties to even. Values
// that would round to 65536 or more in magnitude become infinities, tiny ones
// subnormals or zeros; the sign is always kept. A NaN becomes a quiet NaN of
// the same sign with the upper 9 bits of the payload.
func Float16FromFloat32(f float32) Float16 { return Float16{f32to16(f)} }

// Float16FromBits returns the number with the given binary16 representation.
func Float16FromBits(b uint16) Float16 { return Float16{b} }

// Bits returns the binary16 representation of h.
func (h Float16) Bits() uint16 { return h.f16 }

// Float32 returns h as a float32, which is exact. A NaN keeps its sign, its
// payload (as the upper bits) and whether it is quiet, as far as the processor
// preserves the bits of signalling NaNs.
func (h Float16) Float32() float32 { return f16to32(h.f16) }

// String formats h as the shortest decimal that reads back as the same
// float32.
func (h Float16) String() string { return formatFloat(h.Float32()) }

// BFloat16FromFloat32 rounds f to the nearest BFloat16, ties to even. Values
// beyond the largest finite BFloat16 by half a unit or more become infinities,
// subnormals are kept; the sign is always kept. A NaN becomes a quiet NaN of
// the same sign with the upper 6 bits of the payload.
func BFloat16FromFloat32(f float32) BFloat16 { return BFloat16{f32tob16(f)} }

// BFloat16FromBits returns the number with the given representation.
func BFloat16FromBits(b uint16) BFloat16 { return BFloat16{b} }

// Bits returns the representation of h.
func (h BFloat16) Bits() uint16 { return h.bf16 }

// Float32 returns h as a float32, which is exact. A NaN keeps its sign, its
// payload (as the upper bits) and whether it is quiet, as far as the processor
// preserves the bits of signalling NaNs.
func (h BFloat16) Float32() float32 { return b16to32(h.bf16) }

// String formats h as the shortest decimal that reads back as the same
// float32.
func (h BFloat16) String() string { return formatFloat(h.Float32()) }

func formatFloat(f float32) string { return strconv.FormatFloat(float64(f), 'g', -1, 32) }

const (
	f16Inf  = 0x7C00 // +Inf as binary16
	b16Inf  = 0x7F80 // +Inf as bfloat16
	halfNaN = 0x7FFF // the canonical NaN of both formats

	f32Inf    = 0xFF << 23            // +Inf as binary32
	rebias    = (127 - 15) << 23      // binary16 to binary32 exponent
	f16Normal = (127 - 14) << 23      // the least normal binary16, as binary32
	f16Beyond = (127 + 16) << 23      // 65536, the first binade beyond binary16
	f16Spread = f16Beyond - f16Normal // the binary32 patterns between the two
	f16Magic  = (127 - 1) << 23       // 0.5: its last place is the least binary16
)

// f16Tables widens binary16 without a branch. The upper 6 bits of a number
// select what is added to its fraction (the sign and the exponent) and which
// half of frac has the fraction: the first half, for exponent 0, has the whole
// magnitude of a zero or subnormal as binary32, the second the plain fraction.
var f16Tables = makeF16Tables()

type f16Wide struct {
	frac   [2048]uint32
	upper  [64]uint32
	offset [64]uint16
}

func makeF16Tables() (t f16Wide) {
	for i := range uint32(1024) {
		t.frac[i] = math.Float32bits(float32(i) * 0x1p-24)
		t.frac[1024+i] = i << 13
	}
	for i := range uint32(64) {
		sign, exp := i>>5<<31, i&31
		switch exp {
		case 0:
			t.upper[i] = sign
		case 31:
			t.upper[i], t.offset[i] = sign|f32Inf, 1024
		default:
			t.upper[i], t.offset[i] = sign|(exp<<23+rebias), 1024
		}
	}
	return t
}

func f16to32(h uint16) float32 {
	t := &f16Tables
	return math.Float32frombits(t.frac[(t.offset[h>>10]+h&0x03FF)&2047] + t.upper[h>>10])
}

// f32to16 rounds. Loops write it out, because it is too large to be inlined.
func f32to16(f float32) uint16 {
	u := math.Float32bits(f)
	if f16InRange(u) {
		return f32to16Normal(u)
	}
	return f32to16Rare(u)
}

// f16InRange reports whether |u| is in the range of normal binary16 numbers
// before rounding.
func f16InRange(u uint32) bool { return u&0x7FFFFFFF-f16Normal < f16Spread }

// f32to16Normal rounds values in that range.
func f32to16Normal(u uint32) uint16 {
	// Half of the last place, less one if the fraction is even, carries into
	// the fraction (and on into the exponent, up to infinity) as it should.
	return uint16(u>>16&0x8000 | (u&0x7FFFFFFF-rebias+0x0FFF+u>>13&1)>>13)
}

// f32to16Rare converts NaNs, infinities, values that overflow for certain, and
// values below the least normal binary16.
func f32to16Rare(u uint32) uint16 {
	sign := uint16(u >> 16 & 0x8000)
	u &= 0x7FFFFFFF
	switch {
	case u > f32Inf:
		return sign | f16Inf | 0x0200 | uint16(u>>13&0x03FF)
	case u >= f16Beyond:
		return sign | f16Inf
	}
	// The sum with 0.5 has the least binary16 as its last place, so that the
	// addition itself rounds, to nearest even.
	sum := math.Float32frombits(u) + math.Float32frombits(f16Magic)
	return sign | uint16(math.Float32bits(sum)-f16Magic)
}

func b16to32(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

func f32tob16(f float32) uint16 {
	u := math.Float32bits(f)
	if u&0x7FFFFFFF > f32Inf {
		return uint16(u>>16) | 0x0040
	}
	return uint16((u + 0x7FFF + u>>16&1) >> 16)
}
