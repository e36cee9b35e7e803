package collectives

import (
	"context"

	"github.com/weft-go/weft/collectives/plan"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

// ReduceScatter is [ReduceScatterBlock] with blocks of different length. counts
// has the number of elements of each rank's dst, Size of them, the same on all ranks;
// dst has counts[Rank] elements and src the sum of counts. dst may be this rank's block
// of src, or the beginning of src. It blocks until the result is there. Errors:
// [ErrCount], [ErrOverlap], [ErrOperator], and those of the package.
func ReduceScatter[T kernels.Number](ctx context.Context, c *comm.Communicator, dst, src []T, counts []int, op kernels.Op) error {
	o := reduceScatter(c, numberOf[T](), kernels.Bytes(dst), kernels.Bytes(src), counts, operator{op: op})
	return o.run(ctx)
}

// StartReduceScatter starts a [ReduceScatter] and does not block.
func StartReduceScatter[T kernels.Number](ctx context.Context, c *comm.Communicator, dst, src []T, counts []int, op kernels.Op) *Request {
	return start(ctx, reduceScatter(c, numberOf[T](), kernels.Bytes(dst), kernels.Bytes(src), counts, operator{op: op}))
}

// NewReduceScatter sets a [ReduceScatter] up.
func NewReduceScatter[T kernels.Number](c *comm.Communicator, dst, src []T, counts []int, op kernels.Op) (*Persistent, error) {
	return newPersistent(reduceScatter(c, numberOf[T](), kernels.Bytes(dst), kernels.Bytes(src), counts, operator{op: op}))
}

// AddReduceScatter adds a [ReduceScatter] to a group.
func AddReduceScatter[T kernels.Number](g *GroupCalls, dst, src []T, counts []int, op kernels.Op) {
	g.add(reduceScatter(g.comm(), numberOf[T](), kernels.Bytes(dst), kernels.Bytes(src), counts, operator{op: op}))
}

// ReduceScatterFunc is [ReduceScatter] with an operator of the program's, see
// [Package collectives].
func ReduceScatterFunc[T any](ctx context.Context, c *comm.Communicator, dst, src []T, counts []int, f func(acc, x []T)) error {
	o := reduceScatter(c, elementOf[T](), bytesOf(dst), bytesOf(src), counts, byFunc(f))
	return o.run(ctx)
}

// StartReduceScatterFunc starts a [ReduceScatterFunc] and does not block; f is called on
// another goroutine.
func StartReduceScatterFunc[T any](ctx context.Context, c *comm.Communicator, dst, src []T, counts []int, f func(acc, x []T)) *Request {
	return start(ctx, reduceScatter(c, elementOf[T](), bytesOf(dst), bytesOf(src), counts, byFunc(f)))
}

// NewReduceScatterFunc sets a [ReduceScatterFunc] up.
func NewReduceScatterFunc[T any](c *comm.Communicator, dst, src []T, counts []int, f func(acc, x []T)) (*Persistent, error) {
	return newPersistent(reduceScatter(c, elementOf[T](), bytesOf(dst), bytesOf(src), counts, byFunc(f)))
}

// AddReduceScatterFunc adds a [ReduceScatterFunc] to a group.
func AddReduceScatterFunc[T any](g *GroupCalls, dst, src []T, counts []int, f func(acc, x []T)) {
	g.add(reduceScatter(g.comm(), elementOf[T](), bytesOf(dst), bytesOf(src), counts, byFunc(f)))
}

func reduceScatter(c *comm.Communicator, e element, dst, src []byte, counts []int, by operator) operation {
	total, err := e.total(c, "counts", counts)
	o := operation{c: c, call: e.reduction(comm.OpReduceScatter, total, by), dst: dst, src: src, srcCounts: counts, f: by.f}
	o.err = first(checkCommunicator(c), by.check(c, e), err, checkCount("src", src, e, total))
	if o.err == nil {
		o.call.Digest = digest(counts)
		o.err = first(checkCount("dst", dst, e, counts[c.Rank()]), o.checkResult(e.start(counts, c.Rank())))
		o.byPlanIfEqual(plan.ReduceScatter, counts)
	}
	return o
}
