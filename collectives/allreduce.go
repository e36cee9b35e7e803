package collectives

import (
	"context"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport/progress"
)

// oneShotBytes is the size up to which every rank reduces everything itself.
const oneShotBytes = 4 << 10

// AllReduce reduces the count elements of src over all ranks and stores the
// result in dst on every rank. dst and src have count elements each, the same on
// all ranks; dst may be src. It blocks until the result is there. Errors:
// [ErrCount], [ErrOverlap], [ErrOperator], and those of the package.
func AllReduce[T kernels.Number](ctx context.Context, c *comm.Communicator, dst, src []T, op kernels.Op) error {
	return allReduce(ctx, c, kernels.TypeOf[T](), kernels.Bytes(dst), kernels.Bytes(src), op)
}

func allReduce(ctx context.Context, c *comm.Communicator, t kernels.Type, dst, src []byte, op kernels.Op) error {
	count := len(src) / t.Size()
	call := comm.Call{Collective: comm.OpAllReduce, Count: count, Type: t, Op: op}
	if err := first(checkCommunicator(c), checkOp(op), checkCount("dst", dst, t, count), checkAlias(dst, src)); err != nil {
		return refuse(c, call, err)
	}
	e, err := c.Begin(ctx, call)
	if err != nil {
		return err
	}
	switch {
	case e.Ranks() == 1:
		copy(dst, src)
	case len(src) <= min(oneShotBytes, e.MessageBytes()):
		err = allReduceOneShot(e, t, dst, src, op)
	default:
		err = allReduceTwoShot(e, t, dst, src, op)
	}
	return c.End(err)
}

// reduceInOrder reduces what all ranks sent, and own, into dst, and releases
// the messages.
func reduceInOrder(e *progress.Engine, t kernels.Type, dst, own []byte, op kernels.Op) error {
	views := e.Views()
	for r := range views {
		if r == e.Rank() {
			views[r] = own
			continue
		}
		var err error
		if views[r], err = e.Recv(r, len(own)); err != nil {
			return err
		}
	}
	if err := kernels.Reduce(dst, views, t, op); err != nil {
		return err
	}
	return releaseAll(e)
}

func releaseAll(e *progress.Engine) error {
	for i := 1; i < e.Ranks(); i++ {
		if err := e.Release(peer(e, i)); err != nil {
			return err
		}
	}
	return nil
}

// sendAll sends data to all other ranks.
func sendAll(e *progress.Engine, data []byte) error {
	for i := 1; i < e.Ranks(); i++ {
		if err := e.Send(peer(e, i), data); err != nil {
			return err
		}
	}
	return nil
}

// peer is the rank i places after this one: each rank begins with another peer,
// so that not all of them write to one at the same time.
func peer(e *progress.Engine, i int) int { return (e.Rank() + i) % e.Ranks() }
