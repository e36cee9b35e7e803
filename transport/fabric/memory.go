package fabric

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/internal/mapped"
)

// memory is memory of this rank's device.
type memory struct {
	region
	t    *Transport
	ref  uint64
	size uint64 // of the allocation

	// of t.mu
	bound       int // bindings
	quarantined bool

	freed atomic.Bool // set under t.mu

	fenced atomic.Uint32 // writes through endpoints before the last acquire fence
}

var _ transport.Memory = (*memory)(nil)

// Alloc implements [transport.Transport]. The size is rounded up to a multiple of
// Limits.BindAlign.
func (t *Transport) Alloc(size uint64) (transport.Memory, error) {
	switch err := mapped.CheckSize(size); err {
	case nil:
	case mapped.ErrSize:
		return nil, fmt.Errorf("fabric: allocate %d bytes: %w", size, transport.ErrBounds)
	default:
		return nil, fmt.Errorf("fabric: allocate %d bytes: %w", size, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, err := t.device(); err != nil {
		return nil, err
	}
	size = mapped.RoundUp(size, t.cfg.limits.BindAlign)
	ref, err := t.space.alloc(size, t.strict())
	if err != nil {
		return nil, err
	}
	r, _ := t.space.region(ref, size, t.strict())
	m := &memory{region: r, t: t, ref: ref, size: size}
	t.memories[m] = struct{}{}
	return m, nil
}

func (m *memory) Size() uint64                 { return m.size }
func (m *memory) Bytes() []byte                { return m.data }
func (m *memory) Load(offset uint64) uint64    { return mapped.Word(m.data, offset).Load() }
func (m *memory) Doorbell() transport.Doorbell { return m.bell }

// Free gives the memory back, unless an operation of a peer that can't be waited
// for may still be in the middle of it: then it stays allocated. Freed again, it
// stays freed, and that is no error.
func (m *memory) Free() error {
	t := m.t
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case m.freed.Load():
		return nil
	case m.bound > 0:
		e := t.broken(RuleFreedWhileBound, "free", ErrUndefined)
		e.Bytes = m.size
		return e
	}
	m.freed.Store(true)
	delete(t.memories, m)
	var err error
	if !m.quarantined {
		err = t.space.free(m.ref, m.size, m.shadow.on())
	}
	if rerr := t.releaseSpace(); err == nil {
		err = rerr
	}
	return err
}

// owning returns the memory that an address range is in, and where. t.mu is held.
func (t *Transport) owning(b []byte) (m *memory, offset uint64, ok bool) {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	for m := range t.memories {
		start := uintptr(unsafe.Pointer(unsafe.SliceData(m.data)))
		if at >= start && at-start <= uintptr(len(m.data)) && len(b) <= len(m.data)-int(at-start) {
			return m, uint64(at - start), true
		}
	}
	return nil, 0, false
}
