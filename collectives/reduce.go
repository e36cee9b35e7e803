package collectives

import (
	"context"

	"github.com/weft-go/weft/collectives/plan"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
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
	return collective(ctx, c, plan.Reduce, call, count, dst, src)
}
