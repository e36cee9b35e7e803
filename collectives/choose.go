package collectives

import (
	"fmt"
	"strings"
	"sync"

	"github.com/weft-go/weft/collectives/plan"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/transport/progress"
)

func init() {
	comm.CheckAlgorithms(func(spec string) error {
		_, err := plan.ParseSpec(spec)
		return err
	})
}

// A chooser says which algorithm does a collective: the one that the cost model
// takes for the fastest of those allowed, see [plan.Spec.Options]. All communicators of a job that have
// the same multicast memory share it.
type chooser struct {
	spec      plan.Spec
	model     *plan.Model
	multicast plan.Multicast

	mu     sync.Mutex
	tables map[tableKey]*plan.Table
}

// tableKey is what a table depends on.
type tableKey struct {
	shape plan.Shape // without a count and a root
	pull  bool       // the reduction is one that multicast memory can do
	order bool       // the operator needs rank order
}

// chooserOf returns the chooser of a communicator's job.
func chooserOf(c *comm.Communicator) (*chooser, error) {
	type key struct{ multicast plan.Multicast }
	type made struct {
		ch  *chooser
		err error
	}
	multicast := multicastOf(c)
	m := c.Shared(key{multicast}, func() any {
		spec, err := plan.ParseSpec(c.Algorithm())
		if err != nil {
			return made{nil, fmt.Errorf("%w: WEFT_ALGO or WithAlgorithm is %q: %w", comm.ErrArgument, c.Algorithm(), err)}
		}
		model := plan.DefaultModel()
		if multicast == plan.FabricMulticast {
			model = model.OnFabric()
		}
		return made{&chooser{spec: spec, model: model, multicast: multicast, tables: map[tableKey]*plan.Table{}}, nil}
	}).(made)
	return m.ch, m.err
}

// multicastOf says what multicast memory the ranks of a communicator have.
func multicastOf(c *comm.Communicator) plan.Multicast {
	_, has := c.Lanes()
	switch {
	case !has || c.Size() == 1:
		return plan.NoMulticast
	case strings.HasPrefix(c.Route((c.Rank()+1)%c.Size()).Transport, "fabric"):
		return plan.FabricMulticast
	}
	return plan.MappedMulticast
}

// choose returns the algorithm for a call of the given shape.
func (ch *chooser) choose(shape plan.Shape, call comm.Call) (string, error) {
	bytes := shape.Count * shape.ElemBytes
	shape.Count, shape.Root = 0, 0
	key := tableKey{shape: shape, pull: !call.Func, order: call.Func}
	if key.pull && (shape.Collective == plan.AllReduce || shape.Collective == plan.Reduce) {
		_, _, key.pull = pullOp(call.Type, call.Op)
	}
	ch.mu.Lock()
	defer ch.mu.Unlock()
	t, ok := ch.tables[key]
	if !ok {
		multicast := ch.multicast
		if !ch.spec.Restricts(shape.Collective) {
			multicast = multicast.Among(shape.Ranks)
		}
		if !key.pull {
			multicast = plan.NoMulticast
		}
		options := ch.spec.Options(shape.Collective, multicast)
		if key.order {
			options.Allow = func(a plan.Algorithm) bool { return a.RankOrder }
		}
		var err error
		if t, err = plan.NewTable(ch.model, shape, options); err != nil && (multicast == plan.NoMulticast || key.order) {
			// What was asked for can't do this reduction: it needs multicast memory, or
			// loses the order.
			t, err = plan.NewTable(ch.model, shape, plan.Spec{}.Options(shape.Collective, plan.NoMulticast))
		}
		if err != nil {
			return "", fmt.Errorf("%w: %w", comm.ErrArgument, err)
		}
		ch.tables[key] = t
	}
	return t.Choose(bytes), nil
}

// shapeOf is the shape of a call on an engine.
func shapeOf(e *progress.Engine, k plan.Collective, call comm.Call, count int) plan.Shape {
	return plan.Shape{
		Collective: k, Ranks: e.Ranks(), Count: count, ElemBytes: unitBytes(call), Root: call.Root,
		MessageBytes: e.MessageBytes(), Cells: e.Cells(),
	}
}

// keepsOrder says whether a reduction of its own is done in rank order.
func (ch *chooser) keepsOrder(shape plan.Shape, call comm.Call) bool {
	if call.Func || ch.spec.Options(shape.Collective, ch.multicast).Allow != nil {
		return true // nothing else is allowed
	}
	name, err := ch.choose(shape, call)
	a, ok := plan.Lookup(shape.Collective, name)
	return err == nil && ok && a.RankOrder
}
