package pointer

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/internal/mapped"
)

// endpoint is an offset space: a unicast endpoint has one replica once it is
// bound, a multicast endpoint one per member, in the order of the members.
type endpoint struct {
	t         *Transport
	id        transport.EndpointID
	size      uint64
	counted   bool
	multicast bool
	owned     bool
	exported  bool

	replicas []replica
	bound    *memory     // what the owner bound
	imported *memory     // what import mapped; this endpoint frees it
	parts    []*endpoint // what a multicast endpoint is made of

	destroyed atomic.Bool
}

// A replica is the memory behind an endpoint on one member.
type replica struct {
	data []byte
	bell mapped.Bell
}

func (e *endpoint) ID() transport.EndpointID { return e.id }
func (e *endpoint) Size() uint64             { return e.size }

// Ready returns at once: nothing here is asynchronous.
func (e *endpoint) Ready(ctx context.Context) error { return ctx.Err() }

func (e *endpoint) Bind(offset uint64, m transport.Memory) error {
	mem, ok := m.(*memory)
	switch {
	case !e.owned:
		return fmt.Errorf("pointer: bind to endpoint %d: %w", e.id, transport.ErrNotOwner)
	case e.destroyed.Load():
		return fmt.Errorf("pointer: bind to endpoint %d: %w: it was destroyed", e.id, transport.ErrUnknownEndpoint)
	case !ok || mem == nil:
		return fmt.Errorf("pointer: bind: %w: memory of another transport", transport.ErrUnsupported)
	case e.bound != nil || e.exported:
		return fmt.Errorf("pointer: bind to endpoint %d again: %w", e.id, transport.ErrUnsupported)
	case offset != 0 || mem.Size() < e.size:
		return fmt.Errorf("pointer: bind %d bytes at %d of an endpoint of %d: %w", mem.Size(), offset, e.size, transport.ErrBounds)
	}
	e.bound = mem
	e.replicas = []replica{{mem.data[:e.size:e.size], mem.bell}}
	return nil
}

func (e *endpoint) Unbind(offset, size uint64) error {
	switch {
	case !e.owned:
		return fmt.Errorf("pointer: unbind from endpoint %d: %w", e.id, transport.ErrNotOwner)
	case e.bound == nil || offset != 0 || size != e.size:
		return fmt.Errorf("pointer: unbind %d bytes at %d: %w: not what was bound", size, offset, transport.ErrBounds)
	}
	e.bound, e.replicas = nil, nil
	return nil
}

func (e *endpoint) Export() (transport.Exported, error) {
	if !e.owned {
		return transport.Exported{}, fmt.Errorf("pointer: export endpoint %d: %w", e.id, transport.ErrNotOwner)
	}
	if e.bound == nil || e.destroyed.Load() {
		return transport.Exported{}, fmt.Errorf("pointer: export endpoint %d: %w: nothing is bound", e.id, transport.ErrUnknownEndpoint)
	}
	x := transport.Exported{Handle: handle{kind: e.bound.kind, counted: e.counted, size: e.size, memSize: e.bound.Size()}.encode()}
	if err := e.bound.back.export(&x); err != nil {
		return transport.Exported{}, err
	}
	e.exported = true
	return x, nil
}

// Destroy may be called again, also by the transport's Close.
func (e *endpoint) Destroy() error {
	if !e.destroyed.CompareAndSwap(false, true) {
		return nil
	}
	e.t.unregister(e)
	var errs []error
	if e.imported != nil {
		errs = append(errs, e.imported.Free())
	}
	for _, p := range e.parts {
		errs = append(errs, p.Destroy())
	}
	return errors.Join(errs...)
}
