package fabric_test

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/fabric"
)

// TestRebinding binds other memory behind an endpoint 10,000 times, under imports
// of three ranks that go on all the time. A rebind is between two rounds of the
// users, as the contract wants it; each checks that its bytes went to the memory
// that was bound then, and nothing is used up.
func TestRebinding(t *testing.T) {
	const users, size = 3, 4096
	rebinds := uint64(10000)
	if raceEnabled { // which needs no luck to see an access that is not ordered
		rebinds = 1000
	}
	everywhere(t, func(t *testing.T, one maker, mode fabric.Mode) {
		if mode == fabric.ModeDefault && testing.Short() {
			t.Skip()
		}
		seed := rand.Uint64()
		t.Logf("seed %#x", seed)
		rng := rand.New(rand.NewPCG(seed, 0))
		open := func(r int) *fabric.Transport {
			f, err := one(fabric.WithMode(mode), fabric.WithRank(r), fabric.WithSeed(seed), fabric.WithFaults(""))
			require.NoError(t, err)
			return f
		}
		owner := open(0)
		e, err := owner.Create(transport.EndpointConfig{Size: size, Counted: true})
		require.NoError(t, err)
		require.NoError(t, e.Ready(t.Context()))
		mems := make([]transport.Memory, 7)
		counted := make([]uint64, len(mems))
		for i := range mems {
			mems[i], err = owner.Alloc(size)
			require.NoError(t, err)
		}
		// A round begins when the owner raises it, and ends when all users have.
		var round, ended atomic.Uint64
		failed := make(chan error, users)
		for u := range users {
			f := open(u + 1)
			x, err := e.Export()
			require.NoError(t, err)
			in, err := f.Import(x)
			x.Close()
			require.NoError(t, err)
			require.NoError(t, in.Ready(t.Context()))
			c, err := f.NewCompletion(1)
			require.NoError(t, err)
			go func() {
				failed <- func() error {
					src := make([]byte, 64)
					for i := uint64(1); i <= rebinds; i++ {
						for round.Load() < i {
							runtime.Gosched()
						}
						binary.NativeEndian.PutUint64(src, i)
						at := transport.Handle{ID: in.ID(), Offset: 1024 + 64*uint64(u)}
						if err := f.PutCounted(c, at, src, 0); err != nil {
							return err
						}
						if err := c.Submit(); err != nil {
							return err
						}
						if err := c.Arrive(); err != nil {
							return err
						}
						for !c.Test() {
							runtime.Gosched()
						}
						if r, err := c.Report(); err != nil || !r.Clean() {
							t.Errorf("user %d, round %d: %v, %v", u, i, r, err)
						}
						ended.Add(1)
					}
					return f.Close()
				}()
			}()
		}
		for i := uint64(1); i <= rebinds; i++ {
			k := rng.IntN(len(mems))
			require.NoError(t, e.Bind(0, mems[k]))
			round.Store(i)
			for ended.Load() < i*users {
				if i < rebinds && len(failed) > 0 {
					require.NoError(t, <-failed)
				}
				runtime.Gosched()
			}
			counted[k] += users * 64
			require.Equal(t, counted[k], mems[k].Load(0), "rebind %d", i)
			owner.Fence(transport.FenceAcquire)
			for u := range users {
				require.Equal(t, i, binary.NativeEndian.Uint64(mems[k].Bytes()[1024+64*u:]), "rebind %d, user %d", i, u)
			}
			require.NoError(t, e.Unbind(0, size))
		}
		for range users {
			require.NoError(t, <-failed)
		}
		require.Empty(t, owner.Diagnostics())
		require.NoError(t, owner.Close())
		for i, m := range mems {
			require.Equal(t, counted[i], m.Load(0))
			require.NoError(t, m.Free())
		}
	})
}

// TestStaleMapping: an operation that finds other memory, or none, behind the
// offsets that it names does what is right then, even in the middle of it.
func TestStaleMapping(t *testing.T) {
	asynchronous(t, func(t *testing.T, p *pair) {
		p.dirty = true
		other, err := p.ts[0].Alloc(pairBytes)
		require.NoError(t, err)
		// Rebound half way: the rest goes to the new memory.
		require.NoError(t, p.ts[1].PutCounted(p.c, p.at(1024), filled(1024, 1), 0))
		require.NoError(t, p.c.Submit())
		for range 4 {
			require.True(t, p.ts[1].Step())
		}
		require.NoError(t, p.own.Unbind(0, pairBytes))
		require.NoError(t, p.own.Bind(0, other))
		p.steps()
		require.NoError(t, p.c.Arrive())
		require.True(t, p.report().Clean())
		require.EqualValues(t, 512, p.mem.Load(0))
		require.EqualValues(t, 512, other.Load(0))
		// Taken away half way: the phase fails, and no byte goes where one was.
		require.NoError(t, p.ts[1].PutCounted(p.c, p.at(1024), filled(1024, 2), 0))
		require.NoError(t, p.c.Submit())
		for range 4 {
			require.True(t, p.ts[1].Step())
		}
		require.NoError(t, p.own.Unbind(0, pairBytes))
		p.steps()
		require.NoError(t, p.c.Arrive())
		require.False(t, p.report().Clean())
		require.EqualValues(t, 1024, other.Load(0))
		require.NoError(t, other.Free())
	})
}
