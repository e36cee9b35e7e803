package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// averageInteger is the wrapped sum of integers of up to 32 bits, divided and
// truncated toward zero. The division is one of floats with more than twice as
// many bits of fraction as needed: a quotient that is no integer is further from
// the next one than it is rounded. (If x < 2ᵇ is no multiple of n, then x/n is 1/n
// or more away from integers, and rounds by less than x/n · 2⁻ᵖ; with p ≥ b that is
// less than 1/n. A divisor that is itself rounded is greater than all sums.)
type averageInteger struct {
	instruction
	bits     int
	unsigned bool
	by       reg.VecVirtual // as float64 for 32 bits, else as float32
	low      reg.VecVirtual // of signed 8 or 16 bits: the lowest of each 32
	top      reg.VecVirtual // of unsigned 32 bits in AVX2: 2³¹
	offset   reg.VecVirtual // and the same as float64
}

func (k *averageInteger) constants(g *generator) {
	if k.bits < 32 {
		k.by = g.divisor(32)
		if !k.unsigned {
			k.low = g.constant(32, 1<<k.bits-1)
		}
		return
	}
	k.by = g.divisor(64)
	if k.unsigned && !g.masks {
		k.top = g.constant(32, 1<<31)
		k.offset = g.constant(64, 0x41E0000000000000)
	}
}

func (k *averageInteger) last(g *generator, a accumulator) reg.VecVirtual {
	if k.bits == 32 {
		return k.halves(g, a[0])
	}
	return k.lanes(g, a[0])
}

// lanes divides the integers of 8 or 16 bits at one place in each 32 bits after
// those at another, as int32.
func (k *averageInteger) lanes(g *generator, v reg.VecVirtual) reg.VecVirtual {
	result := g.vector()
	for shift := 0; shift < 32; shift += k.bits {
		x := g.vector()
		up := operand.U8(32 - k.bits - shift)
		down := operand.U8(32 - k.bits)
		from := v
		if up != 0 {
			g.VPSLLD(up, v, x)
			from = x
		}
		if k.unsigned {
			g.VPSRLD(down, from, x)
		} else {
			g.VPSRAD(down, from, x)
		}
		g.VCVTDQ2PS(x, x)
		g.VDIVPS(k.by, x, x)
		g.VCVTTPS2DQ(x, x)
		if !k.unsigned { // of which the upper bits are 0
			g.and(k.low, x, x)
		}
		if shift == 0 {
			g.copy(x, result)
			continue
		}
		g.VPSLLD(operand.U8(shift), x, x)
		g.or(x, result, result)
	}
	return result
}

// halves divides the two halves of a vector of 32-bit integers, as float64.
func (k *averageInteger) halves(g *generator, v reg.VecVirtual) reg.VecVirtual {
	low, high := g.vector(), g.vector()
	if g.masks {
		g.VEXTRACTI64X4(operand.U8(1), v, high.AsY())
		k.quotient(g, v, low)
		k.quotient(g, high, high)
		g.VINSERTI64X4(operand.U8(1), high.AsY(), low, low)
		return low
	}
	if k.unsigned {
		g.VPXOR(k.top, v, v) // less 2³¹
	}
	g.VEXTRACTI128(operand.U8(1), v, high.AsX())
	k.quotient(g, v, low)
	k.quotient(g, high, high)
	g.VINSERTI128(operand.U8(1), high.AsX(), low, low)
	if k.unsigned {
		g.VPXOR(k.top, low, low)
	}
	return low
}

// quotient divides the lower half of v, and leaves the result in that of d.
func (k *averageInteger) quotient(g *generator, v, d reg.VecVirtual) {
	switch {
	case !g.masks:
		g.VCVTDQ2PD(v.AsX(), d)
		if k.unsigned {
			g.VADDPD(k.offset, d, d)
		}
		g.VDIVPD(k.by, d, d)
		if k.unsigned {
			g.VROUNDPD(operand.U8(3), d, d) // toward zero
			g.VSUBPD(k.offset, d, d)
		}
		g.VCVTTPD2DQY(d, d.AsX())
	case k.unsigned:
		g.VCVTUDQ2PD(v.AsY(), d)
		g.VDIVPD(k.by, d, d)
		g.VCVTTPD2UDQ(d, d.AsY())
	default:
		g.VCVTDQ2PD(v.AsY(), d)
		g.VDIVPD(k.by, d, d)
		g.VCVTTPD2DQ(d, d.AsY())
	}
}
