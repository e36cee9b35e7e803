package collectives

import (
	"context"

	"github.com/weft-go/weft/collectives/plan"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

// Broadcast copies the root's buf to buf on all ranks. buf has the same number
// of elements everywhere. It blocks until this rank's part is done: on the root
// that may be before the others have begun. Errors: [ErrRoot], and those of the
// package.
func Broadcast[T kernels.Number](ctx context.Context, c *comm.Communicator, buf []T, root int) error {
	return broadcast(ctx, c, kernels.TypeOf[T](), kernels.Bytes(buf), root)
}

func broadcast(ctx context.Context, c *comm.Communicator, t kernels.Type, buf []byte, root int) error {
	call := comm.Call{Collective: comm.OpBroadcast, Count: len(buf) / t.Size(), Type: t, Root: root}
	if err := first(checkCommunicator(c), checkRoot(c, root)); err != nil {
		return refuse(c, call, err)
	}
	return collective(ctx, c, plan.Broadcast, call, call.Count, buf, nil)
}
