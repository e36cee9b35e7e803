package fabric

import (
	"unsafe"

	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/internal/elementwise"
	"github.com/weft-go/weft/transport/internal/mapped"
)

// wordwise is up to how many bytes a move goes by whole words, so that readers
// who poll a word never see half of one. More are moved by Go's copy, which tears
// no aligned words either on the processors that Go has, but says so nowhere.
const wordwise = 64

// streamed is from how many bytes on a move goes around the cache, as Go's copy
// does: the reader finds nothing of so many bytes there anyway.
const streamed = 4 << 20

// around is from how many bytes on a put goes around the cache if it was told to.
const around = 4 << 10

// early is from how many bytes on the line of a put's counter is asked for before them.
const early = 1 << 10

// move copies src to dst, which are of the same length. Under a fault plan the
// same bytes may rightly be written again, or late, while their reader reads
// them; the race detector must not see it then: unseen.
func move(dst, src []byte, unseen bool) {
	if unseen {
		moveUnseen(dst, src)
		return
	}
	switch {
	case len(src) >= streamed:
		copy(dst, src)
		return
	case len(src) > wordwise || uintptr(unsafe.Pointer(unsafe.SliceData(dst)))%8 != 0 || len(src)%8 != 0:
		elementwise.Copy(dst, src)
		return
	}
	for o := 0; o < len(src); o += 8 {
		mapped.Word(dst, uint64(o)).Store(*(*uint64)(unsafe.Pointer(unsafe.SliceData(word8(src, o)))))
	}
}

// word8 returns the 8 bytes of b at o, at an aligned address.
func word8(b []byte, o int) []byte {
	if uintptr(unsafe.Pointer(&b[o]))%8 == 0 {
		return b[o : o+8]
	}
	var w [1]uint64
	out := unsafe.Slice((*byte)(unsafe.Pointer(&w)), 8)
	copy(out, b[o:])
	return out
}

//go:norace
func moveUnseen(dst, src []byte) {
	n := len(src) &^ 7
	if uintptr(unsafe.Pointer(unsafe.SliceData(dst)))%8 == 0 && uintptr(unsafe.Pointer(unsafe.SliceData(src)))%8 == 0 {
		for o := 0; o < n; o += 8 {
			*(*uint64)(unsafe.Pointer(&dst[o])) = *(*uint64)(unsafe.Pointer(&src[o]))
		}
		src, dst = src[n:], dst[n:]
	}
	//lint:ignore S1001 copy is seen by the detector wherever it is called
	for o := range src {
		dst[o] = src[o]
	}
}

func moveMasked(dst, src []byte, mask uint16, unseen bool) {
	if unseen {
		moveMaskedUnseen(dst, src, mask)
		return
	}
	elementwise.CopyMasked(dst, src, mask)
}

//go:norace
func moveMaskedUnseen(dst, src []byte, mask uint16) {
	for i := range src {
		if mask>>(i%transport.Granule)&1 != 0 {
			dst[i] = src[i]
		}
	}
}
