package collectives

import (
	"context"
	"fmt"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport/progress"
)

// AllToAll sends block p of src to rank p, where it becomes block Rank of dst.
// src and dst have Size·count elements each, in Size blocks of count, the same on
// all ranks; dst may be src. It blocks until the result is there. Errors:
// [ErrCount], [ErrOverlap], and those of the package.
func AllToAll[T kernels.Number](ctx context.Context, c *comm.Communicator, dst, src []T) error {
	return allToAll(ctx, c, kernels.TypeOf[T](), kernels.Bytes(dst), kernels.Bytes(src))
}

func allToAll(ctx context.Context, c *comm.Communicator, t kernels.Type, dst, src []byte) error {
	total := len(src) / t.Size()
	call := comm.Call{Collective: comm.OpAllToAll, Count: total, Type: t}
	err := first(checkCommunicator(c), checkCount("dst", dst, t, total), checkAlias(dst, src))
	if err == nil && total%c.Size() != 0 {
		err = fmt.Errorf("%w: %d are not blocks for %d ranks", ErrCount, total, c.Size())
	}
	if err != nil {
		return refuse(c, call, err)
	}
	e, err := c.Begin(ctx, call)
	if err != nil {
		return err
	}
	return c.End(allToAllDirect(e, dst, src))
}

// allToAllDirect: every rank sends to every other, chunk by chunk. Each sends and
// receives S·(n−1)/n bytes. A chunk of dst is written after the same chunk of src
// was sent, so dst may be src.
func allToAllDirect(e *progress.Engine, dst, src []byte) error {
	blockBytes := len(src) / e.Ranks()
	block := span{0, blockBytes}
	own := block.shift(e.Rank() * blockBytes)
	copy(own.of(dst), own.of(src))
	for r := range block.rounds(e.MessageBytes()) {
		part := block.chunk(r, e.MessageBytes())
		for i := 1; i < e.Ranks(); i++ {
			p := peer(e, i)
			if err := e.Send(p, part.shift(p*blockBytes).of(src)); err != nil {
				return err
			}
		}
		for i := 1; i < e.Ranks(); i++ {
			p := peer(e, i)
			if err := receive(e, p, part.shift(p*blockBytes).of(dst)); err != nil {
				return err
			}
		}
	}
	return nil
}
