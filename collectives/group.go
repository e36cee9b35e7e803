package collectives

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weft-go/weft/collectives/plan"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport/progress"
)

// GroupCalls are the calls of a [Group], in the order in which they were added.
// They take calls while the function of the group runs, by one goroutine; what is
// added to nil, or later, is not made.
type GroupCalls struct {
	c        *comm.Communicator
	ops      []operation
	messages []message
	ended    bool
	err      error // of the first that was wrong
}

// Group makes the calls that fn adds (with [AddAllReduce] and the like) as one
// call of the communicator, with few messages, and blocks until all have ended. All
// ranks add the same calls in the same order, sends and receives apart; types, operators and roots may differ
// from call to call. The results are those of the calls made one after the other, to
// the bit, also if a call uses what an earlier one makes. A group that [NewGroup] set
// up, or an [AllReduceMany], is that on all ranks: it does not match another form.
//
// Small calls of one kind, and with one root, travel in the same messages, unless
// [comm.WithAlgorithm] names an algorithm for them that does not reduce in rank order.
// Calls of 64 KiB a block and more, barriers, V forms with blocks of different
// length, and functions on elements whose size is not 1, 2, 4, 8 or 16 bytes are made
// one by one. A call that writes memory which another uses is not made together with it.
// Where this may matter, ranks tell each other: along with the first messages of AllReduces,
// or in a round of messages more; a persistent group only does when it runs first.
//
// fn is called before the group begins. If it returns an error, or panics, this rank
// makes no call, and Group returns that error. A Group that fn calls is made at once,
// before this one.
//
// Sends and receives ([AddSend], [AddRecv]) are each rank's own, and have no order:
// they all begin with the group, whatever was added before them, and end with it. So
// ranks may exchange any messages in a group, but memory of a message must not be
// written by a call or another message of it, or be used by any if it receives
// ([ErrOverlap]). A group that has nothing else, or nothing at all, is no call of the
// communicator: it has no place in the order of calls, other ranks need not make it, and
// several may be made at once.
//
// The error of an argument names the first call that it is in, counted from 1;
// nothing has happened then. Errors: those of the calls, and of the package.
func Group(ctx context.Context, c *comm.Communicator, fn func(g *GroupCalls) error) error {
	if ctx == nil && c != nil {
		return refuse(c, groupCall, errNoContext)
	}
	o, err := collect(c, fn)
	if err != nil {
		return err
	}
	return o.run(ctx)
}

// StartGroup starts a [Group] and does not block. fn is called before it returns.
func StartGroup(ctx context.Context, c *comm.Communicator, fn func(g *GroupCalls) error) *Request {
	o, err := collect(c, fn)
	if err != nil {
		r := &Request{done: make(chan struct{}), err: err}
		close(r.done)
		return r
	}
	return start(ctx, o)
}

// NewGroup sets a [Group] up. fn is called once, before it returns.
func NewGroup(c *comm.Communicator, fn func(g *GroupCalls) error) (*Persistent, error) {
	o, err := collect(c, fn)
	if err != nil {
		return nil, err
	}
	return newPersistent(o)
}

var (
	groupCall    = comm.Call{Collective: comm.OpGroup}
	errNoContext = fmt.Errorf("%w: nil context", comm.ErrArgument)
)

func (g *GroupCalls) add(o operation) {
	if g == nil || g.ended {
		return
	}
	// The counts may be in a slice that is used for the next call as well.
	o.dstCounts, o.srcCounts = slices.Clone(o.dstCounts), slices.Clone(o.srcCounts)
	g.note(o.call, o.err)
	g.ops = append(g.ops, o)
}

// note keeps what is wrong with a call that is being added.
func (g *GroupCalls) note(call comm.Call, err error) {
	if g.err == nil && err != nil {
		g.err = fmt.Errorf("call %d, %v: %w", len(g.ops)+len(g.messages)+1, call, err)
	}
}

func (g *GroupCalls) addMessage(m message) {
	if g == nil || g.ended {
		return
	}
	g.note(m.call, m.err)
	g.messages = append(g.messages, m)
}

func (g *GroupCalls) comm() *comm.Communicator {
	if g == nil {
		return nil
	}
	return g.c
}

// A group is the calls of a Group as one operation.
type group struct {
	ops     []operation
	members *comm.Members
	// cuts has the places of calls that must not be made together with those before,
	// as some use the same memory. It is what this rank has found, until it is agreed:
	// then it is what any rank has.
	cuts   bitmap
	agreed bool
	packs  []pack // how they are made; nil: not known yet
	// funcs says that some of them call functions of the program's.
	funcs bool

	messages []message
	private  bool // there are only messages, if anything: it is no call of the communicator
}

// collect makes the operation of a Group. The error is that of fn.
func collect(c *comm.Communicator, fn func(g *GroupCalls) error) (operation, error) {
	o := operation{c: c, call: groupCall, err: checkCommunicator(c)}
	if o.err == nil && fn == nil {
		o.err = fmt.Errorf("%w: nil function", comm.ErrArgument)
	}
	if o.err != nil {
		return o, nil
	}
	g := &GroupCalls{c: c}
	defer func() { g.ended = true }()
	if err := fn(g); err != nil {
		return o, err
	}
	if g.err == nil && !apartInGroup(g.ops, g.messages) {
		g.err = fmt.Errorf("%w: memory of a message is used by another call of the group", ErrOverlap)
	}
	if o.err = g.err; o.err != nil {
		return o, nil
	}
	o = groupOf(c, g.ops)
	if o.err == nil {
		o.group.cuts = cutsOf(g.ops)
		o.group.messages, o.group.private = g.messages, len(g.ops) == 0
	}
	return o, nil
}

// groupOf is the operation of a group of calls that share no memory.
func groupOf(c *comm.Communicator, ops []operation) operation {
	o := operation{c: c, call: groupCall}
	for i := range ops {
		if m := &ops[i]; m.err != nil {
			o.err = fmt.Errorf("call %d, %v: %w", i+1, m.call, m.err)
			return o
		}
	}
	g := &group{ops: ops, members: comm.NewMembers(len(ops), func(i int) comm.Call { return ops[i].call })}
	g.funcs = slices.ContainsFunc(ops, func(m operation) bool { return m.f != nil })
	o.call, o.group = g.members.Call(), g
	return o
}

// settle says that all ranks agree on the cuts, from the next call on.
func (g *group) settle() {
	g.agreed = true
	g.members.Settle()
}

// runGroup does a group that has begun.
func (r *runner) runGroup(ctx context.Context, g *group) error {
	if len(g.messages) == 0 {
		return r.runCalls(ctx, g)
	}
	requests := startMessages(ctx, g.messages)
	err := r.runCalls(ctx, g)
	if err != nil {
		return err // which ends the messages as well
	}
	return WaitAll(ctx, requests...)
}

// startMessages starts the messages of a group: receives first, so that what comes
// finds them.
func startMessages(ctx context.Context, messages []message) []*Request {
	requests := make([]*Request, len(messages))
	for _, kind := range []comm.Collective{comm.OpRecv, comm.OpSend} {
		for i := range messages {
			if messages[i].call.Collective == kind {
				requests[i] = messages[i].start(ctx)
			}
		}
	}
	return requests
}

// exchange does a group that has only messages.
func (o *operation) exchange(ctx context.Context) error {
	if ctx == nil {
		return refuse(o.c, groupCall, errNoContext)
	}
	if err := o.c.AsyncErr(); err != nil {
		return refuse(o.c, groupCall, err)
	}
	return WaitAll(ctx, startMessages(ctx, o.group.messages)...)
}

// runCalls makes the calls of a group.
func (r *runner) runCalls(ctx context.Context, g *group) error {
	if r.ranks == 1 {
		for i := range g.ops {
			if err := r.run(ctx, &g.ops[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if g.packs == nil {
		cuts := g.cuts
		if !g.agreed {
			cuts = nil
		}
		g.packs = r.layout(g.ops, cuts, nil)
	}
	packs := g.packs
	if !g.agreed && slices.ContainsFunc(packs, func(p pack) bool { return p.isTogether() }) {
		var err error
		if packs, err = r.agree(ctx, g); err != nil {
			return err
		}
	}
	for i := range packs {
		if err := r.runPack(ctx, &packs[i]); err != nil {
			return err
		}
	}
	return nil
}

// runPack makes the calls of a pack.
func (r *runner) runPack(ctx context.Context, p *pack) error {
	if p.isTogether() {
		err := r.exchangePack(ctx, p)
		for i := 0; i < len(p.parts) && err == nil; i++ {
			err = r.unpack(p, &p.parts[i])
		}
		return err
	}
	o := p.parts[0].o
	err := r.run(ctx, o)
	if err != nil {
		var mismatch *progress.MismatchError
		if errors.As(err, &mismatch) && mismatch.Note != "" {
			mismatch.Note = fmt.Sprintf("call %d, %v: %s", p.parts[0].index+1, o.call.Collective, mismatch.Note)
		}
	}
	return err
}

// agree has all ranks cut a group in the same places, and returns the packs that
// are still to be made.
//
// It takes an AllReduce. If the group begins with some that are packed, it goes along
// with them: they are made as if there were no cuts, and where it turns out that there
// are, the results of calls behind the first are dropped. Not so with functions of the
// program: they would see elements that are not meant for them.
func (r *runner) agree(ctx context.Context, g *group) ([]pack, error) {
	words := kernels.Bytes(g.cuts)
	o := allReduce(g.ops[0].c, numberOf[uint64](), words, words, operator{op: kernels.BitOr})
	along := slices.IndexFunc(g.packs, func(p pack) bool { return p.batch == 0 && p.kind == plan.AllReduce && !p.calls() })
	p := pack{kind: plan.AllReduce, call: packedCall(o.call)}
	if along >= 0 {
		p.count, p.parts = g.packs[along].count, slices.Clone(g.packs[along].parts)
	}
	p.parts = append(p.parts, part{o: &o, index: -1, at: p.count, bytes: len(words)})
	p.count += granules(len(words))
	if err := r.exchangePack(ctx, &p); err != nil {
		return nil, err
	}
	last := len(p.parts) - 1
	if err := r.unpack(&p, &p.parts[last]); err != nil {
		return nil, err
	}
	g.settle()
	first, done := g.cuts.first(len(g.ops)), newBitmap(len(g.ops))
	for i := range p.parts[:last] {
		if q := &p.parts[i]; q.index < first {
			if err := r.unpack(&p, q); err != nil {
				return nil, err
			}
			done.set(q.index)
		}
	}
	rest := r.layout(g.ops, g.cuts, done)
	if first < len(g.ops) {
		g.packs = nil // another layout for the next time
	}
	return rest, nil
}
