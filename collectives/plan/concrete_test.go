package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// A world executes schedules with numbers, in a random interleaving: ranks are
// chosen by chance, and what a step does to replicas is interleaved as well. Each
// posting has memory of its own, which is written at any time until the next message;
// that says where it is. A world shares nothing with the verifier's machine, and checks
// only results.
type world struct {
	calls    [][]*Schedule // per call and rank
	n, cells int
	inPlace  []bool // per rank
	rng      *rand.Rand
	ranks    []*concrete
	queue    [][]packet
	taken    []int      // cells, per lane
	orders   [][]*order // per call
}

type packet struct {
	of    []uint64
	posts [Slots]int // the sender's
}

type concrete struct {
	call, step, micro int
	send, recv        []uint64
	scratch, multi    []uint64
	inbox             [][]uint64
	pulled            [][]uint64

	told    [][Slots]int // by rank: the number of the posting in each cell
	begun   [Slots]bool  // since the last message
	replica map[posting][]uint64
	flying  []flight
}

type posting struct{ owner, slot, number int }

// flight is what is put to the replica of a rank, and not yet there.
type flight struct {
	to       int
	dst, src Range
	posting
}

func hash(x, y uint64) uint64 { return (x*6364136223846793005 + y) ^ (x >> 31) }

// contribution is element i of what rank gives to a call.
func contribution(call, rank, i int) uint64 {
	return hash(hash(hash(12345, uint64(call)), uint64(rank)), uint64(i))
}

// reduced is an operation that keeps nothing of order, nesting and completeness
// from sight.
func reduced(list []uint64, complete bool) uint64 {
	h := list[0]
	for _, x := range list[1:] {
		h = hash(h, x)
	}
	if complete {
		h = hash(h, 77)
	}
	return hash(h, uint64(len(list)))
}

func newWorld(seed uint64, calls ...[]*Schedule) *world {
	n := len(calls[0])
	w := &world{calls: calls, n: n, cells: calls[0][0].Shape.Cells, rng: rand.New(rand.NewPCG(seed, 1)), queue: make([][]packet, n*n), taken: make([]int, n*n)}
	multi := 0
	for _, x := range calls {
		s := x[0].Shape
		var orders []*order
		if s.Collective.reduces() && s.Count > 0 {
			a, _ := Lookup(s.Collective, x[0].Algorithm)
			orders = a.order(s)
		}
		w.orders = append(w.orders, orders)
		multi = max(multi, x[0].MultiElems)
	}
	for r := range n {
		w.inPlace = append(w.inPlace, w.rng.IntN(2) == 0)
		w.ranks = append(w.ranks, &concrete{multi: make([]uint64, multi), inbox: make([][]uint64, n), told: make([][Slots]int, n), replica: map[posting][]uint64{}})
		w.begin(r)
	}
	return w
}

// now is the schedule of the call in which a rank is.
func (w *world) now(r int) *Schedule { return w.calls[w.ranks[r].call][r] }

func (w *world) begin(r int) {
	c, s := w.ranks[r], w.now(r).Shape
	c.recv, c.send = make([]uint64, s.recvElems(r)), make([]uint64, s.sendElems(r))
	c.scratch = make([]uint64, w.now(r).ScratchElems)
	if w.inPlace[r] && len(c.recv) > 0 && len(c.send) > 0 {
		own := func(of []uint64) []uint64 { return of[r*s.Count : (r+1)*s.Count] }
		switch s.Collective {
		case AllGather, Gather:
			c.send = own(c.recv)
		case Scatter, ReduceScatter:
			c.recv = own(c.send)
		default:
			c.send = c.recv
		}
	}
	for i := range c.send {
		c.send[i] = contribution(c.call, r, i)
	}
	if s.Collective == Broadcast && r == s.Root {
		for i := range c.recv {
			c.recv[i] = contribution(c.call, r, i)
		}
	}
}

func (w *world) at(r int, x Range) []uint64 {
	c := w.ranks[r]
	switch x.Buf {
	case Send:
		return c.send[x.From:x.To]
	case Recv:
		return c.recv[x.From:x.To]
	case Scratch:
		return c.scratch[x.From:x.To]
	case Multi:
		return c.multi[x.From:x.To]
	case Board:
		cell := w.now(r).CellElems
		slot := x.From / cell
		return c.replica[posting{x.Peer, slot, c.told[x.Peer][slot]}][x.From-slot*cell : x.To-slot*cell]
	}
	return c.inbox[x.Peer][x.From:x.To]
}

// run returns what went wrong.
func (w *world) run() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	for idle := 0; idle < 50*w.n; {
		r := w.rng.IntN(w.n)
		moved := false
		for range w.rng.IntN(6) + 1 {
			if !w.advance(r) {
				break
			}
			moved = true
		}
		if moved {
			idle = 0
		} else {
			idle++
		}
	}
	for r, c := range w.ranks {
		if c.call != len(w.calls) {
			return fmt.Errorf("rank %d is stuck at step %d of call %d", r, c.step, c.call)
		}
	}
	return nil
}

func (w *world) advance(r int) bool {
	c := w.ranks[r]
	if c.call == len(w.calls) {
		return false
	}
	steps := w.now(r).Steps
	if len(c.flying) > 0 && (w.rng.IntN(3) == 0 || c.step == len(steps) || steps[c.step].Kind == Put) {
		w.land(r)
		return true
	}
	if c.step == len(steps) {
		c.begun = [Slots]bool{}
		w.check(r)
		w.kept(r)
		c.call, c.step = c.call+1, 0
		if c.call < len(w.calls) {
			w.begin(r)
		}
		return true
	}
	x := steps[c.step]
	out, in := r*w.n+x.Peer, x.Peer*w.n+r
	switch x.Kind {
	case Put:
		if w.taken[out] == w.cells {
			return false
		}
		w.taken[out]++
		c.begun = [Slots]bool{}
		w.queue[out] = append(w.queue[out], packet{slices.Clone(w.at(r, x.Srcs[0])), c.told[r]})
	case Wait:
		if len(w.queue[in]) == 0 {
			return false
		}
		c.inbox[x.Peer], c.told[x.Peer], w.queue[in] = w.queue[in][0].of, w.queue[in][0].posts, w.queue[in][1:]
		if len(c.inbox[x.Peer]) != x.Elems {
			panic("length")
		}
	case Release:
		clear(c.inbox[x.Peer])
		w.taken[in]--
	case Copy:
		copy(w.at(r, x.Dst), w.at(r, x.Srcs[0]))
	case Combine:
		w.reduce(r, x, func(k int) []uint64 { return w.at(r, x.Srcs[k]) }, len(x.Srcs))
	case PutMulti:
		slot := x.Dst.From / w.now(r).CellElems
		if !c.begun[slot] {
			c.begun[slot] = true
			c.told[r][slot]++
			for _, q := range w.ranks {
				q.replica[posting{r, slot, c.told[r][slot]}] = make([]uint64, w.now(r).CellElems)
				delete(q.replica, posting{r, slot, c.told[r][slot] - 1})
			}
		}
		for to := range w.n {
			c.flying = append(c.flying, flight{to, x.Dst, x.Srcs[0], posting{r, slot, c.told[r][slot]}})
		}
	case PullReduce:
		c.pulled = append(c.pulled, slices.Clone(w.at(c.micro, x.Srcs[0])))
		if c.micro++; c.micro < w.n {
			return true
		}
		w.reduce(r, x, func(k int) []uint64 { return c.pulled[k] }, w.n)
		c.pulled = nil
	}
	c.micro = 0
	c.step++
	return true
}

// land has something that a rank put to all arrive in one replica.
func (w *world) land(r int) {
	c := w.ranks[r]
	i := w.rng.IntN(len(c.flying))
	f := c.flying[i]
	c.flying = slices.Delete(c.flying, i, i+1)
	at := f.dst.From - f.slot*w.now(r).CellElems
	copy(w.ranks[f.to].replica[f.posting][at:at+f.dst.Len()], w.at(r, f.src))
}

func (w *world) reduce(r int, x Step, src func(k int) []uint64, n int) {
	for i := range x.Dst.Len() {
		list := make([]uint64, n)
		for k := range list {
			list[k] = src(k)[i]
		}
		w.at(r, x.Dst)[i] = reduced(list, x.Complete)
	}
}

func (w *world) check(r int) {
	c, s := w.ranks[r], w.now(r).Shape
	for i, got := range c.recv {
		var want uint64
		switch s.Collective {
		case Broadcast:
			want = contribution(c.call, s.Root, i)
		case AllGather, Gather:
			want = contribution(c.call, i/s.Count, i%s.Count)
		case Scatter:
			want = contribution(c.call, s.Root, r*s.Count+i)
		case AllToAll:
			want = contribution(c.call, i/s.Count, r*s.Count+i%s.Count)
		default:
			want = contribution(c.call, 0, i)
			if s.Ranks > 1 {
				elem, complete := i, true
				switch s.Collective {
				case ReduceScatter:
					elem = r*s.Count + i
				case Scan, Exscan:
					complete = false
				}
				want = w.ordered(w.orders[c.call][s.result(r, i)], c.call, elem, complete)
			}
		}
		if got != want {
			panic(fmt.Sprintf("rank %d has %d in recv[%d], not %d", r, got, i, want))
		}
	}
}

// kept checks that nothing of Send but the result was written to.
func (w *world) kept(r int) {
	c, s := w.ranks[r], w.now(r).Shape
	shared := w.inPlace[r] && len(c.recv) > 0
	for i, got := range c.send {
		result := shared && (len(c.send) <= len(c.recv) || i/s.Count == r)
		if !result && got != contribution(c.call, r, i) {
			panic(fmt.Sprintf("rank %d has changed send[%d]", r, i))
		}
	}
}

func (w *world) ordered(o *order, call, i int, top bool) uint64 {
	if o.of == nil {
		return contribution(call, o.rank, i)
	}
	var list []uint64
	for _, x := range o.of {
		list = append(list, w.ordered(x, call, i, false))
	}
	return reduced(list, top)
}
