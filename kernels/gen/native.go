package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// one is an accumulator of one register, which a load fills. The kernels embed
// it that need no more.
type one struct{}

func (one) constants(*generator) {}

func (one) first(g *generator, src operand.Op) accumulator {
	a := g.vector()
	g.load(src, a, g.bytes)
	return accumulator{a}
}

func (one) last(_ *generator, a accumulator) reg.VecVirtual { return a[0] }

// instruction is a kernel where one instruction combines two vectors.
type instruction struct {
	one
	combine func(g *generator, b operand.Op, a, d reg.Register)
}

func (k instruction) next(g *generator, a accumulator, src operand.Op) { k.combine(g, src, a[0], a[0]) }

// three makes a combine of an instruction that avo gives in several forms.
func three(f func(*generator, ...operand.Op)) func(*generator, operand.Op, reg.Register, reg.Register) {
	return func(g *generator, b operand.Op, a, d reg.Register) { f(g, b, a, d) }
}

// average is the sum of floats and one division. Multiplying by the reciprocal
// would round twice.
type average struct {
	instruction
	bits int
	by   reg.VecVirtual
}

func (k *average) constants(g *generator) { k.by = g.divisor(k.bits) }

func (k *average) last(g *generator, a accumulator) reg.VecVirtual {
	if k.bits == 64 {
		g.VDIVPD(k.by, a[0], a[0])
	} else {
		g.VDIVPS(k.by, a[0], a[0])
	}
	return a[0]
}

// divisor returns a vector of the argument of Avg.
func (g *generator) divisor(bits int) reg.VecVirtual {
	r := g.GP64()
	g.Load(g.Param("divisor"), r)
	return g.everywhere(bits, r)
}

// product8 multiplies bytes, for which there is no instruction, as words: the
// lower byte of a product needs only the lower bytes of its factors, and a factor
// shifted up by a byte shifts the product.
type product8 struct {
	one
	low reg.VecVirtual // the lower byte of each word
}

func (k *product8) constants(g *generator) { k.low = g.constant(16, 0x00FF) }

func (k *product8) next(g *generator, a accumulator, src operand.Op) {
	odd, factor := g.vector(), g.vector()
	if g.masks {
		g.load(src, factor, g.bytes)
		g.VPANDND(factor, k.low, odd)
	} else {
		g.load(src, factor, g.bytes)
		g.VPANDN(factor, k.low, odd) // factor without its lower bytes
	}
	g.VPMULLW(factor, a[0], factor)
	g.VPSRLW(operand.U8(8), a[0], a[0])
	g.VPMULLW(odd, a[0], a[0])
	g.and(k.low, factor, factor)
	g.or(factor, a[0], a[0])
}

// product64 multiplies 64-bit integers by products of their halves, which AVX2
// needs: lower · lower + (lower · upper + upper · lower) · 2³².
type product64 struct{ one }

func (product64) next(g *generator, a accumulator, src operand.Op) {
	b, x, y := g.vector(), g.vector(), g.vector()
	g.load(src, b, g.bytes)
	g.VPSRLQ(operand.U8(32), a[0], x)
	g.VPMULUDQ(b, x, x)
	g.VPSRLQ(operand.U8(32), b, y)
	g.VPMULUDQ(a[0], y, y)
	g.VPADDQ(y, x, x)
	g.VPSLLQ(operand.U8(32), x, x)
	g.VPMULUDQ(b, a[0], a[0])
	g.VPADDQ(x, a[0], a[0])
}

// order64 is Min or Max of 64-bit integers, for which AVX2 has a comparison of
// signed ones alone: unsigned ones are moved down by 2⁶³.
type order64 struct {
	unsigned, greatest bool
	top                reg.VecVirtual
}

func (k *order64) constants(g *generator) {
	if k.unsigned {
		k.top = g.constant(64, 1<<63)
	}
}

func (k *order64) signed(g *generator, src operand.Op) reg.VecVirtual {
	v := g.vector()
	if k.unsigned {
		g.xor(src, k.top, v)
	} else {
		g.load(src, v, g.bytes)
	}
	return v
}

func (k *order64) first(g *generator, src operand.Op) accumulator {
	return accumulator{k.signed(g, src)}
}

func (k *order64) next(g *generator, a accumulator, src operand.Op) {
	b := k.signed(g, src)
	var m mask
	if k.greatest {
		m = g.greater(64, b, a[0])
	} else {
		m = g.greater(64, a[0], b)
	}
	g.pick(64, m, b, a[0])
}

func (k *order64) last(g *generator, a accumulator) reg.VecVirtual {
	if k.unsigned {
		g.xor(k.top, a[0], a[0])
	}
	return a[0]
}
