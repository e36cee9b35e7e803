package collectives

import (
	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport/progress"
)

// allReduceTwoShot is the direct two-shot algorithm (reduce-scatter, then
// all-gather): each rank owns a share of the elements. It gets that share from
// all ranks, reduces it in rank order, and sends the result to all. Two steps;
// each rank sends and receives 2·S·(n−1)/n bytes and reduces S. The message is
// cut into chunks of one cell, which go through both steps one after the other.
func allReduceTwoShot(e *progress.Engine, t kernels.Type, dst, src []byte, op kernels.Op) error {
	count, n := len(src)/t.Size(), e.Ranks()
	most := share(count, n, 0, t.Size()) // the first share is the largest
	chunkBytes := e.MessageBytes() / t.Size() * t.Size()
	mine := share(count, n, e.Rank(), t.Size())

	for r := range most.rounds(chunkBytes) {
		for i := 1; i < n; i++ {
			p := peer(e, i)
			if part := share(count, n, p, t.Size()).chunk(r, chunkBytes); part.len() > 0 {
				if err := e.Send(p, part.of(src)); err != nil {
					return err
				}
			}
		}
		if part := mine.chunk(r, chunkBytes); part.len() > 0 {
			if err := reduceInOrder(e, t, part.of(dst), part.of(src), op); err != nil {
				return err
			}
			if err := sendAll(e, part.of(dst)); err != nil {
				return err
			}
		}
		for i := 1; i < n; i++ {
			p := peer(e, i)
			if part := share(count, n, p, t.Size()).chunk(r, chunkBytes); part.len() > 0 {
				if err := receive(e, p, part.of(dst)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// receive copies the next message of a peer into dst, which is as long.
func receive(e *progress.Engine, peer int, dst []byte) error {
	msg, err := e.Recv(peer, len(dst))
	if err != nil {
		return err
	}
	copy(dst, msg)
	return e.Release(peer)
}
