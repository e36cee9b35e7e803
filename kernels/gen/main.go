// Command gen writes the vector reductions of package kernels, for AVX2 and for
// AVX-512, as Go assembly with its declarations in Go. It is a module of its
// own, so that users of weft never depend on avo:
//
//	cd kernels/gen && go run . -dir ..
//
// There is one function for each operator and kind of element, and one loop in
// it for any number of sources; lists.go has them all. The loop is in loop.go,
// what it does to elements in the other files.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
)

func main() {
	dir := flag.String("dir", "..", "folder to write to")
	flag.Parse()
	for _, t := range tiers {
		if err := write(t, *dir); err != nil {
			fmt.Fprintf(os.Stderr, "gen: %s: %v\n", t.name, err)
			os.Exit(1)
		}
	}
}

// write makes the two files of a tier.
func write(t tier, dir string) error {
	g := newGenerator(t)
	kernels := g.kernels()
	for _, k := range kernels {
		g.function(k)
	}
	g.ConstraintExpr("!noasm")
	file, err := g.Result()
	if err != nil {
		return err
	}
	if err := pass.Compile.Execute(file); err != nil {
		return err
	}
	cfg := printer.Config{Name: "kernels/gen", Pkg: "kernels"}
	assembly, err := printer.NewGoAsm(cfg).Print(file)
	if err != nil {
		return err
	}
	if err := t.checkRegisters(assembly); err != nil {
		return err
	}
	declarations, err := printer.NewStubs(cfg).Print(file)
	if err != nil {
		return err
	}
	declarations, err = t.withCalls(declarations, kernels)
	if err != nil {
		return err
	}
	name := filepath.Join(dir, "vector_"+t.file+"_amd64")
	if err := os.WriteFile(name+".s", assembly, 0o644); err != nil {
		return err
	}
	return os.WriteFile(name+".go", declarations, 0o644)
}
