package mailbox

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/kernels"
)

// These tests run random programs of sends, receives and waits, over a network
// and with a scheduler that take any order, and compare with two references: one
// that hears in which order things happened at each rank and matches by MPI's
// rules, and one that knows the program only, for programs without AnySource, whose
// result does not depend on the order.

// An op is a step of a rank's program.
type op struct {
	kind   opKind
	peer   int // AnySource too
	tag    int
	bytes  int // of a send's data, of a receive's room
	waited int // wait: index of the op that is waited for
}

type opKind uint8

const (
	sendOp opKind = iota
	recvOp
	waitOp
)

func (o op) String() string {
	switch o.kind {
	case sendOp:
		return fmt.Sprintf("send(to %d, tag %d, %d bytes)", o.peer, o.tag, o.bytes)
	case recvOp:
		return fmt.Sprintf("recv(from %d, tag %d, room %d)", o.peer, o.tag, o.bytes)
	}
	return fmt.Sprintf("wait(%d)", o.waited)
}

// A name is an op of a rank.
type name struct{ rank, op int }

// payload is the data of a send.
func payload(n name, bytes int) []byte {
	rng := rand.New(rand.NewPCG(uint64(n.rank), uint64(n.op)))
	b := make([]byte, bytes+8)
	for o := 0; o < bytes; o += 8 {
		binary.LittleEndian.PutUint64(b[o:], rng.Uint64())
	}
	return b[:bytes]
}

var bytesElem = Elem{kernels.TypeUint8, 1}

// world runs the programs of all ranks.
type world struct {
	t         *testing.T
	rng       *rand.Rand
	programs  [][]op
	bodyBytes int
	net       *network
	boxes     []*Mailbox
	next      []int        // op of each rank
	requests  [][]*Request // of each op
	finished  map[*Request]int

	reference reference
}

func newWorld(t *testing.T, rng *rand.Rand, programs [][]op, cells, bodyBytes int) *world {
	n := len(programs)
	w := &world{t: t, rng: rng, programs: programs, bodyBytes: bodyBytes, net: newNetwork(n, cells),
		next: make([]int, n), finished: map[*Request]int{}, reference: newReference(programs)}
	w.net.onPoll = func(from, to int, msg []byte) {
		if k := kind(msg[0]); k == eager || k == envelope {
			w.reference.arrives(from, to)
		}
	}
	for r := range programs {
		w.requests = append(w.requests, make([]*Request, len(programs[r])))
		box, err := New(Config{Rank: r, Ranks: n, Net: end{w.net, r}, BodyBytes: bodyBytes, Done: func(r *Request) { w.finished[r]++ }})
		require.NoError(t, err)
		w.boxes = append(w.boxes, box)
	}
	return w
}

// advance does a rank's next op, if it does not wait.
func (w *world) advance(rank int) bool {
	i := w.next[rank]
	if i == len(w.programs[rank]) {
		return false
	}
	o := w.programs[rank][i]
	switch o.kind {
	case waitOp:
		if !w.requests[rank][o.waited].Done() {
			return false
		}
	case sendOp:
		r := &Request{Peer: o.peer, Tag: o.tag, Buf: payload(name{rank, i}, o.bytes), Elem: bytesElem}
		w.requests[rank][i] = r
		w.reference.starts(name{rank, i})
		w.boxes[rank].Send(r)
	case recvOp:
		r := &Request{Peer: o.peer, Tag: o.tag, Buf: make([]byte, o.bytes), Elem: bytesElem}
		w.requests[rank][i] = r
		w.reference.posts(name{rank, i})
		w.boxes[rank].Recv(r)
	}
	w.next[rank]++
	return true
}

// run goes on in a random order until nothing moves any more.
func (w *world) run() {
	n := len(w.programs)
	for idle := 0; idle < 2; {
		moved := false
		for range 4 * n {
			rank, other := w.rng.IntN(n), w.rng.IntN(n)
			switch w.rng.IntN(3) {
			case 0:
				moved = w.advance(rank) || moved
			case 1:
				moved = w.step(rank) || moved
			default:
				moved = w.net.deliver(rank, other) || moved
			}
		}
		if moved {
			idle = 0
			continue
		}
		// Chance moved nothing: everybody has a turn.
		w.net.deliverAll()
		for rank := range n {
			moved = w.step(rank) || moved
			moved = w.advance(rank) || moved
		}
		if idle++; moved {
			idle = 0
		}
	}
}

func (w *world) step(rank int) bool {
	news, err := w.boxes[rank].Step()
	require.NoError(w.t, err)
	return news
}

// check compares what happened with the first reference: what matched is done,
// and so are eager sends; nothing else is.
func (w *world) check() {
	for rank, ops := range w.programs {
		outstanding := 0
		for i := range w.next[rank] {
			o, r := ops[i], w.requests[rank][i]
			if o.kind == waitOp {
				continue
			}
			partner, matched := w.reference.partner[name{rank, i}]
			want := matched || o.kind == sendOp && o.bytes <= w.bodyBytes
			require.Equal(w.t, want, r.Done(), "rank %d op %d: %v, matched with %v", rank, i, o, partner)
			if !want {
				outstanding++
				require.Zero(w.t, w.finished[r])
				continue
			}
			require.Equal(w.t, 1, w.finished[r])
			require.NoError(w.t, r.Err)
			if o.kind == recvOp {
				w.checkReceived(r, partner)
			}
		}
		require.Equal(w.t, outstanding, w.boxes[rank].Outstanding())
	}
}

func (w *world) checkReceived(r *Request, from name) {
	sent := w.programs[from.rank][from.op]
	require.Equal(w.t, Status{Source: from.rank, Tag: sent.tag, Bytes: sent.bytes}, r.Status)
	require.Equal(w.t, payload(from, sent.bytes), r.Buf[:sent.bytes])
	require.Equal(w.t, make([]byte, len(r.Buf)-sent.bytes), r.Buf[sent.bytes:], "beyond the message")
}

// reference matches by what it hears, as MPI's rules say.
type reference struct {
	programs [][]op
	onTheWay map[[2]int][]name // started sends from one rank to another
	arrived  [][]name          // at each rank, without a receive
	posted   [][]name          // at each rank, without a message
	partner  map[name]name
}

func newReference(programs [][]op) reference {
	n := len(programs)
	return reference{programs, map[[2]int][]name{}, make([][]name, n), make([][]name, n), map[name]name{}}
}

func (f *reference) op(n name) op { return f.programs[n.rank][n.op] }

func (f *reference) matches(send, recv name) bool {
	s, r := f.op(send), f.op(recv)
	return (r.peer == -1 || r.peer == send.rank) && (r.tag == -1 || r.tag == s.tag)
}

func (f *reference) pair(send, recv name) {
	f.partner[send], f.partner[recv] = recv, send
}

func (f *reference) starts(send name) {
	to := f.op(send).peer
	f.onTheWay[[2]int{send.rank, to}] = append(f.onTheWay[[2]int{send.rank, to}], send)
	if to == send.rank {
		f.arrives(to, to)
	}
}

func (f *reference) arrives(from, to int) {
	send := f.onTheWay[[2]int{from, to}][0]
	f.onTheWay[[2]int{from, to}] = f.onTheWay[[2]int{from, to}][1:]
	for i, recv := range f.posted[to] {
		if f.matches(send, recv) {
			f.posted[to] = slices.Delete(f.posted[to], i, i+1)
			f.pair(send, recv)
			return
		}
	}
	f.arrived[to] = append(f.arrived[to], send)
}

func (f *reference) posts(recv name) {
	for i, send := range f.arrived[recv.rank] {
		if f.matches(send, recv) {
			f.arrived[recv.rank] = slices.Delete(f.arrived[recv.rank], i, i+1)
			f.pair(send, recv)
			return
		}
	}
	f.posted[recv.rank] = append(f.posted[recv.rank], recv)
}

// byProgram returns the partner of each receive of programs without AnySource:
// the first send of its source, in the order of the program, that matches it and
// that no earlier receive has.
func byProgram(programs [][]op) (partner map[name]name, complete bool) {
	partner, complete = map[name]name{}, true
	taken := map[name]bool{}
	sends := 0
	for rank, ops := range programs {
	receives:
		for i, o := range ops {
			if o.kind == sendOp {
				sends++
			}
			if o.kind != recvOp {
				continue
			}
			for j, s := range programs[o.peer] {
				send := name{o.peer, j}
				if s.kind == sendOp && s.peer == rank && (o.tag == -1 || o.tag == s.tag) && !taken[send] {
					taken[send] = true
					partner[name{rank, i}] = send
					continue receives
				}
			}
			complete = false
		}
	}
	return partner, complete && len(partner) == sends
}

// TestAnyProgram runs programs that may well wait for ever, and wants exactly
// what has to wait to do so.
func TestAnyProgram(t *testing.T) {
	eachSeed(t, 1500, func(t *testing.T, rng *rand.Rand) {
		n, body, cells := 1+rng.IntN(5), 1+rng.IntN(40), 1+rng.IntN(4)
		most := 4 * body
		programs := make([][]op, n)
		for rank := range programs {
			var open []int
			for i := range rng.IntN(40) {
				o := op{peer: rng.IntN(n), tag: rng.IntN(3), bytes: length(rng, body, most)}
				switch k := rng.IntN(10); {
				case k < 4:
				case k < 8:
					o.kind, o.bytes = recvOp, most+rng.IntN(3)
					if rng.IntN(3) == 0 {
						o.peer = AnySource
					}
					if rng.IntN(3) == 0 {
						o.tag = AnyTag
					}
				case len(open) == 0:
				default:
					at := rng.IntN(len(open))
					o = op{kind: waitOp, waited: open[at]}
					open = slices.Delete(open, at, at+1)
				}
				if o.kind != waitOp {
					open = append(open, i)
				}
				programs[rank] = append(programs[rank], o)
			}
		}
		w := newWorld(t, rng, programs, cells, body)
		w.run()
		w.check()
	})
}

// length is one of all kinds of length.
func length(rng *rand.Rand, body, most int) int {
	switch rng.IntN(5) {
	case 0:
		return 0
	case 1:
		return max(0, body-1+rng.IntN(3))
	case 2:
		return min(most, 2*body-1+rng.IntN(3))
	}
	return rng.IntN(most + 1)
}

// TestRounds runs programs that MPI would bring to an end, blocking sends and
// receives among them, and wants them at their end with what the program alone says.
func TestRounds(t *testing.T) {
	eachSeed(t, 1000, func(t *testing.T, rng *rand.Rand) {
		n, body, cells := 1+rng.IntN(5), 1+rng.IntN(40), 1+rng.IntN(3)
		most := 5 * body
		programs := make([][]op, n)
		var left [][]int // of each rank: what is waited for in a later round
		left = make([][]int, n)
		for range 1 + rng.IntN(4) {
			programs, left = round(rng, programs, left, body, most)
		}
		for rank := range programs {
			for _, i := range left[rank] {
				programs[rank] = append(programs[rank], op{kind: waitOp, waited: i})
			}
		}
		w := newWorld(t, rng, programs, cells, body)
		w.run()
		w.check()
		want, complete := byProgram(programs)
		require.True(t, complete)
		for rank, ops := range programs {
			require.Equal(t, len(ops), w.next[rank], "rank %d is stuck in %v", rank, ops)
			for i, o := range ops {
				if o.kind == recvOp {
					w.checkReceived(w.requests[rank][i], want[name{rank, i}])
				}
			}
		}
	})
}

// round appends to each program sends, and receives that take them all, and then
// waits for most of them.
func round(rng *rand.Rand, programs [][]op, left [][]int, body, most int) ([][]op, [][]int) {
	n := len(programs)
	for {
		next := make([][]op, n)
		for range rng.IntN(12) {
			from, to := rng.IntN(n), rng.IntN(n)
			send := op{peer: to, tag: rng.IntN(3), bytes: length(rng, body, most)}
			recv := op{kind: recvOp, peer: from, tag: send.tag, bytes: most + rng.IntN(3)}
			if rng.IntN(3) == 0 {
				recv.tag = AnyTag
			}
			next[from] = append(next[from], send)
			next[to] = append(next[to], recv)
		}
		waiting := make([][]int, n)
		for rank := range next {
			rng.Shuffle(len(next[rank]), func(i, j int) { next[rank][i], next[rank][j] = next[rank][j], next[rank][i] })
			var ops []op
			start := len(programs[rank])
			for _, o := range next[rank] {
				ops = append(ops, o)
				at := start + len(ops) - 1
				if o.kind == sendOp && o.bytes <= body && rng.IntN(2) == 0 {
					ops = append(ops, op{kind: waitOp, waited: at}) // a blocking send: MPI buffers it
				} else {
					waiting[rank] = append(waiting[rank], at)
				}
			}
			waiting[rank] = append(waiting[rank], left[rank]...)
			next[rank] = append(slices.Clone(programs[rank]), ops...)
		}
		if _, complete := byProgram(next); !complete {
			continue // a wildcard took what another receive needed
		}
		left = make([][]int, n)
		for rank := range next {
			rng.Shuffle(len(waiting[rank]), func(i, j int) {
				waiting[rank][i], waiting[rank][j] = waiting[rank][j], waiting[rank][i]
			})
			for _, i := range waiting[rank] {
				if rng.IntN(5) == 0 {
					left[rank] = append(left[rank], i)
				} else {
					next[rank] = append(next[rank], op{kind: waitOp, waited: i})
				}
			}
		}
		return next, left
	}
}

func eachSeed(t *testing.T, n int, f func(t *testing.T, rng *rand.Rand)) {
	base := rand.Uint64()
	for i := range n {
		seed := base + uint64(i)
		if !t.Run(fmt.Sprintf("seed=%#x", seed), func(t *testing.T) { f(t, rand.New(rand.NewPCG(seed, 0))) }) {
			return
		}
	}
}
