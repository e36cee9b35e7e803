package fabric

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weft-go/weft/transport"
)

// EndpointType is unicast or multicast.
type EndpointType uint8

const (
	// Unicast endpoints have one owner.
	Unicast EndpointType = iota
	// Multicast endpoints have a replica on each member.
	Multicast
)

// Properties describe an endpoint that is to be created.
type Properties struct {
	Type    EndpointType
	Size    uint64 // bytes of offset space
	Counted bool   // takes counted operations
	Members int    // of a multicast endpoint, 1…[MaxMembers]
}

// endpoint is what one id names: an endpoint that lives on some device. Several
// may be aliases of the same. A unicast endpoint has one part, that on its owner;
// a multicast endpoint has one per member, once all have been added.
type endpoint struct {
	t       *Transport
	id      transport.EndpointID
	ownID   bool // Destroy releases the id as well
	dev     *device
	blk     block
	index   uint64 // of blk
	nonce   uint64
	kind    uint64
	size    uint64
	counted bool
	created bool // by this rank, under this id
	alias   int  // tells the ids of this rank for the endpoint apart; see associate

	parts  atomic.Pointer[[]*part]
	ready  atomic.Bool
	polls  atomic.Int32 // queries until it is ready
	flying atomic.Int32 // operations of this rank under way

	mu        sync.Mutex
	destroyed bool
	home      *home // what this rank binds, by this id
}

// A home is where this rank binds memory: its unicast endpoint's block, or that
// of its replica of a multicast endpoint.
type home struct {
	blk      block
	index    uint64
	bindings []binding
	stuck    bool // a rank does not end its piece
}

// EndpointLimits returns the alignment of bindings and the largest size of an
// endpoint with these properties.
func (t *Transport) EndpointLimits(Properties) (bindAlign, maxSize uint64) {
	return t.cfg.limits.BindAlign, t.cfg.limits.MaxEndpointBytes
}

func (t *Transport) checkProperties(p Properties) error {
	const op = "create"
	s := t.cfg.support
	switch {
	case p.Type == Unicast && !s.Unicast, p.Type == Multicast && !s.Multicast, p.Type > Multicast:
		return fmt.Errorf("fabric: create: %w: endpoint type %d", transport.ErrUnsupported, p.Type)
	case p.Counted && !s.Counted:
		return t.broken(RuleCountedFlag, op, transport.ErrUnsupported).because("the device has no counted operations")
	case p.Size == 0 || p.Size > t.cfg.limits.MaxEndpointBytes:
		return t.broken(RuleBindRange, op, transport.ErrBounds).because(fmt.Sprintf("%d bytes, the largest is %d", p.Size, t.cfg.limits.MaxEndpointBytes))
	case p.Size%t.cfg.limits.BindAlign != 0:
		return t.broken(RuleBindAlign, op, transport.ErrAlign).because(fmt.Sprintf("%d bytes, not a multiple of %d", p.Size, t.cfg.limits.BindAlign))
	case p.Type == Multicast && (p.Members < 1 || p.Members > MaxMembers):
		return fmt.Errorf("fabric: create a multicast endpoint of %d members: %w", p.Members, transport.ErrBounds)
	}
	return nil
}

// CreateEndpoint begins to make an endpoint under a reserved id. It can be bound
// and used when [Transport.Query] has found it ready.
func (t *Transport) CreateEndpoint(id transport.EndpointID, p Properties) error {
	_, err := t.create(id, p)
	return err
}

func (t *Transport) create(id transport.EndpointID, p Properties) (*endpoint, error) {
	if err := t.checkProperties(p); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	d, err := t.device()
	if err != nil {
		return nil, err
	}
	kind := kindUnicast
	if p.Type == Multicast {
		kind = kindMulticast
	}
	i, b, err := t.newBlock(kind, p.Size, p.Counted)
	if err != nil {
		return nil, err
	}
	if p.Type == Multicast {
		b.word(blockWanted).Store(uint64(p.Members))
	}
	e := &endpoint{
		t: t, dev: d, blk: b, index: i, nonce: b.word(blockNonce).Load(),
		kind: kind, size: p.Size, counted: p.Counted, created: true,
	}
	if p.Type == Unicast {
		e.home = &home{blk: b, index: i}
		e.parts.Store(&[]*part{newPart(d, b, e.nonce, t.cfg.rank)})
	}
	e.polls.Store(t.drawPolls())
	if err := t.associate(id, e); err != nil {
		b.word(blockKind).And(^uint64(flagOwned))
		b.unclaim()
		t.freeBlocks = append(t.freeBlocks, i)
		return nil, err
	}
	return e, nil
}

// drawPolls draws how many queries a creation or an import takes. t.mu is held.
func (t *Transport) drawPolls() int32 {
	t.polls++
	return int32(1 + (t.cfg.seed^t.polls*0x9e3779b97f4a7c15)>>40%4)
}

// Create implements [transport.Transport].
func (t *Transport) Create(cfg transport.EndpointConfig) (transport.Endpoint, error) {
	return t.withID(func(id transport.EndpointID) (*endpoint, error) {
		return t.create(id, Properties{Type: Unicast, Size: cfg.Size, Counted: cfg.Counted})
	})
}

// withID makes an endpoint under an id that lives as long as the endpoint.
func (t *Transport) withID(make func(id transport.EndpointID) (*endpoint, error)) (transport.Endpoint, error) {
	id, err := t.ReserveIDs(1)
	if err != nil {
		return nil, err
	}
	e, err := make(id)
	if err != nil {
		return nil, errors.Join(err, t.ReleaseIDs(id, 1))
	}
	e.ownID = true
	return e, nil
}

// ImportEndpoint begins to make a peer's endpoint known under a reserved id. It
// can be used when [Transport.Query] has found it ready. A multicast endpoint
// needs the devices of all members as well: see [Transport.ImportDevice].
func (t *Transport) ImportEndpoint(id transport.EndpointID, x transport.Exported) error {
	_, err := t.importAs(id, x)
	return err
}

func (t *Transport) importAs(id transport.EndpointID, x transport.Exported) (*endpoint, error) {
	d, h, err := t.importDevice(x)
	if err != nil {
		return nil, fmt.Errorf("fabric: import: %w", err)
	}
	typ := CliqueUnicast
	switch h.what {
	case handleUnicast:
	case handleMulticast:
		typ = CliqueMulticast
	default:
		return nil, fmt.Errorf("fabric: import: %w: not an endpoint", transport.ErrHandle)
	}
	if !t.sameClique(d, typ) {
		e := t.broken(RuleClique, "import", transport.ErrHandle).because(fmt.Sprintf("not in the device's %v clique", typ))
		e.Peer = d.rank
		return nil, e
	}
	b, ok := d.space.block(h.block)
	if !ok || !b.claim(h.nonce) {
		return nil, fmt.Errorf("fabric: import: %w: the endpoint is gone", transport.ErrHandle)
	}
	e := &endpoint{t: t, dev: d, blk: b, index: h.block, nonce: h.nonce, kind: uint64(h.what), size: h.size, counted: h.counted}
	if e.kind == kindUnicast {
		p := newPart(d, b, e.nonce, t.cfg.rank)
		e.parts.Store(&[]*part{p})
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	e.polls.Store(t.drawPolls())
	if err := t.associate(id, e); err != nil {
		b.unclaim()
		return nil, err
	}
	return e, nil
}

// Import implements [transport.Transport].
func (t *Transport) Import(x transport.Exported) (transport.Endpoint, error) {
	return t.withID(func(id transport.EndpointID) (*endpoint, error) { return t.importAs(id, x) })
}

// ExportEndpoint returns what peers need to import an endpoint that this rank
// created. Nothing need be bound to it.
func (t *Transport) ExportEndpoint(id transport.EndpointID) (transport.Exported, error) {
	e, err := t.endpoint(id)
	if err != nil {
		return transport.Exported{}, err
	}
	return e.export()
}

func (e *endpoint) export() (transport.Exported, error) {
	if !e.created {
		return transport.Exported{}, fmt.Errorf("fabric: export endpoint %d: %w", e.id, transport.ErrNotOwner)
	}
	e.mu.Lock()
	gone := e.destroyed
	e.mu.Unlock()
	if gone {
		return transport.Exported{}, fmt.Errorf("fabric: export endpoint %d: %w: it was destroyed", e.id, transport.ErrUnknownEndpoint)
	}
	h := handle{what: uint32(e.kind), counted: e.counted, size: e.size, block: e.index, nonce: e.nonce, device: e.dev.id}
	x := transport.Exported{Handle: h.encode(e.dev, e.t.cfg.key)}
	return x, e.dev.space.export(&x)
}

// Query says whether the endpoint that an id names can be bound and used.
func (t *Transport) Query(id transport.EndpointID) (ready bool, err error) {
	e, err := t.endpoint(id)
	if err != nil {
		return false, err
	}
	return e.query()
}

func (e *endpoint) query() (bool, error) {
	if e.ready.Load() {
		return true, nil
	}
	if e.polls.Add(-1) > 0 {
		return false, nil
	}
	if e.kind == kindMulticast {
		if ok, err := e.assemble(); !ok {
			return false, err
		}
	}
	if !e.t.knowsAlias(e) {
		for _, p := range *e.parts.Load() {
			p.populate()
		}
	}
	e.ready.Store(true)
	return true, nil
}

func (e *endpoint) ID() transport.EndpointID { return e.id }
func (e *endpoint) Size() uint64             { return e.size }

// Ready queries until the endpoint is ready.
func (e *endpoint) Ready(ctx context.Context) error {
	if e.t.isClosed() {
		return fmt.Errorf("fabric: endpoint %d: %w", e.id, transport.ErrClosed)
	}
	for i := 0; ; i++ {
		ok, err := e.query()
		if ok || err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if i < 100 {
			runtime.Gosched()
		} else {
			time.Sleep(100 * time.Microsecond)
		}
	}
}

// Export implements [transport.Endpoint]. Members of a multicast endpoint join it.
func (e *endpoint) Export() (transport.Exported, error) {
	if e.kind == kindMulticast {
		return transport.Exported{}, fmt.Errorf("fabric: export multicast endpoint %d: %w: it is joined", e.id, transport.ErrUnsupported)
	}
	return e.export()
}

// DestroyEndpoint has an id name nothing any more. What was bound under it is
// unbound. The endpoint itself is freed with the last id, of any rank, that names it.
func (t *Transport) DestroyEndpoint(id transport.EndpointID) error {
	e, err := t.endpoint(id)
	if err != nil {
		return err
	}
	return e.Destroy()
}

// Destroy may be called again, also by the transport's Close.
func (e *endpoint) Destroy() error {
	e.mu.Lock()
	if e.destroyed {
		e.mu.Unlock()
		return nil
	}
	e.destroyed = true
	h := e.home
	e.mu.Unlock()
	t := e.t
	t.dissociate(e)
	if t.strict() && e.flying.Load() != 0 {
		t.diag.add(t.broken(RuleDestroyedInUse, "destroy", ErrUndefined).at(e, 0, e.size))
	}
	if h != nil {
		e.mu.Lock()
		for len(h.bindings) > 0 {
			e.takeAway(h, 0)
		}
		e.mu.Unlock()
	}
	if e.kind == kindMulticast {
		if parts := e.parts.Load(); parts != nil {
			for _, p := range *parts {
				p.blk.unclaim()
			}
		}
		if h != nil {
			t.giveBlock(h.index, h.blk)
		}
	}
	if e.created {
		t.giveBlock(e.index, e.blk)
	} else {
		e.blk.unclaim()
	}
	if e.ownID {
		return t.ReleaseIDs(e.id, 1)
	}
	return nil
}
