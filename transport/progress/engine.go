package progress

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/weft-go/weft/kernels"
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
	cfg    Config
	t      transport.Transport
	layout Layout

	mem   transport.Memory
	own   transport.Endpoint
	peers []transport.Endpoint // nil at this rank
	phase transport.Completion
	wait  waiter
	unset func() // takes the doorbell out of Stop

	out []outLane
	in  []inLane

	// tag of the current call
	seq, signature uint32
	stage          []byte // where short messages are put together

	multi multi

	// Extension is for the layer above to keep its own state of the communicator.
	Extension any
}

// outLane is the sending end of the lane to one peer.
type outLane struct {
	next   uint64 // epoch of the next message
	credit uint64 // epochs that the peer has finished, as last seen
	part   uint32 // messages of this call
}

// inLane is the receiving end of the lane from one peer.
type inLane struct {
	next     uint64   // epoch of the next message
	released uint64   // epochs credited to the peer
	targets  []uint64 // of each cell's counter, once the messages up to next are there
	part     uint32
	want     Tag // of the message that Recv waits for
}

// stageBytes is the length up to which a message is put together in one piece.
const stageBytes = 512

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
		cfg: cfg, t: cfg.Transport, layout: l,
		peers: make([]transport.Endpoint, l.Ranks),
		out:   make([]outLane, l.Ranks), in: make([]inLane, l.Ranks),
		stage: make([]byte, stageBytes),
	}
	for i := range e.in {
		e.in[i].targets = make([]uint64, l.Cells)
	}
	if err := e.connect(ctx); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	e.wait = waiter{policy: cfg.Policy, mem: e.mem, bell: e.mem.Doorbell(), stop: cfg.Stop, onStall: cfg.OnStall, hopeless: e.mismatch}
	e.unset = cfg.Stop.OnSet(e.wait.bell.Ring)
	return e, nil
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
	e.peers, err = ImportAll(ctx, e.t, e.own, x, e.cfg.Rank, e.cfg.Exchange)
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
func (e *Engine) Cells() int { return e.layout.Cells }

// Rank is this rank's number.
func (e *Engine) Rank() int { return e.cfg.Rank }

// Ranks is the number of ranks.
func (e *Engine) Ranks() int { return e.layout.Ranks }

// Begin starts a call. Its waits end with ctx, and after timeout (0: never),
// counted from the first wait that is not short. All ranks give the same seq
// and signature.
func (e *Engine) Begin(ctx context.Context, timeout time.Duration, seq uint64, signature uint32) {
	e.wait.ctx, e.wait.timeout, e.wait.deadline = ctx, timeout, time.Time{}
	e.seq, e.signature = uint32(seq), signature
	for i := range e.out {
		e.out[i].part = 0
		e.in[i].part = 0
	}
}

// Send sends data, at most MessageBytes, to a peer as its next message. It
// waits for a free cell, and has read data when it returns.
func (e *Engine) Send(peer int, data []byte) error {
	if err := e.check(peer, len(data)); err != nil {
		return err
	}
	lane := &e.out[peer]
	cell := int(lane.next % uint64(e.layout.Cells))
	if free := lane.credit + uint64(e.layout.Cells); lane.next >= free {
		credit, err := e.wait.until(e.layout.credit(peer), lane.next-uint64(e.layout.Cells)+1, peer)
		if err != nil {
			return err
		}
		if credit > lane.next {
			return fmt.Errorf("progress: rank %d released %d messages of the %d sent", peer, credit, lane.next)
		}
		lane.credit = credit
	}
	ep := e.peers[peer].ID()
	counter := e.layout.counter(e.cfg.Rank, cell)
	at := transport.Handle{ID: ep, Offset: e.layout.slot(e.cfg.Rank, cell)}
	tag := Tag{Seq: e.seq, Signature: e.signature, Bytes: uint32(len(data)), Part: lane.part}
	tag.put(e.stage)

	// Everything that does not fill units of its own goes through the stage, the
	// end of data behind the tag: the transport may read both until the phase ends.
	whole, staged := 0, tagBytes
	if tagBytes+len(data) > stageBytes {
		whole = len(data) / transport.Granule * transport.Granule
	} else {
		staged += copy(e.stage[tagBytes:], data)
	}
	if err := e.t.PutCounted(e.phase, at, padded(e.stage, staged), counter); err != nil {
		return err
	}
	if whole > 0 {
		if err := e.t.PutCounted(e.phase, at.Add(tagBytes), data[:whole], counter); err != nil {
			return err
		}
		end := e.stage[tagBytes:]
		if rest := copy(end, data[whole:]); rest > 0 {
			if err := e.t.PutCounted(e.phase, at.Add(tagBytes+uint64(whole)), padded(end, rest), counter); err != nil {
				return err
			}
		}
	}
	if err := e.finish(transport.OpPutCounted, peer, at, lane.next); err != nil {
		return err
	}
	lane.next++
	lane.part++
	return nil
}

// check refuses what would leave the lane to a peer, or panic.
func (e *Engine) check(peer, n int) error {
	if peer < 0 || peer >= len(e.peers) || peer == e.cfg.Rank {
		return fmt.Errorf("progress: no lane between rank %d and rank %d of %d: %w", e.cfg.Rank, peer, len(e.peers), transport.ErrBounds)
	}
	if n < 0 || n > e.layout.MessageBytes() {
		return fmt.Errorf("progress: a message of %d bytes, where cells hold %d: %w", n, e.layout.MessageBytes(), transport.ErrBounds)
	}
	return nil
}

// padded returns the first n bytes of stage, up to a whole unit, with zeros
// behind them.
func padded(stage []byte, n int) []byte {
	end := roundUp(n)
	clear(stage[n:end])
	return stage[:end]
}

func roundUp(n int) int { return (n + transport.Granule - 1) / transport.Granule * transport.Granule }

// Recv waits for the next message of a peer, of n bytes, and returns its
// payload, aligned to 16 bytes, in place: it is valid until Release.
func (e *Engine) Recv(peer, n int) ([]byte, error) {
	if err := e.check(peer, n); err != nil {
		return nil, err
	}
	lane := &e.in[peer]
	cell := int(lane.next % uint64(e.layout.Cells))
	target := lane.targets[cell] + messageBytes(n)
	lane.want = Tag{Seq: e.seq, Signature: e.signature, Bytes: uint32(n), Part: lane.part}
	got, err := e.wait.until(e.layout.counter(peer, cell), target, peer)
	if err != nil {
		return nil, err
	}
	e.t.Fence(transport.FenceAcquire)
	slot := e.layout.slot(peer, cell)
	msg := e.mem.Bytes()[slot : slot+uint64(e.layout.SlotBytes)]
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
	cell := int(lane.next % uint64(e.layout.Cells))
	if offset != e.layout.counter(peer, cell) || got == lane.targets[cell] {
		return nil // waits for a credit, or nothing came
	}
	e.t.Fence(transport.FenceAcquire)
	tag := getTag(e.mem.Bytes()[e.layout.slot(peer, cell):])
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
	// A red works on whole units; the second word stays zero for ever.
	clear(e.stage[:transport.Granule])
	binary.NativeEndian.PutUint64(e.stage, lane.next) // as atomics of this machine read it
	at := transport.Handle{ID: e.peers[peer].ID(), Offset: e.layout.credit(e.cfg.Rank)}
	if err := e.t.Red(e.phase, at, e.stage[:transport.Granule], transport.RedMax, kernels.TypeUint64); err != nil {
		return err
	}
	if err := e.finish(transport.OpRed, peer, at, lane.next); err != nil {
		return err
	}
	lane.released = lane.next
	return nil
}

// finish ends the current phase and reads its report. After an error the phase
// may still be under way: the engine is of no more use.
func (e *Engine) finish(op transport.OpKind, peer int, at transport.Handle, epoch uint64) error {
	if err := e.phase.Submit(); err != nil {
		return err
	}
	if err := e.phase.Arrive(); err != nil {
		return err
	}
	if err := e.wait.done(e.phase, peer); err != nil {
		return err
	}
	report, err := e.phase.Report()
	if err != nil {
		return err
	}
	if !report.Clean() {
		return &transport.FabricError{Op: op, Rank: e.cfg.Rank, Peer: peer, Endpoint: at.ID, Offset: at.Offset, Epoch: epoch, Attempts: 1, Status: report}
	}
	return nil
}
