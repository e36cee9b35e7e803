// Command compile makes the compiled form of the kernels in kernels/cuda, by NVRTC,
// NVIDIA's compiler as a library, which needs no host compiler and no GPU:
//
//	compile -nvrtc12 FOLDER -nvrtc13 FOLDER [-check] SOURCES
//
// The folders have libnvrtc.so.12 and libnvrtc.so.13; scripts/cuda-kernels fetches them. The
// result does not depend on where or when it is made. With -check nothing is written: it fails
// if what is there is not what the sources give.
package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// targets are the compiled forms: machine code for three generations, and what drivers
// make machine code from for all other later ones. Drivers take no machine code of a newer
// major version of CUDA, and no PTX of any newer one.
var targets = []struct {
	file, arch string
	compiler   int // major version
}{
	{"sm_80.cubin", "sm_80", 12},
	{"sm_90.cubin", "sm_90", 12},
	{"compute_80.ptx", "compute_80", 12},
	{"sm_100.cubin", "sm_100", 13},
}

func main() {
	folders := map[int]*string{
		12: flag.String("nvrtc12", "", "folder with libnvrtc.so.12"),
		13: flag.String("nvrtc13", "", "folder with libnvrtc.so.13"),
	}
	check := flag.Bool("check", false, "compare, write nothing")
	flag.Parse()
	compilers := map[int]*compiler{}
	var err error
	for major, folder := range folders {
		var e error
		compilers[major], e = openCompiler(*folder, major)
		err = errors.Join(err, e)
	}
	if err == nil {
		err = run(compilers, flag.Arg(0), *check)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "compile:", err)
		os.Exit(1)
	}
}

func run(compilers map[int]*compiler, dir string, check bool) error {
	headers, err := filepath.Glob(filepath.Join(dir, "*.cuh"))
	if err != nil {
		return err
	}
	source, err := os.ReadFile(filepath.Join(dir, "weft.cu"))
	if err != nil {
		return err
	}
	p := program{source: string(source)}
	for _, h := range headers {
		b, err := os.ReadFile(h)
		if err != nil {
			return err
		}
		p.names, p.headers = append(p.names, filepath.Base(h)), append(p.headers, string(b))
	}
	errs := make([]error, len(targets))
	var wg sync.WaitGroup
	for i, t := range targets {
		wg.Go(func() {
			out, err := compilers[t.compiler].compile(p, t.arch)
			if err == nil {
				err = keep(filepath.Join(dir, t.file+".gz"), out, check)
			}
			if err != nil {
				errs[i] = fmt.Errorf("%s: %w", t.file, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// keep writes a compiled form, or compares it with the one that is there. What is
// compared is not compressed: that may differ between versions of Go.
func keep(path string, want []byte, check bool) error {
	have, err := read(path)
	if err == nil && bytes.Equal(have, want) {
		return nil
	}
	if check {
		return errors.Join(errors.New("is not what the sources give: run 'make kernels'"), err)
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err = z.Write(want); err == nil {
		err = z.Close()
	}
	if err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

func read(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// options of the compiler. Without contraction of products and sums, and with the exact
// divisions and subnormals of IEEE 754, results have the bits of package kernels.
func options(arch string) []string {
	return []string{
		"--gpu-architecture=" + arch, "--std=c++17", "--fmad=false", "--ftz=false", "--prec-div=true", "--device-as-default-execution-space",
	}
}

// trim ends a log as a sentence for an error.
func trim(log []byte) string { return strings.TrimRight(string(log), "\x00\n ") }
