package progress

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/fabric"
	"github.com/weft-go/weft/transport/progress/lane"
)

// reduceAll has engines go through calls of reduceTogether.
func reduceAll(t testing.TB, es []*Engine, seed uint64, calls int) {
	together(t, len(es), func(r int) error {
		for call := range calls {
			if err := reduceTogether(es[r], seed, call); err != nil {
				return fmt.Errorf("call %d: %w", call, err)
			}
		}
		return nil
	})
}

// reduceTogether is a call in which every rank pulls the sum of a share and posts it,
// in parts of odd lengths, and one posts something else. It checks all that all posted.
// As in a schedule the parts of two calls alternate, and nothing is between calls.
func reduceTogether(e *Engine, seed uint64, call int) error {
	rng := rand.New(rand.NewPCG(seed, uint64(call))) // the same on all ranks
	n, slot := e.Ranks(), call%2
	share := 8 * (1 + rng.IntN(150))
	area, cell := (n*share+15)/16*16, (share+15)/16*16
	other := rng.IntN(2*n) - n // who posts in the other slot as well, if any
	e.Begin(context.Background(), time.Minute, uint64(call), 7)
	if err := e.OpenMulti(context.Background(), uint64(2*(n*150*8+16)), uint64(max(cell, 150*8))); err != nil {
		return err
	}
	own := e.Multi()[slot*(n*150*8+16)/16*16:]
	base := uint64(slot * (n*150*8 + 16) / 16 * 16)
	value := func(rank, o int) uint64 { return seed + uint64(call*1000003+rank*1009+o) }
	for o := 0; o < area; o += 8 {
		binary.NativeEndian.PutUint64(own[o:], value(e.rank, o))
	}
	if err := barrier(e); err != nil {
		return err
	}
	// Shares begin at whole units: those of odd lengths overlap by half of one.
	mine := func(rank int) int { return rank * share / 16 * 16 }
	got := make([]byte, share)
	cut := rng.IntN(share/16+1) * 16
	for _, part := range [][2]int{{0, cut}, {cut, share}} {
		piece := got[part[0]:part[1]]
		if err := e.PullReduce(piece, base+uint64(mine(e.rank)+part[0]), transport.RedAdd, kernels.TypeUint64); err != nil {
			return err
		}
		if err := e.PutMulti(slot, uint64(part[0]), piece); err != nil {
			return err
		}
	}
	if err := barrier(e); err != nil {
		return err
	}
	clear(got) // it may change now
	for owner := range n {
		posted, err := e.Board(owner, slot)
		if err != nil {
			return err
		}
		for o := 0; o < share; o += 8 {
			want := uint64(0)
			for r := range n {
				want += value(r, mine(owner)+o)
			}
			if v := binary.NativeEndian.Uint64(posted[o:]); v != want {
				return fmt.Errorf("sum at %d of rank %d is %d, not %d", o, owner, v, want)
			}
		}
	}
	if other < 0 {
		return nil
	}
	// As a broadcast: all have read what was there.
	if err := barrier(e); err != nil {
		return err
	}
	if other == e.rank {
		binary.NativeEndian.PutUint64(got, value(e.rank, 3))
		if err := e.PutMulti(1-slot, 0, got[:7]); err != nil {
			return err
		}
	}
	if err := barrier(e); err != nil {
		return err
	}
	posted, err := e.Board(other, 1-slot)
	if err != nil {
		return err
	}
	var want [8]byte
	binary.NativeEndian.PutUint64(want[:], value(other, 3))
	if string(posted[:7]) != string(want[:7]) {
		return fmt.Errorf("rank %d posted %x, not %x", other, posted[:7], want[:7])
	}
	return barrier(e)
}

func TestMulti(t *testing.T) {
	seed := newSeed(t)
	for n := 2; n <= 4; n++ {
		reduceAll(t, open(t, tiny(n), nil), seed, 60)
		es := openFabric(t, failing(n), fabric.ModeStrict, seed, "", nil)
		reduceAll(t, es, seed, 60)
		for _, e := range es {
			s := e.Stats()[e.rank]
			require.NotZero(t, s.Messages)
			require.NotZero(t, s.Bytes)
			require.Zero(t, s.Reports+s.Retries+s.Reroutes.All()+s.Replaced)
		}
	}
}

// TestFaultsMulti has ranks reduce in multicast memory that fails. It is made anew when
// few cells are left, and only then.
func TestFaultsMulti(t *testing.T) {
	for _, mode := range []fabric.Mode{fabric.ModeStrict, fabric.ModeDefault, fabric.ModeFast} {
		for _, kinds := range soakKinds {
			for n := 2; n <= 4; n++ {
				if raceEnabled && n != 3 { // ranks are alike
					continue
				}
				t.Run(fmt.Sprintf("%v/%s/%d", mode, kinds, n), func(t *testing.T) {
					seed := newSeed(t)
					exchanges := make([]int, n)
					es := openFabric(t, failing(n), mode, seed, fmt.Sprintf("seed=%d,rate=0.1,kinds=%s", seed, kinds), func(c *Config) {
						all := c.Exchange
						c.Exchange = func(ctx context.Context, x transport.Exported) ([]transport.Exported, error) {
							exchanges[c.Rank]++
							return all(ctx, x)
						}
					})
					exchanges = make([]int, n)
					calls := 100 * *soak
					reduceAll(t, es, seed, calls)
					replaced := uint64(0)
					for _, e := range es {
						s := e.Stats()[e.rank]
						require.NotZero(t, s.Retries)
						require.NotZero(t, s.Replaced)
						require.NotZero(t, s.Lost)
						replaced = max(replaced, s.Replaced)
						require.Equal(t, exchanges[0], exchanges[e.rank])
					}
					// Each renewal is for a reserve of cells at least, of one rank.
					room := es[0].group.cells - es[0].group.cells/lowShare - lane.Slots
					require.LessOrEqual(t, exchanges[0], 3*(1+n*int(replaced)/room))
				})
			}
		}
	}
}

// TestFewCells has memory made anew again and again.
func TestFewCells(t *testing.T) {
	for _, detours := range []bool{false, true} {
		for _, rate := range []float64{0.05, 0.4} {
			seed := newSeed(t)
			var es []*Engine
			es = openFabric(t, failing(3), fabric.ModeDefault, seed, fmt.Sprintf("seed=%d,rate=%v", seed, rate), func(c *Config) {
				if detours {
					withDetours(&es)(c)
				}
			})
			for _, e := range es {
				e.group.most = minBoard
			}
			reduceAll(t, es, seed, 200)
			for _, e := range es {
				require.Greater(t, e.Stats()[e.rank].Replaced, uint64(minBoard))
			}
		}
	}
}

// TestExhaustedMulti has cells run out within a call: what has none goes by detour, or
// is an error. The next call has new ones.
func TestExhaustedMulti(t *testing.T) {
	for _, detours := range []bool{true, false} {
		seed := newSeed(t)
		var es []*Engine
		es = openFabric(t, failing(2), fabric.ModeDefault, seed, fmt.Sprintf("seed=%d,rate=0.3,ops=put,links=*>m", seed), func(c *Config) {
			if detours {
				withDetours(&es)(c)
			}
		})
		failed := make([]error, 2)
		together(t, 2, func(r int) error {
			e := es[r]
			e.group.most = minBoard
			for call := range 3 {
				e.Begin(context.Background(), time.Minute, uint64(call), 1)
				if err := e.OpenMulti(context.Background(), 0, 512); err != nil {
					return err
				}
				require.Zero(t, e.group.board.Replaced())
				for i := range 60 {
					x := make([]byte, 500)
					for j := range x {
						x[j] = byte(call + i + r)
					}
					err := e.PutMulti(i%2, 0, x)
					if err == nil {
						err = barrier(e)
					}
					if err != nil {
						failed[r] = err
						es[1-r].cfg.Stop.Set(err)
						return nil
					}
					got, err := e.Board(1-r, i%2)
					if err != nil {
						return err
					}
					if got[0] != byte(call+i+1-r) || got[499] != got[0] {
						return fmt.Errorf("call %d, posting %d: %d", call, i, got[0])
					}
				}
			}
			return nil
		})
		if detours {
			require.Equal(t, []error{nil, nil}, failed)
			require.NotZero(t, es[0].Stats()[0].Reroutes.Channel)
			require.Zero(t, es[0].Stats()[1].Reroutes.All())
			continue
		}
		err := errors.Join(failed...)
		require.ErrorIs(t, err, lane.ErrExhausted)
		var multicast *transport.FabricError
		require.ErrorAs(t, err, &multicast)
		require.Equal(t, multicast.Rank, multicast.Peer)
	}
}

// TestLong has pulls that take several phases at once, and postings that take several
// detours.
func TestLong(t *testing.T) {
	const n, bytes = 3, 5*zoneBytes + 24
	for _, plan := range []string{"", "rate=0.1", "rate=0.5", "dead=*>m@0", "dead=1>m@9", "rate=0.1,dead=*>m@20"} {
		seed := newSeed(t)
		var es []*Engine
		if plan != "" {
			plan = fmt.Sprintf("seed=%d,%s", seed, plan)
		}
		es = openFabric(t, failing(n), fabric.ModeFast, seed, plan, func(c *Config) {
			withDetours(&es)(c)
			c.Retry.MaxAttempts = 8
		})
		together(t, n, func(r int) error {
			e := es[r]
			got := make([]byte, bytes)
			for call := range 6 {
				e.Begin(context.Background(), time.Minute, uint64(call), 1)
				if err := e.OpenMulti(context.Background(), bytes+8, bytes); err != nil {
					return err
				}
				own := e.Multi()
				for o := 0; o < bytes; o += 8 {
					binary.NativeEndian.PutUint64(own[o:], uint64((call+1)*(r+1)*o))
				}
				if err := barrier(e); err != nil {
					return err
				}
				if err := e.PullReduce(got, 0, transport.RedAdd, kernels.TypeUint64); err != nil {
					return err
				}
				if err := e.PutMulti(call%2, 0, got); err != nil {
					return err
				}
				if err := barrier(e); err != nil {
					return err
				}
				for owner := range n {
					posted, err := e.Board(owner, call%2)
					if err != nil {
						return err
					}
					for o := 0; o < bytes; o += 8 {
						if v, want := binary.NativeEndian.Uint64(posted[o:]), uint64((call+1)*o*n*(n+1)/2); v != want {
							return fmt.Errorf("call %d: %d at %d of rank %d, not %d", call, v, o, owner, want)
						}
					}
				}
			}
			return nil
		})
	}
}

// TestDeadMulti has the ways to multicast memory and to peers die, on each rank and at
// many phases.
func TestDeadMulti(t *testing.T) {
	for _, rate := range []float64{0, 0.1} {
		for _, dead := range []string{"0>m", "1>m", "2>m", "*>m", "*>*", "0>1", "*>2"} {
			for k := range 10 {
				if raceEnabled && k != 3 { // ranks are alike, and so are calls
					continue
				}
				seed := newSeed(t)
				var es []*Engine
				plan := fmt.Sprintf("seed=%d,rate=%v,dead=%s@%d", seed, rate, dead, k*k)
				es = openFabric(t, failing(3), fabric.ModeDefault, seed, plan, func(c *Config) {
					withDetours(&es)(c)
					c.Retry.MaxAttempts = 6
				})
				reduceAll(t, es, seed, 60)
				reroutes := uint64(0)
				for _, e := range es {
					for _, s := range e.Stats() {
						reroutes += s.Reroutes.Channel
					}
				}
				require.NotZero(t, reroutes, plan)
			}
		}
	}
}

// TestDeadMultiFails wants the error that says so where there is no detour.
func TestDeadMultiFails(t *testing.T) {
	for op, k := range map[transport.OpKind]int{transport.OpPullRed: 0, transport.OpPutMultimem: 1} {
		es := openFabric(t, failing(2), fabric.ModeDefault, 1, fmt.Sprintf("dead=0>m@%d", k), func(c *Config) { c.Retry.MaxAttempts = 4 })
		var got *transport.FabricError
		together(t, 2, func(r int) error {
			e := es[r]
			e.Begin(context.Background(), time.Minute, 1, 1)
			if err := e.OpenMulti(context.Background(), 64, 64); err != nil || r == 1 {
				return err
			}
			x := make([]byte, 32)
			err := e.PullReduce(x, 0, transport.RedAdd, kernels.TypeUint64)
			if err == nil {
				require.NoError(t, e.PutMulti(0, 0, x))
				err = e.Send(1, nil)
			}
			require.ErrorAs(t, err, &got)
			return nil
		})
		require.Equal(t, op, got.Op)
		require.Equal(t, 4, got.Attempts)
		require.EqualValues(t, 4, es[0].Stats()[0].Reports)
	}
}

// TestInFlight: a put to all only begins, and the next message waits for it.
func TestInFlight(t *testing.T) {
	es := openFabric(t, failing(2), fabric.ModeDefault, 1, "", nil)
	together(t, 2, func(r int) error {
		e := es[r]
		e.Begin(context.Background(), time.Minute, 1, 1)
		if err := e.OpenMulti(context.Background(), 0, 1024); err != nil {
			return err
		}
		if r == 1 {
			_, err := e.Recv(0, 0)
			return err
		}
		under := func() (n int) {
			for i := range e.group.flights {
				if e.group.flights[i].under {
					n++
				}
			}
			return n
		}
		x := make([]byte, 64)
		for i := range 2 * maxFlights {
			require.NoError(t, e.PutMulti(i%2, uint64(16*i), x))
			require.Equal(t, min(i+1, maxFlights), under())
		}
		require.NoError(t, e.Send(1, nil))
		require.Zero(t, under())
		return nil
	})
	require.NoError(t, es[0].Settle())
	for name, err := range map[string]error{
		"slot":     es[0].PutMulti(2, 0, make([]byte, 16)),
		"end":      es[0].PutMulti(0, 1024, make([]byte, 1)),
		"unit":     es[0].PutMulti(0, 8, make([]byte, 1)),
		"pull":     es[0].PullReduce(make([]byte, 32), 1<<20, transport.RedAdd, kernels.TypeUint64),
		"owner":    func() error { _, err := es[0].Board(2, 0); return err }(),
		"of owner": func() error { _, err := es[0].Board(0, -1); return err }(),
	} {
		require.ErrorIs(t, err, transport.ErrBounds, name)
	}
}

// TestBulletin: what a tag takes along is no part of the tag.
func TestBulletin(t *testing.T) {
	for low := range 2 {
		for a := range 256 {
			tag := Tag{Seq: 1, Signature: 2, Bytes: 3, Part: partOf(1<<15 | 12345)}
			n := lane.Bulletin{Places: [lane.Slots]lane.Place{lane.Place(a), lane.Place(255 - a)}, Low: low == 1}
			b := make([]byte, tagBytes)
			tag.put(b)
			putBulletin(b, n)
			require.Equal(t, tag, getTag(b))
			require.Equal(t, n, getBulletin(b))
		}
	}
}
