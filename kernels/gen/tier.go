package main

import (
	"fmt"
	"regexp"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// tier is a set of instructions.
type tier struct {
	name  string // as in the names of functions
	file  string // as in the names of files
	bytes int    // of a vector
	masks bool   // whether there are mask registers, and 32 vectors of them
}

var tiers = []tier{
	{name: "AVX2", file: "avx2", bytes: 32},
	{name: "AVX512", file: "avx512", bytes: 64, masks: true},
}

var upperRegisters = regexp.MustCompile(`\b[XYZ](1[6-9]|2[0-9]|3[01])\b`)

// checkRegisters refuses what avo does not: for it, AVX2 has 32 registers too.
func (t tier) checkRegisters(assembly []byte) error {
	if r := upperRegisters.Find(assembly); r != nil && !t.masks {
		return fmt.Errorf("a function needs register %s", r)
	}
	return nil
}

// generator builds the file of one tier. The methods in this file are
// instructions that go by other names, or take other operands, in the two tiers.
// As everywhere in Go's assembly, the destination comes last, and the operands of
// a difference or a comparison come in reverse: sub(b, a, d) is d = a − b.
type generator struct {
	*build.Context
	tier
	labels int                    // labels made so far in this function
	pool   map[string]operand.Mem // constants in memory
}

func newGenerator(t tier) *generator {
	return &generator{Context: build.NewContext(), tier: t, pool: map[string]operand.Mem{}}
}

// label returns a new label.
func (g *generator) label(what string) string {
	g.labels++
	return fmt.Sprintf("%s%d", what, g.labels)
}

// vector returns a new register of a full vector.
func (g *generator) vector() reg.VecVirtual {
	if g.masks {
		return g.ZMM()
	}
	return g.YMM()
}

// part is the part of a register that has the given number of bytes, at least
// that of the smallest vector.
func part(v reg.Vec, bytes int) reg.Register {
	switch bytes {
	case 64:
		return v.AsZ()
	case 32:
		return v.AsY()
	}
	return v.AsX()
}

// load and store move the given number of bytes: of a vector, its half or its
// quarter.
func (g *generator) load(src operand.Op, v reg.Vec, bytes int)  { g.move(src, part(v, bytes), bytes) }
func (g *generator) store(v reg.Vec, dst operand.Op, bytes int) { g.move(part(v, bytes), dst, bytes) }

func (g *generator) move(src, dst operand.Op, bytes int) {
	switch {
	case bytes == 8:
		g.VMOVQ(src, dst)
	case g.masks:
		g.VMOVDQU64(src, dst)
	default:
		g.VMOVDQU(src, dst)
	}
}

// copy sets d to v.
func (g *generator) copy(v, d reg.VecVirtual) { g.move(v, d, g.bytes) }

// everywhere sets all elements of the given number of bits to the lowest bits of
// a general register.
func (g *generator) everywhere(bits int, r reg.GPVirtual) reg.VecVirtual {
	v := g.vector()
	if g.masks {
		switch bits {
		case 8:
			g.VPBROADCASTB(r.As32(), v)
		case 16:
			g.VPBROADCASTW(r.As32(), v)
		case 32:
			g.VPBROADCASTD(r.As32(), v)
		case 64:
			g.VPBROADCASTQ(r, v)
		}
		return v
	}
	x := v.AsX()
	g.VMOVQ(r, x)
	switch bits {
	case 8:
		g.VPBROADCASTB(x, v)
	case 16:
		g.VPBROADCASTW(x, v)
	case 32:
		g.VPBROADCASTD(x, v)
	case 64:
		g.VPBROADCASTQ(x, v)
	}
	return v
}

// constant returns a register with a constant in all elements of the given
// number of bits.
func (g *generator) constant(bits int, value uint64) reg.VecVirtual {
	r := g.GP64()
	g.MOVQ(operand.U64(value), r)
	return g.everywhere(bits, r)
}

// pooled is constant, but in memory for AVX2, which has too few registers for
// the constants of some loops.
func (g *generator) pooled(bits int, value uint64) operand.Op {
	if g.masks {
		return g.constant(bits, value)
	}
	name := fmt.Sprintf("all%d_%x", bits, value)
	m, ok := g.pool[name]
	if !ok {
		m = g.StaticGlobal(name)
		g.DataAttributes(rodata)
		word := uint64(0)
		for shift := 0; shift < 64; shift += bits {
			word |= value << shift
		}
		for range g.bytes / 8 {
			g.AppendDatum(operand.U64(word))
		}
		g.pool[name] = m
	}
	return m
}

// and, or and xor combine bits.
func (g *generator) and(b operand.Op, a, d reg.Register) {
	if g.masks {
		g.VPANDD(b, a, d)
	} else {
		g.VPAND(b, a, d)
	}
}

func (g *generator) or(b operand.Op, a, d reg.Register) {
	if g.masks {
		g.VPORD(b, a, d)
	} else {
		g.VPOR(b, a, d)
	}
}

func (g *generator) xor(b operand.Op, a, d reg.Register) {
	if g.masks {
		g.VPXORD(b, a, d)
	} else {
		g.VPXOR(b, a, d)
	}
}

// mask tells for each element whether something holds: in a mask register, or
// in a vector of ones and zeros.
type mask struct {
	k reg.OpmaskVirtual
	v reg.VecVirtual
}

// register is where the result of a comparison goes.
func (g *generator) register(m *mask) reg.Register {
	if g.masks {
		m.k = g.K()
		return m.k
	}
	m.v = g.vector()
	return m.v
}

// greater compares signed integers of the given number of bits: a > b.
func (g *generator) greater(bits int, a reg.Register, b operand.Op) (m mask) {
	d := g.register(&m)
	switch bits {
	case 8:
		g.VPCMPGTB(b, a, d)
	case 16:
		g.VPCMPGTW(b, a, d)
	case 32:
		g.VPCMPGTD(b, a, d)
	case 64:
		g.VPCMPGTQ(b, a, d)
	}
	return m
}

// isUnordered is the predicate of comparisons with a NaN.
const isUnordered = operand.U8(3)

// nans tells which floats are NaNs.
func (g *generator) nans(bits int, v reg.Register) (m mask) {
	d := g.register(&m)
	if bits == 64 {
		g.VCMPPD(isUnordered, v, v, d)
	} else {
		g.VCMPPS(isUnordered, v, v, d)
	}
	return m
}

// either adds the elements of b to a.
func (g *generator) either(a, b mask) {
	if g.masks {
		g.KORQ(b.k, a.k, a.k)
	} else {
		g.VPOR(b.v, a.v, a.v)
	}
}

// pick sets the elements of d, of the given number of bits, to those of v where
// m holds.
func (g *generator) pick(bits int, m mask, v operand.Op, d reg.Register) {
	switch {
	case !g.masks:
		g.VPBLENDVB(m.v, v, d, d)
	case bits == 8:
		g.VMOVDQU8(v, m.k, d)
	case bits == 16:
		g.VMOVDQU16(v, m.k, d)
	case bits == 32:
		g.VMOVDQU32(v, m.k, d)
	default:
		g.VMOVDQU64(v, m.k, d)
	}
}
