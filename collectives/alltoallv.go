package collectives

import (
	"context"
	"fmt"
	"slices"

	"github.com/weft-go/weft/comm"
)

// AllToAllV is [AllToAll] with blocks of different length: block p of src, of
// srcCounts[p] elements, goes to rank p, where it becomes block Rank of dst. On
// each rank srcCounts and dstCounts have Size numbers; dstCounts[p] on rank r is
// srcCounts[r] on rank p. src has the sum of srcCounts elements and dst that of
// dstCounts, their blocks one after the other. dst may be src if dstCounts equals
// srcCounts. It blocks until the result is there. Errors: [ErrCount], [ErrOverlap],
// [ErrType], and those of the package.
func AllToAllV[T any](ctx context.Context, c *comm.Communicator, dst []T, dstCounts []int, src []T, srcCounts []int) error {
	o := allToAllV(c, elementOf[T](), bytesOf(dst), dstCounts, bytesOf(src), srcCounts)
	return o.run(ctx)
}

// StartAllToAllV starts an [AllToAllV] and does not block.
func StartAllToAllV[T any](ctx context.Context, c *comm.Communicator, dst []T, dstCounts []int, src []T, srcCounts []int) *Request {
	return start(ctx, allToAllV(c, elementOf[T](), bytesOf(dst), dstCounts, bytesOf(src), srcCounts))
}

// NewAllToAllV sets an [AllToAllV] up.
func NewAllToAllV[T any](c *comm.Communicator, dst []T, dstCounts []int, src []T, srcCounts []int) (*Persistent, error) {
	return newPersistent(allToAllV(c, elementOf[T](), bytesOf(dst), dstCounts, bytesOf(src), srcCounts))
}

// AddAllToAllV adds an [AllToAllV] to a group.
func AddAllToAllV[T any](g *GroupCalls, dst []T, dstCounts []int, src []T, srcCounts []int) {
	g.add(allToAllV(g.comm(), elementOf[T](), bytesOf(dst), dstCounts, bytesOf(src), srcCounts))
}

func allToAllV(c *comm.Communicator, e element, dst []byte, dstCounts []int, src []byte, srcCounts []int) operation {
	in, inErr := e.total(c, "dstCounts", dstCounts)
	out, outErr := e.total(c, "srcCounts", srcCounts)
	o := operation{c: c, call: e.call(comm.OpAllToAllV, out), dst: dst, src: src, dstCounts: dstCounts, srcCounts: srcCounts}
	o.err = first(checkCommunicator(c), e.err, inErr, outErr, checkCount("dst", dst, e, in), checkCount("src", src, e, out), checkAlias(dst, src))
	if o.err == nil {
		me := c.Rank()
		switch {
		case dstCounts[me] != srcCounts[me]:
			o.err = fmt.Errorf("%w: this rank sends itself %d and expects %d", ErrCount, srcCounts[me], dstCounts[me])
		case same(dst, src) && !slices.Equal(dstCounts, srcCounts):
			o.err = fmt.Errorf("%w: in place, and dstCounts is not srcCounts", ErrOverlap)
		}
	}
	return o
}
