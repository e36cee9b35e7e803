package collectives

import (
	"context"

	"github.com/weft-go/weft/comm"
)

// GatherV gathers blocks of different length: src of every rank comes to dst on
// the root, in rank order. On the root counts has the number of elements of each
// rank's src, Size of them, dst has the sum of counts, and src may be its own block of
// dst; elsewhere dst and counts are ignored and may be nil. It blocks until this rank's
// part is done. Errors: [ErrCount], [ErrOverlap], [ErrRoot], [ErrType], and those of
// the package.
func GatherV[T any](ctx context.Context, c *comm.Communicator, dst []T, counts []int, src []T, root int) error {
	o := gatherV(c, elementOf[T](), bytesOf(dst), counts, bytesOf(src), root)
	return o.run(ctx)
}

// StartGatherV starts a [GatherV] and does not block.
func StartGatherV[T any](ctx context.Context, c *comm.Communicator, dst []T, counts []int, src []T, root int) *Request {
	return start(ctx, gatherV(c, elementOf[T](), bytesOf(dst), counts, bytesOf(src), root))
}

// NewGatherV sets a [GatherV] up.
func NewGatherV[T any](c *comm.Communicator, dst []T, counts []int, src []T, root int) (*Persistent, error) {
	return newPersistent(gatherV(c, elementOf[T](), bytesOf(dst), counts, bytesOf(src), root))
}

// AddGatherV adds a [GatherV] to a group.
func AddGatherV[T any](g *GroupCalls, dst []T, counts []int, src []T, root int) {
	g.add(gatherV(g.comm(), elementOf[T](), bytesOf(dst), counts, bytesOf(src), root))
}

func gatherV(c *comm.Communicator, e element, dst []byte, counts []int, src []byte, root int) operation {
	count := e.count(src)
	o := operation{c: c, call: e.call(comm.OpGatherV, count), src: src}
	o.call.Root = root
	o.err = first(checkCommunicator(c), e.err, checkRoot(c, root))
	if o.err == nil && c.Rank() == root {
		o.dst, o.dstCounts = dst, counts
		var total int
		total, o.err = e.total(c, "counts", counts)
		if o.err == nil {
			o.err = first(checkCount("dst", dst, e, total), checkCount("src", src, e, counts[root]))
		}
		if o.err == nil {
			o.err = checkBlock("src", src, "dst", dst, e.start(counts, root))
		}
	}
	return o
}
