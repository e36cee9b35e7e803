package fabric_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/fabric"
	"github.com/weft-go/weft/transport/transporttest"
)

// TestIDs: ids are reserved in ranges, which may fail, and used again.
func TestIDs(t *testing.T) {
	f, err := fabric.NewLocal(fabric.WithLimits(fabric.Limits{IDs: 10}))
	require.NoError(t, err)
	defer f.Close()
	a, err := f.ReserveIDs(4)
	require.NoError(t, err)
	require.NotZero(t, a, "the zero Handle names nothing")
	b, err := f.ReserveIDs(6)
	require.NoError(t, err)
	require.True(t, b >= a+4 || a >= b+6)
	_, err = f.ReserveIDs(1)
	require.ErrorIs(t, err, transport.ErrBounds)
	_, err = f.Create(transport.EndpointConfig{Size: 4096})
	require.ErrorIs(t, err, transport.ErrBounds, "a library that has reserved them all")
	for _, n := range []int{0, -1, 11} {
		_, err = f.ReserveIDs(n)
		require.ErrorIs(t, err, transport.ErrBounds)
		require.Error(t, f.ReleaseIDs(a, n))
	}
	require.NoError(t, f.ReleaseIDs(a+1, 2), "part of a range")
	_, err = f.ReserveIDs(3)
	require.ErrorIs(t, err, transport.ErrBounds, "there are only two in a row")
	c, err := f.ReserveIDs(2)
	require.NoError(t, err)
	require.Equal(t, a+1, c)
	require.NoError(t, f.ReleaseIDs(a, 4))
	require.ErrorIs(t, f.ReleaseIDs(a, 4), transport.ErrUnknownEndpoint)
	require.NoError(t, f.ReleaseIDs(b, 6))
	all, err := f.ReserveIDs(10)
	require.NoError(t, err)

	// An id outlives what it names.
	for range 3 {
		require.NoError(t, f.CreateEndpoint(all+3, fabric.Properties{Size: 4096}))
		require.Error(t, f.ReleaseIDs(all, 10))
		require.NoError(t, f.DestroyEndpoint(all+3))
		require.ErrorIs(t, f.DestroyEndpoint(all+3), transport.ErrUnknownEndpoint)
	}
	require.NoError(t, f.ReleaseIDs(all, 10))
	for _, id := range []transport.EndpointID{0, 4711, 1<<32 - 1} {
		_, err := f.Query(id)
		require.ErrorIs(t, err, transport.ErrUnknownEndpoint)
		require.ErrorIs(t, f.BindMemory(id, 0, nil, 0, 0), transport.ErrUnknownEndpoint)
		_, err = f.ExportEndpoint(id)
		require.ErrorIs(t, err, transport.ErrUnknownEndpoint)
		require.ErrorIs(t, f.AddDevice(id), transport.ErrUnknownEndpoint)
		require.ErrorIs(t, f.UnbindRange(id, 0, 0), transport.ErrUnknownEndpoint)
	}
}

// TestAliases: several ids, of the owner and of others, name one endpoint; it
// lives until the last is gone, and its owner's bindings until the owner's id is.
func TestAliases(t *testing.T) {
	everywhere(t, func(t *testing.T, one maker, mode fabric.Mode) {
		p := openPair(t, one, fabric.WithMode(mode))
		owners := p.importOwn(p.ts[0])
		second := p.importOwn(p.ts[1])
		require.Len(t, map[transport.EndpointID]bool{p.own.ID(): true, owners.ID(): true}, 2)
		c0, err := p.ts[0].NewCompletion(1)
		require.NoError(t, err)
		for i, by := range []struct {
			f  *fabric.Transport
			c  transport.Completion
			id transport.EndpointID
		}{{p.ts[0], c0, p.own.ID()}, {p.ts[0], c0, owners.ID()}, {p.ts[1], p.c, p.in.ID()}, {p.ts[1], p.c, second.ID()}} {
			require.NoError(t, by.f.Put(by.c, transport.Handle{ID: by.id, Offset: 1024}, filled(64, byte(i+1))))
			q := &pair{t: t, c: by.c.(*fabric.Completion)}
			require.True(t, q.finish().Clean())
			require.Equal(t, filled(64, byte(i+1)), p.mem.Bytes()[1024:][:64])
		}
		require.ErrorIs(t, owners.Bind(0, p.mem), transport.ErrNotOwner, "memory is bound by the id of its creation")
		// One alias gone leaves the others.
		require.NoError(t, p.in.Destroy())
		require.NoError(t, owners.Destroy())
		require.NoError(t, p.ts[1].Put(p.c, transport.Handle{ID: second.ID(), Offset: 1024}, filled(64, 9)))
		require.True(t, p.finish().Clean())
		require.Equal(t, filled(64, 9), p.mem.Bytes()[1024:][:64])
		// The owner's gone: unbound, known still, and not to be imported any more.
		x, err := p.own.Export()
		require.NoError(t, err)
		defer x.Close()
		require.NoError(t, p.own.Destroy())
		require.ErrorIs(t, p.ts[1].Put(p.c, transport.Handle{ID: second.ID()}, filled(64, 9)), transport.ErrUnknownEndpoint)
		_, err = p.ts[1].Import(x)
		require.ErrorIs(t, err, transport.ErrHandle)
		require.NoError(t, second.Destroy())
	})
}

// TestBlocksAreUsedAgain: endpoints that come and go use nothing up, as long as
// their aliases go too, and an old import never reaches a new endpoint.
func TestBlocksAreUsedAgain(t *testing.T) {
	everywhere(t, func(t *testing.T, one maker, mode fabric.Mode) {
		p := openPair(t, one, fabric.WithMode(mode))
		var kept []transport.Endpoint
		for i := range 5000 {
			e, err := p.ts[0].Create(transport.EndpointConfig{Size: 4096})
			require.NoError(t, err, "endpoint %d", i)
			if i%100 == 0 {
				x, err := e.Export()
				require.NoError(t, err)
				in, err := p.ts[1].Import(x)
				x.Close()
				require.NoError(t, err)
				require.NoError(t, in.Ready(t.Context()))
				kept = append(kept, in)
			}
			require.NoError(t, e.Destroy())
		}
		for _, in := range kept {
			require.ErrorIs(t, p.ts[1].Put(p.c, transport.Handle{ID: in.ID()}, make([]byte, 16)), transport.ErrUnknownEndpoint)
			require.NoError(t, in.Destroy())
		}
	})
}

// TestBindAddress binds by address: whole memories and parts of them.
func TestBindAddress(t *testing.T) {
	everywhere(t, func(t *testing.T, one maker, mode fabric.Mode) {
		p := openPair(t, one, fabric.WithMode(mode))
		require.NoError(t, p.own.Unbind(0, pairBytes))
		id := p.own.ID()
		require.NoError(t, p.ts[0].BindAddress(id, 512, p.mem.Bytes()[1024:2048]))
		require.NoError(t, p.ts[0].BindAddress(id, 2048, p.mem.Bytes()[256:512]))
		require.NoError(t, p.ts[1].Put(p.c, p.at(512), filled(1024, 1)))
		require.NoError(t, p.ts[1].Put(p.c, p.at(2048), filled(256, 2)))
		require.True(t, p.finish().Clean())
		require.Equal(t, filled(1024, 1), p.mem.Bytes()[1024:2048])
		require.Equal(t, filled(256, 2), p.mem.Bytes()[256:512])
		require.ErrorIs(t, p.ts[0].BindAddress(id, 4096, make([]byte, 256)), transport.ErrUnsupported, "not the device's")
		require.ErrorIs(t, p.ts[0].BindAddress(id, 4096, p.mem.Bytes()[8:264]), transport.ErrAlign)
		require.ErrorIs(t, p.ts[0].BindAddress(id, 4096, nil), transport.ErrUnsupported)
		require.NoError(t, p.ts[0].UnbindRange(id, 512, 1024))
		require.NoError(t, p.ts[0].UnbindRange(id, 2048, 256))
	})
}

// TestCliques: all ranks of a group learn whether they are in one clique.
func TestCliques(t *testing.T) {
	agree := func(typ fabric.CliqueType, opts ...[]fabric.Option) []error {
		ends := transporttest.Exchanges(len(opts))
		errs := make([]error, len(opts))
		parallel(t, len(opts), func(r int) error {
			f, err := fabric.NewLocal(append(opts[r], fabric.WithRank(r))...)
			if err != nil {
				return err
			}
			errs[r] = f.AgreeClique(t.Context(), typ, ends[r])
			return f.Close()
		})
		return errs
	}
	in := func(id uint32) []fabric.Option {
		return []fabric.Option{fabric.WithClique(fabric.CliqueUnicast, id)}
	}
	out := []fabric.Option{fabric.WithoutClique(fabric.CliqueUnicast)}
	for _, c := range []struct {
		name string
		opts [][]fabric.Option
		typ  fabric.CliqueType
		ok   bool
	}{
		{"the same", [][]fabric.Option{in(7), in(7), in(7)}, fabric.CliqueUnicast, true},
		{"one differs", [][]fabric.Option{in(7), in(7), in(8)}, fabric.CliqueUnicast, false},
		{"the first differs", [][]fabric.Option{in(6), in(7), in(7)}, fabric.CliqueUnicast, false},
		{"one in none", [][]fabric.Option{in(0), out, in(0)}, fabric.CliqueUnicast, false},
		{"all in none", [][]fabric.Option{out, out}, fabric.CliqueUnicast, false},
		{"another type", [][]fabric.Option{in(6), in(7), out}, fabric.CliqueMulticast, true},
	} {
		for r, err := range agree(c.typ, c.opts...) {
			if c.ok {
				require.NoError(t, err, "%s, rank %d", c.name, r)
			} else {
				require.ErrorIs(t, err, transport.ErrUnsupported, "%s, rank %d", c.name, r)
			}
		}
	}
	f, err := fabric.NewLocal(fabric.WithClique(fabric.CliqueUnicast, 3), fabric.WithoutClique(fabric.CliqueMulticast))
	require.NoError(t, err)
	require.Equal(t, []fabric.Clique{{Type: fabric.CliqueUnicast, ID: 3}}, f.Cliques())
	boom := errors.New("boom")
	require.ErrorIs(t, f.AgreeClique(t.Context(), fabric.CliqueUnicast, func(context.Context, transport.Exported) ([]transport.Exported, error) { return nil, boom }), boom)
}

// TestJobKeys: a handle of another job is refused, whoever has the descriptor.
func TestJobKeys(t *testing.T) {
	for name, one := range makers {
		t.Run(name, func(t *testing.T) {
			open := func(key string) *fabric.Transport {
				f, err := one(fabric.WithJobKey([]byte(key)))
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, f.Close()) })
				return f
			}
			a, b, c := open("one job"), open("one job"), open("another")
			e, err := a.Create(transport.EndpointConfig{Size: 4096})
			require.NoError(t, err)
			x, err := e.Export()
			require.NoError(t, err)
			defer x.Close()
			_, err = b.Import(x)
			require.NoError(t, err)
			_, err = c.Import(x)
			require.ErrorIs(t, err, transport.ErrHandle)
			require.ErrorIs(t, c.ImportDevice(x), transport.ErrHandle)
			// A handle of one device with what came with another.
			f, err := b.Create(transport.EndpointConfig{Size: 4096})
			require.NoError(t, err)
			y, err := f.Export()
			require.NoError(t, err)
			defer y.Close()
			_, err = b.Import(transport.Exported{Handle: x.Handle, File: y.File, Ref: y.Ref})
			require.ErrorIs(t, err, transport.ErrHandle)
		})
	}
}

// TestSupport: what the device can't do is refused.
func TestSupport(t *testing.T) {
	for _, s := range []fabric.Support{{}, {Unicast: true}, {Multicast: true}, {Unicast: true, Counted: true}} {
		f, err := fabric.NewLocal(fabric.WithSupport(s))
		require.NoError(t, err)
		require.Equal(t, s, f.Support())
		require.Equal(t, s.Multicast, f.Limits().Multicast)
		require.Equal(t, s.OwnerAccess, f.Limits().OwnerAccess)
		for _, c := range []struct {
			p  fabric.Properties
			ok bool
		}{
			{fabric.Properties{Size: 4096}, s.Unicast},
			{fabric.Properties{Size: 4096, Counted: true}, s.Unicast && s.Counted},
			{fabric.Properties{Type: fabric.Multicast, Size: 4096, Members: 2}, s.Multicast},
			{fabric.Properties{Type: fabric.Multicast + 1, Size: 4096, Members: 2}, false},
		} {
			id, err := f.ReserveIDs(1)
			require.NoError(t, err)
			if err := f.CreateEndpoint(id, c.p); c.ok {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, transport.ErrUnsupported, "%+v, %+v", s, c.p)
			}
		}
		require.NoError(t, f.Close())
	}
}

// TestOptions refuses what makes no sense.
func TestOptions(t *testing.T) {
	for i, o := range []fabric.Option{
		fabric.WithMode(3), fabric.WithRank(-1), fabric.WithClique(1, 0), fabric.WithArena(1), fabric.WithArena(1 << 63),
		fabric.WithLimits(fabric.Limits{BindAlign: 100}), fabric.WithLimits(fabric.Limits{BindAlign: 1 << 40}),
		fabric.WithLimits(fabric.Limits{BindAlign: 4096, MaxEndpointBytes: 4095}), fabric.WithLimits(fabric.Limits{MaxEndpointBytes: 1 << 60}),
		fabric.WithLimits(fabric.Limits{IDs: -1}),
	} {
		_, err := fabric.NewLocal(o)
		require.Error(t, err, "option %d", i)
	}
	f, err := fabric.NewLocal(fabric.WithLimits(fabric.Limits{BindAlign: 4096, MaxEndpointBytes: 10000}))
	require.NoError(t, err)
	align, most := f.EndpointLimits(fabric.Properties{})
	require.EqualValues(t, 4096, align)
	require.EqualValues(t, 8192, most)
	require.Equal(t, "fabric", f.Name())
	for m := fabric.ModeDefault; m <= fabric.ModeFast; m++ {
		require.NotEqual(t, "unknown mode", m.String())
	}
	require.Equal(t, "unknown mode", fabric.Mode(9).String())
	require.Equal(t, "unknown rule", fabric.Rule(200).String())
	for _, c := range []fabric.CliqueType{0, fabric.CliqueUnicast, fabric.CliqueMulticast} {
		require.NotEmpty(t, c.String())
	}
}

// TestTinyLimits runs the contract on a fabric with tiny endpoints, where what is
// large must be split over several, and with large alignments.
func TestTinyLimits(t *testing.T) {
	for name, one := range makers {
		t.Run(name, func(t *testing.T) {
			const most = 1024
			limits := fabric.WithLimits(fabric.Limits{BindAlign: 256, MaxEndpointBytes: most})
			var fs [2]*fabric.Transport
			for r := range fs {
				f, err := one(limits, fabric.WithRank(r), fabric.WithFaults(""))
				require.NoError(t, err)
				fs[r] = f
			}
			// 10 KiB of memory behind as many endpoints as it takes.
			m, err := fs[0].Alloc(10 * most)
			require.NoError(t, err)
			var ids []transport.EndpointID
			_, err = fs[0].Create(transport.EndpointConfig{Size: most + 256})
			require.ErrorIs(t, err, transport.ErrBounds)
			for i := range uint64(10) {
				e, err := fs[0].Create(transport.EndpointConfig{Size: most})
				require.NoError(t, err)
				require.NoError(t, e.Ready(t.Context()))
				require.NoError(t, fs[0].BindMemory(e.ID(), 0, m, i*most, most))
				x, err := e.Export()
				require.NoError(t, err)
				in, err := fs[1].Import(x)
				x.Close()
				require.NoError(t, err)
				require.NoError(t, in.Ready(t.Context()))
				ids = append(ids, in.ID())
			}
			c, err := fs[1].NewCompletion(1)
			require.NoError(t, err)
			src := make([]byte, 10*most)
			for i := range src {
				src[i] = byte(i * 7)
			}
			for i, id := range ids {
				require.NoError(t, fs[1].Put(c, transport.Handle{ID: id}, src[i*most:][:most]))
			}
			p := &pair{t: t, c: c.(*fabric.Completion)}
			require.True(t, p.finish().Clean())
			require.Equal(t, src, m.Bytes())
			for _, f := range fs {
				require.NoError(t, f.Close())
			}
			require.NoError(t, m.Free())
		})
	}
	for _, align := range []uint64{4096, 64 << 10} {
		t.Run(fmt.Sprint("align=", align), func(t *testing.T) {
			for name, one := range makers {
				t.Run(name, func(t *testing.T) {
					open := opener(one, fabric.WithLimits(fabric.Limits{BindAlign: align}))
					for _, f := range open(t, 2) {
						m, err := f.Alloc(100)
						require.NoError(t, err)
						require.Equal(t, align, m.Size())
						require.NoError(t, m.Free())
						require.NoError(t, f.Close())
					}
				})
			}
		})
	}
}
