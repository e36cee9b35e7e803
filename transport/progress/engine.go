package progress

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weft-go/weft/transport"
)

// Config says what an engine works on.
type Config struct {
	Transport transport.Transport
	Rank      int
	Layout    Layout
	Policy    WaitPolicy
	Stop      *Stop
	// Exchange is an all-gather among the engines of the communicator.
	Exchange transport.Exchange
	// OnStall, if not nil, is called when a call waits for a peer for long, and
	// again from time to time. It must not block.
	OnStall func(peer int)
}

// An Engine is one rank's end of all lanes of a communicator.
type Engine struct {
	port
	cfg    Config
	layout Layout
	lanes  lanes

	mem   transport.Memory
	own   transport.Endpoint
	peers []transport.Endpoint // nil at this rank
	unset func()               // takes the doorbell out of Stop

	out []outLane
	in  []inLane

	// tag of the current call
	seq, signature uint32

	mail  *Mail // nil if the layout has no mail lanes
	multi multi

	// Extension is for the layer above to keep its own state of the communicator.
	Extension any
}

// outLane is the sending end of the lane to one peer.
type outLane struct {
	next   uint64 // epoch of the next message
	credit uint64 // epochs that the peer has finished, as last seen
	part   uint32 // messages of this call
	salt   uint32 // see Engine.Salt
}

// inLane is the receiving end of the lane from one peer.
type inLane struct {
	next     uint64   // epoch of the next message
	released uint64   // epochs credited to the peer
	targets  []uint64 // of each cell's counter, once the messages up to next are there
	part     uint32
	salt     uint32
	want     Tag // of the message that Recv waits for
}

// New makes the engine of one rank; all ranks of the communicator call it
// together.
func New(ctx context.Context, cfg Config) (*Engine, error) {
	l := cfg.Layout
	if err := l.Validate(); err != nil {
		return nil, err
	}
	if cfg.Rank < 0 || cfg.Rank >= l.Ranks {
		return nil, fmt.Errorf("progress: rank %d of %d: %w", cfg.Rank, l.Ranks, transport.ErrBounds)
	}
	e := &Engine{
		port: port{t: cfg.Transport, rank: cfg.Rank, stage: make([]byte, stageBytes)},
		cfg:  cfg, layout: l, lanes: l.lanes(),
		peers: make([]transport.Endpoint, l.Ranks),
		out:   make([]outLane, l.Ranks), in: make([]inLane, l.Ranks),
	}
	for i := range e.in {
		e.in[i].targets = make([]uint64, l.Cells)
	}
	if err := e.connect(ctx); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	e.wait = e.newWaiter()
	e.wait.onStall, e.wait.hopeless = cfg.OnStall, e.mismatch
	if l.MailCells > 0 {
		var err error
		if e.mail, err = newMail(e); err != nil {
			return nil, errors.Join(err, e.Close())
		}
	}
	e.unset = cfg.Stop.OnSet(e.wait.bell.Ring)
	return e, nil
}

func (e *Engine) newWaiter() waiter {
	return waiter{policy: e.cfg.Policy, mem: e.mem, bell: e.mem.Doorbell(), stop: e.cfg.Stop}
}

// connect makes this rank's endpoint and imports those of the peers.
func (e *Engine) connect(ctx context.Context) error {
	size := e.layout.Bytes()
	var err error
	if e.mem, err = e.t.Alloc(size); err != nil {
		return err
	}
	if e.own, err = e.t.Create(transport.EndpointConfig{Size: size, Counted: true}); err != nil {
		return err
	}
	if err := e.own.Ready(ctx); err != nil {
		return err
	}
	if err := e.own.Bind(0, e.mem); err != nil {
		return err
	}
	if e.phase, err = e.t.NewCompletion(1); err != nil {
		return err
	}
	x, err := e.own.Export()
	if err != nil {
		return err
	}
	e.peers, err = ImportAll(ctx, e.t, e.own, x, e.rank, e.cfg.Exchange)
	if err == nil && len(e.peers) != e.layout.Ranks {
		err = fmt.Errorf("progress: an exchange among %d ranks gave %d exports: %w", e.layout.Ranks, len(e.peers), transport.ErrHandle)
	}
	return err
}

// ImportAll exchanges exports of an endpoint that each rank of a group made for
// itself, and imports those of the others. It closes x, the export of this rank's.
// The result is nil at rank me.
func ImportAll(ctx context.Context, t transport.Transport, own transport.Endpoint, x transport.Exported, me int, exchange transport.Exchange) ([]transport.Endpoint, error) {
	all, err := exchange(ctx, x)
	x.Close()
	if err != nil {
		return nil, err
	}
	peers := make([]transport.Endpoint, len(all))
	for r, x := range all {
		if r != me && err == nil {
			if peers[r], err = t.Import(x); err != nil {
				err = fmt.Errorf("endpoint of rank %d: %w", r, err)
			} else if err = peers[r].Ready(ctx); err == nil && peers[r].Size() != own.Size() {
				err = fmt.Errorf("endpoint of rank %d has %d bytes, ours %d: %w", r, peers[r].Size(), own.Size(), transport.ErrHandle)
			}
		}
		x.Close()
	}
	if err != nil {
		for _, p := range peers {
			if p != nil {
				p.Destroy()
			}
		}
		return nil, err
	}
	return peers, nil
}

// Close gives the engine's endpoints and memory up. No call may be under way.
func (e *Engine) Close() error {
	if e.unset != nil {
		e.unset()
	}
	var errs []error
	for _, p := range e.peers {
		if p != nil {
			errs = append(errs, p.Destroy())
		}
	}
	errs = append(errs, e.multi.close())
	if e.own != nil {
		errs = append(errs, e.own.Destroy())
	}
	if e.mem != nil {
		errs = append(errs, e.mem.Free())
	}
	return errors.Join(errs...)
}

// MessageBytes is the largest payload of one message.
func (e *Engine) MessageBytes() int { return e.layout.MessageBytes() }

// Cells is the number of messages on a lane that can be sent before the first
// is released.
func (e *Engine) Cells() int { return e.lanes.cells }

// Mail is the engine's mail lanes, nil if the layout has none. They are for other
// goroutines than the engine, at the same time.
func (e *Engine) Mail() *Mail { return e.mail }

// OnIdle has f called whenever a wait of a call lasts and its word has not come,
// before each sleep: what else this rank has to do is not held up by its peers'
// lateness. f must not block. It is to be set before the first call.
func (e *Engine) OnIdle(f func()) { e.wait.idle = f }

// Rank is this rank's number.
func (e *Engine) Rank() int { return e.rank }

// Ranks is the number of ranks.
func (e *Engine) Ranks() int { return e.layout.Ranks }

// Begin starts a call. Its waits end with ctx, and after timeout (0: never),
// counted from the first wait that is not short. All ranks give the same seq
// and signature.
func (e *Engine) Begin(ctx context.Context, timeout time.Duration, seq uint64, signature uint32) {
	e.wait.ctx, e.wait.timeout, e.wait.deadline = ctx, timeout, time.Time{}
	e.seq, e.signature = uint32(seq), signature
	for i := range e.out {
		e.out[i].part, e.out[i].salt = 0, 0
		e.in[i].part, e.in[i].salt = 0, 0
	}
}

// Salt adds to the signature of this call's messages to and from a peer what
// only the two of them must agree on. It comes before the first of them.
func (e *Engine) Salt(peer int, out, in uint32) {
	e.out[peer].salt, e.in[peer].salt = out, in
}

// Send sends data, at most MessageBytes, to a peer as its next message. It
// waits for a free cell, and has read data when it returns.
func (e *Engine) Send(peer int, data []byte) error {
	if err := e.check(peer, len(data)); err != nil {
		return err
	}
	lane := &e.out[peer]
	cell := int(lane.next % uint64(e.lanes.cells))
	if free := lane.credit + uint64(e.lanes.cells); lane.next >= free {
		credit, err := e.wait.until(e.lanes.credit(peer), lane.next-uint64(e.lanes.cells)+1, peer)
		if err != nil {
			return err
		}
		if credit > lane.next {
			return fmt.Errorf("progress: rank %d released %d messages of the %d sent", peer, credit, lane.next)
		}
		lane.credit = credit
	}
	tag := Tag{Seq: e.seq, Signature: e.signature ^ lane.salt, Bytes: uint32(len(data)), Part: lane.part}
	tag.put(e.stage)
	at := transport.Handle{ID: e.peers[peer].ID(), Offset: e.lanes.slot(e.rank, cell)}
	if err := e.put(peer, at, e.lanes.counter(e.rank, cell), tagBytes, data, lane.next); err != nil {
		return err
	}
	lane.next++
	lane.part++
	return nil
}

// check refuses what would leave the lane to a peer, or panic.
func (e *Engine) check(peer, n int) error { return e.checkLane(peer, n, e.layout.MessageBytes()) }

func (e *Engine) checkLane(peer, n, most int) error {
	if peer < 0 || peer >= len(e.peers) || peer == e.rank {
		return fmt.Errorf("progress: no lane between rank %d and rank %d of %d: %w", e.rank, peer, len(e.peers), transport.ErrBounds)
	}
	if n < 0 || n > most {
		return fmt.Errorf("progress: a message of %d bytes, where cells hold %d: %w", n, most, transport.ErrBounds)
	}
	return nil
}

// Recv waits for the next message of a peer, of n bytes, and returns its
// payload, aligned to 16 bytes, in place: it is valid until Release.
func (e *Engine) Recv(peer, n int) ([]byte, error) {
	if err := e.check(peer, n); err != nil {
		return nil, err
	}
	lane := &e.in[peer]
	cell := int(lane.next % uint64(e.lanes.cells))
	target := lane.targets[cell] + messageBytes(n)
	lane.want = Tag{Seq: e.seq, Signature: e.signature ^ lane.salt, Bytes: uint32(n), Part: lane.part}
	got, err := e.wait.until(e.lanes.counter(peer, cell), target, peer)
	if err != nil {
		return nil, err
	}
	e.t.Fence(transport.FenceAcquire)
	slot := e.lanes.slot(peer, cell)
	msg := e.mem.Bytes()[slot : slot+uint64(e.lanes.slotBytes)]
	if tag := getTag(msg); tag != lane.want {
		return nil, &MismatchError{Peer: peer, Got: tag, Want: lane.want}
	}
	if got != target {
		return nil, fmt.Errorf("progress: %d bytes counted in a cell from rank %d, %d expected", got, peer, target)
	}
	lane.targets[cell] = target
	lane.next++
	lane.part++
	return msg[tagBytes : tagBytes+n : tagBytes+n], nil
}

// messageBytes is what a message with n bytes of payload adds to a counter.
func messageBytes(n int) uint64 { return uint64(roundUp(tagBytes + n)) }

// mismatch says what is wrong if the wait for the word at offset, which is now
// got, is one for a message and the peer sent a shorter one, so that the wait
// would not end. A message is known to be shorter when the counter stands where
// the length in its own tag says that it is complete.
func (e *Engine) mismatch(peer int, offset, got uint64) error {
	lane := &e.in[peer]
	cell := int(lane.next % uint64(e.lanes.cells))
	if offset != e.lanes.counter(peer, cell) || got == lane.targets[cell] {
		return nil // waits for a credit, or nothing came
	}
	e.t.Fence(transport.FenceAcquire)
	tag := getTag(e.mem.Bytes()[e.lanes.slot(peer, cell):])
	if int64(tag.Bytes) > int64(e.layout.MessageBytes()) || got-lane.targets[cell] != messageBytes(int(tag.Bytes)) {
		return nil
	}
	return &MismatchError{Peer: peer, Got: tag, Want: lane.want}
}

// Release gives back the cells of all messages received from a peer. Their
// payloads must not be touched any more.
func (e *Engine) Release(peer int) error {
	if err := e.check(peer, 0); err != nil {
		return err
	}
	lane := &e.in[peer]
	if lane.released == lane.next {
		return nil
	}
	at := transport.Handle{ID: e.peers[peer].ID(), Offset: e.lanes.credit(e.rank)}
	if err := e.raise(peer, at, lane.next); err != nil {
		return err
	}
	lane.released = lane.next
	return nil
}
