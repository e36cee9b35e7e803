package main

import (
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// float8 is a kernel on a quarter of a vector of an 8-bit format, which is a
// vector of float32. E5M2 is the upper half of a float16. E4M3 with its
// exponent and fraction in the place of a float16's is 2⁻⁸ of its value there,
// and its NaN is a number.
type float8 struct {
	accumulate
	fraction uint64 // its bits: 3 or 2
	bias     uint64
	most     uint64 // the pattern of the greatest finite number

	sign      reg.VecVirtual // E4M3: of a float16
	magnitude reg.VecVirtual // E4M3: of a float8, in a word
	nan16     reg.VecVirtual // E4M3: of a float16; unused in AVX2
	scale     reg.VecVirtual // E4M3: 2⁸

	absolute, one, roundUp, greatest, normal, magic, topBit, nan operand.Op
}

func (k *float8) e4m3() bool { return k.fraction == 3 }

func (k *float8) constants(g *generator) {
	k.accumulate.constants(g)
	if k.e4m3() {
		k.sign = g.constant(16, 0x8000)
		k.magnitude = g.constant(16, 0x7F)
		if g.masks {
			k.nan16 = g.constant(16, 0x7FFF)
		}
		k.scale = g.constant(32, uint64(math.Float32bits(256)))
	}
	dropped := 23 - k.fraction
	k.absolute = g.pooled(32, 0x7FFFFFFF)
	k.one = g.pooled(32, 1)
	k.roundUp = g.pooled(32, (1<<(dropped-1)-1-(127-k.bias)<<23)&math.MaxUint32)
	k.greatest = g.pooled(32, k.most)
	k.normal = g.pooled(32, (128-k.bias)<<23-1)
	k.magic = g.pooled(32, (128-k.bias-k.fraction+23)<<23)
	k.topBit = g.pooled(32, 0x80)
	k.nan = g.pooled(32, 0x7F)
}

func (k *float8) wide(g *generator, src operand.Op) reg.VecVirtual {
	v := g.vector()
	h := part(v, g.bytes/2)
	g.VPMOVZXBW(src, h)
	g.VPSLLW(operand.U8(8), h, h) // the sign is in its place
	if !k.e4m3() {
		g.VCVTPH2PS(h, v)
		return v
	}
	sign := part(g.vector(), g.bytes/2)
	magnitude := part(k.magnitude, g.bytes/2)
	g.and(part(k.sign, g.bytes/2), h, sign)
	g.VPSRLW(operand.U8(8), h, h)
	g.and(magnitude, h, h)
	if g.masks {
		nans := g.K()
		g.VPCMPEQW(magnitude, h, nans)
		g.VPSLLW(operand.U8(7), h, h)
		g.or(sign, h, h)
		g.VMOVDQU16(part(k.nan16, g.bytes/2), nans, h)
	} else {
		nans := g.XMM()
		g.VPCMPEQW(magnitude, h, nans)
		g.VPSLLW(operand.U8(7), h, h)
		g.or(sign, h, h)
		g.or(nans, h, h)
	}
	g.VCVTPH2PS(h, v)
	g.VMULPS(k.scale, v, v)
	return v
}

func (k *float8) first(g *generator, src operand.Op) accumulator {
	return accumulator{k.wide(g, src)}
}

func (k *float8) next(g *generator, a accumulator, src operand.Op) {
	k.combine(g, k.wide(g, src), a[0])
}

// last rounds as float8Format.round does.
func (k *float8) last(g *generator, a accumulator) reg.VecVirtual {
	v := a[0]
	k.divide(g, v)
	magnitude, rounded, tiny := g.vector(), g.vector(), g.vector()
	g.and(k.absolute, v, magnitude)

	// Normal numbers, and those beyond them: the fraction's rounding carries into
	// the exponent.
	g.VPSRLD(operand.U8(23-k.fraction), magnitude, rounded)
	g.and(k.one, rounded, rounded)
	g.VPADDD(magnitude, rounded, rounded)
	g.VPADDD(k.roundUp, rounded, rounded)
	g.VPSRLD(operand.U8(23-k.fraction), rounded, rounded)
	g.VPMINUD(k.greatest, rounded, rounded)

	// The others: the addition rounds.
	isNormal := g.greater(32, magnitude, k.normal)
	g.VADDPS(k.magic, magnitude, tiny)
	g.VPSUBD(k.magic, tiny, tiny)
	g.pick(32, isNormal, rounded, tiny)

	sign := rounded
	g.VPSRLD(operand.U8(24), v, sign)
	g.and(k.topBit, sign, sign)
	g.or(sign, tiny, tiny)
	g.pick(32, g.nans(32, v), k.nan, tiny)

	// From 32 bits to 8.
	x := tiny.AsX()
	if g.masks {
		g.VPMOVDB(tiny, x)
		return tiny
	}
	upper := rounded.AsX()
	g.VEXTRACTI128(operand.U8(1), tiny, upper)
	g.VPACKUSDW(upper, x, x)
	g.VPACKUSWB(x, x, x)
	return tiny
}
