package collectives

import (
	"context"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport/progress"
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
	e, err := c.Begin(ctx, call)
	if err != nil {
		return err
	}
	return c.End(broadcastDirect(e, buf, root))
}

// broadcastDirect: the root sends to every rank, chunk by chunk. The root sends
// (n−1)·S bytes.
func broadcastDirect(e *progress.Engine, buf []byte, root int) error {
	all := span{0, len(buf)}
	for r := range all.rounds(e.MessageBytes()) {
		part := all.chunk(r, e.MessageBytes()).of(buf)
		var err error
		if e.Rank() == root {
			err = sendAll(e, part)
		} else {
			err = receive(e, root, part)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
