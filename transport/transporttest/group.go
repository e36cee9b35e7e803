package transporttest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/transport"
)

// patience is how long anything that must happen may take.
const patience = 20 * time.Second

// random returns a source of random numbers, and logs how to get the same again.
func random(t testing.TB) *rand.Rand {
	seed := rand.Uint64()
	t.Logf("seed %#x", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func fill(rng *rand.Rand, b []byte) {
	for ; len(b) >= 8; b = b[8:] {
		binary.NativeEndian.PutUint64(b, rng.Uint64())
	}
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
}

// unaligned returns n bytes of local memory at an odd address.
func unaligned(n int) []byte { return make([]byte, n+1)[1:] }

// openAll makes transports and has them closed at the end.
func openAll(t testing.TB, open New, n int) []transport.Transport {
	ts := open(t, n)
	require.Len(t, ts, n)
	t.Cleanup(func() {
		for _, tr := range ts {
			require.NoError(t, tr.Close())
		}
	})
	return ts
}

// A group is n ranks with an endpoint each, imported by all others, and a
// picture of what the endpoints' memory must hold.
type group struct {
	t    testing.TB
	ts   []transport.Transport
	mem  []transport.Memory
	own  []transport.Endpoint
	peer [][]transport.Endpoint // peer[a][b] is b's endpoint as a imported it
	want [][]byte
	junk []byte
	done []transport.Completion
}

func openGroup(t testing.TB, open New, n int, cfg transport.EndpointConfig) *group {
	g := &group{t: t, ts: openAll(t, open, n)}
	for _, tr := range g.ts {
		m, e := bind(t, tr, cfg)
		g.mem = append(g.mem, m)
		g.own = append(g.own, e)
		g.want = append(g.want, make([]byte, cfg.Size))
		c, err := tr.NewCompletion(1)
		require.NoError(t, err)
		g.done = append(g.done, c)
	}
	for a, tr := range g.ts {
		g.peer = append(g.peer, make([]transport.Endpoint, n))
		for b := range g.ts {
			if a != b {
				g.peer[a][b] = importFrom(t, tr, g.own[b])
			}
		}
	}
	return g
}

// bind makes an endpoint with memory behind it. Memory is freed at the end.
func bind(t testing.TB, tr transport.Transport, cfg transport.EndpointConfig) (transport.Memory, transport.Endpoint) {
	m := alloc(t, tr, cfg.Size)
	e, err := tr.Create(cfg)
	require.NoError(t, err)
	require.NoError(t, e.Ready(t.Context()))
	require.NoError(t, e.Bind(0, m))
	require.Equal(t, cfg.Size, e.Size())
	return m, e
}

func alloc(t testing.TB, tr transport.Transport, size uint64) transport.Memory {
	m, err := tr.Alloc(size)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, tr.Close()) // so that it is bound nowhere
		require.NoError(t, m.Free())
	})
	return m
}

func importFrom(t testing.TB, tr transport.Transport, e transport.Endpoint) transport.Endpoint {
	x, err := e.Export()
	require.NoError(t, err)
	defer x.Close()
	in, err := tr.Import(x)
	require.NoError(t, err)
	require.NoError(t, in.Ready(t.Context()))
	require.Equal(t, e.Size(), in.Size())
	return in
}

// finish ends a phase of one arrival and wants it clean.
func finish(t testing.TB, c transport.Completion) {
	require.NoError(t, c.Submit())
	require.NoError(t, c.Arrive())
	waitDone(t, c)
}

func waitDone(t testing.TB, c transport.Completion) {
	start := time.Now()
	for i := 0; !c.Test(); i++ {
		if i < 1000 { // a sleep, however short, takes long, and phases are many
			runtime.Gosched()
			continue
		}
		require.Less(t, time.Since(start), patience, "the phase does not end")
		time.Sleep(10 * time.Microsecond)
	}
	r, err := c.Report()
	require.NoError(t, err)
	require.True(t, r.Clean(), "%v", r)
}

// phase runs operations as one phase of a rank.
func (g *group) phase(rank int, start func(c transport.Completion) error) {
	require.NoError(g.t, start(g.done[rank]))
	finish(g.t, g.done[rank])
}

// check wants all memory to be as pictured. That an operation is complete at its
// sender says nothing at its target, so this may have to wait.
func (g *group) check(what string, args ...any) {
	for r, m := range g.mem {
		g.ts[r].Fence(transport.FenceAcquire)
		got := m.Bytes()[:len(g.want[r])]
		for start := time.Now(); string(got) != string(g.want[r]) && time.Since(start) < time.Second; {
			time.Sleep(time.Millisecond)
		}
		if string(got) != string(g.want[r]) {
			for i := range got {
				if got[i] != g.want[r][i] {
					require.Failf(g.t, fmt.Sprintf(what, args...), "memory of rank %d differs first at %d: %#x, want %#x", r, i, got[i], g.want[r][i])
				}
			}
		}
	}
}

// scramble gives all memory random content: pieces of the same, from anywhere.
func (g *group) scramble(rng *rand.Rand) {
	if g.junk == nil {
		g.junk = make([]byte, len(g.want[0])+64<<10)
		fill(rng, g.junk)
	}
	for r, want := range g.want {
		copy(want, g.junk[rng.IntN(len(g.junk)-len(want)):])
		copy(g.mem[r].Bytes(), g.want[r])
		g.ts[r].Fence(transport.FenceRelease)
	}
}

var errNobody = errors.New("a member did not come")

// exchanger makes all-gathers between the goroutines of a test, one after the other.
type exchanger struct {
	n      int
	mu     sync.Mutex
	rounds []*round
}

// A round is one all-gather.
type round struct {
	parts       []transport.Exported
	have, taken int
	full        chan struct{}
}

func newExchanger(n int) *exchanger { return &exchanger{n: n} }

// Exchanges returns the ends of an all-gather between n goroutines, for tests of
// what is built on a transport.
func Exchanges(n int) []transport.Exchange {
	x := newExchanger(n)
	ends := make([]transport.Exchange, n)
	for r := range ends {
		ends[r] = x.as(r)
	}
	return ends
}

// round returns a rank's i-th all-gather.
func (x *exchanger) round(i int) *round {
	x.mu.Lock()
	defer x.mu.Unlock()
	for len(x.rounds) <= i {
		x.rounds = append(x.rounds, &round{parts: make([]transport.Exported, x.n), full: make(chan struct{})})
	}
	return x.rounds[i]
}

// as is the exchange of one rank.
func (x *exchanger) as(rank int) transport.Exchange {
	next := 0
	return func(ctx context.Context, mine transport.Exported) ([]transport.Exported, error) {
		if mine.File != nil { // the caller closes its own at once
			f, err := duplicate(mine.File)
			if err != nil {
				return nil, err
			}
			mine.File = f
		}
		r := x.round(next)
		next++
		x.mu.Lock()
		r.parts[rank] = mine
		if r.have++; r.have == x.n {
			close(r.full)
		}
		x.mu.Unlock()
		select {
		case <-r.full:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(patience):
			return nil, errNobody
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		out := make([]transport.Exported, x.n)
		for i, p := range r.parts {
			out[i] = p
			if p.File != nil {
				f, err := duplicate(p.File)
				if err != nil {
					return nil, err
				}
				out[i].File = f
			}
		}
		if r.taken++; r.taken == x.n {
			for _, p := range r.parts {
				p.Close()
			}
		}
		return out, nil
	}
}

// inParallel runs f for every rank and waits for all.
func inParallel(n int, f func(rank int)) {
	var wg sync.WaitGroup
	for r := range n {
		wg.Go(func() { f(r) })
	}
	wg.Wait()
}
