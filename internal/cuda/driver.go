package cuda

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"unsafe"

	"github.com/weft-go/weft/internal/dl"
)

// driverEnv names the driver's library, where the loader doesn't find it by itself.
const driverEnv = "WEFT_CUDA_DRIVER"

// libraries are the driver's usual names.
var libraries = []string{"libcuda.so.1", "libcuda.so"}

// Driver is the loaded driver. It lasts as long as the process.
type Driver struct {
	library string
	version int
	address [functionCount]uintptr // 0 for functions that the driver lacks
}

// Load loads the driver and initialises it, the first time that it is called;
// later calls return the same. The library is libcuda.so.1 where the system's
// loader finds it, or what $WEFT_CUDA_DRIVER names.
//
// The error is a [NoDriverError], or an [Error] of cuInit, such as [NoDevice].
var Load = sync.OnceValues(func() (*Driver, error) {
	if library := os.Getenv(driverEnv); library != "" {
		return open(library)
	}
	return open(libraries...)
})

// open loads and initialises the first library that can be loaded.
func open(libraries ...string) (*Driver, error) {
	if !dl.Built {
		return nil, &NoDriverError{Reason: "this program was built without CUDA, which is for Linux on amd64 and arm64, and not with the build tag nocuda"}
	}
	missing := &NoDriverError{Tried: libraries}
	var reasons []string
	for _, library := range libraries {
		handle, err := dl.Open(library)
		if err != nil {
			reasons = append(reasons, err.Error())
			continue
		}
		d := &Driver{library: library}
		for f, name := range functionNames {
			d.address[f] = dl.Symbol(handle, name)
		}
		if d.address[fnInit] == 0 {
			reasons = append(reasons, library+" has no cuInit")
			continue
		}
		return d, d.init()
	}
	missing.Reason = strings.Join(reasons, "; ")
	return nil, missing
}

func (d *Driver) init() error {
	switch code := d.code(fnInit, 0); code {
	case Success:
	case StubLibrary:
		return &NoDriverError{Tried: []string{d.library}, Reason: "it is the stub that programs are linked with, not a driver"}
	default:
		return d.failed(fnInit, code)
	}
	version := new(int32)
	err := d.call(fnDriverGetVersion, uintptr(unsafe.Pointer(version)))
	d.version = int(*version)
	return err
}

// Version is the newest version of CUDA that the driver supports, as 1000 ×
// major + 10 × minor: 13000 is 13.0.
func (d *Driver) Version() int { return d.version }

// Library is the name by which the driver's library was found.
func (d *Driver) Library() string { return d.library }

// has tells whether the driver has the function.
func (d *Driver) has(f function) bool { return d.address[f] != 0 }

// code calls a function that the driver is known to have. As with [dl.Call],
// pointers are turned into integers in the call's own arguments.
//
//go:uintptrescapes
func (d *Driver) code(f function, args ...uintptr) Code {
	return Code(int32(dl.Call(d.address[f], args...)))
}

// call calls a function.
//
//go:uintptrescapes
func (d *Driver) call(f function, args ...uintptr) error {
	if d.address[f] == 0 {
		return d.lacks(f)
	}
	if code := d.code(f, args...); code != Success {
		return d.failed(f, code)
	}
	return nil
}

func (d *Driver) lacks(f function) error {
	return fmt.Errorf("cuda: %s: %w (%s)", f, ErrNotInDriver, versionString(d.version))
}

func (d *Driver) failed(f function, code Code) error {
	return &Error{Code: code, Op: f.String(), Detail: d.describe(code)}
}

// describe is what the driver says about a code, or nothing.
func (d *Driver) describe(code Code) string {
	if !d.has(fnGetErrorString) {
		return ""
	}
	text := new(*byte)
	if d.code(fnGetErrorString, uintptr(code), uintptr(unsafe.Pointer(text))) != Success || *text == nil {
		return ""
	}
	return goString(*text)
}

// String is the function's name in CUDA's manual.
func (f function) String() string {
	name := functionNames[f]
	if i := strings.LastIndex(name, "_v"); i > 0 {
		name = name[:i]
	}
	return name
}

func versionString(v int) string { return fmt.Sprintf("CUDA %d.%d", v/1000, v%1000/10) }

// cString is s with the byte that ends it in C.
func cString(s string) *byte {
	b := make([]byte, len(s)+1)
	copy(b, s)
	return &b[0]
}

// goString copies a string that C has ended with a zero byte.
func goString(p *byte) string {
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}
