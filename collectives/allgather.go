package collectives

import (
	"context"
	"fmt"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport/progress"
)

// AllGather gathers src of every rank in dst on every rank, in rank order. src
// has count elements, the same number on all ranks, and dst Size·count. src may
// be this rank's block of dst, dst[Rank·count : (Rank+1)·count]. It blocks until
// the result is there. Errors: [ErrCount], [ErrOverlap], and those of the package.
func AllGather[T kernels.Number](ctx context.Context, c *comm.Communicator, dst, src []T) error {
	return allGather(ctx, c, kernels.TypeOf[T](), kernels.Bytes(dst), kernels.Bytes(src))
}

func allGather(ctx context.Context, c *comm.Communicator, t kernels.Type, dst, src []byte) error {
	count := len(src) / t.Size()
	call := comm.Call{Collective: comm.OpAllGather, Count: count, Type: t}
	err := first(checkCommunicator(c), checkCount("dst", dst, t, c.Size()*count))
	if err == nil {
		own := span{0, len(src)}.shift(c.Rank() * len(src)).of(dst)
		if checkAlias(own, src) != nil || checkAlias(dst, src) != nil && !same(own, src) {
			err = fmt.Errorf("%w: src may only be this rank's block of dst", ErrOverlap)
		}
	}
	if err != nil {
		return refuse(c, call, err)
	}
	e, err := c.Begin(ctx, call)
	if err != nil {
		return err
	}
	return c.End(allGatherDirect(e, dst, src))
}

// same says whether two slices are the same memory.
func same(a, b []byte) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// allGatherDirect: every rank sends to every other, chunk by chunk. Each sends
// and receives (n−1)·S bytes.
func allGatherDirect(e *progress.Engine, dst, src []byte) error {
	block := span{0, len(src)}
	copy(block.shift(e.Rank()*len(src)).of(dst), src)
	for r := range block.rounds(e.MessageBytes()) {
		part := block.chunk(r, e.MessageBytes())
		if err := sendAll(e, part.of(src)); err != nil {
			return err
		}
		for i := 1; i < e.Ranks(); i++ {
			p := peer(e, i)
			if err := receive(e, p, part.shift(p*len(src)).of(dst)); err != nil {
				return err
			}
		}
	}
	return nil
}
