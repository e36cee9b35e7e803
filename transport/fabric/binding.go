package fabric

import (
	"fmt"
	"runtime"
	"time"

	"github.com/weft-go/weft/transport"
)

// A binding is memory behind a range of an endpoint.
type binding struct {
	offset, size uint64
	memory       *memory
	memoryOffset uint64
}

// BindMemory puts size bytes of a memory, from memoryOffset on, behind the range
// of the endpoint that begins at offset: an endpoint that this rank created, or
// its replica of a multicast endpoint. All three are multiples of the alignment.
// An endpoint can have [MaxBindings]. Nobody may use the range before all who do
// know of it.
func (t *Transport) BindMemory(id transport.EndpointID, offset uint64, m transport.Memory, memoryOffset, size uint64) error {
	e, err := t.endpoint(id)
	if err != nil {
		return err
	}
	return e.bind(offset, m, memoryOffset, size)
}

// BindAddress does so with memory that Alloc returned, by its address.
func (t *Transport) BindAddress(id transport.EndpointID, offset uint64, b []byte) error {
	e, err := t.endpoint(id)
	if err != nil {
		return err
	}
	t.mu.Lock()
	m, at, ok := t.owning(b)
	t.mu.Unlock()
	if !ok {
		return fmt.Errorf("fabric: bind to endpoint %d: %w: not memory of this device", id, transport.ErrUnsupported)
	}
	return e.bind(offset, m, at, uint64(len(b)))
}

// UnbindRange takes the memory away that one bind put there. All who use the
// range must have stopped.
func (t *Transport) UnbindRange(id transport.EndpointID, offset, size uint64) error {
	e, err := t.endpoint(id)
	if err != nil {
		return err
	}
	return e.Unbind(offset, size)
}

// Bind implements [transport.Endpoint]. Memory that is larger than the endpoint
// is bound as far as that goes, if offset is 0.
func (e *endpoint) Bind(offset uint64, m transport.Memory) error {
	mem, ok := m.(*memory)
	if !ok || mem == nil {
		return fmt.Errorf("fabric: bind to endpoint %d: %w: memory of another transport", e.id, transport.ErrUnsupported)
	}
	size := mem.Size()
	if offset == 0 {
		size = min(size, e.size)
	}
	return e.bind(offset, m, 0, size)
}

func (e *endpoint) bind(offset uint64, m transport.Memory, memoryOffset, size uint64) error {
	const op = "bind"
	t, align := e.t, e.t.cfg.limits.BindAlign
	mem, ok := m.(*memory)
	e.mu.Lock()
	defer e.mu.Unlock()
	h := e.home
	switch {
	case e.destroyed:
		return fmt.Errorf("fabric: bind to endpoint %d: %w: it was destroyed", e.id, transport.ErrUnknownEndpoint)
	case h == nil && e.kind == kindUnicast:
		return t.broken(RuleBindImported, op, transport.ErrNotOwner).at(e, offset, size)
	case h == nil:
		return t.broken(RuleNotMember, op, transport.ErrNotOwner).at(e, offset, size).because("this rank's device was not added")
	case !ok || mem == nil || mem.t != t:
		return fmt.Errorf("fabric: bind to endpoint %d: %w: memory of another transport", e.id, transport.ErrUnsupported)
	case !e.ready.Load():
		return t.broken(RuleBeforeReady, op, ErrUndefined).at(e, offset, size)
	case offset%align != 0 || size%align != 0 || memoryOffset%align != 0:
		return t.broken(RuleBindAlign, op, transport.ErrAlign).at(e, offset, size).because(fmt.Sprintf("not all multiples of %d", align))
	case size == 0 || offset > e.size || size > e.size-offset || memoryOffset > mem.size || size > mem.size-memoryOffset:
		return t.broken(RuleBindRange, op, transport.ErrBounds).at(e, offset, size).because(
			fmt.Sprintf("from %d of memory of %d bytes, to an endpoint of %d", memoryOffset, mem.size, e.size))
	case len(h.bindings) == MaxBindings:
		return t.broken(RuleBindRange, op, transport.ErrBounds).at(e, offset, size).because("the endpoint has all the bindings that it can have")
	}
	for _, b := range h.bindings {
		if offset < b.offset+b.size && b.offset < offset+size {
			return t.broken(RuleBindRange, op, transport.ErrUnsupported).at(e, offset, size).because(fmt.Sprintf("%d bytes are bound at %d", b.size, b.offset))
		}
	}
	t.mu.Lock()
	freed := mem.freed.Load()
	if !freed {
		mem.bound++
	}
	t.mu.Unlock()
	if freed {
		return t.broken(RuleUsedAfterFree, op, transport.ErrUnsupported).at(e, offset, size).because("memory that was freed")
	}
	h.bindings = append(h.bindings, binding{offset, size, mem, memoryOffset})
	h.publish()
	return nil
}

// publish has users see the bindings.
func (h *home) publish() {
	entries := make([]bindingEntry, len(h.bindings))
	for i, b := range h.bindings {
		entries[i] = bindingEntry{
			offset: b.offset, size: b.size,
			ref: b.memory.ref, memorySize: b.memory.size, memoryOffset: b.memoryOffset,
			shadowed: b.memory.shadow.on(),
		}
	}
	h.blk.publish(entries)
}

// Unbind implements [transport.Endpoint].
func (e *endpoint) Unbind(offset, size uint64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	h := e.home
	if h == nil {
		return e.t.broken(RuleBindImported, "unbind", transport.ErrNotOwner).at(e, offset, size)
	}
	for i, b := range h.bindings {
		if b.offset == offset && b.size == size {
			e.takeAway(h, i)
			return nil
		}
	}
	return e.t.broken(RuleBindRange, "unbind", transport.ErrBounds).at(e, offset, size).because("not what a bind put there")
}

// takeAway removes a binding. A piece that is being executed is waited for, but
// not for ever: its rank may be dead, or stopped. Then the memory is never used
// for anything else. e.mu is held.
func (e *endpoint) takeAway(h *home, i int) {
	t, b := e.t, h.bindings[i]
	if rank, flying := h.blk.flying(); flying && t.strict() {
		err := t.broken(RuleUnboundInUse, "unbind", ErrUndefined).at(e, b.offset, b.size)
		err.Peer = rank
		t.diag.add(err)
	}
	h.bindings = append(h.bindings[:i], h.bindings[i+1:]...)
	h.publish()
	drained := !h.stuck && h.blk.drain() || !h.blk.busy()
	h.stuck = !drained
	t.mu.Lock()
	b.memory.bound--
	b.memory.quarantined = b.memory.quarantined || !drained
	t.mu.Unlock()
}

// drainPatience is much longer than a piece takes.
const drainPatience = 250 * time.Millisecond

// drain waits until no piece is being executed that began with older bindings.
func (b block) drain() bool {
	for i, start := 0, (time.Time{}); b.busy(); i++ {
		if i < 100 {
			runtime.Gosched()
			continue
		}
		if start.IsZero() {
			start = time.Now()
		} else if time.Since(start) > drainPatience {
			return false
		}
		time.Sleep(50 * time.Microsecond)
	}
	return true
}
