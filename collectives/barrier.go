package collectives

import (
	"context"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/transport/progress"
)

// Barrier blocks until all ranks have called it. What a rank wrote to symmetric
// memory before is visible to all after.
func Barrier(ctx context.Context, c *comm.Communicator) error {
	e, err := c.Begin(ctx, comm.Call{Collective: comm.OpBarrier})
	if err != nil {
		return err
	}
	return c.End(barrierDirect(e))
}

// barrierDirect: an empty message from every rank to every other.
func barrierDirect(e *progress.Engine) error {
	if err := sendAll(e, nil); err != nil {
		return err
	}
	for i := 1; i < e.Ranks(); i++ {
		if err := receive(e, peer(e, i), nil); err != nil {
			return err
		}
	}
	return nil
}
