package collectives

import (
	"context"

	"github.com/weft-go/weft/collectives/plan"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

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
	return collective(ctx, c, plan.AllReduce, call, count, dst, src)
}
