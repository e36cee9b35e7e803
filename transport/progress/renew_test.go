package progress

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/transport/fabric"
)

// TestRenewal has lanes with few cells use them many times over, mail lanes too, and
// without a detour.
func TestRenewal(t *testing.T) {
	for _, mode := range []fabric.Mode{fabric.ModeStrict, fabric.ModeDefault, fabric.ModeFast} {
		for n := 2; n <= 3; n++ {
			if raceEnabled && n != 3 { // ranks are alike
				continue
			}
			t.Run(fmt.Sprintf("%v/%d", mode, n), func(t *testing.T) {
				seed := newSeed(t)
				l := Layout{Ranks: n, Cells: 2, SlotBytes: 1024, MailCells: 2, MailSlotBytes: 512, Spares: 60, SpareSlots: 60, Renewals: 10}
				es := openFabric(t, l, mode, seed, fmt.Sprintf("seed=%d,rate=0.1", seed), nil)
				together(t, n, func(r int) error { return talk(es[r], seed, 1500) })
				for r, e := range es {
					require.True(t, e.space.grown(), "rank %d", r)
					for p, s := range e.Stats() {
						require.True(t, p == r || s.Replaced > 2*60, "rank %d: %+v", r, s)
						require.Zero(t, s.Reroutes.All())
					}
				}
			})
		}
	}
}
