package collectives

import (
	"context"

	"github.com/weft-go/weft/collectives/plan"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

// ReduceScatterBlock reduces src over all ranks and stores block p of the result
// in dst on rank p. dst has count elements and src Size·count, the same on all ranks.
// dst may be this rank's block of src, as with NCCL, or the beginning of src, as with
// MPI, for which the result is put together elsewhere and copied. It blocks until the
// result is there. Errors: [ErrCount], [ErrOverlap], [ErrOperator], and those of the
// package.
func ReduceScatterBlock[T kernels.Number](ctx context.Context, c *comm.Communicator, dst, src []T, op kernels.Op) error {
	e, d, s := numberOf[T](), kernels.Bytes(dst), kernels.Bytes(src)
	if few(len(d)) && op.Supports(e.t) && len(s) == c.Size()*len(d) && mayBlock(d, s, c.Rank()*len(d)) {
		return quick(ctx, c, plan.ReduceScatter, e.t, op, 0, len(dst), len(d), d, s)
	}
	o := reduceScatterBlock(c, e, d, s, operator{op: op})
	return o.run(ctx)
}

// StartReduceScatterBlock starts a [ReduceScatterBlock] and does not block.
func StartReduceScatterBlock[T kernels.Number](ctx context.Context, c *comm.Communicator, dst, src []T, op kernels.Op) *Request {
	return start(ctx, reduceScatterBlock(c, numberOf[T](), kernels.Bytes(dst), kernels.Bytes(src), operator{op: op}))
}

// NewReduceScatterBlock sets a [ReduceScatterBlock] up.
func NewReduceScatterBlock[T kernels.Number](c *comm.Communicator, dst, src []T, op kernels.Op) (*Persistent, error) {
	return newPersistent(reduceScatterBlock(c, numberOf[T](), kernels.Bytes(dst), kernels.Bytes(src), operator{op: op}))
}

// AddReduceScatterBlock adds a [ReduceScatterBlock] to a group.
func AddReduceScatterBlock[T kernels.Number](g *GroupCalls, dst, src []T, op kernels.Op) {
	g.add(reduceScatterBlock(g.comm(), numberOf[T](), kernels.Bytes(dst), kernels.Bytes(src), operator{op: op}))
}

// ReduceScatterBlockFunc is [ReduceScatterBlock] with an operator of the
// program's, see [Package collectives].
func ReduceScatterBlockFunc[T any](ctx context.Context, c *comm.Communicator, dst, src []T, f func(acc, x []T)) error {
	o := reduceScatterBlock(c, elementOf[T](), bytesOf(dst), bytesOf(src), byFunc(f))
	return o.run(ctx)
}

// StartReduceScatterBlockFunc starts a [ReduceScatterBlockFunc] and does not block; f is called on
// another goroutine.
func StartReduceScatterBlockFunc[T any](ctx context.Context, c *comm.Communicator, dst, src []T, f func(acc, x []T)) *Request {
	return start(ctx, reduceScatterBlock(c, elementOf[T](), bytesOf(dst), bytesOf(src), byFunc(f)))
}

// NewReduceScatterBlockFunc sets a [ReduceScatterBlockFunc] up.
func NewReduceScatterBlockFunc[T any](c *comm.Communicator, dst, src []T, f func(acc, x []T)) (*Persistent, error) {
	return newPersistent(reduceScatterBlock(c, elementOf[T](), bytesOf(dst), bytesOf(src), byFunc(f)))
}

// AddReduceScatterBlockFunc adds a [ReduceScatterBlockFunc] to a group.
func AddReduceScatterBlockFunc[T any](g *GroupCalls, dst, src []T, f func(acc, x []T)) {
	g.add(reduceScatterBlock(g.comm(), elementOf[T](), bytesOf(dst), bytesOf(src), byFunc(f)))
}

func reduceScatterBlock(c *comm.Communicator, e element, dst, src []byte, by operator) operation {
	count := e.count(dst)
	o := operation{c: c, call: e.reduction(comm.OpReduceScatterBlock, count, by), dst: dst, src: src, f: by.f}
	o.err = first(checkCommunicator(c), by.check(c, e), checkCount("src", src, e, c.Size()*count))
	if o.err == nil {
		o.err = o.checkResult(c.Rank() * len(dst))
	}
	o.byPlan(plan.ReduceScatter, count)
	return o
}
