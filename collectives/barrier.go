package collectives

import (
	"context"

	"github.com/weft-go/weft/collectives/plan"
	"github.com/weft-go/weft/comm"
)

// Barrier blocks until all ranks have called it. What a rank wrote to symmetric
// memory before is visible to all after.
func Barrier(ctx context.Context, c *comm.Communicator) error {
	return quick(ctx, c, plan.Barrier, 0, 0, 0, 0, 0, nil, nil)
}

// StartBarrier starts a [Barrier] and does not block.
func StartBarrier(ctx context.Context, c *comm.Communicator) *Request {
	return start(ctx, barrier(c))
}

// NewBarrier sets a [Barrier] up.
func NewBarrier(c *comm.Communicator) (*Persistent, error) {
	return newPersistent(barrier(c))
}

// AddBarrier adds a [Barrier] to a group.
func AddBarrier(g *GroupCalls) {
	g.add(barrier(g.comm()))
}

func barrier(c *comm.Communicator) operation {
	o := operation{c: c, call: comm.Call{Collective: comm.OpBarrier}, err: checkCommunicator(c)}
	o.byPlan(plan.Barrier, 0)
	return o
}
