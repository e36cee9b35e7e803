package progress

import (
	"errors"
	"flag"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/transport/fabric"
	"github.com/weft-go/weft/transport/transporttest"
)

var soak = flag.Int("soak", 1, "how many times as much to soak")

// failing is a layout with room for many faults in little memory.
func failing(n int) Layout {
	return Layout{Ranks: n, Cells: 2, SlotBytes: 1024, MailCells: 2, MailSlotBytes: 512, Spares: 600}
}

// openFabric makes the engines of n ranks on a software fabric that fails by plan.
func openFabric(t testing.TB, l Layout, mode fabric.Mode, seed uint64, plan string, change func(*Config)) []*Engine {
	n := l.Ranks
	ends := transporttest.Exchanges(n)
	fabrics, engines := make([]*fabric.Transport, n), make([]*Engine, n)
	for r := range n {
		f, err := fabric.NewLocal(fabric.WithMode(mode), fabric.WithRank(r), fabric.WithSeed(seed+uint64(r)), fabric.WithFaults(plan))
		require.NoError(t, err)
		fabrics[r] = f
	}
	together(t, n, func(r int) (err error) {
		cfg := Config{Transport: fabrics[r], Rank: r, Layout: l, Policy: local, Stop: NewStop(), Exchange: ends[r]}
		if change != nil {
			change(&cfg)
		}
		engines[r], err = New(t.Context(), cfg)
		return err
	})
	t.Cleanup(func() {
		for r := range n {
			require.NoError(t, engines[r].Close())
		}
		for r := range n {
			require.NoError(t, fabrics[r].Close(), "rank %d", r)
		}
	})
	return engines
}

// together runs f on each of n ranks.
func together(t testing.TB, n int, f func(rank int) error) {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for r := range n {
		wg.Go(func() {
			if err := f(r); err != nil {
				errs[r] = fmt.Errorf("rank %d: %w", r, err)
			}
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
}

var soakKinds = []string{"drop", "ack", "part", "late", "drop+ack+part+late"}

// TestFaults has engines talk over a fabric that fails in each way: every message
// arrives as it was sent, though its sender writes over it at once.
func TestFaults(t *testing.T) {
	var all PeerStats
	for _, mode := range []fabric.Mode{fabric.ModeStrict, fabric.ModeDefault, fabric.ModeFast} {
		for _, kinds := range soakKinds {
			for i, rate := range []float64{0.001, 0.01, 0.1} {
				for n := 2; n <= 4; n++ {
					if raceEnabled && (n != 3 || rate < 0.1) { // every path is taken at that rate
						continue
					}
					t.Run(fmt.Sprintf("%v/%s/%v/%d", mode, kinds, rate, n), func(t *testing.T) {
						seed := newSeed(t)
						plan := fmt.Sprintf("seed=%d,rate=%v,kinds=%s", seed, rate, kinds)
						calls := []int{200, 100, 40}[i] * *soak
						es := openFabric(t, failing(n), mode, seed, plan, nil)
						together(t, n, func(r int) error { return talk(es[r], seed, calls) })
						var sum PeerStats
						for _, e := range es {
							for _, s := range e.Stats() {
								sum.Add(s)
							}
						}
						if rate == 0.1 { // at less there may be none
							require.NotZero(t, sum.Reports)
							require.NotZero(t, sum.Lost)
						}
						all.Add(sum)
					})
				}
			}
		}
	}
	t.Logf("%+v", all)
	require.NotZero(t, all.Retries)
	require.NotZero(t, all.ByHeader)
	require.NotZero(t, all.Replaced)
}

// TestFaultsDefault has messages as large as they are by default.
func TestFaultsDefault(t *testing.T) {
	for _, mode := range []fabric.Mode{fabric.ModeStrict, fabric.ModeFast} {
		for n := 2; n <= 5; n++ {
			if raceEnabled && n != 3 { // ranks are alike
				continue
			}
			t.Run(fmt.Sprintf("%v/%d", mode, n), func(t *testing.T) {
				seed := newSeed(t)
				es := openFabric(t, DefaultLayout(n), mode, seed, fmt.Sprintf("seed=%d,rate=0.1", seed), nil)
				correspondAll(t, es, 40**soak, 20**soak)
				var sum PeerStats
				for _, e := range es {
					for _, s := range e.Stats() {
						sum.Add(s)
					}
				}
				require.NotZero(t, sum.Reports)
			})
		}
	}
}

// barrier is one of messages.
func barrier(e *Engine) error {
	for p := range e.Ranks() {
		if p != e.rank {
			if err := e.Send(p, nil); err != nil {
				return err
			}
		}
	}
	for p := range e.Ranks() {
		if p != e.rank {
			if _, err := e.Recv(p, 0); err != nil {
				return err
			}
			if err := e.Release(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestFaultsMail has ranks exchange mail while the engines talk.
func TestFaultsMail(t *testing.T) {
	for n := 2; n <= 3; n++ {
		for _, kinds := range soakKinds {
			t.Run(fmt.Sprintf("%s/%d", kinds, n), func(t *testing.T) {
				seed := newSeed(t)
				es := openFabric(t, failing(n), fabric.ModeDefault, seed, fmt.Sprintf("seed=%d,rate=0.05,kinds=%s", seed, kinds), nil)
				correspondAll(t, es, 150**soak, 40**soak)
				for _, e := range es {
					for p, s := range e.Mail().stats {
						require.Equal(t, p != e.rank, s.Retries > 0)
					}
				}
			})
		}
	}
}
