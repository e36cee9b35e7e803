package fabric_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/fabric"
	"github.com/weft-go/weft/transport/transporttest"
)

// TestClosed: what is used after Close says that it is closed.
func TestClosed(t *testing.T) {
	for _, mode := range modes {
		p := openPair(t, fabric.NewLocal, fabric.WithMode(mode))
		f := p.ts[1]
		require.NoError(t, f.Close())
		_, err := f.NewCompletion(1)
		require.ErrorIs(t, err, transport.ErrClosed)
		_, err = f.Query(p.in.ID())
		require.ErrorIs(t, err, transport.ErrClosed)
		require.ErrorIs(t, p.in.Ready(t.Context()), transport.ErrClosed)
		require.ErrorIs(t, f.Put(p.c, p.at(1024), make([]byte, 16)), transport.ErrClosed)
		require.ErrorIs(t, f.Get(p.c, make([]byte, 16), p.at(1024)), transport.ErrClosed)
	}
}

// TestRefusedOptions: what can't be is refused, by an error that says what.
func TestRefusedOptions(t *testing.T) {
	for _, c := range []struct {
		name   string
		option fabric.Option
		want   error
	}{
		{"nil", nil, transport.ErrUnsupported},
		{"in a clique of no type", fabric.WithClique(9, 1), transport.ErrUnsupported},
		{"out of a clique of no type", fabric.WithoutClique(9), transport.ErrUnsupported},
		{"arena too small", fabric.WithArena(1<<24 - 1), transport.ErrBounds},
	} {
		_, err := fabric.NewLocal(fabric.WithFaults(""), c.option)
		require.ErrorIs(t, err, c.want, c.name)
	}
}

// TestErrorTexts: errors name the operation, what was given and what could be.
func TestErrorTexts(t *testing.T) {
	p := openPair(t, fabric.NewLocal)
	_, err := p.ts[1].MakeCompletion(fabric.CompletionConfig{Layout: 9, Arrivals: 1})
	require.ErrorContains(t, err, "no layout 9")
	c, err := p.ts[1].MakeCompletion(fabric.CompletionConfig{Arrivals: 1, Expect: true})
	require.NoError(t, err)
	err = c.ArriveExpect(-1)
	require.ErrorContains(t, err, "-1 transactions expected")
	require.ErrorIs(t, err, transport.ErrBounds)
	for range transport.MaxGetBytes / pairBytes {
		require.NoError(t, p.ts[1].Get(p.c, make([]byte, pairBytes), p.at(0)))
	}
	err = p.ts[1].Get(p.c, make([]byte, pairBytes), p.at(0))
	require.ErrorContains(t, err, "get: ")
	require.ErrorContains(t, err, fmt.Sprint(transport.MaxTransactions))
	p.finish()
	require.ErrorIs(t, new(fabric.Transport).Close(), nil)
	_, err = new(fabric.Transport).Alloc(1)
	require.ErrorIs(t, err, transport.ErrClosed)
	_, err = new(fabric.Transport).ReserveIDs(1)
	require.ErrorIs(t, err, transport.ErrClosed)
	require.ErrorIs(t, new(fabric.Transport).Put(p.c, p.at(0), make([]byte, 16)), transport.ErrClosed)
}

// TestJoinAsNoMember: a member that can't be one takes part in every exchange, so
// that the others learn of it.
func TestJoinAsNoMember(t *testing.T) {
	for _, c := range []struct{ n, bad, me, of int }{{2, 0, -1, 2}, {2, 1, 2, 2}, {3, 1, 1, 0}, {3, 2, 1, 3}, {3, 1, 0, 3}, {3, 0, 1, 3}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			ends := transporttest.Exchanges(c.n)
			errs := make(chan error, c.n)
			for r := range c.n {
				f, err := fabric.NewLocal(fabric.WithRank(r), fabric.WithFaults(""))
				require.NoError(t, err)
				t.Cleanup(func() { f.Close() })
				m, err := f.Alloc(4096)
				require.NoError(t, err)
				me, of := r, c.n
				if r == c.bad {
					me, of = c.me, c.of
				}
				go func() {
					_, err := f.JoinMulticast(t.Context(), transport.EndpointConfig{Size: 4096}, me, of, m, ends[r])
					errs <- err
				}()
			}
			for range c.n {
				err := <-errs
				require.Error(t, err)
				require.NotContains(t, err.Error(), "did not come")
			}
		})
	}
}

// TestOneDeviceTwice: an exchange that gives one member twice is an error at once.
func TestOneDeviceTwice(t *testing.T) {
	f, err := fabric.NewLocal(fabric.WithFaults(""))
	require.NoError(t, err)
	defer f.Close()
	m, err := f.Alloc(4096)
	require.NoError(t, err)
	calls := 0
	_, err = f.JoinMulticast(t.Context(), transport.EndpointConfig{Size: 4096}, 0, 2, m,
		func(_ context.Context, x transport.Exported) ([]transport.Exported, error) {
			calls++
			return []transport.Exported{x, x}, nil
		})
	require.ErrorIs(t, err, transport.ErrHandle)
	require.Equal(t, 3, calls)
}

// TestAgreeWithoutSelf: an exchange that does not give what this rank gave is no agreement.
func TestAgreeWithoutSelf(t *testing.T) {
	f, err := fabric.NewLocal(fabric.WithFaults(""))
	require.NoError(t, err)
	defer f.Close()
	for _, all := range [][]transport.Exported{nil, {{}}} {
		err = f.AgreeClique(t.Context(), fabric.CliqueUnicast, func(context.Context, transport.Exported) ([]transport.Exported, error) { return all, nil })
		require.ErrorIs(t, err, transport.ErrHandle)
	}
}

// TestSourcesChangedOnce: one diagnostic for a phase tells of all its changed sources.
func TestSourcesChangedOnce(t *testing.T) {
	p := openPair(t, fabric.NewLocal, fabric.WithMode(fabric.ModeStrict))
	p.dirty = true
	src := make([]byte, 16)
	for range 10 {
		require.NoError(t, p.ts[1].Put(p.c, p.at(1024), src))
	}
	src[0]++
	p.finish()
	require.Len(t, p.ts[1].Diagnostics(), 1)
	require.ErrorContains(t, p.ts[1].Diagnostics()[0], "9 more operations")
}

// TestMaskOfNothing: a put that writes nothing needs no fence.
func TestMaskOfNothing(t *testing.T) {
	p := openPair(t, fabric.NewLocal, fabric.WithMode(fabric.ModeStrict))
	require.NoError(t, p.ts[1].PutMasked(p.c, p.at(1024), make([]byte, 64), 0))
	p.finish()
	require.NoError(t, p.view.Read(make([]byte, 64), 1024))
}

// TestUnreleasedOnce: an operation tells once of what was not released, in however many
// pieces it comes.
func TestUnreleasedOnce(t *testing.T) {
	p := openPair(t, fabric.NewLocal, fabric.WithMode(fabric.ModeStrict))
	p.dirty = true
	require.NoError(t, p.view.Write(0, make([]byte, 8)))
	require.NoError(t, p.ts[1].PutCounted(p.c, p.at(1024), make([]byte, 4096), 0))
	p.finish()
	require.Len(t, p.ts[1].Diagnostics(), 1)
}
