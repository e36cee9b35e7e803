// Package cache says to the processor's caches what the program knows better: that memory
// will be written or read soon, or not for long. It changes no results, and where there
// are no such instructions, or the race detector must see all that is written, it does
// without.
package cache

import "unsafe"

// lineBytes is the unit in which caches hold memory.
const lineBytes = 64

// Stream copies src to dst, as long as the shorter of them, around the cache: dst is not
// read first, and is in no cache after. Both must not overlap. What is stored later is
// seen later.
func Stream(dst, src []byte) {
	n := min(len(dst), len(src))
	if n < 2*lineBytes && (n != lineBytes || uintptr(unsafe.Pointer(&dst[0]))%lineBytes != 0) {
		copy(dst[:n], src)
		return
	}
	stream(&dst[0], &src[0], n)
}

// Own asks for the lines of b, to write all of them soon.
func Own(b []byte) {
	if len(b) > 0 {
		own(&b[0], len(b))
	}
}

// Fetch asks for the lines of b, to read them soon.
func Fetch(b []byte) {
	if len(b) > 0 {
		fetch(&b[0], len(b))
	}
}
