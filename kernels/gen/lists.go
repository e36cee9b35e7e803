package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// kernels returns all kernels of a tier. Those of signed integers serve unsigned
// ones where the bits are the same. What is missing here, and stays in plain Go:
// the operators on truth and on places, and the division of 64-bit integers.
func (g *generator) kernels() (all []kernel) {
	type combine = func(*generator, operand.Op, reg.Register, reg.Register)
	add := func(name, doc string, types []string, op string, step, unroll int, code arithmetic) {
		all = append(all, kernel{name: name, doc: doc, types: types, op: op, step: step, unroll: unroll, code: code})
	}
	plain := func(name, doc string, types []string, op string, f combine) {
		add(name, doc, types, op, g.bytes, 4, instruction{combine: f})
	}

	// float32, float64, and the parts of complex numbers.
	for _, f := range []struct {
		bits          int
		name, complex string
		sum, prod     combine
	}{
		{32, "Float32", "Complex64", three((*generator).VADDPS), three((*generator).VMULPS)},
		{64, "Float64", "Complex128", three((*generator).VADDPD), three((*generator).VMULPD)},
	} {
		both, floats := []string{f.name, f.complex}, []string{f.name}
		plain("sum"+f.name, "adds.", both, "Sum", f.sum)
		add("avg"+f.name, "adds and divides.", both, "Avg", g.bytes, 4, &average{instruction: instruction{combine: f.sum}, bits: f.bits})
		plain("prod"+f.name, "multiplies.", floats, "Prod", f.prod)
		add("min"+f.name, "finds the least.", floats, "Min", g.bytes, 4, &orderFloat{bits: f.bits})
		add("max"+f.name, "finds the greatest.", floats, "Max", g.bytes, 4, &orderFloat{bits: f.bits, greatest: true})
		add("prod"+f.complex, "multiplies.", []string{f.complex}, "Prod", g.bytes, 2, &complexProduct{bits: f.bits})
	}

	// The 16- and 8-bit formats.
	for _, k := range []struct {
		name, op, doc string
		accumulate
	}{
		{"sum", "Sum", "adds in float32.", accumulate{}},
		{"avg", "Avg", "adds and divides in float32.", accumulate{average: true}},
		{"prod", "Prod", "multiplies in float32.", accumulate{product: true}},
	} {
		add(k.name+"Float16", k.doc, []string{"Float16"}, k.op, g.bytes/2, 4, &float16{k.accumulate})
		add(k.name+"BFloat16", k.doc, []string{"BFloat16"}, k.op, g.bytes, 2, &bfloat16{accumulate: k.accumulate})
		add(k.name+"Float8E4M3", k.doc, []string{"Float8E4M3"}, k.op, g.bytes/4, 2, &float8{accumulate: k.accumulate, fraction: 3, bias: 7, most: 0x7E})
		add(k.name+"Float8E5M2", k.doc, []string{"Float8E5M2"}, k.op, g.bytes/4, 2, &float8{accumulate: k.accumulate, fraction: 2, bias: 15, most: 0x7B})
	}
	for _, f := range []struct {
		name string
		bits int
		most uint64
	}{
		{"Float16", 16, 0x7C00},
		{"BFloat16", 16, 0x7F80},
		{"Float8E4M3", 8, 0x7E},
		{"Float8E5M2", 8, 0x7C},
	} {
		add("min"+f.name, "finds the least.", []string{f.name}, "Min", g.bytes, 2, &orderKeys{bits: f.bits, most: f.most})
		add("max"+f.name, "finds the greatest.", []string{f.name}, "Max", g.bytes, 2, &orderKeys{bits: f.bits, most: f.most, greatest: true})
	}

	// Integers.
	for _, i := range []struct {
		bits                      int
		sum, min, max, umin, umax combine
	}{
		{8, three((*generator).VPADDB), three((*generator).VPMINSB), three((*generator).VPMAXSB), three((*generator).VPMINUB), three((*generator).VPMAXUB)},
		{16, three((*generator).VPADDW), three((*generator).VPMINSW), three((*generator).VPMAXSW), three((*generator).VPMINUW), three((*generator).VPMAXUW)},
		{32, three((*generator).VPADDD), three((*generator).VPMINSD), three((*generator).VPMAXSD), three((*generator).VPMINUD), three((*generator).VPMAXUD)},
		{64, three((*generator).VPADDQ), three((*generator).VPMINSQ), three((*generator).VPMAXSQ), three((*generator).VPMINUQ), three((*generator).VPMAXUQ)},
	} {
		signed, unsigned := fmt.Sprintf("Int%d", i.bits), fmt.Sprintf("Uint%d", i.bits)
		both := []string{signed, unsigned}
		plain("sum"+signed, "adds.", both, "Sum", i.sum)
		if i.bits < 64 {
			for _, t := range both {
				add("avg"+t, "adds and divides.", []string{t}, "Avg", g.bytes, 2,
					&averageInteger{instruction: instruction{combine: i.sum}, bits: i.bits, unsigned: t == unsigned})
			}
		}
		switch {
		case i.bits == 8:
			add("prod"+signed, "multiplies.", both, "Prod", g.bytes, 4, &product8{})
		case i.bits == 16:
			plain("prod"+signed, "multiplies.", both, "Prod", three((*generator).VPMULLW))
		case i.bits == 32:
			plain("prod"+signed, "multiplies.", both, "Prod", three((*generator).VPMULLD))
		case g.masks:
			plain("prod"+signed, "multiplies.", both, "Prod", three((*generator).VPMULLQ))
		default:
			add("prod"+signed, "multiplies.", both, "Prod", g.bytes, 4, product64{})
		}
		if i.bits == 64 && !g.masks {
			add("min"+signed, "finds the least.", []string{signed}, "Min", g.bytes, 4, &order64{})
			add("max"+signed, "finds the greatest.", []string{signed}, "Max", g.bytes, 4, &order64{greatest: true})
			add("min"+unsigned, "finds the least.", []string{unsigned}, "Min", g.bytes, 4, &order64{unsigned: true})
			add("max"+unsigned, "finds the greatest.", []string{unsigned}, "Max", g.bytes, 4, &order64{unsigned: true, greatest: true})
			continue
		}
		plain("min"+signed, "finds the least.", []string{signed}, "Min", i.min)
		plain("max"+signed, "finds the greatest.", []string{signed}, "Max", i.max)
		plain("min"+unsigned, "finds the least.", []string{unsigned}, "Min", i.umin)
		plain("max"+unsigned, "finds the greatest.", []string{unsigned}, "Max", i.umax)
	}
	integers := []string{"Int8", "Int16", "Int32", "Int64", "Uint8", "Uint16", "Uint32", "Uint64"}
	plain("bitAnd", "combines bits.", integers, "BitAnd", (*generator).and)
	plain("bitOr", "combines bits.", integers, "BitOr", (*generator).or)
	plain("bitXor", "combines bits.", integers, "BitXor", (*generator).xor)
	return all
}
