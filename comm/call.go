package comm

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/progress"
)

// A Collective is the kind of a call.
type Collective uint8

const (
	OpAllReduce Collective = iota + 1
	OpReduce
	OpBroadcast
	OpAllGather
	OpAllToAll
	OpBarrier
	OpReduceScatter
	OpReduceScatterBlock
	OpGather
	OpScatter
	OpScan
	OpExscan
	OpAllGatherV
	OpGatherV
	OpScatterV
	OpAllToAllV
	OpGroup
	OpSplit
	OpDup
	OpAlloc
	OpOpenDevice
	OpAllocDevice
	OpRegister
	OpFreeDevice
	// Not collective: they have a peer instead of a root, and a tag.
	OpSend
	OpRecv
)

// collectiveForm is what a call of some kind has.
type collectiveForm struct {
	name    string
	reduces bool
	rooted  bool
	ownsize bool // the count is this rank's own
}

var collectiveForms = [...]collectiveForm{
	OpAllReduce:          {name: "AllReduce", reduces: true},
	OpReduce:             {name: "Reduce", reduces: true, rooted: true},
	OpBroadcast:          {name: "Broadcast", rooted: true},
	OpAllGather:          {name: "AllGather"},
	OpAllToAll:           {name: "AllToAll"},
	OpBarrier:            {name: "Barrier"},
	OpReduceScatter:      {name: "ReduceScatter", reduces: true},
	OpReduceScatterBlock: {name: "ReduceScatterBlock", reduces: true},
	OpGather:             {name: "Gather", rooted: true},
	OpScatter:            {name: "Scatter", rooted: true},
	OpScan:               {name: "Scan", reduces: true},
	OpExscan:             {name: "Exscan", reduces: true},
	OpAllGatherV:         {name: "AllGatherV"},
	OpGatherV:            {name: "GatherV", rooted: true, ownsize: true},
	OpScatterV:           {name: "ScatterV", rooted: true, ownsize: true},
	OpAllToAllV:          {name: "AllToAllV", ownsize: true},
	OpGroup:              {name: "Group"},
	OpSplit:              {name: "Split"},
	OpDup:                {name: "Dup"},
	OpAlloc:              {name: "Alloc"},
	OpOpenDevice:         {name: "OpenDevice"},
	OpAllocDevice:        {name: "AllocDevice"},
	OpRegister:           {name: "Register"},
	OpFreeDevice:         {name: "DeviceBuffer.Free"},
	OpSend:               {name: "Send"},
	OpRecv:               {name: "Recv"},
}

func (k Collective) form() collectiveForm {
	if int(k) < len(collectiveForms) && k != 0 {
		return collectiveForms[k]
	}
	return collectiveForm{name: fmt.Sprintf("collective %d", uint8(k))}
}

func (k Collective) String() string { return k.form().name }

// A Call describes a call. What all ranks must agree on is everything but the
// Count of a GatherV, ScatterV or AllToAllV, which is this rank's own.
type Call struct {
	Collective Collective
	Count      int          // elements, as the collective counts them; of a Group its calls
	Type       kernels.Type // of the elements
	ElemBytes  int          // size of elements that are of no such type, else 0
	Op         kernels.Op   // of reductions
	Func       bool         // the operator is a function of the program
	Device     bool         // the elements are in devices' memory
	Root       int          // of rooted collectives; the peer of a Send or Recv
	Tag        int          // of a Send or Recv
	Digest     uint32       // of what else must agree: the counts of all ranks, the calls of a Group
}

// Reduces says whether the call has an operator.
func (c Call) Reduces() bool { return c.Collective.form().reduces }

// String describes the call for people.
func (c Call) String() string { return c.Collective.String() + c.arguments() }

// numbered describes call number seq; 0 is a call that did not begin.
func (c Call) numbered(seq uint64) string {
	if c.Collective == 0 { // no call
		return ""
	}
	if seq == 0 {
		return c.String()
	}
	return fmt.Sprintf("%v #%d%s", c.Collective, seq, c.arguments())
}

func (c Call) arguments() string {
	f, s := c.Collective.form(), ""
	switch {
	case f.rooted:
		s += fmt.Sprintf(" root %d", c.Root)
	case c.Collective == OpSend:
		s += fmt.Sprintf(" to %d tag %d", c.Root, c.Tag)
	case c.Collective == OpRecv:
		s += " from " + wild(c.Root) + " tag " + wild(c.Tag)
	case c.Collective == OpGroup:
		if c.Digest == 0 {
			return "" // not known yet
		}
		s = fmt.Sprintf(" of %d calls, digest %08x", c.Count, c.Digest)
		if c.Digest&digestSettled != 0 {
			s += ", persistent or of tensors"
		}
		return s
	}
	switch {
	case c.Type != kernels.TypeInvalid:
		s += fmt.Sprintf(" count %d %v", c.Count, c.Type)
	case c.ElemBytes != 0:
		s += fmt.Sprintf(" count %d of %d bytes", c.Count, c.ElemBytes)
	}
	if c.Digest != 0 {
		s += fmt.Sprintf(" counts %08x", c.Digest)
	}
	switch {
	case c.Func:
		s += " func"
	case f.reduces:
		s += " " + c.Op.String()
	}
	if c.Device {
		s += " on devices"
	}
	return s
}

func wild(n int) string {
	if n == AnySource { // which is AnyTag
		return "any"
	}
	return strconv.Itoa(n)
}

// agrees says whether two ranks made the same call.
func (c Call) agrees(other Call) bool { return c.common() == other.common() }

// common is the part of the call that all ranks must agree on.
func (c Call) common() Call {
	if c.Collective.form().ownsize {
		c.Count = 0
	}
	return c
}

// callState is the number of the last call that began, and whether it is still
// running, in one word.
type callState uint64

func (s callState) seq() uint64   { return uint64(s >> 1) }
func (s callState) running() bool { return s&1 != 0 }

// Begin starts a collective call and returns the engine that carries it. It is
// for those who write collectives: between Begin and [Communicator.End] the
// engine is this goroutine's. An error means that the call did not begin and End
// must not be called. Calls that [Communicator.Start] was given before go first.
func (c *Communicator) Begin(ctx context.Context, call Call) (*progress.Engine, error) {
	return c.inTurn(ctx, call, nil)
}

// BeginStarted is Begin for a [Job] that runs.
func (c *Communicator) BeginStarted(ctx context.Context, call Call) (*progress.Engine, error) {
	if err := c.checkBegin(ctx, call); err != nil {
		return nil, err
	}
	return c.begin(ctx, call, nil)
}

// BeginGroup is Begin for a Group, and BeginStartedGroup is BeginStarted.
func (c *Communicator) BeginGroup(ctx context.Context, m *Members) (*progress.Engine, error) {
	return c.inTurn(ctx, m.calls[0], m)
}

func (c *Communicator) BeginStartedGroup(ctx context.Context, m *Members) (*progress.Engine, error) {
	if err := c.checkBegin(ctx, m.calls[0]); err != nil {
		return nil, err
	}
	return c.begin(ctx, m.calls[0], m)
}

// inTurn begins a call after those that were started before.
func (c *Communicator) inTurn(ctx context.Context, call Call, members *Members) (*progress.Engine, error) {
	if err := c.checkBegin(ctx, call); err != nil {
		return nil, err
	}
	if c.started.pending.Load() != 0 {
		if err := c.started.drain(ctx); err != nil {
			return nil, c.gaveUpTurn(call, err)
		}
	}
	return c.begin(ctx, call, members)
}

func (c *Communicator) checkBegin(ctx context.Context, call Call) error {
	if c == nil {
		return &OpError{Call: call, Rank: -1, Err: ErrNil}
	}
	if ctx == nil {
		return c.refuse(call, fmt.Errorf("%w: nil context", ErrArgument))
	}
	return nil
}

func (c *Communicator) begin(ctx context.Context, call Call, members *Members) (*progress.Engine, error) {
	s := callState(c.state.Load())
	if s.running() || !c.state.CompareAndSwap(uint64(s), uint64(s+2|1)) {
		return nil, c.refuse(call, ErrConcurrent)
	}
	return c.begun(ctx, call, members, s)
}

// begun begins a call that has taken its turn, when the state was s.
func (c *Communicator) begun(ctx context.Context, call Call, members *Members, s callState) (*progress.Engine, error) {
	// Only now: Close stops first and looks for a running call then, so that one of
	// the two sees the other, and no call begins on memory that is given back.
	if c.stop.Err() != nil || c.failedLater() {
		c.told.Store(true)
		c.state.Store(uint64(s))
		if c.hasLeavers() {
			c.endLeave()
		}
		return nil, c.refuse(call, c.laterErr()) // while no call runs: others may ask
	}
	seq := (s + 2).seq()
	if members != nil {
		call = members.Call() // only now: the call before may have settled it
		c.log[seq%uint64(len(c.log))].members.Store(members)
	}
	words := call.pack(seq)
	c.log.store(seq, words)
	c.history = extend(c.history, call.signature(words))
	if c.hasLeavers() {
		if err := c.refuseLeft(seq); err != nil {
			c.told.Store(true)
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
	c.engine.Begin(ctx, c.timeout, seq, c.history)
	return c.engine, nil
}

// refuse returns the error of a call that does not begin.
func (c *Communicator) refuse(call Call, err error) error {
	return &OpError{Call: call, Rank: c.rank, Err: err}
}

// End ends the call that Begin began. A call that failed leaves the lanes in
// different states on different ranks, so it ends the communicator for all. With
// commit, one that went well here waits for the votes of all ranks.
func (c *Communicator) End(err error) error { return c.end(err, c.commits) }

func (c *Communicator) end(err error, vote bool) error {
	s := callState(c.state.Load())
	if err == nil && vote {
		err = c.vote(s.seq())
	}
	if err != nil {
		err = c.fail(s.seq(), err)
	}
	c.ctx = nil
	c.state.Store(uint64(s &^ 1))
	if c.hasLeavers() {
		c.endLeave()
	}
	return err
}

// fail turns the error of call seq into what the caller gets, and ends the
// communicator.
func (c *Communicator) fail(seq uint64, err error) error {
	c.failed.Store(true)
	c.told.Store(true)
	call, _ := c.log.load(seq)
	err = ownContext(c.ctx, c.rank, err)
	var wait *progress.WaitError
	var mismatch *progress.MismatchError
	var abort *AbortError
	var member *transport.MemberError
	stopped := c.stop.Err()
	if stopped == nil && errors.As(err, &member) {
		// That rank says why. What this one has to say is of no use to anybody.
		if e := c.await(c.ctx, nil, func() int { return member.Member }); e != nil {
			err, stopped = e, c.stop.Err()
		}
	}
	switch {
	case stopped != nil && errors.Is(err, stopped):
	case errors.As(err, &wait):
		stopped = c.gaveUp(call, seq, wait)
	case errors.As(err, &mismatch):
		stopped = c.disagree(call, seq, mismatch)
	case errors.As(err, &abort): // of a communicator that was to be made
		stopped = c.abort(abort)
	default:
		stopped = c.abort(&AbortError{Origin: c.rank, Reason: ReasonFailed, Call: call.numbered(seq), Seq: seq, Detail: err.Error(), cause: err})
	}
	if own := c.ctx.Err(); own != nil && !errors.Is(stopped, own) {
		stopped = fmt.Errorf("%w; %w", stopped, own) // another rank was first, this one is as late
	}
	return &OpError{Call: call, Rank: c.rank, Seq: seq, Err: stopped}
}
