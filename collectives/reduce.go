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
	e, d, s := numberOf[T](), kernels.Bytes(dst), kernels.Bytes(src)
	if few(len(s)) && op.Supports(e.t) && isRoot(c, root) && (c.Rank() != root || len(d) == len(s) && mayAlias(d, s)) {
		return quick(ctx, c, plan.Reduce, e.t, op, root, len(src), len(s), d, s)
	}
	o := reduce(c, e, d, s, operator{op: op}, root)
	return o.run(ctx)
}

// StartReduce starts a [Reduce] and does not block.
func StartReduce[T kernels.Number](ctx context.Context, c *comm.Communicator, dst, src []T, op kernels.Op, root int) *Request {
	return start(ctx, reduce(c, numberOf[T](), kernels.Bytes(dst), kernels.Bytes(src), operator{op: op}, root))
}

// NewReduce sets a [Reduce] up.
func NewReduce[T kernels.Number](c *comm.Communicator, dst, src []T, op kernels.Op, root int) (*Persistent, error) {
	return newPersistent(reduce(c, numberOf[T](), kernels.Bytes(dst), kernels.Bytes(src), operator{op: op}, root))
}

// AddReduce adds a [Reduce] to a group.
func AddReduce[T kernels.Number](g *GroupCalls, dst, src []T, op kernels.Op, root int) {
	g.add(reduce(g.comm(), numberOf[T](), kernels.Bytes(dst), kernels.Bytes(src), operator{op: op}, root))
}

// ReduceFunc is [Reduce] with an operator of the program's, see
// [Package collectives].
func ReduceFunc[T any](ctx context.Context, c *comm.Communicator, dst, src []T, f func(acc, x []T), root int) error {
	o := reduce(c, elementOf[T](), bytesOf(dst), bytesOf(src), byFunc(f), root)
	return o.run(ctx)
}

// StartReduceFunc starts a [ReduceFunc] and does not block; f is called on
// another goroutine.
func StartReduceFunc[T any](ctx context.Context, c *comm.Communicator, dst, src []T, f func(acc, x []T), root int) *Request {
	return start(ctx, reduce(c, elementOf[T](), bytesOf(dst), bytesOf(src), byFunc(f), root))
}

// NewReduceFunc sets a [ReduceFunc] up.
func NewReduceFunc[T any](c *comm.Communicator, dst, src []T, f func(acc, x []T), root int) (*Persistent, error) {
	return newPersistent(reduce(c, elementOf[T](), bytesOf(dst), bytesOf(src), byFunc(f), root))
}

// AddReduceFunc adds a [ReduceFunc] to a group.
func AddReduceFunc[T any](g *GroupCalls, dst, src []T, f func(acc, x []T), root int) {
	g.add(reduce(g.comm(), elementOf[T](), bytesOf(dst), bytesOf(src), byFunc(f), root))
}

func reduce(c *comm.Communicator, e element, dst, src []byte, by operator, root int) operation {
	count := e.count(src)
	o := operation{c: c, call: e.reduction(comm.OpReduce, count, by), dst: dst, src: src, f: by.f}
	o.call.Root = root
	o.err = first(checkCommunicator(c), by.check(c, e), checkRoot(c, root))
	if o.err == nil && c.Rank() == root {
		o.err = first(checkCount("dst", dst, e, count), checkAlias(dst, src))
	}
	o.byPlan(plan.Reduce, count)
	return o
}
