package fabric

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestArena: ranges are disjoint and inside, and when all are given back there is
// one range again.
func TestArena(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %#x", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	const at, end = 1000, 9000
	a := newArena(at, end)
	var held []extent
	for range 20000 {
		if rng.IntN(2) == 0 && len(held) > 0 {
			i := rng.IntN(len(held))
			a.give(held[i].at, held[i].n)
			held = append(held[:i], held[i+1:]...)
			continue
		}
		n := uint64(1 + rng.IntN(900))
		got, ok := a.take(n)
		if !ok {
			for _, e := range a.unused {
				require.Less(t, e.n, n)
			}
			continue
		}
		require.GreaterOrEqual(t, got, uint64(at))
		require.LessOrEqual(t, got+n, uint64(end))
		for _, h := range held {
			require.True(t, got+n <= h.at || h.at+h.n <= got, "%d+%d over %v", got, n, h)
		}
		held = append(held, extent{got, n})
	}
	for _, h := range held {
		a.give(h.at, h.n)
	}
	require.Equal(t, []extent{{at, end - at}}, a.unused)
}
