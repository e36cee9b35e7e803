package collectives

import (
	"math"

	"github.com/weft-go/weft/collectives/plan"
	"github.com/weft-go/weft/internal/cache"
	"github.com/weft-go/weft/transport/progress"
)

// Calls on ordinary slices, where all memory is mapped: each rank copies what others need
// of its slices into its stage, a chunk in each round, and they read it there. Nothing is
// copied for each peer, nothing is acknowledged, and a rank is some rounds ahead of what it
// waits for, so that nobody waits for a handshake. Stages stay in the cache.
//
// S bytes per rank, n ranks; what one rank reads and writes:
//
//	AllReduce      at once: S and S into the stage; n·S and S for the result
//	               in two: as much for each but the own share of 1/n, which is read from src
//	               only and written to dst and the stage, and then (n−1)·S/n and as much for
//	               the others' shares of the result
//	ReduceScatter  (n−1)·S and as much, S being the size of a block; n·S and S
//	AllGather      S and S; n·S and n·S
//	AllToAll       S and S; S and S
//	Broadcast      root: S and S; others: S and S
//	Reduce         root: n·S and S; others: S and S
//	Gather         root: n·S and n·S; others: S and S
//	Scatter        root: n·S and n·S; others: S and S
//
// Scan and Exscan are in stagedchain.go.
//
// The own slices being read directly, and no part of them twice from memory: that is the
// idea of movement-avoiding reductions (YHCCL).

// stagedAhead is how many rounds a rank publishes before it waits for the first. The stage
// has more than twice as many slots, so that when the others' have come those that are to
// be written next are free.
const stagedAhead = 3

// stagedLimits are the bytes from which on calls proceed in one way or another. They
// are the same on all ranks, but for the last.
type stagedLimits struct {
	chunk int // of a slot that are used

	// Ranks share the work of an AllReduce, if they are two or more.
	two, many int
	// chunks are what they cut it into at least, so that the work on one meets the exchange
	// of another.
	chunks int

	stream int  // results of calls go around the cache,
	direct int  // or of those in symmetric memory,
	warm   bool // but for those that are likely to be in it
	link   int  // of a chain: what goes in a round at most
}

var defaultStagedLimits = stagedLimits{chunk: math.MaxInt, two: 1 << 20, many: 16 << 10, chunks: 2, stream: 1 << 20, direct: 16 << 10, warm: true, link: 16 << 10}

// stagedLimitsOf are the limits for ranks that wait in a way. Where they share processors
// nothing is done meanwhile, and a round costs switches between them: to reduce all on every
// rank takes one round less.
func stagedLimitsOf(p progress.WaitPolicy) stagedLimits {
	l := defaultStagedLimits
	if p.Oversubscribed && !p.InProcess {
		l.many, l.chunks = 48<<10, 1
	}
	return l
}

var stagedKinds = [plan.Barrier + 1]bool{
	plan.AllReduce: true, plan.ReduceScatter: true, plan.AllGather: true, plan.AllToAll: true, plan.Broadcast: true, plan.Reduce: true,
	plan.Gather: true, plan.Scatter: true, plan.Scan: true, plan.Exscan: true,
}

// stagedCall is a call in rounds.
type stagedCall struct {
	kind     plan.Collective
	root     int
	dst, src []byte
	n        int    // bytes of a block
	parted   bool   // each peer gets something else: a slot has a part for each
	laned    bool   // by messages instead of stages, see laned.go
	chunk    int    // bytes of a block, or of a part of it, in a round
	first    uint64 // the number of its first round
	streams  bool   // what it writes goes around the cache
}

// partOf is what a part of n bytes takes in a slot.
func partOf(n int) int { return (n + symmetricLine - 1) &^ (symmetricLine - 1) }

// staged does a call over the stages if it can, and says whether it did. All ranks
// come to the same answer.
func (r *runner) staged(o *operation, dst []byte) (done bool, err error) {
	x := &r.x
	n := o.count * x.size
	if n == 0 || !r.stages && !r.laned || !stagedKinds[o.kind] || r.laned && !lanedKinds[o.kind] || r.chooser.spec.Restricts(o.kind) {
		return false, nil
	}
	c := &r.flight
	*c = stagedCall{kind: o.kind, root: o.call.Root, dst: dst, src: o.src, n: n, laned: r.laned}
	slotBytes := lanedBytes(r.messageBytes)
	if !c.laned {
		c.first, slotBytes = r.x.lanes.StageRound(), r.e.StageBytes()
	}
	if o.kind == plan.Broadcast {
		c.src = dst
	}
	c.parted = parted(o.kind) && !c.laned
	if c.chunk = stagedChunk(c.parted, min(slotBytes, r.limits.chunk), r.ranks, x.size); c.chunk == 0 {
		return false, nil // elements larger than a slot
	}
	c.streams = r.streams(dst, r.limits.stream) && !same(dst, o.src)
	grown(&r.bounce, slotBytes) // by the first call: later ones allocate nothing
	switch {
	case o.kind == plan.AllReduce && r.shares(o, n) && c.chunk/x.size >= r.ranks:
		if c.laned {
			c.chunk *= r.ranks // a message has a share
		}
		err = r.stagedShares(c)
	case r.chains(o.kind):
		err = r.stagedChain(c)
	default:
		err = r.stagedRounds(c)
	}
	*c = stagedCall{} // keep nothing of the caller's
	return true, err
}

// parted says whether each peer gets something else.
func parted(k plan.Collective) bool {
	return k == plan.ReduceScatter || k == plan.AllToAll || k == plan.Scatter
}

// stagedChunk is how many bytes of a block, whole elements, a slot of so many bytes has room for.
func stagedChunk(parted bool, slotBytes, ranks, size int) int {
	if parted {
		slotBytes = slotBytes / (ranks - 1) &^ (symmetricLine - 1)
	}
	return slotBytes / size * size
}

// shares says whether ranks share the work of an AllReduce of n bytes.
func (r *runner) shares(o *operation, n int) bool {
	switch {
	case r.ranks > 2 || o.f != nil:
		return n >= r.limits.many
	}
	return n >= r.limits.two
}

// stagedRounds does a call each round of which is complete in itself.
func (r *runner) stagedRounds(c *stagedCall) error {
	rounds := c.cut(c.chunk, r.x.size)
	gives, takes := true, true
	switch root := r.e.Rank() == c.root; c.kind {
	case plan.Broadcast:
		gives, takes = root, !root
	case plan.Scatter:
		gives = root
	case plan.Reduce, plan.Gather:
		gives, takes = !root, root
	case plan.Scan, plan.Exscan:
		gives = r.e.Rank() < r.ranks-1
	}
	given := 0
	for i := range rounds {
		for gives && given < min(rounds, i+stagedAhead) {
			if err := r.stagedGive(c, given); err != nil {
				return err
			}
			given++
		}
		if takes {
			if err := r.stagedTake(c, i); err != nil {
				return err
			}
			if gives && given < rounds && !parted(c.kind) {
				from, to := c.bounds(given)
				cache.Fetch(c.src[from:to]) // to be copied while the others end this round
			}
		}
		if err := r.ended(c, c.first+uint64(i)); err != nil {
			return err
		}
	}
	return nil
}

// cut has a block go in rounds of at most so many bytes, about as long as each other, and
// returns their number.
func (c *stagedCall) cut(most, size int) (rounds int) {
	rounds = (c.n + most - 1) / most
	c.chunk = min(most, roundUpTo((c.n+rounds-1)/rounds, size, symmetricLine))
	return rounds
}

// roundUpTo returns the least multiple of size that is at least n, and of line too
// if that is one of size.
func roundUpTo(n, size, line int) int {
	if line%size == 0 {
		size = line
	}
	return (n + size - 1) / size * size
}

// bounds are the bytes of a block that go in round i.
func (c *stagedCall) bounds(i int) (from, to int) {
	return min(i*c.chunk, c.n), min((i+1)*c.chunk, c.n)
}

// slotBytes is what a slot takes that has n bytes for each peer.
func (c *stagedCall) slotBytes(n, ranks int) int {
	if c.parted {
		return (ranks - 1) * partOf(n)
	}
	return n
}

// part is where in the slot of rank from lie the n bytes for rank to.
func (c *stagedCall) part(slot []byte, from, to, n int) []byte {
	if !c.parted {
		return slot
	}
	if to > from {
		to--
	}
	return slot[to*partOf(n):][:n]
}

// stagedGive publishes what others need in round i.
func (r *runner) stagedGive(c *stagedCall, i int) error {
	if c.laned {
		return r.lanedGive(c, i)
	}
	e, me := r.x.lanes, r.e.Rank()
	t := c.first + uint64(i)
	from, to := c.bounds(i)
	slot, err := e.OpenStage(t, c.slotBytes(to-from, r.ranks))
	if err != nil {
		return err
	}
	src := c.src
	for p := range r.ranks {
		if p == me {
			continue
		}
		if c.parted {
			e.FillStage(c.part(slot, me, p, to-from), src[p*c.n:][from:to])
		}
		if c.kind != plan.Reduce && c.kind != plan.Gather || p == c.root {
			e.CountStage(p, to-from)
		}
	}
	if !c.parted {
		e.FillStage(slot, src[from:to])
	}
	e.PublishStage(t, len(slot), false)
	return nil
}

// stagedTake takes what this rank gets in round i.
func (r *runner) stagedTake(c *stagedCall, i int) error {
	me := r.e.Rank()
	t := c.first + uint64(i)
	from, to := c.bounds(i)
	n := to - from
	switch c.kind {
	case plan.AllReduce, plan.ReduceScatter, plan.Reduce, plan.Scan, plan.Exscan:
		givers := giversOf(c.kind, me, r.ranks)
		if givers == 0 {
			return nil
		}
		own := c.src[from:to]
		if c.kind == plan.ReduceScatter {
			own = c.src[me*c.n:][from:to]
		}
		if !c.streams {
			cache.Own(c.dst[from:to])
		}
		srcs := r.x.srcs[:0]
		for p := range givers {
			b := own
			if p != me {
				var err error
				if b, err = r.taken(c, p, t, n); err != nil {
					return err
				}
			}
			srcs = append(srcs, b)
		}
		r.x.srcs = srcs
		err := r.stagedReduce(c, c.dst[from:to], srcs)
		clear(srcs)
		return err
	case plan.Broadcast:
		b, err := r.taken(c, c.root, t, n)
		if err != nil {
			return err
		}
		c.move(c.dst[from:to], b)
	case plan.Scatter:
		if me == c.root {
			if own := c.src[me*c.n:][from:to]; !same(c.dst[from:to], own) {
				c.move(c.dst[from:to], own)
			}
			return nil
		}
		b, err := r.taken(c, c.root, t, n)
		if err != nil {
			return err
		}
		c.move(c.dst[from:to], b)
	case plan.AllGather, plan.AllToAll, plan.Gather:
		own := c.src
		if c.kind == plan.AllToAll {
			own = own[me*c.n:][:c.n]
		}
		if mine := c.dst[me*c.n:][from:to]; !same(mine, own[from:to]) {
			c.move(mine, own[from:to])
		}
		for k := 1; k < r.ranks; k++ {
			p := (me + k) % r.ranks // not all of one at a time
			b, err := r.taken(c, p, t, n)
			if err != nil {
				return err
			}
			c.move(c.dst[p*c.n:][from:to], b)
		}
	}
	return nil
}

// taken waits for the n bytes that a rank gives this one in round t.
func (r *runner) taken(c *stagedCall, p int, t uint64, n int) ([]byte, error) {
	if c.laned {
		return r.x.lanes.Recv(p, n)
	}
	b, err := r.x.lanes.TakeStage(p, t, c.slotBytes(n, r.ranks), false)
	if err != nil {
		return nil, err
	}
	return c.part(b, p, r.e.Rank(), n), nil
}

// ended says that this rank is done with what it took in round t.
func (r *runner) ended(c *stagedCall, t uint64) error {
	if c.laned {
		return r.lanedEnd()
	}
	r.x.lanes.EndStage(t)
	return nil
}

// move copies to dst.
func (c *stagedCall) move(dst, src []byte) {
	if c.streams {
		cache.Stream(dst, src)
		return
	}
	copy(dst, src)
}

// moveAsking copies to dst, and meanwhile asks for as much of next, to be read soon. It
// returns what it did not ask for.
func (c *stagedCall) moveAsking(dst, src, next []byte) []byte {
	n := min(len(dst), len(next)) / cache.LineBytes * cache.LineBytes
	if n == 0 || !c.streams || !cache.IsLine(dst) {
		c.move(dst, src)
		return next
	}
	cache.Spread([][]byte{dst}, 0, src[:n], [][]byte{next}, 0)
	cache.Fence()
	c.move(dst[n:], src[n:])
	return next[n:]
}

// stagedReduce reduces to dst.
func (r *runner) stagedReduce(c *stagedCall, dst []byte, srcs [][]byte) error {
	if !c.streams {
		return r.x.reduce(dst, srcs, true, r.ranks)
	}
	bounce := grown(&r.bounce, len(dst))
	err := r.x.reduce(bounce, srcs, true, r.ranks)
	cache.Stream(dst, bounce)
	return err
}

// stagedShares does an AllReduce of which each rank reduces a share of every chunk. The
// shares of a chunk take one round, and the results another:
//
//	shares of 0 | shares of 1, results of 0 | shares of 2, results of 1 | …
func (r *runner) stagedShares(c *stagedCall) error {
	x := &r.x
	chunks := (c.n + c.chunk - 1) / c.chunk
	chunks = max(chunks, r.limits.chunks)
	c.chunk = min(c.chunk, roundUpTo((c.n+chunks-1)/chunks, x.size, symmetricLine))
	chunks = (c.n + c.chunk - 1) / c.chunk
	shares := func(i int) uint64 { return c.first + uint64(max(2*i-1, 0)) }
	results := func(i int) uint64 { return c.first + uint64(min(2*i+2, 2*chunks-1)) }
	for i := range chunks + 2 {
		var next []byte // what is copied next
		if i >= 2 && i+1 < chunks {
			lo, hi := c.bounds(i + 1)
			next = c.src[lo:hi]
		}
		if i < chunks {
			if err := r.giveShares(c, shares(i), i); err != nil {
				return err
			}
		}
		if k := i - 1; k >= 0 && k < chunks {
			var err error
			if next, err = r.reduceShare(c, shares(k), results(k), k, next); err != nil {
				return err
			}
			if err := r.ended(c, shares(k)); err != nil {
				return err
			}
		}
		if k := i - 2; k >= 0 {
			var err error
			if next, err = r.takeResults(c, results(k), k, next); err != nil {
				return err
			}
			cache.Fetch(next)
			if err := r.ended(c, results(k)); err != nil {
				return err
			}
		}
	}
	return nil
}

// share is what a rank reduces of a chunk.
func (r *runner) share(c *stagedCall, chunk, rank int) (from, to int) {
	lo, hi := c.bounds(chunk)
	from, to = symmetricShare(hi-lo, r.x.size, r.ranks, rank)
	return lo + from, lo + to
}

// giveShares publishes, in round t, what the others reduce of a chunk.
func (r *runner) giveShares(c *stagedCall, t uint64, chunk int) error {
	e, me := r.x.lanes, r.e.Rank()
	lo, hi := c.bounds(chunk)
	var slot []byte
	if !c.laned {
		var err error
		if slot, err = e.OpenStage(t, hi-lo); err != nil {
			return err
		}
	}
	for p := range r.ranks {
		if p == me {
			continue
		}
		from, to := r.share(c, chunk, p)
		if c.laned {
			if err := e.Send(p, c.src[from:to]); err != nil {
				return err
			}
			continue
		}
		e.FillStage(slot[from-lo:to-lo], c.src[from:to])
		e.CountStage(p, to-from)
	}
	if !c.laned {
		e.PublishStage(t, len(slot), false)
	}
	return nil
}

// reduceShare takes the shares of a chunk that others gave in round t, and publishes their
// result in another. It asks for bytes that are needed next, and returns those that are
// left.
func (r *runner) reduceShare(c *stagedCall, t, result uint64, chunk int, next []byte) ([]byte, error) {
	e, me, x := r.x.lanes, r.e.Rank(), &r.x
	lo, hi := c.bounds(chunk)
	from, to := r.share(c, chunk, me)
	var slot []byte
	var err error
	if !c.laned {
		if slot, err = e.OpenStage(result, to-from); err != nil {
			return nil, err
		}
	}
	srcs := x.srcs[:0]
	for p := range r.ranks {
		b := c.src[from:to]
		switch {
		case p == me:
		case c.laned:
			b, err = e.Recv(p, to-from)
		default:
			if b, err = e.TakeStage(p, t, hi-lo, false); err == nil {
				b = b[from-lo : to-lo]
			}
		}
		if err != nil {
			return nil, err
		}
		srcs = append(srcs, b)
	}
	x.srcs = srcs
	sum := slot
	switch {
	case c.laned && !c.streams:
		sum = c.dst[from:to]
	case c.laned, e.FarStages():
		sum = grown(&r.bounce, to-from)
	}
	err = x.reduce(sum, srcs, true, r.ranks)
	clear(srcs)
	if err != nil {
		return nil, err
	}
	if c.laned {
		if err := r.lanedSend(sum); err != nil {
			return nil, err
		}
	} else {
		if e.FarStages() {
			e.FillStage(slot, sum)
		}
		e.PublishStage(result, len(slot), true)
		for p := range r.ranks {
			if p != me {
				e.CountStage(p, to-from)
			}
		}
	}
	if !same(c.dst[from:to], sum) {
		next = c.moveAsking(c.dst[from:to], sum, next)
	}
	return next, nil
}

// takeResults takes what the others have reduced of a chunk, and asks for bytes as
// reduceShare does.
func (r *runner) takeResults(c *stagedCall, t uint64, chunk int, next []byte) ([]byte, error) {
	me := r.e.Rank()
	for j := 1; j < r.ranks; j++ {
		p := (me + j) % r.ranks
		from, to := r.share(c, chunk, p)
		var b []byte
		var err error
		if c.laned {
			b, err = r.x.lanes.Recv(p, to-from)
		} else {
			b, err = r.x.lanes.TakeStage(p, t, to-from, true)
		}
		if err != nil {
			return nil, err
		}
		next = c.moveAsking(c.dst[from:to], b, next)
	}
	return next, nil
}
