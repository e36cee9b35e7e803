package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// orderFloat is Min or Max of float32 or float64. The instruction for the
// minimum gives its second operand if one is a NaN or both are zeros, so that
// the two results of both orders differ in these cases alone; their bits
// together are a NaN if one is a NaN, and −0 if one is −0. The maximum is the
// minimum of the numbers with their signs turned, since bits that are in both
// would not do for NaNs.
type orderFloat struct {
	bits     int
	greatest bool
	sign     reg.VecVirtual
	nan      operand.Op // the canonical one
}

func (k *orderFloat) constants(g *generator) {
	if k.greatest {
		k.sign = g.constant(k.bits, 1<<(k.bits-1))
	}
	k.nan = g.pooled(k.bits, 1<<(k.bits-1)-1)
}

func (k *orderFloat) turned(g *generator, src operand.Op) reg.VecVirtual {
	v := g.vector()
	if k.greatest {
		g.xor(src, k.sign, v)
	} else {
		g.load(src, v, g.bytes)
	}
	return v
}

func (k *orderFloat) first(g *generator, src operand.Op) accumulator {
	return accumulator{k.turned(g, src)}
}

func (k *orderFloat) next(g *generator, a accumulator, src operand.Op) {
	b, other := k.turned(g, src), g.vector()
	if k.bits == 64 {
		g.VMINPD(a[0], b, other)
		g.VMINPD(b, a[0], a[0])
	} else {
		g.VMINPS(a[0], b, other)
		g.VMINPS(b, a[0], a[0])
	}
	g.or(other, a[0], a[0])
}

func (k *orderFloat) last(g *generator, a accumulator) reg.VecVirtual {
	nans := g.nans(k.bits, a[0])
	if k.greatest {
		g.xor(k.sign, a[0], a[0])
	}
	g.pick(k.bits, nans, k.nan, a[0])
	return a[0]
}

// orderKeys is Min or Max of a 16- or 8-bit floating-point format, on the keys
// of loops_order.go. Both the least and the greatest key are kept, as NaNs are
// at both ends.
type orderKeys struct {
	bits      int
	greatest  bool
	most      uint64         // the greatest key of a number
	magnitude reg.VecVirtual // all bits but the sign
	zero      reg.VecVirtual
	upper     reg.VecVirtual // the greatest key of a number
	lower     reg.VecVirtual // the least
}

func (k *orderKeys) constants(g *generator) {
	k.magnitude = g.constant(k.bits, 1<<(k.bits-1)-1)
	if k.bits == 8 && !g.masks {
		k.zero = g.vector()
		g.VPXOR(k.zero, k.zero, k.zero)
	}
	k.upper = g.constant(k.bits, k.most)
	k.lower = g.constant(k.bits, (1<<k.bits-1)^k.most)
}

// flip turns a representation into its key, and back.
func (k *orderKeys) flip(g *generator, v reg.VecVirtual) reg.VecVirtual {
	flipped := g.vector()
	switch {
	case k.bits == 16:
		g.VPSRAW(operand.U8(15), v, flipped)
		g.and(k.magnitude, flipped, flipped)
	case g.masks:
		negative := g.K()
		g.VPMOVB2M(v, negative)
		g.VMOVDQU8_Z(k.magnitude, negative, flipped)
	default:
		g.VPCMPGTB(v, k.zero, flipped)
		g.and(k.magnitude, flipped, flipped)
	}
	g.xor(flipped, v, flipped)
	return flipped
}

func (k *orderKeys) key(g *generator, src operand.Op) reg.VecVirtual {
	v := g.vector()
	g.load(src, v, g.bytes)
	return k.flip(g, v)
}

func (k *orderKeys) first(g *generator, src operand.Op) accumulator {
	least := k.key(g, src)
	greatest := g.vector()
	g.copy(least, greatest)
	return accumulator{least, greatest}
}

func (k *orderKeys) next(g *generator, a accumulator, src operand.Op) {
	v := k.key(g, src)
	if k.bits == 16 {
		g.VPMINSW(v, a[0], a[0])
		g.VPMAXSW(v, a[1], a[1])
	} else {
		g.VPMINSB(v, a[0], a[0])
		g.VPMAXSB(v, a[1], a[1])
	}
}

func (k *orderKeys) last(g *generator, a accumulator) reg.VecVirtual {
	nans := g.greater(k.bits, k.lower, a[0])
	g.either(nans, g.greater(k.bits, a[1], k.upper))
	result := a[0]
	if k.greatest {
		result = a[1]
	}
	result = k.flip(g, result)
	g.pick(k.bits, nans, k.magnitude, result) // which is the canonical NaN, too
	return result
}
