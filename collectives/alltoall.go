package collectives

import (
	"context"
	"fmt"

	"github.com/weft-go/weft/collectives/plan"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

// AllToAll sends block p of src to rank p, where it becomes block Rank of dst.
// src and dst have Size·count elements each, in Size blocks of count, the same on
// all ranks; dst may be src. It blocks until the result is there. Errors:
// [ErrCount], [ErrOverlap], and those of the package.
func AllToAll[T kernels.Number](ctx context.Context, c *comm.Communicator, dst, src []T) error {
	return allToAll(ctx, c, kernels.TypeOf[T](), kernels.Bytes(dst), kernels.Bytes(src))
}

func allToAll(ctx context.Context, c *comm.Communicator, t kernels.Type, dst, src []byte) error {
	total := len(src) / t.Size()
	call := comm.Call{Collective: comm.OpAllToAll, Count: total, Type: t}
	err := first(checkCommunicator(c), checkCount("dst", dst, t, total), checkAlias(dst, src))
	if err == nil && total%c.Size() != 0 {
		err = fmt.Errorf("%w: %d are not blocks for %d ranks", ErrCount, total, c.Size())
	}
	if err != nil {
		return refuse(c, call, err)
	}
	return collective(ctx, c, plan.AllToAll, call, total/c.Size(), dst, src)
}
