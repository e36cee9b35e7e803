package transporttest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
)

// An operation is one of the contract's, with everything that a check does not
// vary filled in.
type operation struct {
	name               string
	multicast, counted bool
	bytewise           bool // counts its transactions in bytes
	start              func(tr transport.Transport, c transport.Completion, h transport.Handle, local []byte, counter uint64) error
}

// ranged are the operations on a range of local bytes; Atom is apart.
var ranged = []operation{
	{name: "Put", start: func(tr transport.Transport, c transport.Completion, h transport.Handle, b []byte, _ uint64) error {
		return tr.Put(c, h, b)
	}},
	{name: "PutMasked", start: func(tr transport.Transport, c transport.Completion, h transport.Handle, b []byte, _ uint64) error {
		return tr.PutMasked(c, h, b, 0x7fff)
	}},
	{name: "PutCounted", counted: true, start: func(tr transport.Transport, c transport.Completion, h transport.Handle, b []byte, n uint64) error {
		return tr.PutCounted(c, h, b, n)
	}},
	{name: "PutMultimem", multicast: true, start: func(tr transport.Transport, c transport.Completion, h transport.Handle, b []byte, _ uint64) error {
		return tr.PutMultimem(c, h, b)
	}},
	{name: "PutCountedMultimem", multicast: true, counted: true, start: func(tr transport.Transport, c transport.Completion, h transport.Handle, b []byte, n uint64) error {
		return tr.PutCountedMultimem(c, h, b, n)
	}},
	{name: "Get", bytewise: true, start: func(tr transport.Transport, c transport.Completion, h transport.Handle, b []byte, _ uint64) error {
		return tr.Get(c, b, h)
	}},
	{name: "Red", start: func(tr transport.Transport, c transport.Completion, h transport.Handle, b []byte, _ uint64) error {
		return tr.Red(c, h, b, transport.RedAdd, kernels.TypeUint32)
	}},
	{name: "RedCounted", counted: true, start: func(tr transport.Transport, c transport.Completion, h transport.Handle, b []byte, n uint64) error {
		return tr.RedCounted(c, h, b, transport.RedXor, kernels.TypeUint64, n)
	}},
	{name: "RedMultimem", multicast: true, start: func(tr transport.Transport, c transport.Completion, h transport.Handle, b []byte, _ uint64) error {
		return tr.RedMultimem(c, h, b, transport.RedAdd, kernels.TypeUint64)
	}},
	{name: "PullRed", multicast: true, bytewise: true, start: func(tr transport.Transport, c transport.Completion, h transport.Handle, b []byte, _ uint64) error {
		return tr.PullRed(c, b, h, transport.RedAdd, kernels.TypeUint64)
	}},
}

// checkMisuse wants every use that the contract forbids refused by the right
// error, and nothing started.
func checkMisuse(t *testing.T, open New) {
	rng := random(t)
	room := roomFor(t, open)
	cfg := transport.EndpointConfig{Size: room, Counted: true}
	g := openGroup(t, open, 2, cfg)
	plain := openGroup(t, open, 2, transport.EndpointConfig{Size: 4096})
	multi := openMulticast(t, open, 2, cfg)
	g.scramble(rng)
	multi.scramble(rng)

	counter := room / 2 / transport.CounterAlign * transport.CounterAlign
	for i, op := range ranged {
		if raceEnabled && i%7 != 0 { // nothing happens at the same time
			continue
		}
		t.Run(op.name, func(t *testing.T) {
			on := g
			id, other := g.peer[0][1].ID(), multi.all[0].ID()
			otherT := multi.ts[0]
			if op.multicast {
				on, id, other, otherT = &multi.group, multi.all[0].ID(), g.peer[0][1].ID(), g.ts[0]
			}
			tr, c := on.ts[0], on.done[0]
			for _, m := range []struct {
				name    string
				off     uint64
				n       int
				counter uint64
				want    error
				counted bool // only for counted operations
			}{
				{"length", 0, 17, counter, transport.ErrAlign, false},
				{"length below a unit", 0, 8, counter, transport.ErrAlign, false},
				{"offset", 8, 16, counter, transport.ErrAlign, false},
				{"odd offset", 1, 16, counter, transport.ErrAlign, false},
				{"beyond the end", room, 16, counter, transport.ErrBounds, false},
				{"over the end", room - 16, 32, counter, transport.ErrBounds, false},
				{"far beyond the end", math.MaxUint64 - 15, 16, counter, transport.ErrBounds, false},
				{"around the end of all offsets", math.MaxUint64 - 15, 32, counter, transport.ErrBounds, false},
				{"counter's alignment", 0, 16, counter + 8, transport.ErrAlign, true},
				{"counter of half a line", 0, 16, counter + 128, transport.ErrAlign, true},
				{"counter at the largest number", 0, 16, math.MaxUint64, transport.ErrAlign, true},
				{"counter beyond the end", 0, 16, room, transport.ErrBounds, true},
				{"counter far beyond the end", 0, 16, math.MaxUint64 - 255, transport.ErrBounds, true},
				{"counter in the data", counter - 16, 32, counter, transport.ErrBounds, true},
				{"counter is the data", counter, 16, counter, transport.ErrBounds, true},
				{"counter inside the data", counter - 4096, 8192, counter, transport.ErrBounds, true},
			} {
				if m.counted && !op.counted {
					continue
				}
				local := unaligned(m.n)
				fill(rng, local)
				before := append([]byte(nil), local...)
				err := op.start(tr, c, transport.Handle{ID: id, Offset: m.off}, local, m.counter)
				require.ErrorIs(t, err, m.want, m.name)
				require.Equal(t, before, local, m.name)
			}
			local := make([]byte, 16)
			require.ErrorIs(t, op.start(otherT, g.doneOf(otherT, multi), transport.Handle{ID: other}, local, counter), transport.ErrUnsupported, "uni- and multicast")
			require.ErrorIs(t, op.start(tr, foreign{}, transport.Handle{ID: id}, local, counter), transport.ErrUnsupported, "foreign completion")
			require.Error(t, op.start(tr, nil, transport.Handle{ID: id}, local, counter), "no completion")
			if op.counted && !op.multicast {
				require.ErrorIs(t, op.start(plain.ts[0], plain.done[0], transport.Handle{ID: plain.peer[0][1].ID()}, local, 1024), transport.ErrUnsupported, "uncounted endpoint")
			}
			on.check("after refused operations")

			// The phase has room for all that a phase may hold: nothing was booked.
			units := 1
			if op.bytewise {
				units = transport.Granule
			}
			// The counter lies behind its data.
			rest := make([]byte, transport.MaxPutBytes-units*transport.Granule)
			require.NoError(t, inChunks(len(rest), room-transport.CounterAlign, func(n int) error {
				if op.multicast {
					return tr.PutMultimem(c, transport.Handle{ID: id}, rest[:n])
				}
				return tr.Put(c, transport.Handle{ID: id}, rest[:n])
			}))
			require.NoError(t, op.start(tr, c, transport.Handle{ID: id}, local, room-transport.CounterAlign))
			finish(t, c)
			for r := range on.want { // what it did is of no interest here
				copy(on.want[r], on.mem[r].Bytes())
			}
		})
	}
	plain.check("uncounted endpoint")
}

// roomFor returns the size of an endpoint that a whole phase of puts goes into, or the
// largest that there may be.
func roomFor(t testing.TB, open New) uint64 {
	lim := openAll(t, open, 1)[0].Limits()
	room := uint64(transport.MaxPutBytes/transport.CounterAlign*transport.CounterAlign + 2*transport.CounterAlign)
	room = (room + lim.BindAlign - 1) / lim.BindAlign * lim.BindAlign
	if most := lim.MaxEndpointBytes; most != 0 && most < room {
		room = most / lim.BindAlign * lim.BindAlign
	}
	return room
}

// inChunks does n bytes in operations of at most so many.
func inChunks(n int, most uint64, do func(n int) error) error {
	for n > 0 {
		k := int(min(uint64(n), most))
		if err := do(k); err != nil {
			return err
		}
		n -= k
	}
	return nil
}

// doneOf returns the completion of rank 0 in the group that tr belongs to.
func (g *group) doneOf(tr transport.Transport, m *multigroup) transport.Completion {
	if tr == g.ts[0] {
		return g.done[0]
	}
	return m.done[0]
}

// foreign is a completion of no transport.
type foreign struct{}

func (foreign) Submit() error                     { return nil }
func (foreign) Arrive() error                     { return nil }
func (foreign) Test() bool                        { return true }
func (foreign) Report() (transport.Report, error) { return transport.Report{}, nil }

func checkUnknownEndpoint(t *testing.T, open New) {
	g := openGroup(t, open, 2, area)
	tr, c := g.ts[0], g.done[0]
	gone := importFrom(t, tr, g.own[1])
	require.NoError(t, gone.Destroy())
	require.NoError(t, gone.Destroy(), "again")
	unbound, err := tr.Create(area)
	require.NoError(t, err)
	local := make([]byte, 16)
	for _, id := range []transport.EndpointID{gone.ID(), 4711, 1 << 31, math.MaxUint32, unbound.ID()} {
		if id == gone.ID() && id == unbound.ID() {
			continue // the id was given again
		}
		h := transport.Handle{ID: id}
		for _, op := range ranged {
			require.ErrorIs(t, op.start(tr, c, h, local, 1024), transport.ErrUnknownEndpoint, "%s, id %d", op.name, id)
		}
		require.ErrorIs(t, tr.Atom(c, local, h, local, transport.RedAdd, kernels.TypeUint64), transport.ErrUnknownEndpoint)
		if m, ok := tr.(transport.Mapper); ok {
			_, err := m.Map(h, 16)
			require.ErrorIs(t, err, transport.ErrUnknownEndpoint)
		}
	}
	g.check("after refused operations")
}

// checkTransactions fills phases to the brim.
func checkTransactions(t *testing.T, open New) {
	room := roomFor(t, open)
	g := openGroup(t, open, 2, transport.EndpointConfig{Size: room, Counted: true})
	tr, c := g.ts[0], g.done[0]
	h := transport.Handle{ID: g.peer[0][1].ID()}
	big := make([]byte, room)
	put := func(n int) error {
		return inChunks(n, room, func(n int) error { return tr.Put(c, h, big[:n]) })
	}
	red := func(n int) error {
		return inChunks(n, room, func(n int) error { return tr.Red(c, h, big[:n], transport.RedOr, kernels.TypeUint32) })
	}
	get := func(n int) error {
		return inChunks(n, room, func(n int) error { return tr.Get(c, big[:n], h) })
	}
	atom := func(int) error { return tr.Atom(c, big[:8], h, big[:8], transport.RedAdd, kernels.TypeUint64) }

	type step struct {
		start func(int) error
		n     int
	}
	for _, phase := range []struct {
		name  string
		fits  []step
		extra []step // each is one too many
	}{
		{"one put", []step{{put, transport.MaxPutBytes}}, []step{{put, 16}, {red, 16}, {get, 16}, {atom, 0}}},
		{"put too large", nil, []step{{put, transport.MaxPutBytes + 16}, {red, transport.MaxPutBytes + 16}, {get, transport.MaxGetBytes + 16}}},
		{"one get", []step{{get, transport.MaxGetBytes}}, []step{{get, 16}, {put, 16 * 16}}},
		{"get and the rest in units", []step{{get, transport.MaxGetBytes}, {put, 16 * 15}}, []step{{put, 16}, {atom, 0}}},
		{"puts, reds, atoms", []step{{put, transport.MaxPutBytes - 64}, {red, 32}, {atom, 0}, {atom, 0}}, []step{{atom, 0}, {put, 16}, {get, 16}}},
	} {
		for _, s := range phase.extra {
			for _, f := range phase.fits {
				require.NoError(t, f.start(f.n), phase.name)
			}
			require.ErrorIs(t, s.start(s.n), transport.ErrTransactions, phase.name)
			finish(t, c)
		}
	}
}

func checkCompletion(t *testing.T, open New) {
	g := openGroup(t, open, 2, area)
	tr := g.ts[0]
	h := transport.Handle{ID: g.peer[0][1].ID(), Offset: dataAt}
	for _, n := range []int{-1, 0, transport.MaxArrivals + 1, math.MaxInt} {
		_, err := tr.NewCompletion(n)
		require.ErrorIs(t, err, transport.ErrBounds, "%d arrivals", n)
	}
	local := make([]byte, 16)
	for _, n := range []int{1, 2, 3, 16, transport.MaxArrivals} {
		c, err := tr.NewCompletion(n)
		require.NoError(t, err)
		for phase := range 3 {
			outOfTurn := func() {
				require.False(t, c.Test())
				_, err := c.Report()
				require.ErrorIs(t, err, transport.ErrPhase)
			}
			for range n - 1 {
				outOfTurn()
				require.NoError(t, tr.Put(c, h, local), "operations are taken until the last arrival")
				require.NoError(t, c.Arrive())
			}
			outOfTurn()
			require.NoError(t, tr.Put(c, h, local))
			if phase == 1 { // arrive before the last submit, as far as the transport allows it
				early := c.Arrive()
				outOfTurn()
				require.NoError(t, c.Submit())
				if early != nil {
					require.ErrorIs(t, early, transport.ErrPhase)
					require.NoError(t, c.Arrive())
				}
			} else {
				require.NoError(t, c.Submit())
				outOfTurn()
				require.NoError(t, c.Arrive())
			}
			require.ErrorIs(t, c.Arrive(), transport.ErrPhase)
			for _, op := range ranged {
				if !op.multicast {
					require.ErrorIs(t, op.start(tr, c, h, local, counterAt), transport.ErrPhase, op.name)
				}
			}
			waitDone(t, c)
		}
	}
	// A phase need not hold anything; and completions are used for ever.
	c, err := tr.NewCompletion(1)
	require.NoError(t, err)
	require.NoError(t, c.Arrive())
	waitDone(t, c)
	for range 5000 {
		require.NoError(t, tr.PutCounted(c, h, local, counterAt))
		g.counted(1, counterAt, 16)
		finish(t, c)
	}
	g.check("after many phases")
}
