package collectives

import (
	"context"

	"github.com/weft-go/weft/collectives/plan"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

// Scan stores in dst on rank r the reduction of src over the ranks 0…r. dst and
// src have count elements each, the same on all ranks; dst may be src. [kernels.Avg]
// is refused. It blocks until this rank's part is done. Errors: [ErrCount],
// [ErrOverlap], [ErrOperator], and those of the package.
func Scan[T kernels.Number](ctx context.Context, c *comm.Communicator, dst, src []T, op kernels.Op) error {
	return quickPrefix(ctx, c, plan.Scan, numberOf[T](), kernels.Bytes(dst), kernels.Bytes(src), op)
}

// StartScan starts a [Scan] and does not block.
func StartScan[T kernels.Number](ctx context.Context, c *comm.Communicator, dst, src []T, op kernels.Op) *Request {
	return start(ctx, scan(c, numberOf[T](), kernels.Bytes(dst), kernels.Bytes(src), operator{op: op}))
}

// NewScan sets a [Scan] up.
func NewScan[T kernels.Number](c *comm.Communicator, dst, src []T, op kernels.Op) (*Persistent, error) {
	return newPersistent(scan(c, numberOf[T](), kernels.Bytes(dst), kernels.Bytes(src), operator{op: op}))
}

// AddScan adds a [Scan] to a group.
func AddScan[T kernels.Number](g *GroupCalls, dst, src []T, op kernels.Op) {
	g.add(scan(g.comm(), numberOf[T](), kernels.Bytes(dst), kernels.Bytes(src), operator{op: op}))
}

// ScanFunc is [Scan] with an operator of the program's, see
// [Package collectives].
func ScanFunc[T any](ctx context.Context, c *comm.Communicator, dst, src []T, f func(acc, x []T)) error {
	o := scan(c, elementOf[T](), bytesOf(dst), bytesOf(src), byFunc(f))
	return o.run(ctx)
}

// StartScanFunc starts a [ScanFunc] and does not block; f is called on
// another goroutine.
func StartScanFunc[T any](ctx context.Context, c *comm.Communicator, dst, src []T, f func(acc, x []T)) *Request {
	return start(ctx, scan(c, elementOf[T](), bytesOf(dst), bytesOf(src), byFunc(f)))
}

// NewScanFunc sets a [ScanFunc] up.
func NewScanFunc[T any](c *comm.Communicator, dst, src []T, f func(acc, x []T)) (*Persistent, error) {
	return newPersistent(scan(c, elementOf[T](), bytesOf(dst), bytesOf(src), byFunc(f)))
}

// AddScanFunc adds a [ScanFunc] to a group.
func AddScanFunc[T any](g *GroupCalls, dst, src []T, f func(acc, x []T)) {
	g.add(scan(g.comm(), elementOf[T](), bytesOf(dst), bytesOf(src), byFunc(f)))
}

func scan(c *comm.Communicator, e element, dst, src []byte, by operator) operation {
	return prefix(c, comm.OpScan, plan.Scan, e, dst, src, by)
}

// quickPrefix is the blocking form of Scan or Exscan, see [quick].
func quickPrefix(ctx context.Context, c *comm.Communicator, k plan.Collective, e element, dst, src []byte, op kernels.Op) error {
	if few(len(src)) && len(dst) == len(src) && op != kernels.Avg && op.Supports(e.t) && mayAlias(dst, src) {
		return quick(ctx, c, k, e.t, op, 0, len(src)/e.size, len(src), dst, src)
	}
	o := made(c, k, e.t, op, 0, dst, src)
	return o.run(ctx)
}

// prefix is Scan or Exscan.
func prefix(c *comm.Communicator, k comm.Collective, p plan.Collective, e element, dst, src []byte, by operator) operation {
	count := e.count(src)
	o := operation{c: c, call: e.reduction(k, count, by), dst: dst, src: src, f: by.f}
	o.err = first(checkCommunicator(c), by.checkPrefix(c, e), checkCount("dst", dst, e, count), checkAlias(dst, src))
	o.byPlan(p, count)
	return o
}
