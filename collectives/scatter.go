package collectives

import (
	"context"

	"github.com/weft-go/weft/collectives/plan"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

// Scatter sends block p of the root's src to dst on rank p. dst has count
// elements, the same number on all ranks. On the root src has Size·count, and dst may
// be its own block of src; elsewhere src is ignored and may be nil. It blocks until this
// rank's part is done: on the root that may be before the others have begun. Errors:
// [ErrCount], [ErrOverlap], [ErrRoot], [ErrType], and those of the package.
func Scatter[T any](ctx context.Context, c *comm.Communicator, dst, src []T, root int) error {
	e, d, s := elementOf[T](), bytesOf(dst), bytesOf(src)
	if few(len(d)) && e.t != kernels.TypeInvalid && isRoot(c, root) && (c.Rank() != root || len(s) == c.Size()*len(d) && mayBlock(d, s, root*len(d))) {
		return quick(ctx, c, plan.Scatter, e.t, 0, root, len(dst), len(d), d, s)
	}
	o := scatter(c, e, d, s, root)
	return o.run(ctx)
}

// StartScatter starts a [Scatter] and does not block.
func StartScatter[T any](ctx context.Context, c *comm.Communicator, dst, src []T, root int) *Request {
	return start(ctx, scatter(c, elementOf[T](), bytesOf(dst), bytesOf(src), root))
}

// NewScatter sets a [Scatter] up.
func NewScatter[T any](c *comm.Communicator, dst, src []T, root int) (*Persistent, error) {
	return newPersistent(scatter(c, elementOf[T](), bytesOf(dst), bytesOf(src), root))
}

// AddScatter adds a [Scatter] to a group.
func AddScatter[T any](g *GroupCalls, dst, src []T, root int) {
	g.add(scatter(g.comm(), elementOf[T](), bytesOf(dst), bytesOf(src), root))
}

func scatter(c *comm.Communicator, e element, dst, src []byte, root int) operation {
	count := e.count(dst)
	o := operation{c: c, call: e.call(comm.OpScatter, count), dst: dst}
	o.call.Root = root
	o.err = first(checkCommunicator(c), e.err, checkRoot(c, root))
	if o.err == nil && c.Rank() == root {
		o.src = src
		o.err = checkCount("src", src, e, c.Size()*count)
		if o.err == nil {
			o.err = checkBlock("dst", dst, "src", src, root*len(dst))
		}
	}
	o.byPlan(plan.Scatter, count)
	return o
}
