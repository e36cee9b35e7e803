package kernels

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// TestSumFew: sums of few bytes have the bits of all others, wherever the buffers lie.
func TestSumFew(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	words := func() []byte {
		w := make([]uint64, 64)
		for i := range w {
			switch w[i] = r.Uint64(); r.IntN(4) {
			case 0:
				w[i] |= 0x7ff00000_7f800000 // infinities and NaNs
			case 1:
				w[i] &= 0x800fffff_807fffff // zeros and subnormals
			}
		}
		return unsafe.Slice((*byte)(unsafe.Pointer(&w[0])), 512)
	}
	done := 0
	for range 20000 {
		typ := []Type{TypeFloat32, TypeFloat64, TypeInt32, TypeInt64, TypeUint32, TypeUint64, TypeInt16, TypeFloat16}[r.IntN(8)]
		n, memory, other := 1+r.IntN(300>>(2*r.IntN(2))), words(), words()
		d, x, y := r.IntN(100), r.IntN(100), r.IntN(100)
		switch r.IntN(3) { // in place, and aligned, more often than by chance
		case 0:
			d, x, n = d&^7, d&^7, n&^7
		case 1:
			d, x, n = d&^7, d&^7+64, n&^7
		}
		if r.IntN(2) == 0 {
			y &^= 7
		}
		dst, a, b := memory[d:d+n], memory[x:x+n], other[y:y+n]
		if r.IntN(2) == 0 {
			a, b = b, a
		}
		before := append([]byte(nil), memory...)
		if n == 0 {
			continue
		}
		if !sumFew(dst, [][]byte{a, b}, typ) {
			require.Equal(t, before, memory, "it has done something")
			if reduce(dst, [][]byte{a, b}, typ, Sum, 1) == nil && typ != TypeInt16 && typ != TypeFloat16 &&
				(n <= loopBytes || chosen != plain) {
				require.Failf(t, "refused", "%v, %d bytes at %d, %d and %d", typ, n, d, x, y)
			}
			continue
		}
		done++
		got := append([]byte(nil), memory...)
		copy(memory, before)
		require.NoError(t, reduce(dst, [][]byte{a, b}, typ, Sum, 1))
		for i := d; i < d+n; i += typ.Size() { // which NaN a sum is, is not said
			if e := typ.Size(); anyNaN(typ, Sum) && isNaN(typ, got[i:i+e]) && isNaN(typ, memory[i:i+e]) {
				copy(got[i:i+e], memory[i:])
			}
		}
		require.Equal(t, memory, got, "%v, %d bytes at %d, %d and %d", typ, n, d, x, y)
	}
	require.Greater(t, done, 2000)
}
