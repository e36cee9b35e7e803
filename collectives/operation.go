package collectives

import (
	"context"
	"runtime/debug"

	"github.com/weft-go/weft/collectives/plan"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport/progress"
)

// An operation is a call with its arguments, looked at but not begun. Every
// collective has one function that makes it; the forms (blocking, started,
// persistent, in a group) differ in what they do with it.
type operation struct {
	c    *comm.Communicator
	call comm.Call
	err  error // why it is refused

	dst, src []byte
	// kind and count are how a plan does it, count being that of a block where
	// there are blocks. Without a kind, stream does it.
	kind  plan.Collective
	count int
	// dstCounts and srcCounts are the elements of the blocks of dst and src, in
	// rank order, where they differ.
	dstCounts, srcCounts []int
	f                    folder // the operator, of calls with a function
	staged               bool   // the result is put together elsewhere and then copied to dst
	group                *group // the calls of a Group; then nothing else is used
}

// run is the blocking form.
func (o *operation) run(ctx context.Context) error {
	if o.err != nil {
		return refuse(o.c, o.call, o.err)
	}
	if o.group != nil && o.group.private {
		return o.exchange(ctx)
	}
	e, err := o.begin(ctx)
	if err != nil {
		return err
	}
	return o.do(ctx, e)
}

func (o *operation) begin(ctx context.Context) (*progress.Engine, error) {
	if o.group != nil {
		return o.c.BeginGroup(ctx, o.group.members)
	}
	return o.c.Begin(ctx, o.call)
}

func (o *operation) beginStarted(ctx context.Context) (*progress.Engine, error) {
	if o.group != nil {
		return o.c.BeginStartedGroup(ctx, o.group.members)
	}
	return o.c.BeginStarted(ctx, o.call)
}

// do does what has begun.
func (o *operation) do(ctx context.Context, e *progress.Engine) (err error) {
	if o.callsFunc() {
		o.doFunc(ctx, e, &err, false)
		return err
	}
	return o.c.End(o.perform(ctx, e))
}

// callsFunc says whether the call makes use of functions of the program's.
func (o *operation) callsFunc() bool { return o.f != nil || o.group != nil && o.group.funcs }

func (o *operation) perform(ctx context.Context, e *progress.Engine) error {
	r, err := runnerOf(o.c, e)
	if err != nil {
		return err
	}
	return r.run(ctx, o)
}

// doFunc is do with a function of the program's. If that panics, or ends its
// goroutine, the call ends all the same, for all ranks, with a [PanicError] in err. A
// panic goes on unless it is caught.
func (o *operation) doFunc(ctx context.Context, e *progress.Engine, err *error, caught bool) {
	returned := false
	defer func() {
		if returned {
			return
		}
		v := recover() // nil where the goroutine ends
		*err = o.c.End(&PanicError{Value: v, Stack: debug.Stack()})
		if v != nil && !caught {
			panic(v)
		}
	}()
	failed := o.perform(ctx, e)
	returned = true
	*err = o.c.End(failed)
}

// call describes a call on elements.
func (e element) call(k comm.Collective, count int) comm.Call {
	call := comm.Call{Collective: k, Count: count, Type: e.t}
	if e.t == kernels.TypeInvalid {
		call.ElemBytes = e.size
	}
	return call
}

// elemBytes is the size of a call's elements.
func elemBytes(call comm.Call) int {
	if call.Type == kernels.TypeInvalid {
		return max(call.ElemBytes, 1) // a Barrier has none
	}
	return call.Type.Size()
}

// unitBytes is the size of what a plan takes for an element: elements that are
// no numbers are moved in bytes, but reduced as a whole.
func unitBytes(call comm.Call) int {
	if call.Type == kernels.TypeInvalid && !call.Func {
		return 1
	}
	return elemBytes(call)
}

// units is what count elements of a call are for a plan.
func units(call comm.Call, count int) int {
	if call.Type == kernels.TypeInvalid && !call.Func {
		return count * elemBytes(call)
	}
	return count
}

// byPlan has a plan do a call, with count elements per block.
func (o *operation) byPlan(k plan.Collective, count int) { o.kind, o.count = k, units(o.call, count) }

// byPlanIfEqual does so if all blocks have the same length.
func (o *operation) byPlanIfEqual(k plan.Collective, counts []int) {
	for _, n := range counts {
		if n != counts[0] {
			return
		}
	}
	o.byPlan(k, counts[0])
}

// checkResult checks where the result of a ReduceScatter is: apart from src, its
// block of src, at byte own, or the beginning of src. There it would meet blocks
// that are still to be sent, so that it is staged.
func (o *operation) checkResult(own int) error {
	if n := len(o.dst); same(o.dst, within(o.src, 0, n)) && !same(o.dst, within(o.src, own, n)) {
		o.staged = true
		return nil
	}
	return checkBlock("dst", o.dst, "src", o.src, own)
}

// digest hashes counts that all ranks must agree on. It is not 0.
func digest(counts []int) uint32 {
	h := uint64(len(counts))
	for _, n := range counts {
		h = (h ^ uint64(n)) * 0x9e3779b97f4a7c15
		h ^= h >> 32
	}
	return uint32(h) | 1
}
