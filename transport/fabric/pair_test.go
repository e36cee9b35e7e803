package fabric_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/fabric"
)

// A pair is two ranks, of which rank 1 uses rank 0's endpoint.
type pair struct {
	t    testing.TB
	ts   [2]*fabric.Transport
	mem  transport.Memory // of rank 0
	view fabric.View      // of mem
	own  transport.Endpoint
	in   transport.Endpoint // own, as rank 1 knows it
	c    *fabric.Completion // of rank 1
	make maker
	// dirty: the test provokes errors, of which Close tells
	dirty bool
}

const pairBytes = 64 << 10

func openPair(t testing.TB, one maker, opts ...fabric.Option) *pair {
	p := &pair{t: t, make: one}
	for r := range p.ts {
		f, err := one(append([]fabric.Option{fabric.WithFaults("")}, append(opts, fabric.WithRank(r))...)...)
		require.NoError(t, err)
		p.ts[r] = f
	}
	var err error
	p.mem, err = p.ts[0].Alloc(pairBytes)
	require.NoError(t, err)
	p.view, err = p.ts[0].View(p.mem)
	require.NoError(t, err)
	p.own, err = p.ts[0].Create(transport.EndpointConfig{Size: pairBytes, Counted: true})
	require.NoError(t, err)
	require.NoError(t, p.own.Ready(t.Context()))
	require.NoError(t, p.own.Bind(0, p.mem))
	p.in = p.importOwn(p.ts[1])
	c, err := p.ts[1].NewCompletion(1)
	require.NoError(t, err)
	p.c = c.(*fabric.Completion)
	t.Cleanup(func() {
		for _, f := range p.ts {
			if err := f.Close(); !p.dirty {
				require.NoError(t, err)
			}
		}
		if err := p.mem.Free(); !p.dirty {
			require.NoError(t, err)
		}
	})
	return p
}

func (p *pair) importOwn(f *fabric.Transport) transport.Endpoint {
	x, err := p.own.Export()
	require.NoError(p.t, err)
	defer x.Close()
	in, err := f.Import(x)
	require.NoError(p.t, err)
	require.NoError(p.t, in.Ready(p.t.Context()))
	return in
}

// at is a place in rank 0's endpoint.
func (p *pair) at(offset uint64) transport.Handle {
	return transport.Handle{ID: p.in.ID(), Offset: offset}
}

// finish ends a phase of c and returns its report.
func (p *pair) finish() transport.Report {
	require.NoError(p.t, p.c.Submit())
	require.NoError(p.t, p.c.Arrive())
	return p.report()
}

func (p *pair) report() transport.Report {
	await(p.t, p.c.Test)
	r, err := p.c.Report()
	require.NoError(p.t, err)
	return r
}

// await waits until something is so.
func await(t testing.TB, so func() bool) {
	for start := time.Now(); !so(); time.Sleep(20 * time.Microsecond) {
		require.Less(t, time.Since(start), 20*time.Second, "waited for too long")
	}
}

func filled(n int, b byte) []byte {
	s := make([]byte, n)
	for i := range s {
		s[i] = b
	}
	return s
}
