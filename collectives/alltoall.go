package collectives

import (
	"context"

	"github.com/weft-go/weft/collectives/plan"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

// AllToAll sends block p of src to rank p, where it becomes block Rank of dst.
// src and dst have Size·count elements each, in Size blocks of count, the same on
// all ranks; dst may be src. It blocks until the result is there. Errors:
// [ErrCount], [ErrOverlap], [ErrType], and those of the package.
func AllToAll[T any](ctx context.Context, c *comm.Communicator, dst, src []T) error {
	e, d, s := elementOf[T](), bytesOf(dst), bytesOf(src)
	if n := c.Size(); n > 0 && few(len(s)/n) && e.t != kernels.TypeInvalid && len(d) == len(s) && len(src)%n == 0 && mayAlias(d, s) {
		return quick(ctx, c, plan.AllToAll, e.t, 0, 0, len(src), len(s)/n, d, s)
	}
	o := allToAll(c, e, d, s)
	return o.run(ctx)
}

// StartAllToAll starts an [AllToAll] and does not block.
func StartAllToAll[T any](ctx context.Context, c *comm.Communicator, dst, src []T) *Request {
	return start(ctx, allToAll(c, elementOf[T](), bytesOf(dst), bytesOf(src)))
}

// NewAllToAll sets an [AllToAll] up.
func NewAllToAll[T any](c *comm.Communicator, dst, src []T) (*Persistent, error) {
	return newPersistent(allToAll(c, elementOf[T](), bytesOf(dst), bytesOf(src)))
}

// AddAllToAll adds an [AllToAll] to a group.
func AddAllToAll[T any](g *GroupCalls, dst, src []T) {
	g.add(allToAll(g.comm(), elementOf[T](), bytesOf(dst), bytesOf(src)))
}

func allToAll(c *comm.Communicator, e element, dst, src []byte) operation {
	total := e.count(src)
	o := operation{c: c, call: e.call(comm.OpAllToAll, total), dst: dst, src: src}
	o.err = first(checkCommunicator(c), e.err, checkCount("dst", dst, e, total), checkAlias(dst, src), checkBlocks(c, "src", total))
	o.byPlan(plan.AllToAll, total/max(c.Size(), 1))
	return o
}
