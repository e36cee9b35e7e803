package faults

import "math/bits"

// splitMix returns output i, counted from 0, of SplitMix64 seeded with x; the
// package's page has the source.
func splitMix(x, i uint64) uint64 {
	z := x + (i+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below maps a word to 0…n−1, evenly; n > 0.
func below(word uint64, n int) int {
	hi, _ := bits.Mul64(word, uint64(n))
	return int(hi)
}
