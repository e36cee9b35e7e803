package collectives

import (
	"context"

	"github.com/weft-go/weft/comm"
)

// ScatterV is [Scatter] with blocks of different length. On the root counts has
// the number of elements of each rank's dst, Size of them, src has the sum of counts,
// and dst may be its own block of src; elsewhere src and counts are ignored and may be
// nil. It blocks until this rank's part is done. Errors: [ErrCount], [ErrOverlap],
// [ErrRoot], [ErrType], and those of the package.
func ScatterV[T any](ctx context.Context, c *comm.Communicator, dst, src []T, counts []int, root int) error {
	o := scatterV(c, elementOf[T](), bytesOf(dst), bytesOf(src), counts, root)
	return o.run(ctx)
}

// StartScatterV starts a [ScatterV] and does not block.
func StartScatterV[T any](ctx context.Context, c *comm.Communicator, dst, src []T, counts []int, root int) *Request {
	return start(ctx, scatterV(c, elementOf[T](), bytesOf(dst), bytesOf(src), counts, root))
}

// NewScatterV sets a [ScatterV] up.
func NewScatterV[T any](c *comm.Communicator, dst, src []T, counts []int, root int) (*Persistent, error) {
	return newPersistent(scatterV(c, elementOf[T](), bytesOf(dst), bytesOf(src), counts, root))
}

// AddScatterV adds a [ScatterV] to a group.
func AddScatterV[T any](g *GroupCalls, dst, src []T, counts []int, root int) {
	g.add(scatterV(g.comm(), elementOf[T](), bytesOf(dst), bytesOf(src), counts, root))
}

func scatterV(c *comm.Communicator, e element, dst, src []byte, counts []int, root int) operation {
	count := e.count(dst)
	o := operation{c: c, call: e.call(comm.OpScatterV, count), dst: dst}
	o.call.Root = root
	o.err = first(checkCommunicator(c), e.err, checkRoot(c, root))
	if o.err == nil && c.Rank() == root {
		o.src, o.srcCounts = src, counts
		var total int
		total, o.err = e.total(c, "counts", counts)
		if o.err == nil {
			o.err = first(checkCount("src", src, e, total), checkCount("dst", dst, e, counts[root]))
		}
		if o.err == nil {
			o.err = checkBlock("dst", dst, "src", src, e.start(counts, root))
		}
	}
	return o
}
