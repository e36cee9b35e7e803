package comm

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport/progress"
)

// A Collective is the kind of a collective call.
type Collective uint8

const (
	OpAllReduce Collective = iota + 1
	OpReduce
	OpBroadcast
	OpAllGather
	OpAllToAll
	OpBarrier
	OpSplit
	OpDup
	OpAlloc
)

var collectiveNames = map[Collective]string{
	OpAllReduce: "AllReduce", OpReduce: "Reduce", OpBroadcast: "Broadcast", OpAllGather: "AllGather",
	OpAllToAll: "AllToAll", OpBarrier: "Barrier", OpSplit: "Split", OpDup: "Dup", OpAlloc: "Alloc",
}

func (k Collective) String() string {
	if s, ok := collectiveNames[k]; ok {
		return s
	}
	return fmt.Sprintf("collective %d", uint8(k))
}

func (k Collective) reduces() bool { return k == OpAllReduce || k == OpReduce }
func (k Collective) rooted() bool  { return k == OpReduce || k == OpBroadcast }

// A Call describes a collective call: what all ranks must agree on.
type Call struct {
	Collective Collective
	Count      int          // elements, as the collective counts them
	Type       kernels.Type // of the elements
	Op         kernels.Op   // of reductions
	Root       int          // of rooted collectives
}

// String describes the call for people.
func (c Call) String() string { return c.Collective.String() + c.arguments() }

// numbered describes call number seq; 0 is a call that did not begin.
func (c Call) numbered(seq uint64) string {
	if seq == 0 {
		return c.String()
	}
	return fmt.Sprintf("%v #%d%s", c.Collective, seq, c.arguments())
}

func (c Call) arguments() string {
	s := ""
	if c.Collective.rooted() {
		s += fmt.Sprintf(" root %d", c.Root)
	}
	if c.Type != kernels.TypeInvalid {
		s += fmt.Sprintf(" count %d %v", c.Count, c.Type)
	}
	if c.Collective.reduces() {
		s += " " + c.Op.String()
	}
	return s
}

// Limits of what a packed call holds.
const (
	maxRanks = 1 << 24
	maxCount = 1 << 48
)

// pack returns the call in two words that also hold the low bits of its
// sequence number, so that a reader knows which call each belongs to.
func (c Call) pack(seq uint64) (a, b uint64) {
	a = uint64(c.Collective) | uint64(c.Type)<<8 | uint64(c.Op)<<16 | uint64(c.Root)<<24 | seq<<48
	b = uint64(c.Count) | seq<<48
	return a, b
}

func unpackCall(a, b uint64) Call {
	return Call{
		Collective: Collective(a), Type: kernels.Type(a >> 8), Op: kernels.Op(a >> 16),
		Root: int(a >> 24 & (maxRanks - 1)), Count: int(b & (maxCount - 1)),
	}
}

// signature hashes a packed call.
func signature(a, b uint64) uint32 {
	h := (a&(1<<48-1))*0x9e3779b97f4a7c15 ^ (b&(maxCount-1))*0xc2b2ae3d27d4eb4f
	h ^= h >> 29
	h *= 0xbf58476d1ce4e5b9
	return uint32(h >> 32)
}

// callLog remembers the last calls, for the peers that ask. It has one writer.
type callLog [16]struct{ a, b atomic.Uint64 }

func (l *callLog) store(seq, a, b uint64) {
	r := &l[seq%uint64(len(l))]
	r.a.Store(a)
	r.b.Store(b)
}

// load returns call number seq if it is still there.
func (l *callLog) load(seq uint64) (Call, bool) {
	r := &l[seq%uint64(len(l))]
	a, b := r.a.Load(), r.b.Load()
	if a>>48 != seq&0xffff || b>>48 != seq&0xffff || a&0xff == 0 {
		return Call{}, false
	}
	return unpackCall(a, b), true
}

// lastCalls returns the calls that are remembered, by number.
func (l *callLog) lastCalls(last uint64) map[uint64]Call {
	calls := map[uint64]Call{}
	for seq := last; seq > 0 && last-seq < uint64(len(l)); seq-- {
		if c, ok := l.load(seq); ok {
			calls[seq] = c
		}
	}
	return calls
}

// callState is the number of the last call that began, and whether it is still
// running, in one word.
type callState uint64

func (s callState) seq() uint64   { return uint64(s >> 1) }
func (s callState) running() bool { return s&1 != 0 }

// Begin starts a collective call and returns the engine that carries it. It is
// for those who write collectives: between Begin and [Communicator.End] the
// engine is this goroutine's. An error means that the call did not begin and End
// must not be called.
func (c *Communicator) Begin(ctx context.Context, call Call) (*progress.Engine, error) {
	if c == nil {
		return nil, &OpError{Call: call, Rank: -1, Err: ErrNil}
	}
	if ctx == nil {
		return nil, c.refuse(call, fmt.Errorf("%w: nil context", ErrArgument))
	}
	s := callState(c.state.Load())
	if s.running() || !c.state.CompareAndSwap(uint64(s), uint64(s+2|1)) {
		return nil, c.refuse(call, ErrConcurrent)
	}
	// Only now: Close stops first and looks for a running call then, so that one of
	// the two sees the other, and no call begins on memory that is given back.
	if err := c.stop.Err(); err != nil {
		c.state.Store(uint64(s))
		if c.leavers.Load() {
			c.endLeave()
		}
		return nil, c.refuse(call, err)
	}
	seq := (s + 2).seq()
	a, b := call.pack(seq)
	c.log.store(seq, a, b)
	if c.leavers.Load() {
		if err := c.refuseLeft(seq); err != nil {
			c.state.Store(uint64(s + 2))
			c.endLeave()
			return nil, &OpError{Call: call, Rank: c.rank, Seq: seq, Err: err}
		}
	}
	c.ctx = ctx
	if err := ctx.Err(); err != nil {
		// The others are in the call or will be, and wait for this rank.
		return nil, c.End(&progress.WaitError{Peer: c.rank, Err: err})
	}
	c.engine.Begin(ctx, c.timeout, seq, signature(a, b))
	return c.engine, nil
}

// refuse returns the error of a call that does not begin.
func (c *Communicator) refuse(call Call, err error) error {
	return &OpError{Call: call, Rank: c.rank, Err: err}
}

// End ends the call that Begin began. A call that failed leaves the lanes in
// different states on different ranks, so it ends the communicator for all.
func (c *Communicator) End(err error) error {
	s := callState(c.state.Load())
	if err != nil {
		err = c.fail(s.seq(), err)
	}
	c.ctx = nil
	c.state.Store(uint64(s &^ 1))
	if c.leavers.Load() {
		c.endLeave()
	}
	return err
}

// fail turns the error of call seq into what the caller gets, and ends the
// communicator.
func (c *Communicator) fail(seq uint64, err error) error {
	c.failed.Store(true)
	call, _ := c.log.load(seq)
	var wait *progress.WaitError
	var mismatch *progress.MismatchError
	stopped := c.stop.Err()
	switch {
	case stopped != nil && errors.Is(err, stopped):
	case errors.As(err, &wait):
		stopped = c.gaveUp(call, seq, wait)
	case errors.As(err, &mismatch):
		stopped = c.disagree(call, seq, mismatch)
	default:
		stopped = c.abort(&AbortError{Origin: c.rank, Reason: ReasonFailed, Call: call.numbered(seq), Seq: seq, Detail: err.Error(), cause: err})
	}
	if own := c.ctx.Err(); own != nil && !errors.Is(stopped, own) {
		stopped = fmt.Errorf("%w; %w", stopped, own) // another rank was first, this one is as late
	}
	return &OpError{Call: call, Rank: c.rank, Seq: seq, Err: stopped}
}
