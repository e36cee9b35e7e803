package collectives

import (
	"context"

	"github.com/weft-go/weft/collectives/plan"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

// Exscan stores in dst on rank r the reduction of src over the ranks 0…r−1. On
// rank 0 dst is not written. dst and src have count elements each, the same on all
// ranks; dst may be src. [kernels.Avg] is refused. It blocks until this rank's part is
// done. Errors: [ErrCount], [ErrOverlap], [ErrOperator], and those of the package.
func Exscan[T kernels.Number](ctx context.Context, c *comm.Communicator, dst, src []T, op kernels.Op) error {
	return quickPrefix(ctx, c, plan.Exscan, numberOf[T](), kernels.Bytes(dst), kernels.Bytes(src), op)
}

// StartExscan starts an [Exscan] and does not block.
func StartExscan[T kernels.Number](ctx context.Context, c *comm.Communicator, dst, src []T, op kernels.Op) *Request {
	return start(ctx, exscan(c, numberOf[T](), kernels.Bytes(dst), kernels.Bytes(src), operator{op: op}))
}

// NewExscan sets an [Exscan] up.
func NewExscan[T kernels.Number](c *comm.Communicator, dst, src []T, op kernels.Op) (*Persistent, error) {
	return newPersistent(exscan(c, numberOf[T](), kernels.Bytes(dst), kernels.Bytes(src), operator{op: op}))
}

// AddExscan adds an [Exscan] to a group.
func AddExscan[T kernels.Number](g *GroupCalls, dst, src []T, op kernels.Op) {
	g.add(exscan(g.comm(), numberOf[T](), kernels.Bytes(dst), kernels.Bytes(src), operator{op: op}))
}

// ExscanFunc is [Exscan] with an operator of the program's, see
// [Package collectives].
func ExscanFunc[T any](ctx context.Context, c *comm.Communicator, dst, src []T, f func(acc, x []T)) error {
	o := exscan(c, elementOf[T](), bytesOf(dst), bytesOf(src), byFunc(f))
	return o.run(ctx)
}

// StartExscanFunc starts an [ExscanFunc] and does not block; f is called on
// another goroutine.
func StartExscanFunc[T any](ctx context.Context, c *comm.Communicator, dst, src []T, f func(acc, x []T)) *Request {
	return start(ctx, exscan(c, elementOf[T](), bytesOf(dst), bytesOf(src), byFunc(f)))
}

// NewExscanFunc sets an [ExscanFunc] up.
func NewExscanFunc[T any](c *comm.Communicator, dst, src []T, f func(acc, x []T)) (*Persistent, error) {
	return newPersistent(exscan(c, elementOf[T](), bytesOf(dst), bytesOf(src), byFunc(f)))
}

// AddExscanFunc adds an [ExscanFunc] to a group.
func AddExscanFunc[T any](g *GroupCalls, dst, src []T, f func(acc, x []T)) {
	g.add(exscan(g.comm(), elementOf[T](), bytesOf(dst), bytesOf(src), byFunc(f)))
}

func exscan(c *comm.Communicator, e element, dst, src []byte, by operator) operation {
	return prefix(c, comm.OpExscan, plan.Exscan, e, dst, src, by)
}
