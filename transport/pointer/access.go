package pointer

import (
	"fmt"

	"github.com/weft-go/weft/transport"
)

// casting says which endpoints an operation takes.
type casting uint8

const (
	unicast casting = iota
	multicast
)

// A counter is the place that a counted operation adds to; the zero value is
// that of an operation that counts nothing.
type counter struct {
	counts bool
	offset uint64
}

// access checks one operation on n bytes at h and books it on c. It is the only
// step that can fail: what it lets pass can be carried out.
func (t *Transport) access(c transport.Completion, h transport.Handle, n int, cast casting, count counter, transactions int) (*endpoint, error) {
	e, err := t.lookup(h, uint64(n), transport.Granule)
	if err != nil {
		return nil, err
	}
	if n%transport.Granule != 0 {
		return nil, fmt.Errorf("pointer: %d bytes: %w: not a multiple of %d", n, transport.ErrAlign, transport.Granule)
	}
	if e.multicast != (cast == multicast) {
		return nil, fmt.Errorf("pointer: endpoint %d: %w: unicast and multicast endpoints have operations of their own", h.ID, transport.ErrUnsupported)
	}
	if count.counts {
		if err := e.checkCounter(count.offset, h, n); err != nil {
			return nil, err
		}
	}
	if err := book(c, transactions); err != nil {
		return nil, err
	}
	return e, nil
}

func (t *Transport) lookup(h transport.Handle, n, align uint64) (*endpoint, error) {
	table := *t.table.Load()
	if int64(h.ID) >= int64(len(table)) || table[h.ID] == nil || len(table[h.ID].replicas) == 0 {
		return nil, fmt.Errorf("pointer: endpoint %d: %w", h.ID, transport.ErrUnknownEndpoint)
	}
	e := table[h.ID]
	if h.Offset > e.size || n > e.size-h.Offset {
		return nil, fmt.Errorf("pointer: %d bytes at %d of endpoint %d, which has %d: %w", n, h.Offset, h.ID, e.size, transport.ErrBounds)
	}
	if h.Offset%align != 0 {
		return nil, fmt.Errorf("pointer: offset %d of endpoint %d: %w: not a multiple of %d", h.Offset, h.ID, transport.ErrAlign, align)
	}
	return e, nil
}

func book(c transport.Completion, transactions int) error {
	own, ok := c.(*completion)
	if !ok {
		return fmt.Errorf("pointer: %w: a completion of another transport", transport.ErrUnsupported)
	}
	return own.start(transactions)
}

// checkCounter checks a counter's place next to a range of n bytes at h, which
// is in bounds.
func (e *endpoint) checkCounter(offset uint64, h transport.Handle, n int) error {
	switch {
	case !e.counted:
		return fmt.Errorf("pointer: endpoint %d: %w: it was created without counted operations", e.id, transport.ErrUnsupported)
	case offset%transport.CounterAlign != 0:
		return fmt.Errorf("pointer: counter at %d: %w: not a multiple of %d", offset, transport.ErrAlign, transport.CounterAlign)
	case offset > e.size || e.size-offset < 8:
		return fmt.Errorf("pointer: counter at %d of endpoint %d, which has %d bytes: %w", offset, e.id, e.size, transport.ErrBounds)
	case offset < h.Offset+uint64(n) && h.Offset < offset+8:
		return fmt.Errorf("pointer: counter at %d overlaps its data at %d: %w", offset, h.Offset, transport.ErrBounds)
	}
	return nil
}

// Map implements [transport.Mapper].
func (t *Transport) Map(h transport.Handle, n uint64) ([]byte, error) {
	e, err := t.lookup(h, n, 1)
	if err != nil {
		return nil, err
	}
	if e.multicast {
		return nil, fmt.Errorf("pointer: map multicast endpoint %d: %w", h.ID, transport.ErrUnsupported)
	}
	return e.replicas[0].data[h.Offset : h.Offset+n : h.Offset+n], nil
}

// Waker implements [transport.Mapper].
func (t *Transport) Waker(id transport.EndpointID) (transport.Waker, error) {
	e, err := t.lookup(transport.Handle{ID: id}, 0, 1)
	if err != nil {
		return nil, err
	}
	if e.multicast {
		return nil, fmt.Errorf("pointer: waker of multicast endpoint %d: %w", id, transport.ErrUnsupported)
	}
	return e.replicas[0].bell, nil
}
