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

	ranks, messageBytes int
	windowMessages      int // see the constant

	// schedules of the calls that were made; bounded by their steps in all.
	schedules map[callKey]*plan.Schedule
	steps     int
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
	e.Extension = r
	return r, nil
}

// collective begins a call, runs the schedules of its shape, and ends it. count
// is as the plan counts it: of a block where there are blocks.
func collective(ctx context.Context, c *comm.Communicator, k plan.Collective, call comm.Call, count int, dst, src []byte) error {
	e, err := c.Begin(ctx, call)
	if err != nil {
		return err
	}
	r, err := runnerOf(c, e)
	if err == nil {
		err = r.run(ctx, k, call, count, dst, src)
	}
	return c.End(err)
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
	return max(r.messageBytes/elemBytes, 1) * max(messages, 1)
}

func (r *runner) run(ctx context.Context, k plan.Collective, call comm.Call, count int, dst, src []byte) error {
	x := &r.x
	x.t, x.op = call.Type, call.Op
	if call.Type == kernels.TypeInvalid { // a Barrier
		x.t = kernels.TypeUint8
	}
	x.bufs[plan.Send], x.bufs[plan.Recv] = src, dst
	x.window = window{}
	var err error
	elems := r.windowElems(k, x.t.Size())
	if count <= elems || r.e.Ranks() == 1 {
		err = r.schedule(ctx, k, call, count)
	} else {
		for from := 0; from < count && err == nil; from += elems {
			n := min(elems, count-from)
			x.window = window{on: true, from: from, count: n, stride: count}
			err = r.schedule(ctx, k, call, n)
		}
	}
	x.bufs = [len(x.bufs)][]byte{} // keep nothing of the caller's
	return err
}

// schedule runs the schedule of a call of count elements, built on first use.
func (r *runner) schedule(ctx context.Context, k plan.Collective, call comm.Call, count int) error {
	key := callKey{call, count}
	s, ok := r.schedules[key]
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
	x := &r.x
	if err := x.window.check(s); err != nil {
		return err
	}
	if need := s.ScratchElems * x.t.Size(); need > len(r.scratch) {
		r.scratch = make([]byte, need)
	}
	x.bufs[plan.Scratch] = r.scratch
	if s.MultiElems > 0 {
		if err := r.e.OpenMulti(ctx, uint64(s.MultiElems*x.t.Size())); err != nil {
			return err
		}
		x.bufs[plan.Multi] = r.e.Multi()
	}
	return x.run(s)
}
