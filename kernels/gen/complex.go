package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// complexProduct multiplies complex numbers of two float32 or float64, by four
// products, a difference and a sum, each of which is rounded.
type complexProduct struct {
	one
	bits                int               // of a part
	isReal, isImaginary reg.OpmaskVirtual // unused in AVX2
}

func (k *complexProduct) constants(g *generator) {
	if g.masks {
		r := g.GP64()
		k.isReal, k.isImaginary = g.K(), g.K()
		g.MOVQ(operand.U64(0x5555), r)
		g.KMOVQ(r, k.isReal)
		g.KNOTW(k.isReal, k.isImaginary)
	}
}

func (k *complexProduct) next(g *generator, a accumulator, src operand.Op) {
	b, swapped, imaginary := g.vector(), g.vector(), g.vector()
	x := a[0]
	g.load(src, b, g.bytes)
	if k.bits == 64 {
		g.VPERMILPD(operand.U8(0xFF), x, imaginary)
		g.VMOVDDUP(x, x)
		g.VPERMILPD(operand.U8(0x55), b, swapped)
		g.VMULPD(b, x, x)
		g.VMULPD(swapped, imaginary, imaginary)
		if g.masks {
			g.VSUBPD(imaginary, x, k.isReal, x)
			g.VADDPD(imaginary, x, k.isImaginary, x)
		} else {
			g.VADDSUBPD(imaginary, x, x)
		}
		return
	}
	g.VMOVSHDUP(x, imaginary)
	g.VMOVSLDUP(x, x)
	g.VPERMILPS(operand.U8(0xB1), b, swapped)
	g.VMULPS(b, x, x)
	g.VMULPS(swapped, imaginary, imaginary)
	if g.masks {
		g.VADDPS(imaginary, x, b)
		g.VSUBPS(imaginary, x, k.isReal, b)
		g.copy(b, x)
	} else {
		g.VADDSUBPS(imaginary, x, x)
	}
}
