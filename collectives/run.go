package collectives

import (
	"context"

	"github.com/weft-go/weft/collectives/plan"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport/progress"
)

// runner is what this package keeps of a communicator: schedules that were
// built, the choice of algorithms, memory. Like the engine that holds it, it
// belongs to the goroutine of the current call.
type runner struct {
	e       *progress.Engine
	chooser *chooser
	x       execution
	scratch []byte
	landing []byte // where results are staged
	packed  []byte // where the calls of a group are packed
	bounce  []byte // results on their way around the cache
	flow    stream
	flight  stagedCall // the current call over stages
	limits  stagedLimits
	recent  recent

	ranks, messageBytes int
	windowMessages      int // see the constant

	// shorts: there are shorts, and so calls without a schedule. shortBytes is the size of
	// a block up to which those of few bytes go so, −1: none.
	shorts     bool
	shortBytes [plan.Barrier + 1]int
	relays     bool              // ranks share processors, so that less work is sooner done
	stages     bool              // there are stages
	laned      bool              // calls go in rounds by messages,
	lanedKept  int               // of which so many are not released at once
	told       []byte            // room for what is told of symmetric memory
	places     []symmetricPlaces // by rank
	views      [][]byte          // room for sources and destinations in symmetric memory, by rank

	// schedules of the calls that were made; bounded by their steps in all.
	schedules map[callKey]*plan.Schedule
	steps     int
	// last is the schedule of lastKey, the latest: to hash a key takes as long as
	// half of a short call.
	last    *plan.Schedule
	lastKey callKey
}

// callKey is what the schedule of a call depends on.
type callKey struct {
	call  comm.Call
	count int
}

// maxSteps bounds the steps of all kept schedules, and so their memory, to a few
// MiB: with more, all are dropped and built again when needed.
const maxSteps = 1 << 14

// runnerOf returns the runner of a communicator whose call has begun.
func runnerOf(c *comm.Communicator, e *progress.Engine) (*runner, error) {
	if r, ok := e.Extension.(*runner); ok {
		return r, nil
	}
	ch, err := chooserOf(c)
	if err != nil {
		return nil, err
	}
	r := &runner{e: e, chooser: ch, windowMessages: windowMessages, ranks: e.Ranks(), messageBytes: e.MessageBytes(), schedules: map[callKey]*plan.Schedule{}}
	r.x = execution{lanes: e, inbox: make([][]byte, e.Ranks()), srcs: make([][]byte, 0, e.Ranks())}
	r.told, r.places = make([]byte, 0, symmetricWords), make([]symmetricPlaces, e.Ranks())
	r.views = make([][]byte, 2*e.Ranks())
	r.shorts = e.HasShorts() && e.Ranks() > 1
	p := c.WaitPolicy()
	r.limits, r.relays = stagedLimitsOf(p), p.Oversubscribed && !p.InProcess
	r.stages = r.shorts && e.StageSlots() > 2*stagedAhead
	r.laned = lanedAmong(r.shorts, r.ranks, e.Cells())
	r.lanedKept = lanedKept(e.Cells())
	for k := range r.shortBytes {
		r.shortBytes[k] = -1
	}
	for k, call := range calls {
		if r.shorts && call != 0 && !ch.spec.Restricts(plan.Collective(k)) {
			r.shortBytes[k] = shortLimit(r.ranks)
		}
	}
	e.Extension = r
	return r, nil
}

// windowMessages bounds the messages that one schedule moves, so that it stays
// within [plan.MaxSteps]: a larger call runs one schedule after the other.
const windowMessages = 1 << 12

// windowElems is the elements, of each block, that one schedule moves at most. It
// is the same on all ranks.
func (r *runner) windowElems(k plan.Collective, elemBytes int) int {
	messages := r.windowMessages / r.ranks
	if k == plan.AllToAll { // as many blocks as ranks, and as many messages for each
		messages /= r.ranks
	}
	return max(r.messageBytes/elemBytes, 1) * max(messages, 2)
}

// run does a call that has begun.
func (r *runner) run(ctx context.Context, o *operation) error {
	if o.group != nil {
		return r.runGroup(ctx, o.group)
	}
	x := &r.x
	x.t, x.op, x.f, x.size = o.call.Type, o.call.Op, o.f, unitBytes(o.call)
	x.window = window{}
	dst := o.dst
	if o.staged {
		dst = grown(&r.landing, len(o.dst))
	}
	var err error
	if o.kind == 0 {
		err = r.stream(o, dst)
	} else {
		x.bufs[plan.Send], x.bufs[plan.Recv] = o.src, dst
		var done bool
		if r.shorts {
			if done, err = r.short(o, dst); !done && err == nil {
				done, err = r.symmetric(o, dst)
			}
		}
		if !done && err == nil {
			done, err = r.staged(o, dst)
		}
		if !done {
			err = r.planned(ctx, o)
		}
		x.bufs = [len(x.bufs)][]byte{} // keep nothing of the caller's
	}
	if err == nil && ofOne(o, r.e.Rank(), r.ranks) {
		// Copied as it was, where the operator may have something to say.
		err = x.reduce(dst, append(x.srcs[:0], dst), false, 1)
	}
	x.f = nil
	if o.staged && err == nil {
		copy(o.dst, dst)
	}
	return err
}

// ofOne says whether the result of a reduction here is that of one contribution
// only.
func ofOne(o *operation, rank, ranks int) bool {
	if o.f != nil || o.call.Op != kernels.LogicalAnd && o.call.Op != kernels.LogicalOr {
		return false // then it is the contribution
	}
	switch o.call.Collective {
	case comm.OpScan:
		return rank == 0
	case comm.OpExscan:
		return rank == 1
	case comm.OpReduce:
		return ranks == 1
	}
	return o.call.Reduces() && ranks == 1
}

// grown returns n bytes of a slice that grows as needed. They are aligned for any
// type of elements, whatever the slice was first grown for.
func grown(b *[]byte, n int) []byte {
	if n > len(*b) {
		*b = kernels.Bytes(make([]uint64, (n+7)/8))
	}
	return (*b)[:n]
}

// planned runs the schedules of a call.
func (r *runner) planned(ctx context.Context, o *operation) error {
	x := &r.x
	elems := r.windowElems(o.kind, x.size)
	if o.count <= elems || r.ranks == 1 {
		return r.schedule(ctx, o.kind, o.call, o.count)
	}
	// Windows of one length, to an element: in a short one at the end a message could
	// hold several blocks, and a range be in two.
	windows := (o.count + elems - 1) / elems
	each, longer := o.count/windows, o.count%windows
	for i, from := 0, 0; i < windows; i++ {
		n := each
		if i < longer {
			n++
		}
		x.window = window{on: true, from: from, count: n, stride: o.count}
		if err := r.schedule(ctx, o.kind, o.call, n); err != nil {
			return err
		}
		from += n
	}
	return nil
}

// schedule runs the schedule of a call of count elements, built on first use.
func (r *runner) schedule(ctx context.Context, k plan.Collective, call comm.Call, count int) error {
	key := callKey{call, count}
	s, ok := r.last, r.last != nil && r.lastKey == key
	if !ok {
		s, ok = r.schedules[key]
	}
	if !ok {
		shape := shapeOf(r.e, k, call, count)
		algorithm, err := r.chooser.choose(shape, call)
		if err != nil {
			return err
		}
		if s, err = plan.Build(algorithm, shape, r.e.Rank()); err != nil {
			return err
		}
		if r.steps += len(s.Steps); r.steps > maxSteps {
			clear(r.schedules)
			r.steps = len(s.Steps)
		}
		r.schedules[key] = s
	}
	r.last, r.lastKey = s, key
	x := &r.x
	if err := x.window.check(s); err != nil {
		return err
	}
	grown(&r.scratch, s.ScratchElems*x.size)
	x.bufs[plan.Scratch] = r.scratch
	if s.CellElems > 0 {
		if err := r.e.OpenMulti(ctx, uint64(s.MultiElems*x.size), uint64(s.CellElems*x.size)); err != nil {
			return err
		}
		x.bufs[plan.Multi] = r.e.Multi()
	}
	if err := r.lanedOver(); err != nil {
		return err
	}
	return x.run(s)
}
