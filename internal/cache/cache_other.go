//go:build !amd64 || race

package cache

import "unsafe"

func stream(dst, src, _ *byte, n int) { copy(unsafe.Slice(dst, n), unsafe.Slice(src, n)) }
func own(*byte, int)                  {}
func fetch(*byte, int)                {}

func fence() {}

func spread(dsts *[]byte, nDsts, at int, src *byte, n int, _ *[]byte, _, _ int) {
	for _, dst := range unsafe.Slice(dsts, nDsts) {
		copy(dst[at:], unsafe.Slice(src, n))
	}
}
