package collectives

import (
	"context"

	"github.com/weft-go/weft/collectives/plan"
	"github.com/weft-go/weft/comm"
)

// AllGatherV gathers blocks of different length: src of every rank comes to dst
// on every rank, in rank order. counts has the number of elements of each rank's
// src, Size of them, the same on all ranks; src has counts[Rank] elements and dst
// the sum of counts. src may be this rank's block of dst. It blocks until the result
// is there. Errors: [ErrCount], [ErrOverlap], [ErrType], and those of the package.
func AllGatherV[T any](ctx context.Context, c *comm.Communicator, dst []T, counts []int, src []T) error {
	o := allGatherV(c, elementOf[T](), bytesOf(dst), counts, bytesOf(src))
	return o.run(ctx)
}

// StartAllGatherV starts an [AllGatherV] and does not block.
func StartAllGatherV[T any](ctx context.Context, c *comm.Communicator, dst []T, counts []int, src []T) *Request {
	return start(ctx, allGatherV(c, elementOf[T](), bytesOf(dst), counts, bytesOf(src)))
}

// NewAllGatherV sets an [AllGatherV] up.
func NewAllGatherV[T any](c *comm.Communicator, dst []T, counts []int, src []T) (*Persistent, error) {
	return newPersistent(allGatherV(c, elementOf[T](), bytesOf(dst), counts, bytesOf(src)))
}

// AddAllGatherV adds an [AllGatherV] to a group.
func AddAllGatherV[T any](g *GroupCalls, dst []T, counts []int, src []T) {
	g.add(allGatherV(g.comm(), elementOf[T](), bytesOf(dst), counts, bytesOf(src)))
}

func allGatherV(c *comm.Communicator, e element, dst []byte, counts []int, src []byte) operation {
	total, err := e.total(c, "counts", counts)
	o := operation{c: c, call: e.call(comm.OpAllGatherV, total), dst: dst, src: src, dstCounts: counts}
	o.err = first(checkCommunicator(c), e.err, err, checkCount("dst", dst, e, total))
	if o.err == nil {
		o.call.Digest = digest(counts)
		o.err = first(checkCount("src", src, e, counts[c.Rank()]), checkBlock("src", src, "dst", dst, e.start(counts, c.Rank())))
		o.byPlanIfEqual(plan.AllGather, counts)
	}
	return o
}
