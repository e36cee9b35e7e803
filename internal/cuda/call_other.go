//go:build !linux || android || !(amd64 || arm64) || nocuda

package cuda

import "errors"

func dlopen(string) (uintptr, error) {
	return 0, errors.New("this program was built without CUDA (it is for Linux on amd64 or arm64, without the build tag nocuda)")
}

func dlsym(uintptr, string) uintptr { return 0 }

// callC is never called, as there is no driver.
func callC(uintptr, ...uintptr) uintptr { return uintptr(NotSupported) }
