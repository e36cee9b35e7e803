package collectives

import (
	"context"

	"github.com/weft-go/weft/collectives/plan"
	"github.com/weft-go/weft/comm"
)

// Barrier blocks until all ranks have called it. What a rank wrote to symmetric
// memory before is visible to all after.
func Barrier(ctx context.Context, c *comm.Communicator) error {
	return collective(ctx, c, plan.Barrier, comm.Call{Collective: comm.OpBarrier}, 0, nil, nil)
}
