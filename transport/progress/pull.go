package progress

import (
	"fmt"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
)

// PullReduce stores the reduction of what all ranks contribute, of the len(dst) bytes
// at offset, a multiple of [transport.Granule], in dst. What is posted meanwhile may
// still be under way when it returns.
func (e *Engine) PullReduce(dst []byte, offset uint64, op transport.RedOp, t kernels.Type) error {
	g := &e.group
	if n := uint64(len(dst)); !g.open || offset%transport.Granule != 0 || offset > g.contributed || n > g.contributed-offset {
		return fmt.Errorf("progress: %d bytes pulled at %d of the %d that each rank contributes: %w", n, offset, g.contributed, transport.ErrBounds)
	}
	e.t.Fence(transport.FenceRelease) // our own replica was written through a pointer
	most := transport.MaxGetBytes
	if e.faulty {
		most = zoneBytes
	}
	for len(dst) > 0 {
		n := min(len(dst), most)
		var err error
		by := e.choose(e.rank, 0)
		e.begins(e.rank, by)
		switch by {
		case byPointer:
			err = e.pullStored(dst[:n], offset, op, t)
		case byChannel:
			err = e.pullAround(dst[:n], offset, op, t)
		default:
			err = e.launch(flight{offset: offset, data: dst[:n], op: op, t: t})
		}
		if err != nil {
			return err
		}
		dst, offset = dst[n:], offset+uint64(n)
	}
	for i := range g.flights {
		if f := &g.flights[i]; f.under && !f.put {
			if err := e.land(f); err != nil {
				return err
			}
		}
	}
	return nil
}
