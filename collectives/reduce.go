package collectives

import (
	"context"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport/progress"
)

// Reduce reduces the count elements of src over all ranks and stores the result
// in dst on the root. src has count elements, the same number on all ranks. On
// the root dst has as many and may be src; elsewhere dst is ignored and may be
// nil. It blocks until this rank's part is done: on the others that may be before
// the root has begun. Errors: [ErrCount], [ErrOverlap], [ErrOperator], [ErrRoot],
// and those of the package.
func Reduce[T kernels.Number](ctx context.Context, c *comm.Communicator, dst, src []T, op kernels.Op, root int) error {
	return reduce(ctx, c, kernels.TypeOf[T](), kernels.Bytes(dst), kernels.Bytes(src), op, root)
}

func reduce(ctx context.Context, c *comm.Communicator, t kernels.Type, dst, src []byte, op kernels.Op, root int) error {
	count := len(src) / t.Size()
	call := comm.Call{Collective: comm.OpReduce, Count: count, Type: t, Op: op, Root: root}
	err := first(checkCommunicator(c), checkOp(op), checkRoot(c, root))
	if err == nil && c.Rank() == root {
		err = first(checkCount("dst", dst, t, count), checkAlias(dst, src))
	}
	if err != nil {
		return refuse(c, call, err)
	}
	e, err := c.Begin(ctx, call)
	if err != nil {
		return err
	}
	if e.Ranks() == 1 {
		copy(dst, src)
	} else {
		err = reduceDirect(e, t, dst, src, op, root)
	}
	return c.End(err)
}

// reduceDirect: every rank sends to the root, which reduces in rank order, chunk
// by chunk. The root receives (n−1)·S bytes and reduces n·S.
func reduceDirect(e *progress.Engine, t kernels.Type, dst, src []byte, op kernels.Op, root int) error {
	chunkBytes := e.MessageBytes() / t.Size() * t.Size()
	all := span{0, len(src)}
	for r := range all.rounds(chunkBytes) {
		part := all.chunk(r, chunkBytes)
		var err error
		if e.Rank() == root {
			err = reduceInOrder(e, t, part.of(dst), part.of(src), op)
		} else {
			err = e.Send(root, part.of(src))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
