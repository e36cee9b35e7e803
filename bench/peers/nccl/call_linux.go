//go:build linux && !android && (amd64 || arm64) && !nocuda

package nccl

import "github.com/ebitengine/purego"

// built says that this program can load libraries.
const built = true

func dlopen(library string) (uintptr, error) {
	return purego.Dlopen(library, purego.RTLD_NOW|purego.RTLD_LOCAL)
}

// dlsym returns a function's address, or 0.
func dlsym(handle uintptr, name string) uintptr {
	address, err := purego.Dlsym(handle, name)
	if err != nil {
		return 0
	}
	return address
}

// callC calls a C function, and returns what it returns.
//
//go:uintptrescapes
func callC(address uintptr, args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(address, args...)
	return r
}
