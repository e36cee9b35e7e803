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

// TestStreamLong: with what is asked for on the way.
func TestStreamLong(t *testing.T) {
	src := make([]byte, 3*ahead)
	for i := range src {
		src[i] = byte(i*7 + i>>8)
	}
	for _, n := range []int{2 * ahead, 2*ahead + 1, 2*ahead + 63, 3*ahead - 17} {
		for at := range 3 {
			dst := make([]byte, at+n+1)
			Stream(dst[at:at+n], src[:n])
			if !bytes.Equal(dst[at:at+n], src[:n]) || dst[at+n] != 0 {
				t.Fatalf("%d bytes at %d", n, at)
			}
		}
	}
}

// TestSpread: to each, there only, whatever is asked for meanwhile.
func TestSpread(t *testing.T) {
	const n, at = 5 * LineBytes, 2 * LineBytes
	src := make([]byte, n)
	for i := range src {
		src[i] = byte(i*7 + 1)
	}
	for ranks := 1; ranks <= 3; ranks++ {
		var dsts, nexts [][]byte
		for i := range ranks {
			b := make([]byte, 2*at+n+LineBytes)
			b = b[-uintptr(unsafe.Pointer(&b[0]))%LineBytes:][:2*at+n]
			if !IsLine(b) || IsLine(b[1:]) {
				t.Fatal("not what a line begins with")
			}
			dsts, nexts = append(dsts, b), append(nexts, make([]byte, n+i))
		}
		for _, next := range []int{0, LineBytes} {
			Spread(dsts, at, src, nexts, next)
			Fence()
			for _, b := range dsts {
				if want := append(append(make([]byte, at), src...), make([]byte, at)...); !bytes.Equal(b, want) {
					t.Fatalf("%d destinations, %d: %v, want %v", ranks, next, b, want)
				}
				clear(b)
			}
		}
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
