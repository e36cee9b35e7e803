package progress

import (
	"fmt"
	"time"

	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/progress/lane"
)

// posting is what this rank has put to a slot of its board since its last message.
type posting struct {
	begun bool
	cell  int // or lane.NoCell: it goes by detour
	way   way
	// lost: a put of it failed for good, so that all of it goes another way.
	lost  bool
	parts []part
}

// part is what one put brings.
type part struct {
	offset uint64 // in the cell
	data   []byte
}

// PutMulti posts data to all ranks, this one included: at offset of a slot of this
// rank's board. It returns when that has started. The next message to any rank, or
// Settle, waits until it is done; until then data must not change. What is put to a
// slot between two messages is one posting. The posting before is gone, on all ranks,
// when the next begins: they must all have read it.
//
// The offset is a multiple of [transport.Granule]; what is between the end of the data
// and the next such multiple is overwritten as well.
func (e *Engine) PutMulti(slot int, offset uint64, data []byte) error {
	g := &e.group
	n := uint64(len(data))
	if !g.open || slot < 0 || slot >= lane.Slots || offset%transport.Granule != 0 || offset > g.cellBytes || n > g.cellBytes-offset {
		return fmt.Errorf("progress: %d bytes posted at %d of slot %d, where cells have %d bytes: %w", n, offset, slot, g.cellBytes, transport.ErrBounds)
	}
	if n == 0 {
		return nil
	}
	p := &g.posts[slot]
	if !p.begun {
		if err := e.beginPosting(p, slot); err != nil {
			return err
		}
	}
	p.parts = append(p.parts, part{offset, data})
	if p.cell == lane.NoCell {
		return nil // when all of it is known
	}
	at := g.offset(e.rank, p.cell) + offset
	if p.way == byPointer {
		e.stats[e.rank].Messages++
		e.stats[e.rank].Bytes += n
		return e.postStored(at, data)
	}
	for len(data) > 0 {
		n := min(len(data), transport.MaxPutBytes)
		if err := e.launch(flight{put: true, slot: slot, offset: at, data: data[:n]}); err != nil {
			return err
		}
		data, at = data[n:], at+uint64(n)
	}
	return nil
}

func (e *Engine) beginPosting(p *posting, slot int) error {
	p.cell, p.lost, p.way = lane.NoCell, false, e.choose(e.rank, 0)
	e.begins(e.rank, p.way)
	if p.way != byChannel {
		var err error
		if p.cell, err = e.group.board.Post(slot); err != nil && e.detour == nil {
			return e.outOfCells(transport.OpPutMultimem, e.rank, uint64(slot))
		}
	}
	p.begun = true
	return nil
}

// Settle waits until all that was posted is where it can be read, so that the next
// message can tell, and until what it was put from may change.
func (e *Engine) Settle() error {
	g := &e.group
	for i := range g.flights {
		if f := &g.flights[i]; f.under {
			if err := e.land(f); err != nil {
				return err
			}
		}
	}
	posted := false
	for slot := range g.posts {
		p := &g.posts[slot]
		if !p.begun {
			continue
		}
		if p.cell == lane.NoCell || p.lost {
			begin := time.Now()
			if err := e.postAround(slot, p.parts); err != nil {
				return err
			}
			e.stats[e.rank].Lost += time.Since(begin)
		}
		clear(p.parts)
		p.begun, p.parts, posted = false, p.parts[:0], true
	}
	for !g.board.Finished() {
		if err := e.pause(0, e.rank); err != nil {
			return err
		}
		e.collect()
	}
	if posted {
		g.bulletin, _ = g.board.Bulletin() // nothing is under way
		g.told[e.rank].Told(g.bulletin)
	}
	if g.open {
		e.t.Fence(transport.FenceRelease) // what we contribute was written by pointer
	}
	return nil
}

// Board returns the cell with the latest posting to a slot of a rank's board, of which
// the last message from that rank told; or of this rank's own, if it has sent a
// message since. It may wait for it, if it comes by detour. It is valid until this
// rank sends a message after which the owner may post to the slot again.
func (e *Engine) Board(owner, slot int) ([]byte, error) {
	g := &e.group
	if !g.open || owner < 0 || owner >= len(g.told) || slot < 0 || slot >= lane.Slots {
		return nil, fmt.Errorf("progress: slot %d of the board of rank %d: %w", slot, owner, transport.ErrBounds)
	}
	told := &g.told[owner]
	cell, ok := told.Place(slot).Cell()
	if !ok {
		return e.takeBox(owner, slot, told)
	}
	if cell >= g.cells {
		return nil, fmt.Errorf("progress: rank %d posted in cell %d of %d: %w", owner, cell, g.cells, transport.ErrBounds)
	}
	e.t.Fence(transport.FenceAcquire)
	from := g.offset(owner, cell)
	return g.mem.Bytes()[from : from+g.cellBytes : from+g.cellBytes], nil
}
