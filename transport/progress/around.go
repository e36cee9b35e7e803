package progress

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/internal/elementwise"
	"github.com/weft-go/weft/transport/progress/lane"
)

// This file goes around multicast memory when the way to it does not work. A posting
// is sent to each rank by detour; a pull asks each for what it contributes, which
// answers without its engine's goroutine: what is contributed stays as it is until
// whoever may pull it has sent a message.

// boxes are where postings of one rank lie that came by detour, or of this rank that
// went so. They are filled by the goroutine that hears the rank.
type boxes struct {
	count atomic.Uint64 // of parts that came
	mu    sync.Mutex
	slots [lane.Slots]box
}

// A box holds the last posting to a slot that came.
type box struct {
	number  uint64
	missing uint64 // bytes
	data    []byte
}

// A posted part says where in a posting it belongs, before the data.
type posted struct {
	offset uint64
	total  uint64 // bytes of all parts of the posting
	extent uint64 // end of the last
}

const (
	postedBytes = 24
	maxExtent   = 1 << 28
	// aroundBytes is the most that one detour takes of multicast memory.
	aroundBytes = zoneBytes
)

func (p posted) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, p.offset)
	b = binary.LittleEndian.AppendUint64(b, p.total)
	return binary.LittleEndian.AppendUint64(b, p.extent)
}

// add takes a part of a posting.
func (x *boxes) add(slot int, number uint64, d []byte) error {
	if len(d) <= postedBytes || slot < 0 || slot >= lane.Slots {
		return fmt.Errorf("%w: %d bytes posted to slot %d", ErrDetour, len(d), slot)
	}
	p := posted{binary.LittleEndian.Uint64(d), binary.LittleEndian.Uint64(d[8:]), binary.LittleEndian.Uint64(d[16:])}
	d = d[postedBytes:]
	n := uint64(len(d))
	x.mu.Lock()
	defer x.mu.Unlock()
	b := &x.slots[slot]
	if p.extent > maxExtent || p.total > p.extent || p.offset > p.extent || n > p.extent-p.offset || number < b.number ||
		number == b.number && (n > b.missing || p.extent != uint64(len(b.data))) {
		return fmt.Errorf("%w: %d bytes posted at %d of %d", ErrDetour, n, p.offset, p.extent)
	}
	if number > b.number {
		if n > p.total {
			return fmt.Errorf("%w: %d bytes of %d posted", ErrDetour, n, p.total)
		}
		*b = box{number: number, missing: p.total, data: make([]byte, p.extent)}
	}
	copy(b.data[p.offset:], d)
	b.missing -= n
	x.count.Add(1)
	return nil
}

// takeBox waits for the posting of which a rank told, and returns it.
func (e *Engine) takeBox(owner, slot int, told *lane.Reader) ([]byte, error) {
	x := &e.group.boxes[owner]
	for {
		news := x.count.Load() + 1
		x.mu.Lock()
		b := x.slots[slot]
		x.mu.Unlock()
		if b.missing == 0 && told.Holds(slot, b.number) {
			return b.data, nil
		}
		e.words = append(e.words[:0], word{own: &x.count, want: news})
		if _, _, err := e.wait.any(e.words, owner); err != nil {
			return nil, err
		}
	}
}

// postAround sends a posting to all ranks, and keeps it for this one.
func (e *Engine) postAround(slot int, parts []part) error {
	g := &e.group
	number := g.board.Divert(slot)
	e.stats[e.rank].Reroutes.Channel++
	var p posted
	for _, x := range parts {
		p.total += uint64(len(x.data))
		p.extent = max(p.extent, x.offset+uint64(len(x.data)))
	}
	for _, x := range parts {
		for data := x.data; len(data) > 0; {
			n := min(len(data), aroundBytes)
			p.offset = x.offset + uint64(len(x.data)-len(data))
			g.around = append(p.append(g.around[:0]), data[:n]...)
			if err := g.boxes[e.rank].add(slot, number, g.around); err != nil {
				return err
			}
			if err := e.tellAll(detour{multi: detourPost, cell: slot, epoch: number, data: g.around}); err != nil {
				return err
			}
			data = data[n:]
		}
	}
	return nil
}

func (e *Engine) tellAll(d detour) error {
	e.diverted = d.append(e.diverted[:0])
	for p := range e.peers {
		if p == e.rank {
			continue
		}
		if err := e.detour(e.wait.ctx, p, e.diverted); err != nil {
			return err
		}
		e.diverted = d.append(e.diverted[:0]) // the detour may have used it
	}
	return nil
}

// answer is what a rank last answered.
type answer struct {
	to   atomic.Uint64 // the number of the question
	data []byte        // written before
}

// pullAround does as PullReduce, by asking each rank for what it contributes.
func (e *Engine) pullAround(dst []byte, offset uint64, op transport.RedOp, t kernels.Type) error {
	g := &e.group
	e.stats[e.rank].Reroutes.Channel++
	for len(dst) > 0 {
		n := min(len(dst), aroundBytes)
		whole := uint64(roundUp(n))
		g.asked++
		g.around = binary.LittleEndian.AppendUint64(g.around[:0], offset)
		g.around = binary.LittleEndian.AppendUint64(g.around, whole)
		if err := e.tellAll(detour{multi: detourAsk, epoch: g.asked, data: g.around}); err != nil {
			return err
		}
		g.srcs = g.srcs[:0]
		for p := range g.answers {
			src := g.mem.Bytes()[offset : offset+whole]
			if p != e.rank {
				a := &g.answers[p]
				e.words = append(e.words[:0], word{own: &a.to, want: g.asked})
				if _, _, err := e.wait.any(e.words, p); err != nil {
					return err
				}
				if src = a.data; uint64(len(src)) != whole {
					return fmt.Errorf("progress: rank %d contributes %d bytes of %d: %w", p, len(src), whole, ErrDetour)
				}
			}
			g.srcs = append(g.srcs, src)
		}
		result := make([]byte, whole)
		if err := elementwise.PullRed(result, g.srcs, op, t); err != nil {
			return err
		}
		copy(dst, result)
		clear(g.srcs)
		dst, offset = dst[n:], offset+uint64(n)
	}
	return nil
}

// deliverMulti takes what a peer's engine sent by detour that is of multicast memory.
func (e *Engine) deliverMulti(from int, d detour) (err error) {
	g := &e.group
	switch d.multi {
	case detourPost:
		err = g.boxes[from].add(d.cell, d.epoch, d.data)
	case detourAsk:
		return e.answer(from, d)
	case detourAnswer:
		a := &g.answers[from]
		if d.epoch <= a.to.Load() {
			return fmt.Errorf("from rank %d: %w: an answer that was given", from, ErrDetour)
		}
		a.data = append([]byte(nil), d.data...)
		a.to.Store(d.epoch)
	}
	if err != nil {
		return fmt.Errorf("from rank %d: %w", from, err)
	}
	e.space.first.Doorbell().Ring()
	return nil
}

// answer sends a peer what this rank contributes.
func (e *Engine) answer(to int, d detour) error {
	g := &e.group
	if len(d.data) != 16 || e.cfg.Detour == nil {
		return fmt.Errorf("from rank %d: %w: a question of %d bytes", to, ErrDetour, len(d.data))
	}
	offset, n := binary.LittleEndian.Uint64(d.data), binary.LittleEndian.Uint64(d.data[8:])
	g.serving.Lock()
	defer g.serving.Unlock()
	if n == 0 || n > aroundBytes || offset > g.contributed || n > g.contributed-offset {
		return fmt.Errorf("from rank %d: %w: asks for %d bytes at %d of %d", to, ErrDetour, n, offset, g.contributed)
	}
	m := detour{multi: detourAnswer, epoch: d.epoch, data: g.mem.Bytes()[offset : offset+n]}.append(nil)
	// Not by the goroutine that hears the peer, which may not wait for it. If it fails
	// the peer is gone, or ends its wait by itself.
	g.answering.Go(func() { _ = e.cfg.Detour(context.Background(), to, m) })
	return nil
}
