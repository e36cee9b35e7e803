package fabric

import (
	"fmt"

	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/internal/mapped"
)

// Fence implements [transport.Transport]: an alias fence between accesses through
// endpoints and through pointers, on all memory of this rank. Go's atomics are
// sequentially consistent, so there is nothing to wait for; the strict mode notes
// that it was made.
func (t *Transport) Fence(f transport.Fence) {
	if !t.strict() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for m := range t.memories {
		if f == transport.FenceAcquire {
			m.fenced.Store(m.shadow.writes(shadowFabric))
		} else {
			m.shadow.release()
		}
	}
	if f == transport.FenceRelease {
		t.stored.release()
	}
}

// A View is the owner's access by pointer to memory that it bound. In the strict
// mode it knows which fences were made. What goes through Memory.Bytes and
// Memory.Load instead is not seen. A view of memory that was freed fails.
type View struct{ m *memory }

// View returns the owner's view of memory that Alloc returned.
func (t *Transport) View(m transport.Memory) (View, error) {
	mem, ok := m.(*memory)
	if !ok || mem == nil || mem.t != t {
		return View{}, fmt.Errorf("fabric: view: %w: memory of another transport", transport.ErrUnsupported)
	}
	if mem.freed.Load() {
		return View{}, t.broken(RuleUsedAfterFree, "view", ErrUndefined).because("memory that was freed")
	}
	return View{mem}, nil
}

func (v View) check(op string, offset, n uint64) error {
	if v.m == nil || offset > v.m.size || n > v.m.size-offset {
		return fmt.Errorf("fabric: %s %d bytes at %d: %w", op, n, offset, transport.ErrBounds)
	}
	if v.m.freed.Load() {
		e := v.m.t.broken(RuleUsedAfterFree, op, ErrUndefined)
		e.Offset, e.Bytes = offset, n
		return e.because("memory that was freed")
	}
	return nil
}

// Read copies from offset of the memory to dst. What was written there through an
// endpoint must have been followed by an acquire fence.
func (v View) Read(dst []byte, offset uint64) error {
	n := uint64(len(dst))
	if err := v.check("read", offset, n); err != nil {
		return err
	}
	m := v.m
	if m.shadow.on() {
		if at, found := m.shadow.later(shadowFabric, m.fenced.Load(), offset, n); found {
			e := m.t.broken(RuleMissingAcquire, "read by pointer", ErrUndefined)
			e.Offset, e.Bytes, e.Peer = at, shadowUnit, m.shadow.writer()
			return e
		}
	}
	copy(dst, m.data[offset:])
	return nil
}

// Write copies src to offset of the memory. A release fence must follow before the
// fabric reads it.
func (v View) Write(offset uint64, src []byte) error {
	n := uint64(len(src))
	if err := v.check("write", offset, n); err != nil {
		return err
	}
	copy(v.m.data[offset:], src)
	if v.m.shadow.on() {
		v.m.shadow.mark(shadowPointer, offset, n)
	}
	return nil
}

// Counter says whether the counter at offset has reached its target: the final
// value that the owner awaits. Values in between say nothing, and a larger one
// is an error.
func (v View) Counter(offset, target uint64) (reached bool, err error) {
	if err := v.check("read a counter of", offset, 8); err != nil {
		return false, err
	}
	if offset%transport.CounterAlign != 0 {
		e := v.m.t.broken(RuleCounterAlign, "read a counter", transport.ErrAlign)
		e.Offset, e.Bytes = offset, 8
		return false, e
	}
	got := mapped.Word(v.m.data, offset).Load()
	if got > target && v.m.t.strict() {
		e := v.m.t.broken(RuleCounterTarget, "read a counter", ErrUndefined)
		e.Offset, e.Bytes = offset, 8
		return true, e.because(fmt.Sprintf("%d, the target is %d", got, target))
	}
	return got >= target, nil
}
