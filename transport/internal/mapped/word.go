package mapped

import (
	"errors"
	"math"
	"sync/atomic"
	"unsafe"
)

// MaxBytes bounds one allocation.
const MaxBytes = 1 << 46

// ErrSize: no machine has as much memory, or nothing was asked for.
var ErrSize = errors.New("not a size that memory can have")

// Word returns the 8-byte word at offset, which is in range and aligned.
func Word(b []byte, offset uint64) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(unsafe.SliceData(b[offset : offset+8])))
}

// Word32 returns the 4-byte word at offset, which is in range and aligned.
func Word32(b []byte, offset uint64) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(unsafe.SliceData(b[offset : offset+4])))
}

// RoundUp returns the smallest multiple of to that is at least n.
func RoundUp(n, to uint64) uint64 { return (n + to - 1) / to * to }

// CheckSize refuses what no machine has, by [ErrSize], and what this one has not:
// asking for it would end the process instead of returning an error.
func CheckSize(size uint64) error {
	if size == 0 || size > MaxBytes || size > math.MaxInt/2 {
		return ErrSize
	}
	return checkInstalled(size)
}

// Heap returns size bytes of zeroed memory on the Go heap that begin at a
// multiple of align.
func Heap(size, align uint64) []byte {
	// Go's heap does not move: a suitable start inside a larger slice stays one.
	raw := make([]byte, size+align)
	skip := uint64(-uintptr(unsafe.Pointer(unsafe.SliceData(raw))) % uintptr(align))
	return raw[skip : skip+size : skip+size]
}
