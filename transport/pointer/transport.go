package pointer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/weft-go/weft/transport"
)

// Transport implements [transport.Transport] over mapped memory.
type Transport struct {
	name  string
	alloc func(size uint64) (*memory, error)

	// table maps ids to endpoints. Operations read it without a lock; changes
	// replace it under mu.
	table atomic.Pointer[[]*endpoint]

	streams atomic.Bool // long puts go around the caches

	mu     sync.Mutex
	next   transport.EndpointID
	closed bool
}

var (
	_ transport.Transport = (*Transport)(nil)
	_ transport.Mapper    = (*Transport)(nil)
	_ transport.Streamer  = (*Transport)(nil)
)

// NewLocal returns a transport between goroutines of one process. Each rank
// has one of its own.
func NewLocal() *Transport { return newTransport(newHeapMemory) }

// NewShared returns a transport between processes of one node.
func NewShared() *Transport { return newTransport(newSharedMemory) }

func newTransport(alloc func(uint64) (*memory, error)) *Transport {
	t := &Transport{name: "pointer", alloc: alloc}
	t.table.Store(&[]*endpoint{})
	return t
}

// Name implements [transport.Transport].
func (t *Transport) Name() string { return t.name }

// Stream implements [transport.Streamer].
func (t *Transport) Stream(on bool) { t.streams.Store(on) }

// Limits implements [transport.Transport].
func (t *Transport) Limits() transport.Limits {
	return transport.Limits{MaxEndpointBytes: maxMemory, BindAlign: bindAlign, OwnerAccess: true, Multicast: true}
}

// Alloc implements [transport.Transport].
func (t *Transport) Alloc(size uint64) (transport.Memory, error) {
	m, err := t.alloc(size)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Create implements [transport.Transport].
func (t *Transport) Create(cfg transport.EndpointConfig) (transport.Endpoint, error) {
	if cfg.Size == 0 || cfg.Size > maxMemory {
		return nil, fmt.Errorf("pointer: create an endpoint of %d bytes: %w", cfg.Size, transport.ErrBounds)
	}
	if cfg.Size%bindAlign != 0 {
		return nil, fmt.Errorf("pointer: create an endpoint of %d bytes: %w: not a multiple of %d", cfg.Size, transport.ErrAlign, bindAlign)
	}
	e := &endpoint{t: t, size: cfg.Size, counted: cfg.Counted, owned: true}
	if err := t.register(e); err != nil {
		return nil, err
	}
	return e, nil
}

// Import implements [transport.Transport].
func (t *Transport) Import(x transport.Exported) (transport.Endpoint, error) {
	h, err := decodeHandle(x.Handle)
	if err != nil {
		return nil, fmt.Errorf("pointer: import: %w", err)
	}
	var m *memory
	switch h.kind {
	case heapMemory:
		var ok bool
		if m, ok = x.Ref.(*memory); !ok || m == nil || m.kind != heapMemory || m.Size() < h.memSize {
			return nil, fmt.Errorf("pointer: import: %w: not of this process", transport.ErrHandle)
		}
	case sharedMemory:
		if m, err = importSharedMemory(x, h); err != nil {
			return nil, fmt.Errorf("pointer: import: %w", err)
		}
	}
	e := &endpoint{t: t, size: h.size, counted: h.counted, imported: m}
	e.replicas = []replica{{m.data[:h.size:h.size], m.bell}}
	if err := t.register(e); err != nil {
		return nil, errors.Join(err, m.Free())
	}
	return e, nil
}

// JoinMulticast implements [transport.Transport]: every member imports every
// other member's replica.
func (t *Transport) JoinMulticast(ctx context.Context, cfg transport.EndpointConfig, me, n int, mine transport.Memory, exchange transport.Exchange) (transport.Endpoint, error) {
	if n < 1 || me < 0 || me >= n {
		return nil, fmt.Errorf("pointer: join a multicast endpoint as member %d of %d: %w", me, n, transport.ErrBounds)
	}
	multi := &endpoint{t: t, size: cfg.Size, counted: cfg.Counted, multicast: true}
	// A member that can't go on still exchanges, an export that nobody can
	// import: the others wait for it.
	x, err := multi.addOwn(cfg, mine)
	all, xerr := exchange(ctx, x)
	x.Close()
	if err == nil {
		err = xerr
	}
	if err == nil {
		err = transport.OthersGo(all, me)
	}
	if err == nil && len(all) != n {
		err = fmt.Errorf("pointer: an exchange among %d members gave %d exports: %w", n, len(all), transport.ErrHandle)
	}
	for i, x := range all {
		switch {
		case err != nil:
		case i == me:
			multi.replicas = append(multi.replicas, multi.parts[0].replicas[0])
		default:
			err = multi.addPeer(i, x)
		}
		x.Close()
	}
	if err == nil {
		err = t.register(multi)
	}
	return multi, err
}

// addOwn makes the endpoint of this member's replica and exports it.
func (e *endpoint) addOwn(cfg transport.EndpointConfig, m transport.Memory) (transport.Exported, error) {
	own, err := e.t.Create(cfg)
	if err != nil {
		return transport.Exported{}, err
	}
	e.parts = append(e.parts, own.(*endpoint))
	if err := own.Bind(0, m); err != nil {
		return transport.Exported{}, err
	}
	return own.Export()
}

// addPeer imports member i's replica.
func (e *endpoint) addPeer(i int, x transport.Exported) error {
	p, err := e.t.Import(x)
	if err != nil {
		return fmt.Errorf("pointer: replica of member %d: %w", i, err)
	}
	part := p.(*endpoint)
	e.parts = append(e.parts, part)
	if part.size != e.size {
		return fmt.Errorf("pointer: replica of member %d has %d bytes, not %d: %w", i, part.size, e.size, transport.ErrHandle)
	}
	e.replicas = append(e.replicas, part.replicas[0])
	return nil
}

// Fence implements [transport.Transport]. Go's atomics are sequentially
// consistent: whoever saw a word sees what was written before it.
func (t *Transport) Fence(transport.Fence) {}

// Close implements [transport.Transport].
func (t *Transport) Close() error {
	t.mu.Lock()
	eps := *t.table.Load()
	t.closed = true
	t.mu.Unlock()
	var errs []error
	for _, e := range eps {
		if e != nil {
			errs = append(errs, e.Destroy())
		}
	}
	return errors.Join(errs...)
}

func (t *Transport) register(e *endpoint) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return fmt.Errorf("pointer: %w", transport.ErrClosed)
	}
	old := *t.table.Load()
	id := t.next
	for int(id) < len(old) && old[id] != nil { // t.next is a hint: the lowest id that may be free
		id++
	}
	table := make([]*endpoint, max(len(old), int(id)+1))
	copy(table, old)
	e.id = id
	table[id] = e
	t.next = id + 1
	t.table.Store(&table)
	return nil
}

func (t *Transport) unregister(e *endpoint) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := *t.table.Load()
	if int(e.id) >= len(old) || old[e.id] != e {
		return
	}
	table := make([]*endpoint, len(old))
	copy(table, old)
	table[e.id] = nil
	t.next = min(t.next, e.id)
	t.table.Store(&table)
}
