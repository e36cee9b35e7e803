package kernels

import "math"

// Float8E4M3 is an 8-bit floating-point number of the Open Compute Project's
// format E4M3: 1 sign bit, 4 exponent bits of bias 7, 3 fraction bits. It has
// no infinities; its largest number is 448, and 0x7F and 0xFF are NaNs. Its
// zero value is +0. The == operator compares bits, so that a NaN equals itself
// and +0 differs from −0.
//
// It is a struct for the reason that [Float16] is one. Use [AsFloat8E4M3] to
// see a slice of bytes as Float8E4M3.
type Float8E4M3 struct{ e4m3 uint8 }

// Float8E5M2 is an 8-bit floating-point number of the Open Compute Project's
// format E5M2, the upper half of a [Float16]: 1 sign bit, 5 exponent bits of
// bias 15, 2 fraction bits. It has infinities, but no rounding gives one; its
// largest finite number is 57344. Its zero value is +0. The == operator
// compares bits, so that a NaN equals itself and +0 differs from −0.
//
// Use [AsFloat8E5M2] to see a slice of bytes as Float8E5M2.
type Float8E5M2 struct{ e5m2 uint8 }

// Float8E4M3FromFloat32 rounds f to the nearest Float8E4M3, ties to even, as
// PTX's cvt.rn.satfinite does: values beyond ±448, infinities among them,
// become ±448, tiny ones subnormals or zeros; the sign is kept. A NaN becomes
// 0x7F.
func Float8E4M3FromFloat32(f float32) Float8E4M3 { return Float8E4M3{e4m3Format.round(f)} }

// Float8E4M3FromBits returns the number with the given representation.
func Float8E4M3FromBits(b uint8) Float8E4M3 { return Float8E4M3{b} }

// Bits returns the representation of h.
func (h Float8E4M3) Bits() uint8 { return h.e4m3 }

// Float32 returns h as a float32, which is exact. A NaN becomes 0x7FFFFFFF.
func (h Float8E4M3) Float32() float32 { return e4m3Format.wide[h.e4m3] }

// String formats h as the shortest decimal that reads back as the same
// float32.
func (h Float8E4M3) String() string { return formatFloat(h.Float32()) }

// Float8E5M2FromFloat32 rounds f to the nearest Float8E5M2, ties to even, as
// PTX's cvt.rn.satfinite does: values beyond ±57344, infinities among them,
// become ±57344, tiny ones subnormals or zeros; the sign is kept. A NaN becomes
// 0x7F.
func Float8E5M2FromFloat32(f float32) Float8E5M2 { return Float8E5M2{e5m2Format.round(f)} }

// Float8E5M2FromBits returns the number with the given representation.
func Float8E5M2FromBits(b uint8) Float8E5M2 { return Float8E5M2{b} }

// Bits returns the representation of h.
func (h Float8E5M2) Bits() uint8 { return h.e5m2 }

// Float32 returns h as a float32, which is exact. A NaN becomes 0x7FFFFFFF.
func (h Float8E5M2) Float32() float32 { return e5m2Format.wide[h.e5m2] }

// String formats h as the shortest decimal that reads back as the same
// float32.
func (h Float8E5M2) String() string { return formatFloat(h.Float32()) }

const float8NaN = 0x7F // the canonical NaN of both formats

// float8Format tells the two 8-bit formats apart. Patterns are those of
// positive numbers.
type float8Format struct {
	wide    [256]float32 // the number of each representation
	dropped uint32       // fraction bits that binary32 has more
	rebias  uint32       // binary32 to 8-bit exponent, in place of the former
	normal  uint32       // the least normal number, as binary32
	magic   uint32       // a power of two whose last place is the least number, as binary32
	most    uint32       // the pattern of the greatest finite number
	last    uint8        // the greatest pattern that is no NaN
}

var (
	e4m3Format = makeFloat8Format(3, 7, 0x7E, 0x7E)
	e5m2Format = makeFloat8Format(2, 15, 0x7B, 0x7C)
)

func makeFloat8Format(frac, bias int, most, last uint8) float8Format {
	f := float8Format{
		dropped: uint32(23 - frac),
		rebias:  uint32(127-bias) << 23,
		normal:  uint32(127+1-bias) << 23,
		magic:   uint32(127+1-bias-frac+23) << 23,
		most:    uint32(most),
		last:    last,
	}
	for b := range uint8(128) {
		x := math.Float32frombits(uint32(b)<<f.dropped + f.rebias)
		switch {
		case b > last:
			x = math.Float32frombits(0x7FFFFFFF)
			f.wide[b], f.wide[b|0x80] = x, x
			continue
		case b > most:
			x = float32(math.Inf(1))
		case b < 1<<frac: // the fraction counts the least number
			x = math.Float32frombits(f.magic+uint32(b)) - math.Float32frombits(f.magic)
		}
		f.wide[b], f.wide[b|0x80] = x, -x
	}
	return f
}

func (f *float8Format) round(x float32) uint8 {
	u := math.Float32bits(x)
	sign := uint8(u >> 24 & 0x80)
	u &= 0x7FFFFFFF
	switch {
	case u > f32Inf:
		return float8NaN
	case u >= f.normal:
		// As in f32to16Normal.
		half := uint32(1) << (f.dropped - 1)
		return sign | uint8(min((u-f.rebias+half-1+u>>f.dropped&1)>>f.dropped, f.most))
	}
	// As in f32to16Rare.
	sum := math.Float32frombits(u) + math.Float32frombits(f.magic)
	return sign | uint8(math.Float32bits(sum)-f.magic)
}
