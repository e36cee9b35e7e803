//go:build linux && !android && (amd64 || arm64) && !nocuda

package dl

import "github.com/ebitengine/purego"

// Built says that this program can load libraries.
const Built = true

// Open loads a library, or finds it where it is loaded already, and returns its
// handle. The name is a path or what the system's loader looks for. Libraries
// last as long as the process.
func Open(library string) (uintptr, error) {
	return purego.Dlopen(library, purego.RTLD_NOW|purego.RTLD_LOCAL)
}

// Symbol returns the address of a library's function, or 0 if it has none of
// that name.
func Symbol(handle uintptr, name string) uintptr {
	address, err := purego.Dlsym(handle, name)
	if err != nil {
		return 0
	}
	return address
}

// Call calls a C function, and returns what it returns. Pointers are turned into
// integers in the call's own arguments, so that what they point to is on the
// heap, where it does not move, and alive until the call returns. A function
// that hands its arguments on needs the directive uintptrescapes as well.
//
// (Functions that purego makes of Go's types do the same by reflection, and take
// several times longer.)
//
//go:uintptrescapes
func Call(address uintptr, args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(address, args...)
	return r
}
