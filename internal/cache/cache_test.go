package cache

import (
	"bytes"
	"testing"
	"unsafe"
)

// TestStream: all lengths and alignments up to some lines, and nothing beside.
func TestStream(t *testing.T) {
	const guard = 0xAA
	src := make([]byte, 600)
	for i := range src {
		src[i] = byte(i*7 + 1)
	}
	for n := range 400 {
		for _, at := range []int{0, 1, 15, 16, 33, 63} {
			for _, from := range []int{0, 1, 32} {
				dst := bytes.Repeat([]byte{guard}, 64+400+192)
				dst = dst[-uintptr(unsafe.Pointer(&dst[0]))%64:] // at is from where a line begins
				Stream(dst[64+at:][:n], src[from:from+n])
				want := bytes.Repeat([]byte{guard}, len(dst))
				copy(want[64+at:], src[from:from+n])
				if !bytes.Equal(dst, want) {
					t.Fatalf("%d bytes at %d from %d", n, at, from)
				}
			}
		}
	}
	short := make([]byte, 10)
	Stream(short, src) // as copy
	if !bytes.Equal(short, src[:10]) {
		t.Fatal("more to less")
	}
}

// TestHints: what is only asked for does not change.
func TestHints(t *testing.T) {
	b := bytes.Repeat([]byte{7}, 1000)
	for n := range b {
		Own(b[n:])
		Fetch(b[:n])
	}
	if !bytes.Equal(b, bytes.Repeat([]byte{7}, 1000)) {
		t.Fatal("changed")
	}
}
