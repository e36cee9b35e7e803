package progress

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/fabric"
	"github.com/weft-go/weft/transport/progress/lane"
)

// withDetours gives engines a way around their transport.
func withDetours(engines *[]*Engine) func(*Config) {
	return func(c *Config) {
		from := c.Rank
		c.Detour = func(_ context.Context, peer int, m []byte) error {
			err := (*engines)[peer].Deliver(from, m)
			for i := range m {
				m[i] = 0x5a
			}
			return err
		}
	}
}

// TestDeadLinks has links die for good in the middle: messages and credits go
// around them.
func TestDeadLinks(t *testing.T) {
	for _, dead := range []string{"0>1@0", "0>1@40", "1>0@17;0>2@90", "*>*@60"} {
		for _, rate := range []float64{0, 0.05} {
			t.Run(fmt.Sprintf("%s,%v", dead, rate), func(t *testing.T) {
				seed := newSeed(t)
				var es []*Engine
				plan := fmt.Sprintf("seed=%d,rate=%v,dead=%s", seed, rate, dead)
				es = openFabric(t, failing(3), fabric.ModeDefault, seed, plan, func(c *Config) {
					withDetours(&es)(c)
					c.Retry.MaxAttempts = 8
				})
				correspondAll(t, es, 60*2, 40)
				reroutes := uint64(0)
				for _, e := range es {
					for _, s := range e.Stats() {
						reroutes += s.Reroutes.Channel
					}
				}
				require.NotZero(t, reroutes)
			})
		}
	}
}

// TestExhausted has a lane run out of cells: what has no cell goes by detour, or
// is an error.
func TestExhausted(t *testing.T) {
	for _, detours := range []bool{true, false} {
		seed := newSeed(t)
		var es []*Engine
		l := failing(2)
		l.Spares = 4
		es = openFabric(t, l, fabric.ModeDefault, seed, fmt.Sprintf("seed=%d,rate=0.2", seed), func(c *Config) {
			if detours {
				withDetours(&es)(c)
			}
		})
		if detours {
			correspondAll(t, es, 150, 60)
			require.EqualValues(t, 8, es[0].Stats()[1].Replaced)
			continue
		}
		errs := make(chan error, 2)
		for _, e := range es {
			go func() {
				err := talk(e, seed, 200)
				es[0].cfg.Stop.Set(errors.New("the other failed"))
				es[1].cfg.Stop.Set(errors.New("the other failed"))
				errs <- err
			}()
		}
		err := errors.Join(<-errs, <-errs)
		require.ErrorIs(t, err, lane.ErrExhausted)
		var failed *transport.FabricError
		require.ErrorAs(t, err, &failed)
		require.Equal(t, 1, failed.Rank+failed.Peer)
	}
}

// TestDeadLinkFails wants the error that says so where there is no detour.
func TestDeadLinkFails(t *testing.T) {
	const attempts = 5
	es := openFabric(t, failing(2), fabric.ModeDefault, 1, "dead=0>1@0;1>0@1", func(c *Config) { c.Retry.MaxAttempts = attempts })
	for _, e := range es {
		e.Begin(t.Context(), time.Minute, 1, 1)
	}
	var got *transport.FabricError
	require.ErrorAs(t, es[0].Send(1, []byte("x")), &got)
	require.Equal(t, attempts, got.Attempts)
	require.Equal(t, transport.OpPut, got.Op, "counted once, and then plain")
	require.Equal(t, 1, got.Peer)
	require.False(t, got.Status.Clean())
	s := es[0].Stats()[1]
	require.EqualValues(t, attempts, s.Reports)
	require.EqualValues(t, attempts-1, s.Retries)

	require.NoError(t, es[1].Send(0, nil))
	_, err := es[0].Recv(1, 0)
	require.NoError(t, err)
	got = nil
	require.ErrorAs(t, es[0].Release(1), &got)
	require.Equal(t, transport.OpRed, got.Op)
	require.Equal(t, attempts, got.Attempts)
}

// TestRetryEnds wants retries to end with the call.
func TestRetryEnds(t *testing.T) {
	boom := errors.New("boom")
	for name, want := range map[string]error{"timeout": context.DeadlineExceeded, "cancel": context.Canceled, "stop": boom} {
		t.Run(name, func(t *testing.T) {
			es := openFabric(t, failing(2), fabric.ModeDefault, 1, "dead=0>1@0", func(c *Config) { c.Retry.MaxAttempts = 1 << 40 >> 20 })
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			es[0].Begin(ctx, map[bool]time.Duration{true: 30 * time.Millisecond}[name == "timeout"], 1, 1)
			time.AfterFunc(20*time.Millisecond, func() {
				switch name {
				case "cancel":
					cancel()
				case "stop":
					es[0].cfg.Stop.Set(boom)
				}
			})
			start := time.Now()
			require.ErrorIs(t, es[0].Send(1, []byte("x")), want)
			require.Less(t, time.Since(start), bound)
		})
	}
}

// TestMismatchByHeader wants a message of another length to be seen that comes by
// header.
func TestMismatchByHeader(t *testing.T) {
	es := openFabric(t, failing(2), fabric.ModeDefault, 1, "rate=1,kinds=drop,to=1", nil)
	for _, e := range es {
		e.Begin(t.Context(), time.Minute, 1, 1)
	}
	require.NoError(t, es[0].Send(1, make([]byte, 5)))
	_, err := es[1].Recv(0, 100)
	var got *MismatchError
	require.ErrorAs(t, err, &got)
	require.EqualValues(t, 5, got.Got.Bytes)
}

func TestDeliverRefuses(t *testing.T) {
	es := openFabric(t, tiny(2), fabric.ModeDefault, 1, "", nil)
	e := es[0]
	good := detour{cell: 0, data: make([]byte, 16)}.append(nil)
	require.NoError(t, e.Deliver(1, good))
	require.ErrorIs(t, e.Deliver(0, good), transport.ErrBounds)
	require.ErrorIs(t, e.Deliver(2, good), transport.ErrBounds)
	for name, bad := range map[string][]byte{
		"nothing": nil, "short": good[:15], "empty": good[:16], "less than a tag": good[:31],
		"kind":   append([]byte{7}, good[1:]...),
		"cell":   detour{cell: 1 << 20, data: make([]byte, 16)}.append(nil),
		"mail":   detour{mail: true, data: make([]byte, 16)}.append(nil),
		"long":   detour{data: make([]byte, 1025)}.append(nil),
		"credit": detour{credit: true, data: make([]byte, 16)}.append(nil),

		"a posting without a place": detour{multi: detourPost, epoch: 1, data: make([]byte, 24)}.append(nil),
		"to no slot":                detour{multi: detourPost, cell: 2, epoch: 1, data: append(posted{0, 1, 1}.append(nil), 1)}.append(nil),
		"beyond its end":            detour{multi: detourPost, epoch: 1, data: append(posted{16, 1, 16}.append(nil), 1)}.append(nil),
		"more than all":             detour{multi: detourPost, epoch: 1, data: append(posted{0, 1, 2}.append(nil), 1, 2)}.append(nil),
		"too long":                  detour{multi: detourPost, epoch: 1, data: append(posted{0, 1 << 40, 1 << 40}.append(nil), 1)}.append(nil),
		"a long question":           detour{multi: detourAsk, epoch: 1, data: make([]byte, 17)}.append(nil),
		"for what is not there":     detour{multi: detourAsk, epoch: 1, data: append(make([]byte, 8), 16, 0, 0, 0, 0, 0, 0, 0)}.append(nil),
		"an answer to nothing":      detour{multi: detourAnswer, data: make([]byte, 16)}.append(nil),
	} {
		require.ErrorIs(t, e.Deliver(1, bad), ErrDetour, name)
	}
	// Into a cell in which the message can't be.
	es[0].Begin(t.Context(), time.Second, 1, 1)
	require.NoError(t, e.Deliver(1, detour{cell: 7, data: make([]byte, 16)}.append(nil)))
	e.detour = func(context.Context, int, []byte) error { return nil }
	_, err := e.Recv(1, 0)
	require.ErrorIs(t, err, ErrDetour)
}

func FuzzDetour(f *testing.F) {
	f.Add(detour{cell: 3, epoch: 9, data: []byte("data")}.append(nil))
	f.Add(detour{mail: true, cell: lane.NoCell, epoch: 1 << 60, data: []byte{1}}.append(nil))
	f.Add(detour{credit: true, cell: lane.NoCell, epoch: 7}.append(nil))
	f.Add(detour{multi: detourPost, cell: 1, epoch: 3, data: append(posted{16, 20, 36}.append(nil), 1, 2, 3, 4)}.append(nil))
	f.Add(detour{multi: detourAsk, epoch: 3, data: make([]byte, 16)}.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := parseDetour(b)
		if err != nil {
			require.ErrorIs(t, err, ErrDetour)
			return
		}
		require.Equal(t, b, d.append(nil))
		if d.multi == detourPost && d.data != nil {
			if len(d.data) >= postedBytes && binary.LittleEndian.Uint64(d.data[16:]) > 1<<16 {
				return // as much memory as it says
			}
			var x boxes
			if err := x.add(d.cell, d.epoch, d.data); err != nil {
				require.ErrorIs(t, err, ErrDetour)
			}
		}
	})
}
