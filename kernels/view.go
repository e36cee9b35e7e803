package kernels

import (
	"fmt"
	"unsafe"
)

// Bytes returns the memory of s as bytes, in the byte order of the machine.
// It is a view, not a copy: writes to one are seen in the other. The length is
// len(s) times the element size; a nil slice gives nil.
func Bytes[T Number](s []T) []byte {
	var t T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(t)))
}

// Slice returns the memory of b as elements of type T, in the byte order of
// the machine. It is a view, not a copy: writes to one are seen in the other.
//
// The length of b must be a multiple of the element size, and, if b is not
// empty, its first byte must be aligned as [Type.Align] says. Slice panics
// otherwise, since no view exists then. Bytes that come from [Bytes] for the
// same T are aligned, and so is a part of them that starts at a multiple of
// the element size; make([]byte, n) promises no alignment. An empty b gives an
// empty slice, nil if b is nil.
func Slice[T Number](b []byte) []T {
	var t T
	p := unsafe.Pointer(unsafe.SliceData(b))
	if len(b) == 0 {
		if b == nil {
			return nil
		}
		return []T{}
	}
	if len(b)%int(unsafe.Sizeof(t)) != 0 {
		panic(fmt.Sprintf("kernels: Slice: %d bytes are no whole number of %v", len(b), TypeOf[T]()))
	}
	if uintptr(p)%unsafe.Alignof(t) != 0 {
		panic(fmt.Sprintf("kernels: Slice: memory not aligned for %v", TypeOf[T]()))
	}
	return unsafe.Slice((*T)(p), len(b)/int(unsafe.Sizeof(t)))
}

// AsFloat16 returns the memory of s as Float16, each element with the
// representation that the integer had. It is a view, not a copy: writes to
// one are seen in the other.
func AsFloat16[T ~uint16](s []T) []Float16 {
	return unsafe.Slice((*Float16)(unsafe.Pointer(unsafe.SliceData(s))), len(s))
}

// AsBFloat16 returns the memory of s as BFloat16, each element with the
// representation that the integer had. It is a view, not a copy: writes to
// one are seen in the other.
func AsBFloat16[T ~uint16](s []T) []BFloat16 {
	return unsafe.Slice((*BFloat16)(unsafe.Pointer(unsafe.SliceData(s))), len(s))
}

// AsFloat8E4M3 returns the memory of s as Float8E4M3, each element with the
// representation that the integer had. It is a view, not a copy: writes to
// one are seen in the other.
func AsFloat8E4M3[T ~uint8](s []T) []Float8E4M3 {
	return unsafe.Slice((*Float8E4M3)(unsafe.Pointer(unsafe.SliceData(s))), len(s))
}

// AsFloat8E5M2 returns the memory of s as Float8E5M2, each element with the
// representation that the integer had. It is a view, not a copy: writes to
// one are seen in the other.
func AsFloat8E5M2[T ~uint8](s []T) []Float8E5M2 {
	return unsafe.Slice((*Float8E5M2)(unsafe.Pointer(unsafe.SliceData(s))), len(s))
}
