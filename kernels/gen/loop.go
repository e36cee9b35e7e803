package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const rodata = attr.RODATA | attr.NOPTR

// kernel is one function to generate.
type kernel struct {
	name   string   // of the function, without the tier
	doc    string   // what it computes
	types  []string // the element types that it serves, as in the names of constants
	op     string   // the operator that it serves, as in the name of the constant
	step   int      // bytes of a source that go into one accumulator
	unroll int      // accumulators in the greater loop; at most 256 bytes of a source in all
	code   arithmetic
}

// accumulator is the registers that a partial result is in.
type accumulator []reg.VecVirtual

// arithmetic is what a kernel does to elements. Sources are step bytes, in memory
// or, where they are masked, in a register.
type arithmetic interface {
	// constants puts what the others need into registers.
	constants(g *generator)
	// first makes an accumulator of the first source.
	first(g *generator, src operand.Op) accumulator
	// next combines an accumulator with one more source.
	next(g *generator, a accumulator, src operand.Op)
	// last makes the step bytes of the result of an accumulator, which it may
	// destroy.
	last(g *generator, a accumulator) reg.VecVirtual
}

const sliceBytes = 24 // of a slice's header, which begins with its pointer

// function is the frame of all kernels:
//
//	for columns of unroll·step bytes, then of step bytes:
//		accumulators = first source
//		for each further source: combine
//		destination = results of the accumulators
//
// The bytes that fill no column are masked in AVX-512. In AVX2, the last column
// overlaps the one before it. It may not read what that has written, since the
// destination may be a source; it is thus computed before all others, and stays
// in a register until it is written after all others. That needs a whole column
// at least.
func (g *generator) function(k kernel) {
	if k.unroll*k.step > 256 {
		panic(k.name + ": BZHI counts no more than 255 bytes")
	}
	g.labels = 0
	g.Function(k.name + g.name)
	g.Doc(k.name + g.name + " " + k.doc)
	g.Attributes(attr.NOSPLIT)
	g.Pragma("noescape")
	signature := "func(dst *byte, srcs *[]byte, sources, from, to int"
	if k.op == "Avg" {
		signature += ", divisor uint64"
	}
	g.SignatureExpr(signature + ")")

	f := frame{generator: g, kernel: k, end: g.GP64()}
	f.dst = g.Load(g.Param("dst"), g.GP64())
	f.srcs = g.Load(g.Param("srcs"), g.GP64())
	g.Load(g.Param("sources"), f.end)
	g.IMUL3Q(operand.U8(sliceBytes), f.end, f.end)
	g.ADDQ(f.srcs, f.end)
	from := g.Load(g.Param("from"), g.GP64())
	to := g.Load(g.Param("to"), g.GP64())
	k.code.constants(g)

	var overlapping reg.VecVirtual
	if !g.masks {
		at := g.GP64()
		g.LEAQ(operand.Mem{Base: to, Disp: -k.step}, at)
		overlapping = f.column(at, 1, nil)[0]
	}

	next := g.GP64()
	wide, narrow, done := g.label("wide"), g.label("narrow"), g.label("done")
	g.Label(wide)
	g.LEAQ(operand.Mem{Base: from, Disp: k.unroll * k.step}, next)
	g.CMPQ(next, to)
	g.JA(operand.LabelRef(narrow))
	f.write(from, f.column(from, k.unroll, nil), nil)
	g.MOVQ(next, from)
	g.JMP(operand.LabelRef(wide))

	g.Label(narrow)
	if g.masks {
		rest, ones := g.GP64(), g.GP64()
		g.MOVQ(to, rest)
		g.SUBQ(from, rest)
		g.JLE(operand.LabelRef(done))
		g.MOVQ(operand.I32(-1), ones)
		g.BZHIQ(rest, ones, ones) // all of them from 64 on
		present := g.K()
		g.KMOVQ(ones, present)
		f.write(from, f.column(from, 1, present), present)
		g.ADDQ(operand.U8(k.step), from)
		g.JMP(operand.LabelRef(narrow))
		g.Label(done)
	} else {
		g.LEAQ(operand.Mem{Base: from, Disp: k.step}, next)
		g.CMPQ(next, to)
		g.JAE(operand.LabelRef(done))
		f.write(from, f.column(from, 1, nil), nil)
		g.MOVQ(next, from)
		g.JMP(operand.LabelRef(narrow))
		g.Label(done)
		at := g.GP64()
		g.LEAQ(operand.Mem{Base: to, Disp: -k.step}, at)
		f.write(at, []reg.VecVirtual{overlapping}, nil)
	}
	g.VZEROUPPER()
	g.RET()
}

// frame is what is the same for all columns of a function.
type frame struct {
	*generator
	kernel
	dst, srcs reg.Register
	end       reg.GPVirtual // of the headers of the sources
}

// column reduces n accumulators at an offset in bytes; of one of them those bytes
// that are present.
func (f *frame) column(offset reg.Register, n int, present reg.Register) []reg.VecVirtual {
	g := f.generator
	pointer, header := g.GP64(), g.GP64()
	more, done := g.label("source"), g.label("result")
	accumulators := make([]accumulator, n)

	g.MOVQ(operand.Mem{Base: f.srcs}, pointer)
	g.ADDQ(offset, pointer)
	for i := range accumulators {
		accumulators[i] = f.code.first(g, f.source(pointer, i, present))
	}
	g.LEAQ(operand.Mem{Base: f.srcs, Disp: sliceBytes}, header)
	g.CMPQ(header, f.end)
	g.JAE(operand.LabelRef(done))
	g.Label(more)
	g.MOVQ(operand.Mem{Base: header}, pointer)
	g.ADDQ(offset, pointer)
	for i := range accumulators {
		f.code.next(g, accumulators[i], f.source(pointer, i, present))
	}
	g.ADDQ(operand.U8(sliceBytes), header)
	g.CMPQ(header, f.end)
	g.JB(operand.LabelRef(more))
	g.Label(done)

	results := make([]reg.VecVirtual, n)
	for i := range results {
		results[i] = f.code.last(g, accumulators[i])
	}
	return results
}

// source is what accumulator i reads.
func (f *frame) source(pointer reg.Register, i int, present reg.Register) operand.Op {
	m := operand.Mem{Base: pointer, Disp: i * f.step}
	if present == nil {
		return m
	}
	v := part(f.vector(), f.step)
	f.VMOVDQU8_Z(m, present, v)
	return v
}

// write stores results.
func (f *frame) write(offset reg.Register, results []reg.VecVirtual, present reg.Register) {
	for i, v := range results {
		m := operand.Mem{Base: f.dst, Index: offset, Scale: 1, Disp: i * f.step}
		if present == nil {
			f.store(v, m, f.step)
		} else {
			f.VMOVDQU8(part(v, f.step), present, m)
		}
	}
}
