package transporttest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
)

// checkRebind puts several memories behind one endpoint, and others in their
// place, under imports that stay as they are.
func checkRebind(t *testing.T, open New) {
	rng := random(t)
	ts := openAll(t, open, 2)
	owner, user := ts[0], ts[1]
	lim := owner.Limits()
	if !lim.Rebind {
		t.Skip("bindings are for ever")
	}
	const parts = 4
	step := max(512, lim.BindAlign)
	size := parts * step
	e, err := owner.Create(transport.EndpointConfig{Size: size, Counted: true})
	require.NoError(t, err)
	in := importFrom(t, user, e) // before anything is bound
	require.NoError(t, e.Ready(t.Context()))
	c, err := user.NewCompletion(1)
	require.NoError(t, err)
	at := func(off uint64) transport.Handle { return transport.Handle{ID: in.ID(), Offset: off} }
	local := make([]byte, 16)
	require.ErrorIs(t, user.Put(c, at(0), local), transport.ErrUnknownEndpoint)

	// The parts, but for one that is a hole.
	const hole = 2
	mem := make([]transport.Memory, parts)
	for i := range mem {
		mem[i] = alloc(t, owner, step)
		require.Equal(t, step, mem[i].Size())
		if i != hole {
			require.NoError(t, e.Bind(uint64(i)*step, mem[i]))
		}
	}
	for _, r := range []struct{ off, n uint64 }{
		{hole * step, 16}, {hole*step - 16, 32}, {(hole+1)*step - 16, 32}, {0, size}, {(hole+1)*step - 16, 16},
	} {
		require.ErrorIs(t, user.Put(c, at(r.off), make([]byte, r.n)), transport.ErrBounds, "%d bytes at %d", r.n, r.off)
		require.ErrorIs(t, user.Get(c, make([]byte, r.n), at(r.off)), transport.ErrBounds, "%d bytes at %d", r.n, r.off)
	}
	require.ErrorIs(t, user.PutCounted(c, at(0), local, hole*step), transport.ErrBounds, "a counter in the hole")
	require.ErrorIs(t, user.Atom(c, local, at(hole*step), local, transport.RedAdd, kernels.TypeUint64), transport.ErrBounds)
	require.Error(t, e.Bind((hole-1)*step, mem[hole]), "over another")
	require.Error(t, e.Unbind(hole*step, step), "nothing there")
	require.NoError(t, e.Bind(hole*step, mem[hole]))

	// Operations that reach over the bounds of parts; then all parts change places.
	order := []int{0, 1, 2, 3}
	for round := range 50 {
		src := unaligned(int(size - 256))
		fill(rng, src)
		require.NoError(t, user.Put(c, at(256), src))
		finish(t, c)
		got := unaligned(len(src))
		require.NoError(t, user.Get(c, got, at(256)))
		finish(t, c)
		require.Equal(t, src, got, "round %d", round)
		require.NoError(t, user.PutCounted(c, at(step-16), src[:32], 0))
		finish(t, c)
		owner.Fence(transport.FenceAcquire)
		want := make([]byte, size)
		copy(want[256:], src)
		copy(want[step-16:], src[:32])
		require.EqualValues(t, 32*(round+1), mem[0].Load(0), "round %d", round)
		for i, m := range order {
			from := 0
			if i == 0 {
				from = 256 // the counter's line
			}
			require.Equal(t, want[i*int(step)+from:(i+1)*int(step)], mem[m].Bytes()[from:], "round %d, part %d", round, i)
		}
		// The counter's part stays where it is.
		for i := 1; i < parts; i++ {
			require.NoError(t, e.Unbind(uint64(i)*step, step))
			require.ErrorIs(t, user.Put(c, at(uint64(i)*step), local), transport.ErrBounds)
		}
		rng.Shuffle(parts-1, func(i, j int) { order[i+1], order[j+1] = order[j+1], order[i+1] })
		for i := 1; i < parts; i++ {
			require.NoError(t, e.Bind(uint64(i)*step, mem[order[i]]))
		}
		// The bytes came with the memory: without its counter, nothing was lost.
		require.NoError(t, user.Get(c, got[:step], at(step)))
		finish(t, c)
		require.Equal(t, mem[order[1]].Bytes(), got[:step])
	}
}
