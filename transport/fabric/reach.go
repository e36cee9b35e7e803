package fabric

import (
	"fmt"
	"sync"

	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/internal/mapped"
)

// access reaches one part of an endpoint by pointer. As long as a call lasts what is
// bound stays where it is, as for a piece of an operation.
type access struct {
	e *endpoint
	p *part
}

// Reach implements [transport.Reacher].
func (t *Transport) Reach(id transport.EndpointID, member int) (transport.Access, error) {
	e, err := t.endpoint(id)
	if err != nil {
		return nil, err
	}
	if !t.cfg.support.Reach {
		return nil, fmt.Errorf("fabric: reach endpoint %d: %w: not by pointer", id, transport.ErrUnsupported)
	}
	if !e.ready.Load() {
		return nil, t.broken(RuleBeforeReady, "reach", transport.ErrUnknownEndpoint).at(e, 0, 0)
	}
	parts := *e.parts.Load()
	if member < 0 || member >= len(parts) {
		return nil, fmt.Errorf("fabric: reach member %d of endpoint %d, which has %d: %w", member, id, len(parts), transport.ErrBounds)
	}
	return &access{e, parts[member]}, nil
}

// enter begins a call on n bytes, if they are there. leave ends it.
func (a *access) enter(op string, offset, n, align uint64) (*view, error) {
	t, e := a.e.t, a.e
	if table := t.endpoints(); int(e.id) >= len(table) || table[e.id] != e {
		return nil, t.broken(RuleUnknown, op, transport.ErrUnknownEndpoint).at(e, offset, n).because("it was destroyed")
	}
	if offset%align != 0 || n%align != 0 {
		return nil, t.broken(RuleAlign, op, transport.ErrAlign).at(e, offset, n).because(fmt.Sprintf("not a multiple of %d", align))
	}
	v := a.p.enter()
	if v == nil || offset > e.size || n > e.size-offset || n > 0 && !v.covers(offset, n) {
		a.p.leave()
		return nil, t.broken(RuleBounds, op, transport.ErrBounds).at(e, offset, n)
	}
	return v, nil
}

func (a *access) Store(offset uint64, src []byte) error {
	v, err := a.enter("store", offset, uint64(len(src)), transport.Granule)
	if err != nil {
		return err
	}
	defer a.p.leave()
	a.noteStored(offset, uint64(len(src)))
	for len(src) > 0 {
		s := v.find(offset)
		k := min(uint64(len(src)), s.end-offset)
		move(s.data[offset-s.at:][:k], src[:k], a.e.t.unseen())
		offset, src = offset+k, src[k:]
	}
	return nil
}

func (a *access) Load(dst []byte, offset uint64) error {
	v, err := a.enter("load", offset, uint64(len(dst)), transport.Granule)
	if err != nil {
		return err
	}
	defer a.p.leave()
	for len(dst) > 0 {
		s := v.find(offset)
		k := min(uint64(len(dst)), s.end-offset)
		move(dst[:k], s.data[offset-s.at:][:k], a.e.t.unseen())
		offset, dst = offset+k, dst[k:]
	}
	return nil
}

func (a *access) Count(offset, n uint64) error {
	v, err := a.enter("count", offset, 8, 8)
	if err != nil {
		return err
	}
	defer a.p.leave()
	a.noteStored(offset, 8)
	s := v.find(offset)
	mapped.Word(s.data, offset-s.at).Add(n)
	s.region.bell.RingIfArmed()
	return nil
}

func (a *access) Raise(offset, value uint64) error {
	v, err := a.enter("raise", offset, 8, 8)
	if err != nil {
		return err
	}
	defer a.p.leave()
	a.noteStored(offset, 8)
	s := v.find(offset)
	w := mapped.Word(s.data, offset-s.at)
	for {
		old := w.Load()
		// Written even if it stays as it is, for the order that a write gives.
		if w.CompareAndSwap(old, max(old, value)) {
			break
		}
	}
	s.region.bell.RingIfArmed()
	return nil
}

// stores are what this rank stored by pointer since its last release fence.
type stores struct {
	mu     sync.Mutex
	ranges []storedRange
}

type storedRange struct {
	e         *endpoint
	offset, n uint64
}

// maxStored bounds what is kept of a program that never fences: the latest.
const maxStored = 1 << 12

func (s *stores) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.ranges)
	s.ranges = s.ranges[:0]
}

func (a *access) noteStored(offset, n uint64) {
	t := a.e.t
	if !t.strict() {
		return
	}
	t.stored.mu.Lock()
	defer t.stored.mu.Unlock()
	if r := t.stored.ranges; len(r) == maxStored {
		t.stored.ranges = r[:copy(r, r[maxStored/2:])]
	}
	t.stored.ranges = append(t.stored.ranges, storedRange{a.e, offset, n})
}

// checkStored wants what this rank stored by pointer, where an operation of it works, to
// be followed by a release fence.
func (t *Transport) checkStored(o *op) error {
	t.stored.mu.Lock()
	defer t.stored.mu.Unlock()
	for _, r := range t.stored.ranges {
		if !r.e.blockIs(o.e) {
			continue
		}
		data := r.offset < o.offset+uint64(o.n) && o.offset < r.offset+r.n
		if data || o.counts && r.offset < o.counter+8 && o.counter < r.offset+r.n {
			return t.broken(RuleMissingRelease, o.kind.String(), ErrUndefined).at(o.e, r.offset, r.n).because("stored by pointer")
		}
	}
	return nil
}
