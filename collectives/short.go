package collectives

import (
	"context"

	"github.com/weft-go/weft/collectives/plan"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/internal/cache"
	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport/progress"
)

// Calls whose blocks are a few bytes need no plan: each rank gives its block to every
// other at once, or to the ranks above, or to the root, or the root gives, and who gets blocks
// takes them in rank order.

// shortLimit is up to how many bytes blocks go so, by ranks: a block is stored once for
// each peer, and over stages only once.
func shortLimit(ranks int) int {
	if ranks == 2 {
		return progress.ShortBytes
	}
	return 560
}

// ownLeast is from how many bytes on the lines of a result are asked for before what it is made of
// is there.
const ownLeast = 512

// short does a call by shorts if its blocks are of a few bytes, and says whether it did. All
// ranks come to the same answer.
func (r *runner) short(o *operation, dst []byte) (done bool, err error) {
	n := o.count * r.x.size
	if n > r.shortBytes[o.kind] || n == 0 && o.kind != plan.Barrier { // of nothing nobody waits for another
		return false, nil
	}
	return true, r.exchange(o.kind, o.call.Root, dst, o.src)
}

// exchange does a call on blocks of a few bytes.
func (r *runner) exchange(k plan.Collective, root int, dst, src []byte) error {
	e, me := r.e, r.e.Rank()
	e.BeginShort()
	if r.ranks == 2 && swaps[k] {
		return r.swap(k, dst, src)
	}
	switch k {
	case plan.AllToAll, plan.ReduceScatter:
		n := len(src) / r.ranks
		for p := range r.ranks {
			if p != me {
				e.GiveShort(p, src[p*n:(p+1)*n])
			}
		}
	case plan.AllReduce, plan.AllGather, plan.Barrier:
		for p := range r.ranks {
			if p != me {
				e.GiveShort(p, src)
			}
		}
	case plan.Reduce, plan.Gather:
		if me != root {
			e.GiveShort(root, src)
			return e.EndShort()
		}
	case plan.Scan, plan.Exscan:
		if r.relays && r.chains(k) {
			return r.relay(k, dst, src)
		}
		for p := me + 1; p < r.ranks; p++ {
			e.GiveShort(p, src)
		}
	default:
		if me != root {
			data, err := e.TakeShort(root, len(dst))
			if err != nil {
				return err
			}
			copy(dst, data)
			return e.EndShort()
		}
		if k == plan.Broadcast {
			src = dst
		}
		for p := range r.ranks {
			block := src
			if k == plan.Scatter {
				block = src[p*len(dst) : (p+1)*len(dst)]
			}
			if p != me {
				e.GiveShort(p, block)
			} else {
				copy(dst, block)
			}
		}
		return e.EndShort()
	}
	if len(dst) >= ownLeast && !same(dst, src) {
		cache.Own(dst) // while others' blocks are on their way
	}
	if err := r.takeAll(k, dst, src); err != nil {
		return err
	}
	return e.EndShort()
}

// swaps are the calls in which each of two ranks gives to the other.
var swaps = [plan.Barrier + 1]bool{
	plan.AllReduce: true, plan.ReduceScatter: true, plan.AllGather: true, plan.AllToAll: true, plan.Barrier: true,
}

// swap is exchange between two ranks that both give. What can be done before the other's block is
// there is done while it is on its way.
func (r *runner) swap(k plan.Collective, dst, src []byte) error {
	e, me := r.e, r.e.Rank()
	peer := 1 - me
	give, own := src, src
	if k == plan.AllToAll || k == plan.ReduceScatter {
		n := len(src) / 2
		give, own = src[peer*n:][:n], src[me*n:][:n]
	}
	e.GiveShort(peer, give)
	if len(dst) >= ownLeast && !same(dst, src) {
		cache.Own(dst)
	}
	n := len(own)
	if k == plan.AllToAll || k == plan.AllGather {
		copy(dst[me*n:], own)
	}
	data, err := e.TakeShort(peer, n)
	if err != nil {
		return err
	}
	switch k {
	case plan.AllReduce, plan.ReduceScatter:
		if err := r.reduceTwo(dst, own, data); err != nil {
			return err
		}
	case plan.AllToAll, plan.AllGather:
		copy(dst[peer*n:], data)
	}
	return e.EndShort()
}

// reduceTwo reduces this rank's block and that of the only other one.
func (r *runner) reduceTwo(dst, own, data []byte) error {
	// Not in x.srcs, from which pointers would have to be cleared, and not put together from a
	// literal: that is copied by loads that are wider than the stores before them, and such a load
	// waits until these are in the cache.
	var srcs [2][]byte
	me := r.e.Rank()
	srcs[me], srcs[1-me] = own, data
	return r.x.reduce(dst, srcs[:], true, 2)
}

// takeAll takes what all give to this rank, in rank order.
func (r *runner) takeAll(k plan.Collective, dst, src []byte) error {
	x, e, me := &r.x, r.e, r.e.Rank()
	own, n := src, len(src)
	if k == plan.AllToAll || k == plan.ReduceScatter {
		n /= r.ranks
		own = src[me*n : (me+1)*n]
	}
	prefix := k == plan.Scan || k == plan.Exscan
	reduces := k == plan.AllReduce || k == plan.Reduce || k == plan.ReduceScatter || prefix
	if k == plan.Reduce && r.ranks == 2 {
		data, err := e.TakeShort(1-me, n)
		if err != nil {
			return err
		}
		return r.reduceTwo(dst, own, data)
	}
	srcs := x.srcs[:0]
	for p := range giversOf(k, me, r.ranks) {
		data := own
		if p != me {
			var err error
			if data, err = e.TakeShort(p, n); err != nil {
				return err
			}
		}
		switch {
		case reduces:
			srcs = append(srcs, data)
		case k != plan.Barrier:
			copy(dst[p*n:], data)
		}
	}
	if len(srcs) == 0 {
		return nil
	}
	err := x.reduce(dst, srcs, true, r.ranks)
	clear(srcs)
	x.srcs = srcs[:0]
	return err
}

// relay does a Scan or an Exscan along a chain. With many ranks that takes less work than to
// give to all above, and longer until the last has its result.
func (r *runner) relay(k plan.Collective, dst, src []byte) error {
	e, x, me := r.e, &r.x, r.e.Rank()
	sum, last := src, me == r.ranks-1
	var before []byte
	if me > 0 {
		var err error
		if before, err = e.TakeShort(me-1, len(src)); err != nil {
			return err
		}
	}
	if me > 0 && (k == plan.Scan || !last) {
		if sum = dst; k == plan.Exscan {
			sum = grown(&r.bounce, len(src)) // dst may be src
		}
		srcs := [2][]byte{before, src}
		if err := x.reduce(sum, srcs[:], true, r.ranks); err != nil {
			return err
		}
	}
	if !last {
		e.GiveShort(me+1, sum)
	}
	if exscans := k == plan.Exscan; exscans == (me > 0) {
		one := [1][]byte{src}
		if exscans {
			one[0] = before
		}
		// One contribution may have to be made a result.
		if err := x.reduce(dst, one[:], true, r.ranks); err != nil {
			return err
		}
	}
	return e.EndShort()
}

// giversOf is how many ranks, from the first on, give to a rank, itself included.
func giversOf(k plan.Collective, rank, ranks int) int {
	switch k {
	case plan.Scan:
		return rank + 1
	case plan.Exscan:
		return rank
	}
	return ranks
}

// quick is the blocking form of a call on numbers whose arguments were looked at, with
// blocks of n bytes: to make an operation first would take as long as a call of few. count
// is what the call says of that.
func quick(ctx context.Context, c *comm.Communicator, k plan.Collective, t kernels.Type, op kernels.Op, root, count, n int, dst, src []byte) error {
	if c.Size() < 2 {
		o := made(c, k, t, op, root, dst, src)
		return o.run(ctx)
	}
	e, err := c.BeginPlain(ctx, comm.PlainCall(calls[k], t, op, root, count))
	if err != nil {
		return err
	}
	r, _ := e.Extension.(*runner)
	if r == nil || n > r.shortBytes[k] {
		o := made(c, k, t, op, root, dst, src)
		return o.do(ctx, e)
	}
	r.x.t, r.x.op, r.x.f = t, op, nil
	return c.End(r.exchange(k, root, dst, src))
}

// calls are the calls of which quick makes those of few bytes.
var calls = [plan.Barrier + 1]comm.Collective{
	plan.AllReduce: comm.OpAllReduce, plan.Reduce: comm.OpReduce, plan.Broadcast: comm.OpBroadcast,
	plan.AllGather: comm.OpAllGather, plan.AllToAll: comm.OpAllToAll, plan.Gather: comm.OpGather,
	plan.Scatter: comm.OpScatter, plan.ReduceScatter: comm.OpReduceScatterBlock, plan.Barrier: comm.OpBarrier,
	plan.Scan: comm.OpScan, plan.Exscan: comm.OpExscan,
}

// made makes the operation of such a call.
func made(c *comm.Communicator, k plan.Collective, t kernels.Type, op kernels.Op, root int, dst, src []byte) operation {
	e := element{t: t, size: t.Size()}
	switch k {
	case plan.AllReduce:
		return allReduce(c, e, dst, src, operator{op: op})
	case plan.Reduce:
		return reduce(c, e, dst, src, operator{op: op}, root)
	case plan.Broadcast:
		return broadcast(c, e, dst, root)
	case plan.AllGather:
		return allGather(c, e, dst, src)
	case plan.AllToAll:
		return allToAll(c, e, dst, src)
	case plan.Gather:
		return gather(c, e, dst, src, root)
	case plan.Scatter:
		return scatter(c, e, dst, src, root)
	case plan.ReduceScatter:
		return reduceScatterBlock(c, e, dst, src, operator{op: op})
	case plan.Scan:
		return scan(c, e, dst, src, operator{op: op})
	case plan.Exscan:
		return exscan(c, e, dst, src, operator{op: op})
	}
	return barrier(c)
}

// few says whether n bytes may go by shorts.
func few(n int) bool { return 0 < n && n <= progress.ShortBytes }
