package collectives

import (
	"context"

	"github.com/weft-go/weft/collectives/plan"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

// Broadcast copies the root's buf to buf on all ranks. buf has the same number
// of elements everywhere. It blocks until this rank's part is done: on the root
// that may be before the others have begun. Errors: [ErrRoot], [ErrType], and
// those of the package.
func Broadcast[T any](ctx context.Context, c *comm.Communicator, buf []T, root int) error {
	e, b := elementOf[T](), bytesOf(buf)
	if few(len(b)) && e.t != kernels.TypeInvalid && isRoot(c, root) {
		return quick(ctx, c, plan.Broadcast, e.t, 0, root, len(buf), len(b), b, nil)
	}
	o := broadcast(c, e, b, root)
	return o.run(ctx)
}

// StartBroadcast starts a [Broadcast] and does not block.
func StartBroadcast[T any](ctx context.Context, c *comm.Communicator, buf []T, root int) *Request {
	return start(ctx, broadcast(c, elementOf[T](), bytesOf(buf), root))
}

// NewBroadcast sets a [Broadcast] up.
func NewBroadcast[T any](c *comm.Communicator, buf []T, root int) (*Persistent, error) {
	return newPersistent(broadcast(c, elementOf[T](), bytesOf(buf), root))
}

// AddBroadcast adds a [Broadcast] to a group.
func AddBroadcast[T any](g *GroupCalls, buf []T, root int) {
	g.add(broadcast(g.comm(), elementOf[T](), bytesOf(buf), root))
}

func broadcast(c *comm.Communicator, e element, buf []byte, root int) operation {
	count := e.count(buf)
	o := operation{c: c, call: e.call(comm.OpBroadcast, count), dst: buf}
	o.call.Root = root
	o.err = first(checkCommunicator(c), e.err, checkRoot(c, root))
	o.byPlan(plan.Broadcast, count)
	return o
}
