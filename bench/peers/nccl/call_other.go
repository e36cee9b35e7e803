//go:build !linux || android || !(amd64 || arm64) || nocuda

package nccl

const built = false

func dlopen(string) (uintptr, error) { panic("never called where built is false") }

func dlsym(uintptr, string) uintptr { panic("never called where built is false") }

func callC(uintptr, ...uintptr) uintptr { panic("never called where built is false") }
