// Package cache says to the processor's caches what the program knows better: that memory
// will be written or read soon, or not for long. It changes no results, and where there
// are no such instructions, or the race detector must see all that is written, it does
// without.
package cache

import "unsafe"

// LineBytes is the unit in which caches hold memory.
const LineBytes = 64

// ahead is how far before a line is read from memory it is asked for.
const ahead = 2 << 10

// Stream copies src to dst, as long as the shorter of them, around the cache: dst is not
// read first, and is in no cache after. Both must not overlap. What is stored later is
// seen later.
func Stream(dst, src []byte) {
	n := min(len(dst), len(src))
	if n > 2*ahead {
		stream(&dst[0], &src[0], &src[ahead], n-ahead)
		dst, src, n = dst[n-ahead:], src[n-ahead:], ahead
	}
	if n < 2*LineBytes && (n != LineBytes || !IsLine(dst)) {
		copy(dst[:n], src)
		return
	}
	stream(&dst[0], &src[0], &src[0], n)
}

// Spread copies src, which is in the cache, to at of each of dsts around the cache, line by
// line, and meanwhile asks for as much at next of each of nexts, if they have it, to be read
// soon. There is a line at least, only whole ones, and all of dsts begin with one. What is
// stored after [Fence] is seen later.
func Spread(dsts [][]byte, at int, src []byte, nexts [][]byte, next int) {
	n := len(src)
	for _, b := range dsts {
		_ = b[at : at+n]
	}
	if len(nexts) > 0 && next+n <= len(nexts[0]) {
		spread(&dsts[0], len(dsts), at, &src[0], n, &nexts[0], len(nexts), next)
	} else {
		spread(&dsts[0], len(dsts), at, &src[0], n, nil, 0, 0)
	}
}

// Fence orders stores around the cache before those that follow.
func Fence() { fence() }

// IsLine says whether b begins where a line does.
func IsLine(b []byte) bool { return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%LineBytes == 0 }

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
