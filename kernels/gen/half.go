package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// accumulate is what the kernels of the 16- and 8-bit formats do to float32.
type accumulate struct {
	product bool
	average bool
	by      reg.VecVirtual
}

func (k *accumulate) constants(g *generator) {
	if k.average {
		k.by = g.divisor(32)
	}
}

func (k *accumulate) combine(g *generator, b operand.Op, a reg.Register) {
	if k.product {
		g.VMULPS(b, a, a)
	} else {
		g.VADDPS(b, a, a)
	}
}

func (k *accumulate) divide(g *generator, a reg.Register) {
	if k.average {
		g.VDIVPS(k.by, a, a)
	}
}

// float16 is a kernel on half a vector of float16, which is a vector of float32.
type float16 struct{ accumulate }

func (k *float16) wide(g *generator, src operand.Op) reg.VecVirtual {
	v := g.vector()
	g.VCVTPH2PS(src, v)
	return v
}

func (k *float16) first(g *generator, src operand.Op) accumulator {
	return accumulator{k.wide(g, src)}
}

func (k *float16) next(g *generator, a accumulator, src operand.Op) {
	k.combine(g, k.wide(g, src), a[0])
}

func (k *float16) last(g *generator, a accumulator) reg.VecVirtual {
	k.divide(g, a[0])
	half := g.vector()
	g.VCVTPS2PH(operand.U8(0), a[0], part(half, g.bytes/2)) // to nearest even
	return half
}

// bfloat16 is a kernel on a vector of bfloat16, the even and the odd ones of
// which are accumulated apart: in the place of a float32 they are its upper half,
// or are shifted there.
type bfloat16 struct {
	accumulate
	upper reg.VecVirtual // the upper half of each float32
	one   operand.Op
	half  operand.Op // half of a bfloat16's last place, less the least float32
}

func (k *bfloat16) constants(g *generator) {
	k.accumulate.constants(g)
	k.upper = g.constant(32, 0xFFFF0000)
	k.one = g.pooled(32, 1)
	k.half = g.pooled(32, 0x7FFF)
}

func (k *bfloat16) wide(g *generator, src operand.Op) (even, odd reg.VecVirtual) {
	even, odd = g.vector(), g.vector()
	g.load(src, odd, g.bytes)
	g.VPSLLD(operand.U8(16), odd, even)
	g.and(k.upper, odd, odd)
	return even, odd
}

func (k *bfloat16) first(g *generator, src operand.Op) accumulator {
	even, odd := k.wide(g, src)
	return accumulator{even, odd}
}

func (k *bfloat16) next(g *generator, a accumulator, src operand.Op) {
	even, odd := k.wide(g, src)
	k.combine(g, even, a[0])
	k.combine(g, odd, a[1])
}

func (k *bfloat16) last(g *generator, a accumulator) reg.VecVirtual {
	for _, v := range a {
		k.divide(g, v)
		k.round(g, v)
	}
	g.VPSRLD(operand.U8(16), a[0], a[0])
	g.and(k.upper, a[1], a[1])
	g.or(a[0], a[1], a[1])
	return a[1]
}

// round leaves the rounded number in the upper half of each float32, as f32tob16
// does. It needs no exception for NaNs: they come from bfloat16, or are those
// that the processor makes, so that their lower halves are 0 and nothing is
// carried from there.
func (k *bfloat16) round(g *generator, v reg.VecVirtual) {
	up := g.vector()
	g.VPSRLD(operand.U8(16), v, up)
	g.and(k.one, up, up)
	g.VPADDD(k.half, up, up)
	g.VPADDD(up, v, v)
}
