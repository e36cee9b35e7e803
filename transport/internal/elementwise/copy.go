package elementwise

import "github.com/weft-go/weft/transport"

// copyBlock is the most that one copy moves: from 1 MiB on, Go's copy goes
// around the cache, and the peer would read from memory what was just written.
const copyBlock = 256 << 10

// Copy copies src to dst, which is at least as long, and leaves it in the cache.
func Copy(dst, src []byte) {
	for len(src) > copyBlock {
		copy(dst, src[:copyBlock])
		dst, src = dst[copyBlock:], src[copyBlock:]
	}
	copy(dst, src)
}

// CopyMasked copies the bytes of each 16-byte unit of src whose bit in mask is set.
func CopyMasked(dst, src []byte, mask uint16) {
	for i, b := range src {
		if mask>>(i%transport.Granule)&1 != 0 {
			dst[i] = b
		}
	}
}
