package transporttest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/transport"
)

// strangeMemory is memory of no transport.
type strangeMemory struct{ transport.Memory }

func (strangeMemory) Size() uint64 { return area.Size }

func checkLifecycle(t *testing.T, open New) {
	ts := openAll(t, open, 2)
	tr, peer := ts[0], ts[1]
	lim := tr.Limits()
	require.NotEmpty(t, tr.Name())

	for _, c := range []struct {
		size uint64
		want error
	}{{0, transport.ErrBounds}, {lim.BindAlign + 1, transport.ErrAlign}, {lim.BindAlign - 1, transport.ErrAlign}, {lim.MaxEndpointBytes + lim.BindAlign, transport.ErrBounds}} {
		if lim.BindAlign < 2 && c.want == transport.ErrAlign || lim.MaxEndpointBytes == 0 && c.size != 0 && c.want == transport.ErrBounds {
			continue
		}
		e, err := tr.Create(transport.EndpointConfig{Size: c.size})
		require.ErrorIs(t, err, c.want, "size %d", c.size)
		require.Nil(t, e)
	}

	size := max(4096, lim.BindAlign)
	mem, small := alloc(t, tr, size), alloc(t, tr, lim.BindAlign)
	e, err := tr.Create(transport.EndpointConfig{Size: size, Counted: true})
	require.NoError(t, err)
	require.NoError(t, e.Ready(t.Context()))
	c, err := tr.NewCompletion(1)
	require.NoError(t, err)
	local := make([]byte, 16)

	// Not bound: nothing works.
	require.ErrorIs(t, tr.Put(c, transport.Handle{ID: e.ID()}, local), transport.ErrUnknownEndpoint)
	if !lim.Rebind { // else an endpoint can be known before anything is behind it
		_, err = e.Export()
		require.Error(t, err)
	}
	require.Error(t, e.Unbind(0, size))
	// What can't be bound.
	require.ErrorIs(t, e.Bind(0, strangeMemory{}), transport.ErrUnsupported)
	require.ErrorIs(t, e.Bind(0, nil), transport.ErrUnsupported)
	require.ErrorIs(t, e.Bind(size, mem), transport.ErrBounds)
	require.Error(t, e.Bind(lim.BindAlign/2, mem))
	if small.Size() < size && !lim.Rebind {
		require.ErrorIs(t, e.Bind(0, small), transport.ErrBounds)
	}
	// Bound, taken away, bound again.
	require.NoError(t, e.Bind(0, mem))
	require.Error(t, e.Bind(0, mem), "twice")
	require.ErrorIs(t, e.Unbind(0, size/2), transport.ErrBounds)
	require.ErrorIs(t, e.Unbind(size, size), transport.ErrBounds)
	require.NoError(t, e.Unbind(0, size))
	require.ErrorIs(t, tr.Put(c, transport.Handle{ID: e.ID()}, local), transport.ErrUnknownEndpoint)
	require.NoError(t, e.Bind(0, mem))

	// Imported, more than once.
	in, again := importFrom(t, peer, e), importFrom(t, peer, e)
	require.NotEqual(t, in.ID(), again.ID())
	require.ErrorIs(t, in.Bind(0, mem), transport.ErrNotOwner)
	require.ErrorIs(t, in.Unbind(0, size), transport.ErrNotOwner)
	_, err = in.Export()
	require.ErrorIs(t, err, transport.ErrNotOwner)

	// One import destroyed leaves the other and the owner's memory as they are.
	pc, err := peer.NewCompletion(1)
	require.NoError(t, err)
	require.NoError(t, in.Destroy())
	require.ErrorIs(t, peer.Put(pc, transport.Handle{ID: in.ID()}, local), transport.ErrUnknownEndpoint)
	copy(local, "0123456789abcdef")
	require.NoError(t, peer.PutCounted(pc, transport.Handle{ID: again.ID(), Offset: 32}, local, 1024))
	finish(t, pc)
	require.Eventually(t, func() bool { return mem.Load(1024) == 16 }, patience, 1e6)
	tr.Fence(transport.FenceAcquire)
	require.Equal(t, local, mem.Bytes()[32:48])

	// The owner destroyed: its endpoint is unknown, its memory still its own.
	require.NoError(t, again.Destroy())
	require.NoError(t, e.Destroy())
	require.NoError(t, e.Destroy(), "again")
	require.ErrorIs(t, tr.Put(c, transport.Handle{ID: e.ID()}, local), transport.ErrUnknownEndpoint)
	_, err = e.Export()
	require.ErrorIs(t, err, transport.ErrUnknownEndpoint)
	require.ErrorIs(t, e.Bind(0, mem), transport.ErrUnknownEndpoint)
	require.Equal(t, local, mem.Bytes()[32:48])

	// The memory can be bound to another.
	next, err := tr.Create(transport.EndpointConfig{Size: size})
	require.NoError(t, err)
	require.NoError(t, next.Ready(t.Context()))
	require.NoError(t, next.Bind(0, mem))
	got := make([]byte, 16)
	last := importFrom(t, peer, next)
	require.NoError(t, peer.Get(pc, got, transport.Handle{ID: last.ID(), Offset: 32}))
	finish(t, pc)
	require.Equal(t, local, got)

	// Many endpoints at once, ids all different.
	ids := map[transport.EndpointID]bool{next.ID(): true}
	var many []transport.Endpoint
	for range 200 {
		e, err := tr.Create(transport.EndpointConfig{Size: size})
		require.NoError(t, err)
		require.False(t, ids[e.ID()], "id %d twice", e.ID())
		ids[e.ID()] = true
		many = append(many, e)
	}
	for _, e := range many {
		require.NoError(t, e.Destroy())
	}
}

// checkMalformedHandle changes every bit of a handle. An import of what is left
// is refused, or gives an endpoint that does not reach beyond the real one.
func checkMalformedHandle(t *testing.T, open New) {
	ts := openAll(t, open, 2)
	_, e := bind(t, ts[0], transport.EndpointConfig{Size: max(4096, ts[0].Limits().BindAlign)})
	try := func(change func(x *transport.Exported), what string, args ...any) {
		x, err := e.Export()
		require.NoError(t, err)
		change(&x)
		defer x.Close()
		in, err := ts[1].Import(x)
		if err != nil {
			require.ErrorIs(t, err, transport.ErrHandle, append([]any{what}, args...)...)
			require.Nil(t, in)
			return
		}
		require.LessOrEqual(t, in.Size(), e.Size(), append([]any{what}, args...)...)
		require.NoError(t, in.Destroy())
	}
	for i := range transport.HandleBytes {
		for bit := range 8 {
			try(func(x *transport.Exported) { x.Handle[i] ^= 1 << bit }, "byte %d, bit %d", i, bit)
		}
		try(func(x *transport.Exported) { x.Handle[i] = 0xff }, "byte %d all ones", i)
		try(func(x *transport.Exported) { clear(x.Handle[:i]) }, "%d zeros", i)
	}
	for _, x := range []transport.Exported{{}, {Ref: 1}, {Ref: (*int)(nil)}} {
		_, err := ts[1].Import(x)
		require.ErrorIs(t, err, transport.ErrHandle)
		x, err := e.Export()
		require.NoError(t, err)
		file, ref := x.File, x.Ref
		x.File, x.Ref = nil, nil
		if file != nil || ref != nil {
			_, err = ts[1].Import(x)
			require.ErrorIs(t, err, transport.ErrHandle, "without what belongs to it")
		}
		transport.Exported{File: file}.Close()
	}
}

func checkClose(t *testing.T, open New) {
	g := openGroup(t, open, 2, area)
	x, err := g.own[0].Export()
	require.NoError(t, err)
	defer x.Close()
	require.NoError(t, g.ts[1].Close())
	require.NoError(t, g.ts[1].Close(), "again")
	_, err = g.ts[1].Create(area)
	require.ErrorIs(t, err, transport.ErrClosed)
	_, err = g.ts[1].Import(x)
	require.ErrorIs(t, err, transport.ErrClosed)
	for _, id := range []transport.EndpointID{g.own[1].ID(), g.peer[1][0].ID()} {
		err := g.ts[1].Put(g.done[1], transport.Handle{ID: id}, make([]byte, 16))
		require.ErrorIs(t, err, transport.ErrUnknownEndpoint)
	}
	require.NoError(t, g.own[1].Destroy())
	require.NoError(t, g.peer[1][0].Destroy())
	g.check("of the other rank")
}

func checkMemory(t *testing.T, open New) {
	tr := openAll(t, open, 1)[0]
	for _, size := range []uint64{1, 8, 255, 256, 4095, 4096, 4097, 1 << 20} {
		m, err := tr.Alloc(size)
		require.NoError(t, err)
		require.GreaterOrEqual(t, m.Size(), size)
		require.Len(t, m.Bytes(), int(m.Size()))
		for i, b := range m.Bytes() {
			if b != 0 {
				require.Failf(t, "not zeroed", "%d bytes, at %d", size, i)
			}
		}
		m.Bytes()[m.Size()-1] = 1
		require.NotZero(t, m.Load(m.Size()-8))
		require.NoError(t, m.Free())
	}
	// No machine has as much: an error, and the process lives.
	for _, size := range []uint64{0, 1 << 44, 1 << 46, 1 << 47, 1 << 60, 1 << 62, 1 << 63, 1<<64 - 1, 1<<64 - 4096} {
		m, err := tr.Alloc(size)
		require.Error(t, err, "%d bytes", size)
		require.Nil(t, m)
	}
}

func checkMap(t *testing.T, open New) {
	rng := random(t)
	g := openGroup(t, open, 2, area)
	m, ok := g.ts[0].(transport.Mapper)
	if !ok {
		t.Skip("not mapped memory")
	}
	g.scramble(rng)
	id := g.peer[0][1].ID()
	all, err := m.Map(transport.Handle{ID: id}, area.Size)
	require.NoError(t, err)
	require.True(t, string(all) == string(g.want[1]))
	part, err := m.Map(transport.Handle{ID: id, Offset: 3}, 5)
	require.NoError(t, err)
	require.Equal(t, 5, cap(part))
	copy(part, "weft!")
	copy(g.want[1][3:], "weft!")
	g.check("written through a pointer")
	for _, c := range []struct{ off, n uint64 }{{area.Size, 1}, {0, area.Size + 1}, {1, area.Size}, {1<<64 - 1, 1}, {1<<64 - 1, 2}, {1, 1<<64 - 1}} {
		_, err := m.Map(transport.Handle{ID: id, Offset: c.off}, c.n)
		require.ErrorIs(t, err, transport.ErrBounds, "%d at %d", c.n, c.off)
	}
}
