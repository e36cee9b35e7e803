package collectives

import (
	"context"
	"fmt"

	"github.com/weft-go/weft/collectives/plan"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
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
		own := dst[c.Rank()*len(src):][:len(src)]
		if checkAlias(own, src) != nil || checkAlias(dst, src) != nil && !same(own, src) {
			err = fmt.Errorf("%w: src may only be this rank's block of dst", ErrOverlap)
		}
	}
	if err != nil {
		return refuse(c, call, err)
	}
	return collective(ctx, c, plan.AllGather, call, count, dst, src)
}

// same says whether two slices are the same memory.
func same(a, b []byte) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }
