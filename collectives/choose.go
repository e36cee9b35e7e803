package collectives

import (
	"fmt"

	"github.com/weft-go/weft/collectives/plan"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/transport/progress"
)

// A chooser says which algorithm does a collective: the one that the cost model
// takes for the fastest of those allowed. Without a word from the user only
// those are allowed that reduce in rank order at once, so that results don't
// depend on the choice.
type chooser struct {
	spec      plan.Spec
	model     *plan.Model
	multicast bool
	tables    map[tableKey]*plan.Table
}

// tableKey is what a table depends on; the rest is the same for a communicator.
type tableKey struct {
	collective plan.Collective
	elemBytes  int
	pull       bool // the reduction is one that multicast memory can do
}

func newChooser(spec string, multicast bool) (*chooser, error) {
	s, err := plan.ParseSpec(spec)
	if err != nil {
		return nil, fmt.Errorf("%w: algorithms %q: %w", comm.ErrArgument, spec, err)
	}
	return &chooser{spec: s, model: plan.DefaultModel(), multicast: multicast, tables: map[tableKey]*plan.Table{}}, nil
}

// choose returns the algorithm for a call of the given shape.
func (ch *chooser) choose(shape plan.Shape, call comm.Call) (string, error) {
	key := tableKey{collective: shape.Collective, elemBytes: shape.ElemBytes, pull: true}
	if shape.Collective == plan.AllReduce || shape.Collective == plan.Reduce {
		_, _, key.pull = pullOp(call.Type, call.Op)
	}
	t, ok := ch.tables[key]
	if !ok {
		var err error
		reduces := shape.Collective == plan.AllReduce || shape.Collective == plan.Reduce
		multicast := ch.multicast && key.pull
		free := !reduces || ch.spec.Names(shape.Collective, multicast)
		o := plan.TableOptions{
			Multicast: multicast, Spec: ch.spec,
			Allow: func(a plan.Algorithm) bool { return free || a.RankOrder },
		}
		if t, err = plan.NewTable(ch.model, shape, o); err != nil && !multicast {
			// Multicast memory was asked for, and isn't there or can't do this reduction.
			o.Spec = plan.Spec{}
			t, err = plan.NewTable(ch.model, shape, o)
		}
		if err != nil {
			return "", fmt.Errorf("%w: %w", comm.ErrArgument, err)
		}
		ch.tables[key] = t
	}
	return t.Choose(shape.Count * shape.ElemBytes), nil
}

// shapeOf is the shape of a call on an engine.
func shapeOf(e *progress.Engine, k plan.Collective, call comm.Call, count int) plan.Shape {
	return plan.Shape{
		Collective: k, Ranks: e.Ranks(), Count: count, ElemBytes: elemBytes(call), Root: call.Root,
		MessageBytes: e.MessageBytes(), Cells: e.Cells(),
	}
}
