package collectives

import (
	"context"

	"github.com/weft-go/weft/collectives/plan"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

// shortRanks is up to how many ranks calls of a few bytes go to all ranks at once.
const shortRanks = 16

// short does a call whose blocks are a few bytes, without a plan: each rank gives its
// block to every other at once, and takes theirs in rank order. It says whether it
// did. All ranks come to the same answer.
func (r *runner) short(o *operation, dst []byte) (done bool, err error) {
	x := &r.x
	n := o.count * x.size
	if n > r.shortBytes[o.kind] || n == 0 && o.kind != plan.Barrier { // of nothing nobody waits for another
		return false, nil
	}
	e, me := x.lanes, r.e.Rank()
	e.BeginShort()
	switch o.kind {
	case plan.AllToAll, plan.ReduceScatter:
		for p := range r.ranks {
			if p != me {
				e.GiveShort(p, o.src[p*n:(p+1)*n])
			}
		}
	default:
		for p := range r.ranks {
			if p != me {
				e.GiveShort(p, o.src)
			}
		}
	}
	srcs := x.srcs[:0]
	for p := range r.ranks {
		var data []byte
		if p != me {
			if data, err = e.TakeShort(p, n); err != nil {
				return true, err
			}
		}
		switch o.kind {
		case plan.AllReduce:
			if p == me {
				data = o.src
			}
			srcs = append(srcs, data)
		case plan.ReduceScatter:
			if p == me {
				data = o.src[me*n : (me+1)*n]
			}
			srcs = append(srcs, data)
		case plan.AllGather:
			if p == me {
				data = o.src
			}
			copy(dst[p*n:], data)
		case plan.AllToAll:
			if p == me {
				data = o.src[me*n : (me+1)*n]
			}
			copy(dst[p*n:], data)
		}
	}
	e.EndShort()
	x.srcs = srcs
	if len(srcs) > 0 {
		err = x.reduce(dst, srcs, true, r.ranks)
		clear(srcs)
	}
	return true, err
}

// allReduceShort is an AllReduce of a few bytes. To make an operation first takes as
// long as the call.
func allReduceShort(ctx context.Context, c *comm.Communicator, t element, dst, src []byte, op kernels.Op) error {
	if c == nil || len(src) == 0 || !op.Supports(t.t) || !same(dst, src) && !apart(dst, src) {
		o := allReduce(c, t, dst, src, operator{op: op})
		return o.run(ctx)
	}
	call := t.reduction(comm.OpAllReduce, len(src)/t.size, operator{op: op})
	e, err := c.Begin(ctx, call)
	if err != nil {
		return err
	}
	r, _ := e.Extension.(*runner)
	if r == nil || len(src) > r.shortBytes[plan.AllReduce] {
		o := allReduce(c, t, dst, src, operator{op: op})
		return o.do(ctx, e)
	}
	r.x.t, r.x.op, r.x.f = t.t, op, nil
	return c.End(r.reduceShort(dst, src))
}

// reduceShort gives src to all and reduces what all give.
func (r *runner) reduceShort(dst, src []byte) error {
	e, me := r.e, r.e.Rank()
	e.BeginShort()
	for p := range r.ranks {
		if p != me {
			e.GiveShort(p, src)
		}
	}
	srcs := r.x.srcs[:0]
	for p := range r.ranks {
		data := src
		if p != me {
			var err error
			if data, err = e.TakeShort(p, len(src)); err != nil {
				return err
			}
		}
		srcs = append(srcs, data)
	}
	e.EndShort()
	r.x.srcs = srcs
	err := r.x.reduce(dst, srcs, true, r.ranks)
	clear(srcs)
	return err
}
