package collectives

import (
	"context"

	"github.com/weft-go/weft/collectives/plan"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

// Gather gathers src of every rank in dst on the root, in rank order. src has
// count elements, the same number on all ranks. On the root dst has Size·count, and
// src may be its own block of dst; elsewhere dst is ignored and may be nil. It blocks
// until this rank's part is done: on the others that may be before the root has
// begun. Errors: [ErrCount], [ErrOverlap], [ErrRoot], [ErrType], and those of the
// package.
func Gather[T any](ctx context.Context, c *comm.Communicator, dst, src []T, root int) error {
	e, d, s := elementOf[T](), bytesOf(dst), bytesOf(src)
	if few(len(s)) && e.t != kernels.TypeInvalid && isRoot(c, root) && (c.Rank() != root || len(d) == c.Size()*len(s) && mayBlock(s, d, root*len(s))) {
		return quick(ctx, c, plan.Gather, e.t, 0, root, len(src), len(s), d, s)
	}
	o := gather(c, e, d, s, root)
	return o.run(ctx)
}

// StartGather starts a [Gather] and does not block.
func StartGather[T any](ctx context.Context, c *comm.Communicator, dst, src []T, root int) *Request {
	return start(ctx, gather(c, elementOf[T](), bytesOf(dst), bytesOf(src), root))
}

// NewGather sets a [Gather] up.
func NewGather[T any](c *comm.Communicator, dst, src []T, root int) (*Persistent, error) {
	return newPersistent(gather(c, elementOf[T](), bytesOf(dst), bytesOf(src), root))
}

// AddGather adds a [Gather] to a group.
func AddGather[T any](g *GroupCalls, dst, src []T, root int) {
	g.add(gather(g.comm(), elementOf[T](), bytesOf(dst), bytesOf(src), root))
}

func gather(c *comm.Communicator, e element, dst, src []byte, root int) operation {
	count := e.count(src)
	o := operation{c: c, call: e.call(comm.OpGather, count), src: src}
	o.call.Root = root
	o.err = first(checkCommunicator(c), e.err, checkRoot(c, root))
	if o.err == nil && c.Rank() == root {
		o.dst = dst
		o.err = checkCount("dst", dst, e, c.Size()*count)
		if o.err == nil {
			o.err = checkBlock("src", src, "dst", dst, root*len(src))
		}
	}
	o.byPlan(plan.Gather, count)
	return o
}
