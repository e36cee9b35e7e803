package progress

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/fabric"
)

// sumReroutes is what engines sent other ways than the first.
func sumReroutes(es []*Engine) (sum Reroutes) {
	for _, e := range es {
		for _, s := range e.Stats() {
			sum.Add(s.Reroutes)
		}
	}
	return sum
}

// onlyThese says which counts are to be zero and which are not.
func onlyThese(t testing.TB, got Reroutes, ways string) {
	t.Helper()
	for name, n := range map[string]uint64{"alias": got.Alias, "pointer": got.Pointer, "channel": got.Channel} {
		require.Equal(t, strings.Contains(ways, name), n > 0, "%s: %+v", name, got)
	}
}

// TestWays has links die for good, by one id or by all, with each way around them alone
// and with several, of which the later ones are only for what the others can't do.
func TestWays(t *testing.T) {
	for i, tt := range []struct {
		dead    string
		ways    Ways
		channel bool
		used    string
	}{
		{"*>*/0@40", ByAlias, false, "alias"},
		{"0>1/0@0;1>0/0@0", ByAlias | ByPointer, true, "alias"},
		{"*>*@40", ByPointer, false, "pointer"},
		{"*>*@0", ByAlias | ByPointer, true, "pointer"},
		{"*>*/0@20;*>*/1@150", ByAlias | ByPointer, true, "alias, pointer"},
		{"*>*/0@20;*>*/1@150", ByAlias, true, "alias, channel"},
		{"*>*@30", ByAlias, true, "channel"},
		{"2>*/0@30", ByAlias | ByPointer, false, "alias"},
	} {
		for j, rate := range []float64{0, 0.1} {
			mode := []fabric.Mode{fabric.ModeStrict, fabric.ModeDefault, fabric.ModeFast}[(i+j)%3]
			t.Run(fmt.Sprintf("%s,%v,%v", tt.dead, rate, mode), func(t *testing.T) {
				seed := newSeed(t)
				var es []*Engine
				es = openFabric(t, failing(3), mode, seed, fmt.Sprintf("seed=%d,rate=%v,dead=%s", seed, rate, tt.dead), func(c *Config) {
					if tt.channel {
						withDetours(&es)(c)
					}
					c.Ways, c.Retry.MaxAttempts = tt.ways, 8
				})
				correspondAll(t, es, 60, 40)
				onlyThese(t, sumReroutes(es), tt.used)
			})
		}
	}
}

// TestWaysMulti has the way to multicast memory die, where it can be reached by pointer,
// and when a cell has been written by both.
func TestWaysMulti(t *testing.T) {
	for i, plan := range []string{"dead=*>m@0", "dead=1>m@9", "rate=0.1,dead=*>m@20", "rate=1,from=10,to=40,links=*>m,kinds=part+late", "dead=*>*@40"} {
		seed := newSeed(t)
		es := openFabric(t, failing(3), []fabric.Mode{fabric.ModeStrict, fabric.ModeFast}[i%2], seed, fmt.Sprintf("seed=%d,%s", seed, plan), func(c *Config) {
			c.Ways, c.Retry.MaxAttempts = ByAlias|ByPointer, 6
		})
		reduceAll(t, es, seed, 60)
		onlyThese(t, sumReroutes(es), "pointer")
		require.NotZero(t, es[1].Stats()[1].Reroutes.Pointer, plan)
	}
}

// unreachable is a fabric without pointers to peers.
type unreachable struct{ *fabric.Transport }

func (unreachable) Reach(transport.EndpointID, int) (transport.Access, error) {
	return nil, transport.ErrUnsupported
}

// TestUnreachable has one rank go by detour and the other by pointer.
func TestUnreachable(t *testing.T) {
	seed := newSeed(t)
	var es []*Engine
	es = openFabric(t, failing(2), fabric.ModeDefault, seed, "dead=*>*@20", func(c *Config) {
		withDetours(&es)(c)
		c.Ways, c.Retry.MaxAttempts = ByAlias|ByPointer, 6
		if c.Rank == 0 {
			c.Transport = unreachable{c.Transport.(*fabric.Transport)}
		}
	})
	correspondAll(t, es, 40, 40)
	reduceAll(t, es, seed, 20)
	onlyThese(t, sumReroutes(es[:1]), "channel")
	onlyThese(t, sumReroutes(es[1:]), "pointer")
}

// TestWaysFail: when there is no way left the error is that of the last attempt.
func TestWaysFail(t *testing.T) {
	const attempts = 5
	es := openFabric(t, failing(2), fabric.ModeDefault, 1, "dead=0>1@0", func(c *Config) { c.Ways, c.Retry.MaxAttempts = ByAlias, attempts })
	es[0].Begin(t.Context(), time.Minute, 1, 1)
	var got *transport.FabricError
	require.ErrorAs(t, es[0].Send(1, []byte("x")), &got)
	require.Equal(t, attempts, got.Attempts)
	require.Equal(t, es[0].aliases[1].ID(), got.Endpoint)
	require.NotEqual(t, es[0].peers[1].ID(), got.Endpoint)
	require.EqualValues(t, 2*attempts, es[0].Stats()[1].Reports)
}

// TestWayBack: a link that did not work for a while is tried again, and used. One that is
// to be avoided is tried before all fails.
func TestWayBack(t *testing.T) {
	for _, ways := range []Ways{ByAlias, ByPointer} {
		plan := "rate=1,from=30,to=60,links=0>1,kinds=drop+part"
		if ways == ByAlias { // the alias dies when the first id works again
			plan = "dead=0>1/1@200," + plan
		}
		seed := newSeed(t)
		es := openFabric(t, failing(2), fabric.ModeStrict, seed, fmt.Sprintf("seed=%d,%s", seed, plan), func(c *Config) {
			c.Ways, c.Retry.MaxAttempts = ways, 20
		})
		talkAll(t, es, 200)
		s := es[0].Stats()[1]
		require.NotZero(t, s.Reroutes.All())
		require.Less(t, s.Reroutes.All(), s.Messages/2)
		require.Equal(t, link{}, es[0].links[1][direct])
	}
}

// TestRenewalByWays has lanes be renewed whose first ids are dead, and cells in renewed
// memory be reached by pointer.
func TestRenewalByWays(t *testing.T) {
	for _, tt := range []struct {
		plan string
		ways Ways
		used string
	}{{"rate=0.3,dead=*>*/0@50", ByAlias, "alias"}, {"rate=0.5", ByPointer, "pointer"}} {
		seed := newSeed(t)
		l := Layout{Ranks: 2, Cells: 2, SlotBytes: 1024, MailCells: 2, MailSlotBytes: 512, Spares: 60, SpareSlots: 60, Renewals: 10}
		es := openFabric(t, l, fabric.ModeStrict, seed, fmt.Sprintf("seed=%d,%s", seed, tt.plan), func(c *Config) {
			c.Ways = tt.ways
			if tt.ways == ByPointer {
				c.Retry.MaxAttempts = 1
			}
		})
		talkAll(t, es, 900)
		onlyThese(t, sumReroutes(es), tt.used)
		for r, e := range es {
			require.True(t, e.space.grown(), "rank %d", r)
			require.Greater(t, e.Stats()[1-r].Replaced, uint64(60))
		}
	}
}

// unfenced is a fabric to which nobody says when what was stored by pointer may be met
// by operations.
type unfenced struct{ *fabric.Transport }

func (u unfenced) Fence(f transport.Fence) {
	if f != transport.FenceRelease {
		u.Transport.Fence(f)
	}
}

// hasty is a fabric by whose pointers counters grow, and headers are raised, before what
// they speak of is there.
type hasty struct{ *fabric.Transport }

func (h hasty) Reach(id transport.EndpointID, member int) (transport.Access, error) {
	a, err := h.Transport.Reach(id, member)
	return &hastyAccess{Access: a}, err
}

type hastyAccess struct {
	transport.Access
	later []func() error
}

func (h *hastyAccess) Store(offset uint64, src []byte) error {
	src = append([]byte(nil), src...)
	h.later = append(h.later, func() error { return h.Access.Store(offset, src) })
	return nil
}

func (h *hastyAccess) Count(offset, n uint64) error {
	return errors.Join(h.Access.Count(offset, n), h.store())
}

func (h *hastyAccess) Raise(offset, value uint64) error {
	return errors.Join(h.Access.Raise(offset, value), h.store())
}

func (h *hastyAccess) store() (err error) {
	if len(h.later) > 0 {
		for range 100 {
			runtime.Gosched()
		}
		time.Sleep(time.Millisecond)
	}
	for _, f := range h.later {
		err = errors.Join(err, f())
	}
	h.later = nil
	return err
}

// TestWaysWithout takes away what stands between pointers and operations, and the order
// of what is stored: the sanitizer says so, and messages differ. With them nothing does.
func TestWaysWithout(t *testing.T) {
	// A link that fails for a while: cells that were stored to are put to afterwards.
	const plan = "rate=1,from=10,to=30,links=0>1,kinds=drop"
	run := func(change func(f *fabric.Transport) transport.Transport) error {
		fabrics := make([]*fabric.Transport, 2)
		es := openFabric(t, failing(2), fabric.ModeStrict, 1, plan, func(c *Config) {
			c.Ways, c.Retry.MaxAttempts = ByPointer, 4
			fabrics[c.Rank] = c.Transport.(*fabric.Transport)
			c.Transport = change(fabrics[c.Rank])
		})
		errs := make(chan error, 2)
		for _, e := range es {
			go func() {
				err := talk(e, 7, 60)
				if err != nil {
					for _, e := range es {
						e.cfg.Stop.Set(errors.New("a rank failed"))
					}
				}
				errs <- err
			}()
		}
		err := errors.Join(<-errs, <-errs)
		if err != nil {
			for _, f := range fabrics {
				_ = f.Close() // it says that phases were left
			}
		}
		return err
	}
	require.NoError(t, run(func(f *fabric.Transport) transport.Transport { return f }))

	err := run(func(f *fabric.Transport) transport.Transport { return unfenced{f} })
	var broken *fabric.RuleError
	require.ErrorAs(t, err, &broken)
	require.Equal(t, fabric.RuleMissingRelease, broken.Rule)

	err = run(func(f *fabric.Transport) transport.Transport { return hasty{f} })
	var mismatch *MismatchError
	require.True(t, errors.As(err, &mismatch) || err != nil && strings.Contains(err.Error(), "differs"), "%v", err)
}
