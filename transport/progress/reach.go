package progress

import (
	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/internal/elementwise"
)

// This file goes around multicast memory by pointer, where all replicas can be reached
// so. A posting is stored in the same cell of each: what a put that was reported may
// still bring there is the same. A pull reads what each rank contributes, which is
// never the target of an operation.

// reachMulti finds the replicas of new multicast memory.
func (e *Engine) reachMulti() {
	g, own := &e.group, &e.roads[e.rank]
	g.reached = g.reached[:0]
	own.open = own.open.less(waySet(0).with(byPointer))
	for r := range e.layout.Ranks {
		a := e.reach(g.ep.ID(), r)
		if a == nil {
			g.reached = nil
			return
		}
		g.reached = append(g.reached, a)
	}
	own.open = own.open.with(byPointer)
}

// postStored stores data at an offset of all replicas, the last unit padded.
func (e *Engine) postStored(offset uint64, data []byte) error {
	whole := len(data) / transport.Granule * transport.Granule
	rest := padded(e.stage, copy(e.stage[:transport.Granule], data[whole:]))
	e.t.Fence(transport.FenceAcquire)
	defer e.t.Fence(transport.FenceRelease)
	for _, a := range e.group.reached {
		if err := a.Store(offset, data[:whole]); err != nil {
			return err
		}
		if err := a.Store(offset+uint64(whole), rest); err != nil {
			return err
		}
	}
	e.works(e.rank, byPointer)
	return nil
}

// pullStored does as PullReduce with at most a zone's bytes, by reading each replica.
func (e *Engine) pullStored(dst []byte, offset uint64, op transport.RedOp, t kernels.Type) error {
	g, whole := &e.group, roundUp(len(dst))
	for len(g.loaded) <= len(g.reached) {
		g.loaded = append(g.loaded, make([]byte, zoneBytes))
	}
	g.srcs = g.srcs[:0]
	for r, a := range g.reached {
		src := g.loaded[r][:whole]
		if err := a.Load(src, offset); err != nil {
			return err
		}
		g.srcs = append(g.srcs, src)
	}
	result := g.loaded[len(g.reached)][:whole]
	if err := elementwise.PullRed(result, g.srcs, op, t); err != nil {
		return err
	}
	copy(dst, result)
	e.works(e.rank, byPointer)
	return nil
}
