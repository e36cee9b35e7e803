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
	e, d, s := numberOf[T](), kernels.Bytes(dst), kernels.Bytes(src)
	if few(len(s)) && len(d) == len(s) && op.Supports(e.t) && mayAlias(d, s) {
		return quick(ctx, c, plan.AllReduce, e.t, op, 0, len(src), len(s), d, s)
	}
	o := allReduce(c, e, d, s, operator{op: op})
	return o.run(ctx)
}

// StartAllReduce starts an [AllReduce] and does not block.
func StartAllReduce[T kernels.Number](ctx context.Context, c *comm.Communicator, dst, src []T, op kernels.Op) *Request {
	return start(ctx, allReduce(c, numberOf[T](), kernels.Bytes(dst), kernels.Bytes(src), operator{op: op}))
}

// NewAllReduce sets an [AllReduce] up.
func NewAllReduce[T kernels.Number](c *comm.Communicator, dst, src []T, op kernels.Op) (*Persistent, error) {
	return newPersistent(allReduce(c, numberOf[T](), kernels.Bytes(dst), kernels.Bytes(src), operator{op: op}))
}

// AddAllReduce adds an [AllReduce] to a group.
func AddAllReduce[T kernels.Number](g *GroupCalls, dst, src []T, op kernels.Op) {
	g.add(allReduce(g.comm(), numberOf[T](), kernels.Bytes(dst), kernels.Bytes(src), operator{op: op}))
}

// AllReduceFunc is [AllReduce] with an operator of the program's, see
// [Package collectives].
func AllReduceFunc[T any](ctx context.Context, c *comm.Communicator, dst, src []T, f func(acc, x []T)) error {
	o := allReduce(c, elementOf[T](), bytesOf(dst), bytesOf(src), byFunc(f))
	return o.run(ctx)
}

// StartAllReduceFunc starts an [AllReduceFunc] and does not block; f is called on
// another goroutine.
func StartAllReduceFunc[T any](ctx context.Context, c *comm.Communicator, dst, src []T, f func(acc, x []T)) *Request {
	return start(ctx, allReduce(c, elementOf[T](), bytesOf(dst), bytesOf(src), byFunc(f)))
}

// NewAllReduceFunc sets an [AllReduceFunc] up.
func NewAllReduceFunc[T any](c *comm.Communicator, dst, src []T, f func(acc, x []T)) (*Persistent, error) {
	return newPersistent(allReduce(c, elementOf[T](), bytesOf(dst), bytesOf(src), byFunc(f)))
}

// AddAllReduceFunc adds an [AllReduceFunc] to a group.
func AddAllReduceFunc[T any](g *GroupCalls, dst, src []T, f func(acc, x []T)) {
	g.add(allReduce(g.comm(), elementOf[T](), bytesOf(dst), bytesOf(src), byFunc(f)))
}

func allReduce(c *comm.Communicator, e element, dst, src []byte, by operator) operation {
	count := e.count(src)
	o := operation{c: c, call: e.reduction(comm.OpAllReduce, count, by), dst: dst, src: src, f: by.f}
	o.err = first(checkCommunicator(c), by.check(c, e), checkCount("dst", dst, e, count), checkAlias(dst, src))
	o.byPlan(plan.AllReduce, count)
	return o
}
