package main

import (
	"fmt"
	"path/filepath"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
)

type program struct {
	source         string
	names, headers []string
}

// compiler is NVRTC's API, as far as it is used here.
type compiler struct {
	create  func(prog *uintptr, src, name string, n int32, headers, names unsafe.Pointer) int32
	build   func(prog uintptr, n int32, options unsafe.Pointer) int32
	destroy func(prog *uintptr) int32
	text    func(code int32) string
	outputs map[string]output
}

// output is a pair of functions, for the size of some result and the result.
type output struct {
	size func(prog uintptr, n *uint64) int32
	get  func(prog uintptr, b unsafe.Pointer) int32
}

func openCompiler(folder string, major int) (*compiler, error) {
	lib, err := purego.Dlopen(filepath.Join(folder, fmt.Sprintf("libnvrtc.so.%d", major)), purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, err
	}
	c := &compiler{outputs: map[string]output{}}
	purego.RegisterLibFunc(&c.create, lib, "nvrtcCreateProgram")
	purego.RegisterLibFunc(&c.build, lib, "nvrtcCompileProgram")
	purego.RegisterLibFunc(&c.destroy, lib, "nvrtcDestroyProgram")
	purego.RegisterLibFunc(&c.text, lib, "nvrtcGetErrorString")
	for _, kind := range []string{"PTX", "CUBIN", "ProgramLog"} {
		var o output
		purego.RegisterLibFunc(&o.size, lib, "nvrtcGet"+kind+"Size")
		purego.RegisterLibFunc(&o.get, lib, "nvrtcGet"+kind)
		c.outputs[kind] = o
	}
	return c, nil
}

func (c *compiler) compile(p program, arch string) ([]byte, error) {
	names, headers, opts := cStrings(p.names), cStrings(p.headers), cStrings(options(arch))
	var prog uintptr
	if e := c.create(&prog, p.source, "weft.cu", int32(len(names)), unsafe.Pointer(&headers[0]), unsafe.Pointer(&names[0])); e != 0 {
		return nil, fmt.Errorf("nvrtcCreateProgram: %s", c.text(e))
	}
	defer c.destroy(&prog)
	e := c.build(prog, int32(len(opts)), unsafe.Pointer(&opts[0]))
	runtime.KeepAlive(names)
	runtime.KeepAlive(headers)
	log, err := c.output(prog, "ProgramLog")
	if e != 0 {
		return nil, fmt.Errorf("%s\n%s", c.text(e), trim(log))
	}
	if err != nil {
		return nil, err
	}
	if text := trim(log); text != "" {
		return nil, fmt.Errorf("the compiler warns:\n%s", text)
	}
	if arch[:3] == "sm_" {
		return c.output(prog, "CUBIN")
	}
	out, err := c.output(prog, "PTX")
	if n := len(out); err == nil && n > 0 && out[n-1] == 0 {
		out = out[:n-1]
	}
	return out, err
}

func (c *compiler) output(prog uintptr, kind string) ([]byte, error) {
	o := c.outputs[kind]
	var n uint64
	e := o.size(prog, &n)
	b := make([]byte, n+1)
	if e == 0 {
		e = o.get(prog, unsafe.Pointer(&b[0]))
	}
	if e != 0 {
		return nil, fmt.Errorf("nvrtcGet%s: %s", kind, c.text(e))
	}
	return b[:n], nil
}

// cStrings are those of C.
func cStrings(list []string) []*byte {
	out := make([]*byte, len(list))
	for i, s := range list {
		b := append([]byte(s), 0)
		out[i] = &b[0]
	}
	return out
}
