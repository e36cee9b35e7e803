package collectives

import (
	"fmt"
	"math"

	"github.com/weft-go/weft/collectives/plan"
	"github.com/weft-go/weft/comm"
)

// plannedAs is what schedules call a collective.
var plannedAs = map[comm.Collective]plan.Collective{
	comm.OpAllReduce: plan.AllReduce, comm.OpReduce: plan.Reduce, comm.OpBroadcast: plan.Broadcast,
	comm.OpAllGather: plan.AllGather, comm.OpAllToAll: plan.AllToAll, comm.OpBarrier: plan.Barrier,
	comm.OpReduceScatterBlock: plan.ReduceScatter, comm.OpGather: plan.Gather, comm.OpScatter: plan.Scatter,
	comm.OpScan: plan.Scan, comm.OpExscan: plan.Exscan,
}

// Names of the ways of calls that have no schedule.
const (
	shortName     = "lines"     // short.go
	stagedName    = "stages"    // staged.go
	symmetricName = "symmetric" // symmetric.go
	lanedName     = "rounds"    // laned.go
)

// Algorithm returns the name of the algorithm that does a call on a
// communicator, as "weft plan -list" lists them, or "lines", "stages" or "rounds" for calls that
// need no schedule. Call.Count is what the
// collective counts: of an AllToAll all elements of src. It does not block, and is
// for people and benchmarks: it takes milliseconds.
func Algorithm(c *comm.Communicator, call comm.Call) (string, error) {
	return algorithm(c, call, false)
}

// SymmetricAlgorithm is [Algorithm] for calls whose slices all ranks have in one
// [comm.Buffer], or one each for what they send and what they receive: it returns
// "symmetric" where that memory is used directly.
func SymmetricAlgorithm(c *comm.Communicator, call comm.Call) (string, error) {
	return algorithm(c, call, true)
}

func algorithm(c *comm.Communicator, call comm.Call, symmetric bool) (string, error) {
	k, ok := plannedAs[call.Collective]
	if err := checkCommunicator(c); err != nil || !ok {
		return "", refuse(c, call, first(err, fmt.Errorf("%w: %v has no algorithms", comm.ErrArgument, call.Collective)))
	}
	if err := first(c.AsyncErr(), checkCall(c, call)); err != nil {
		return "", refuse(c, call, err)
	}
	layout, _ := c.Lanes()
	ch, err := chooserOf(c)
	if err != nil {
		return "", refuse(c, call, err)
	}
	shape := plan.Shape{
		Collective: k, Ranks: layout.Ranks, Count: units(call, call.Count), ElemBytes: unitBytes(call), Root: call.Root,
		MessageBytes: layout.MessageBytes(), Cells: layout.Cells,
	}
	if k == plan.AllToAll {
		shape.Count /= layout.Ranks
	}
	if c.Size() > 1 && c.HasShorts() && !ch.spec.Restricts(k) {
		switch n := shape.Count * shape.ElemBytes; {
		case n <= shortLimit(c.Size()) && calls[k] == call.Collective && (n > 0 || k == plan.Barrier):
			return shortName, nil
		case n >= symmetricLeast && symmetricKinds[k] && symmetric:
			return symmetricName, nil
		case n > 0 && stagedKinds[k] && stagedChunk(parted(k), layout.StageBytes, c.Size(), shape.ElemBytes) > 0:
			return stagedName, nil
		}
	}
	if lanedAmong(c.HasShorts(), c.Size(), layout.Cells) && !ch.spec.Restricts(k) && lanedKinds[k] &&
		shape.Count > 0 && shape.ElemBytes <= lanedBytes(layout.MessageBytes()) {
		return lanedName, nil
	}
	name, err := ch.choose(shape, call)
	if err != nil {
		return "", refuse(c, call, err)
	}
	return name, nil
}

// checkCall checks a call that is only described.
func checkCall(c *comm.Communicator, call comm.Call) error {
	switch {
	case call.Collective == comm.OpBarrier:
		return nil
	case !call.Type.Valid() && call.ElemBytes < 1:
		return fmt.Errorf("%w: no element type", comm.ErrArgument)
	case call.Count < 0 || call.Count > math.MaxInt/elemBytes(call)/c.Size():
		return fmt.Errorf("%w: %d", ErrCount, call.Count)
	case call.Reduces() && !call.Func && !call.Op.Supports(call.Type):
		return fmt.Errorf("%w: %v of %v", ErrOperator, call.Op, call.Type)
	}
	return checkRoot(c, call.Root)
}
