package collectives

import (
	"context"

	"github.com/weft-go/weft/collectives/plan"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

// AllGather gathers src of every rank in dst on every rank, in rank order. src
// has count elements, the same number on all ranks, and dst Size·count. src may
// be this rank's block of dst, dst[Rank·count : (Rank+1)·count]. It blocks until
// the result is there. Errors: [ErrCount], [ErrOverlap], [ErrType], and those of
// the package.
func AllGather[T any](ctx context.Context, c *comm.Communicator, dst, src []T) error {
	e, d, s := elementOf[T](), bytesOf(dst), bytesOf(src)
	if few(len(s)) && e.t != kernels.TypeInvalid && len(d) == c.Size()*len(s) && mayBlock(s, d, c.Rank()*len(s)) {
		return quick(ctx, c, plan.AllGather, e.t, 0, 0, len(src), len(s), d, s)
	}
	o := allGather(c, e, d, s)
	return o.run(ctx)
}

// StartAllGather starts an [AllGather] and does not block.
func StartAllGather[T any](ctx context.Context, c *comm.Communicator, dst, src []T) *Request {
	return start(ctx, allGather(c, elementOf[T](), bytesOf(dst), bytesOf(src)))
}

// NewAllGather sets an [AllGather] up.
func NewAllGather[T any](c *comm.Communicator, dst, src []T) (*Persistent, error) {
	return newPersistent(allGather(c, elementOf[T](), bytesOf(dst), bytesOf(src)))
}

// AddAllGather adds an [AllGather] to a group.
func AddAllGather[T any](g *GroupCalls, dst, src []T) {
	g.add(allGather(g.comm(), elementOf[T](), bytesOf(dst), bytesOf(src)))
}

func allGather(c *comm.Communicator, e element, dst, src []byte) operation {
	count := e.count(src)
	o := operation{c: c, call: e.call(comm.OpAllGather, count), dst: dst, src: src}
	o.err = first(checkCommunicator(c), e.err, checkCount("dst", dst, e, c.Size()*count))
	if o.err == nil {
		o.err = checkBlock("src", src, "dst", dst, c.Rank()*len(src))
	}
	o.byPlan(plan.AllGather, count)
	return o
}
