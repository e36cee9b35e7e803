package main

import (
	"bytes"
	"fmt"
	"go/format"
	"slices"
	"strings"
)

// withCalls adds to the declarations of a tier a Go function that calls the right
// one. Calls are direct, for the reason given in dispatch.go.
func (t tier) withCalls(declarations []byte, kernels []kernel) ([]byte, error) {
	var b bytes.Buffer
	b.Write(bytes.Replace(declarations, []byte("\npackage kernels\n"), []byte("\npackage kernels\n\nimport \"math\"\n"), 1))
	fmt.Fprintf(&b, `
// reduce%[1]s reduces bytes from to to of the sources, each as long as to at
// least, and reports whether there is a function for that. The results of Avg
// are divided by divisor.
func reduce%[1]s(dst *byte, srcs *[]byte, sources, from, to, divisor int, t Type, op Op) bool {
	switch op {
`, t.name)
	var ops []string
	for _, k := range kernels {
		if !slices.Contains(ops, k.op) {
			ops = append(ops, k.op)
		}
	}
	for _, op := range ops {
		fmt.Fprintf(&b, "case %s:\nswitch t {\n", op)
		for _, k := range kernels {
			if k.op != op {
				continue
			}
			arguments := "dst, srcs, sources, from, to"
			switch {
			case op == "Avg" && slices.ContainsFunc(k.types, func(t string) bool { return t == "Float64" || t == "Int32" || t == "Uint32" }):
				arguments += ", math.Float64bits(float64(divisor))"
			case op == "Avg":
				arguments += ", uint64(math.Float32bits(float32(divisor)))"
			}
			fmt.Fprintf(&b, "case Type%s:\n%s%s(%s)\n", strings.Join(k.types, ", Type"), k.name, t.name, arguments)
		}
		b.WriteString("default:\nreturn false\n}\n")
	}
	b.WriteString("default:\nreturn false\n}\nreturn true\n}\n")
	return format.Source(b.Bytes())
}
