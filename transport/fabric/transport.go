package fabric

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/fabric/faults"
)

// Transport is one rank's software fabric. It implements [transport.Transport],
// and has what a fabric has beyond it. The zero Transport is closed.
type Transport struct {
	cfg    config
	shared bool // between processes
	diag   diagnostics
	engine engine
	links  links
	// foreseer is the decider, if it is one.
	foreseer faults.Foreseer

	// table maps ids to endpoints. Operations read it without a lock; changes
	// replace it under mu.
	table atomic.Pointer[[]*endpoint]

	mu         sync.Mutex
	closed     bool
	reserved   []bool // by id
	lowestFree int    // of the ids, a hint
	own        *device
	space      ownSpace // of own
	freeBlocks []uint64 // blocks given up; some are still named by peers
	nextBlock  uint64
	memories   map[*memory]struct{}
	polls      uint64 // draws how long creations take

	devices deviceTable
	stored  stores // strict mode only

	streams atomic.Bool // long puts go around the caches

	// completions with a phase that was not waited for; strict mode only
	openMu  sync.Mutex
	open    map[*Completion]struct{}
	pending map[*op]struct{} // operations of such phases
}

var (
	_ transport.Transport = (*Transport)(nil)
	_ transport.Reacher   = (*Transport)(nil)
	_ transport.Streamer  = (*Transport)(nil)
	_ transport.Joiner    = (*Transport)(nil)
)

// NewLocal returns a fabric between goroutines of one process. Each rank has one
// of its own. The error is about the options.
func NewLocal(opts ...Option) (*Transport, error) { return newTransport(false, opts) }

// NewShared returns a fabric between processes of one node.
func NewShared(opts ...Option) (*Transport, error) { return newTransport(true, opts) }

func newTransport(shared bool, opts []Option) (*Transport, error) {
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	t := &Transport{cfg: cfg, shared: shared, lowestFree: 1, memories: map[*memory]struct{}{}, open: map[*Completion]struct{}{}, pending: map[*op]struct{}{}}
	t.diag.each = cfg.diagnose
	t.foreseer, _ = cfg.decider.(faults.Foreseer)
	t.table.Store(&[]*endpoint{})
	t.engine.init(t)
	return t, nil
}

// Name implements [transport.Transport].
func (t *Transport) Name() string { return "fabric" }

// Stream implements [transport.Streamer].
func (t *Transport) Stream(on bool) { t.streams.Store(on) }

// Mode returns the mode that the fabric was made with.
func (t *Transport) Mode() Mode { return t.cfg.mode }

func (t *Transport) strict() bool { return t.cfg.mode == ModeStrict }

// endpoints is the table of what ids name.
func (t *Transport) endpoints() []*endpoint {
	if table := t.table.Load(); table != nil {
		return *table
	}
	return nil // of the zero Transport
}

// isClosed says whether Close was called.
func (t *Transport) isClosed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed || t.memories == nil
}

// Limits implements [transport.Transport].
func (t *Transport) Limits() transport.Limits {
	return transport.Limits{
		MaxEndpointBytes: t.cfg.limits.MaxEndpointBytes,
		BindAlign:        t.cfg.limits.BindAlign,
		OwnerAccess:      t.cfg.support.OwnerAccess,
		Rebind:           true,
		Multicast:        t.cfg.support.Multicast,
		LateWrites:       true,
	}
}

// device returns this rank's own device, and makes it if it is the first to ask.
// t.mu is held.
func (t *Transport) device() (*device, error) {
	if t.closed || t.memories == nil {
		return nil, fmt.Errorf("fabric: %w", transport.ErrClosed)
	}
	if t.own != nil {
		return t.own, nil
	}
	d := newIdentity(t.cfg.rank, t.cfg.cliques)
	if t.shared {
		s, err := newShared(d, t.cfg.arena)
		if err != nil {
			return nil, err
		}
		d.space, t.space = s, s
	} else {
		s := newHeapSpace(d, t.cfg.limits.BindAlign)
		d.space, t.space = s, s
	}
	t.own = d
	t.devices.add(d)
	return d, nil
}

// newBlock takes a block of this rank's device. t.mu is held, and the device is there.
func (t *Transport) newBlock(kind, size uint64, counted bool) (uint64, block, error) {
	i, found := t.idleBlock()
	if !found {
		if t.nextBlock == t.space.blocks() {
			return 0, nil, fmt.Errorf("fabric: the device has all the %d endpoints that it can have: %w", t.nextBlock, transport.ErrBounds)
		}
		i = t.nextBlock
		t.nextBlock++
	}
	b, _ := t.space.block(i)
	if counted {
		kind |= flagCounted
	}
	for m := range uint64(MaxMembers) {
		b.word(membersAt + m*memberBytes + 24).Store(0)
	}
	for _, at := range []uint64{blockWanted, blockJoined, blockImporters} {
		b.word(at).Store(0)
	}
	b.word(blockNonce).Store(newNonce())
	b.word(blockSize).Store(size)
	b.word(blockKind).Store(kind | flagOwned)
	b.publish(nil)
	b.word(blockAliases).Store(1)
	return i, b, nil
}

// idleBlock finds a block that was given up and that no peer knows any more.
func (t *Transport) idleBlock() (uint64, bool) {
	for k, i := range t.freeBlocks {
		if b, _ := t.space.block(i); b.word(blockAliases).Load() == 0 && b.idle() {
			t.freeBlocks = append(t.freeBlocks[:k], t.freeBlocks[k+1:]...)
			return i, true
		}
	}
	return 0, false
}

// giveBlock gives a block of this rank's device up. Ids of peers may still name it.
func (t *Transport) giveBlock(i uint64, b block) {
	b.word(blockKind).And(^uint64(flagOwned))
	b.unclaim()
	t.mu.Lock()
	t.freeBlocks = append(t.freeBlocks, i)
	t.mu.Unlock()
}

// Close implements [transport.Transport]. Operations that were not executed by
// now never are, and their phases fail. It returns what the sanitizer found since
// the last Close and no call could return.
func (t *Transport) Close() error {
	t.mu.Lock()
	first := !t.closed && t.memories != nil
	t.closed = true
	t.mu.Unlock()
	var errs []error
	if first {
		t.dropCompletions()
		t.engine.close()
		for _, e := range t.endpoints() {
			if e != nil {
				errs = append(errs, e.Destroy())
			}
		}
		errs = append(errs, t.devices.close(t.own))
		t.mu.Lock()
		errs = append(errs, t.releaseSpace())
		t.mu.Unlock()
	}
	errs = append(errs, t.diag.take())
	return errors.Join(errs...)
}

// releaseSpace gives the device's memory up when nothing of it can be used any
// more: the transport is closed and all memory freed. t.mu is held.
func (t *Transport) releaseSpace() error {
	if !t.closed || len(t.memories) > 0 || t.space == nil {
		return nil
	}
	s := t.space
	t.space = nil
	return s.release()
}
