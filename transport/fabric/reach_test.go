package fabric_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/fabric"
)

// reach is rank 1's access to rank 0's endpoint by pointer.
func (p *pair) reach() transport.Access {
	a, err := p.ts[1].Reach(p.in.ID(), 0)
	require.NoError(p.t, err)
	return a
}

// TestReach stores, counts, raises and loads at a peer, whose doorbell rings, and finds
// what is bound at that time.
func TestReach(t *testing.T) {
	everywhere(t, func(t *testing.T, one maker, mode fabric.Mode) {
		p := openPair(t, one, fabric.WithMode(mode))
		a := p.reach()
		src := payload(1, 0, 1, 0, 4096)[:1024]
		require.NoError(t, a.Store(2048, src))
		got := make([]byte, len(src))
		require.NoError(t, p.view.Read(got, 2048), "no fence of the owner's is needed")
		require.Equal(t, src, got)
		require.NoError(t, a.Load(got[:32], 2048+32))
		require.Equal(t, src[32:64], got[:32])

		bell := p.mem.Doorbell()
		for i, f := range []func() error{func() error { return a.Count(256, 48) }, func() error { return a.Raise(512, 7) }} {
			ticket := bell.Arm()
			require.NoError(t, f())
			begin := time.Now()
			bell.Sleep(ticket, time.Minute)
			require.Less(t, time.Since(begin), 30*time.Second, "%d", i)
			bell.Disarm()
		}
		require.NoError(t, a.Raise(512, 3), "it only grows")
		require.EqualValues(t, 7, p.mem.Load(512))
		p.ts[1].Fence(transport.FenceRelease)
		require.NoError(t, p.ts[1].PutCounted(p.c, p.at(2048), src[:16], 256))
		word := binary.NativeEndian.AppendUint64(nil, 9)
		require.NoError(t, p.ts[1].Red(p.c, p.at(512), append(word, make([]byte, 8)...), transport.RedMax, kernels.TypeUint64))
		require.True(t, p.finish().Clean())
		require.EqualValues(t, 64, p.mem.Load(256))
		require.EqualValues(t, 9, p.mem.Load(512))

		for _, err := range []error{
			a.Store(pairBytes-16, src[:32]), a.Store(pairBytes, src[:16]), a.Store(1<<64-16, src[:32]), a.Load(got, pairBytes),
			a.Count(pairBytes, 1), a.Raise(pairBytes, 1),
		} {
			require.ErrorIs(t, err, transport.ErrBounds)
		}
		for _, err := range []error{a.Store(8, src[:16]), a.Store(0, src[:8]), a.Load(got[:8], 0), a.Count(4, 1), a.Raise(4, 1)} {
			require.ErrorIs(t, err, transport.ErrAlign)
		}

		// Other memory behind the same endpoint, in two parts; then none.
		require.NoError(t, p.own.Unbind(0, pairBytes))
		require.ErrorIs(t, a.Store(0, src), transport.ErrBounds)
		parts := make([]transport.Memory, 2)
		for i := range parts {
			var err error
			parts[i], err = p.ts[0].Alloc(pairBytes / 2)
			require.NoError(t, err)
			require.NoError(t, p.own.Bind(uint64(i)*pairBytes/2, parts[i]))
		}
		require.NoError(t, a.Store(pairBytes/2-512, src))
		require.Equal(t, src[:512], parts[0].Bytes()[pairBytes/2-512:])
		require.Equal(t, src[512:], parts[1].Bytes()[:512])
		require.NoError(t, a.Load(got, pairBytes/2-512))
		require.Equal(t, src, got)
		require.NoError(t, p.own.Destroy())
		require.ErrorIs(t, a.Store(0, src), transport.ErrBounds)
		for _, m := range parts {
			require.NoError(t, m.Free())
		}
		require.NoError(t, p.in.Destroy())
		require.ErrorIs(t, a.Store(0, src), transport.ErrUnknownEndpoint)
		_, err := p.ts[1].Reach(p.in.ID(), 0)
		require.ErrorIs(t, err, transport.ErrUnknownEndpoint)
	})
}

// TestReachRefuses what can't be reached.
func TestReachRefuses(t *testing.T) {
	p := openPair(t, fabric.NewLocal)
	for _, member := range []int{-1, 1} {
		_, err := p.ts[1].Reach(p.in.ID(), member)
		require.ErrorIs(t, err, transport.ErrBounds)
	}
	f, err := fabric.NewLocal(fabric.WithFaults(""), fabric.WithSupport(fabric.Support{Unicast: true, Counted: true}))
	require.NoError(t, err)
	_, err = f.Reach(p.importOwn(f).ID(), 0)
	require.ErrorIs(t, err, transport.ErrUnsupported)
	require.NoError(t, f.Close())
}

// TestDeadAlias: several ids for one endpoint are numbered in their order, and a plan can
// have the link die by one of them only.
func TestDeadAlias(t *testing.T) {
	everywhere(t, func(t *testing.T, one maker, mode fabric.Mode) {
		p := openPair(t, one, fabric.WithMode(mode), fabric.WithFaults("dead=1>0/0@2;1>0/2@0"))
		put := func(e transport.Endpoint) bool {
			require.NoError(t, p.ts[1].Put(p.c, transport.Handle{ID: e.ID()}, make([]byte, 64)))
			return p.finish().Clean()
		}
		first, second, third := p.in, p.importOwn(p.ts[1]), p.importOwn(p.ts[1])
		require.True(t, put(first))
		require.False(t, put(third))
		require.False(t, put(first), "the third phase of the link")
		require.True(t, put(second))
		require.False(t, put(first))
		require.NoError(t, second.Destroy())
		second = p.importOwn(p.ts[1])
		require.True(t, put(second), "the least number that is free")
		require.NoError(t, first.Destroy())
		require.False(t, put(p.importOwn(p.ts[1])))
		// Of another endpoint of the same rank it is the first again.
		other, err := p.ts[0].Create(transport.EndpointConfig{Size: pairBytes})
		require.NoError(t, err)
		require.NoError(t, other.Ready(t.Context()))
		require.NoError(t, other.Bind(0, p.mem))
		p.own = other
		require.False(t, put(p.importOwn(p.ts[1])))
		require.True(t, put(p.importOwn(p.ts[1])))
		require.NoError(t, other.Destroy())
	})
}
