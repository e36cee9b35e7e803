package plan

import (
	"fmt"
	"reflect"
)

// A VerifyError says what is wrong with the schedules of a collective, and where.
type VerifyError struct {
	Algorithm string
	Shape     Shape
	Rank      int // −1: it is not one rank's fault
	Step      int // −1: it is not one step's fault
	Call      int // of several in a row, from 0
	InPlace   bool
	What      *Step // Step, if there is one
	Why       string
}

func (e *VerifyError) Error() string {
	text := fmt.Sprintf("plan: %v by %s", e.Shape, e.Algorithm)
	if e.InPlace {
		text += ", in place"
	}
	if e.Call > 0 {
		text += fmt.Sprintf(", call %d", e.Call)
	}
	if e.Rank >= 0 {
		text += fmt.Sprintf(": rank %d", e.Rank)
	}
	if e.What != nil {
		text += fmt.Sprintf(", step %d (%v; stage %d, segment %d)", e.Step, *e.What, e.What.Stage, e.What.Segment)
	}
	return text + ": " + e.Why
}

// Verify proves that the schedules of all ranks, in rank order, do what their
// collective and algorithm promise, or returns a [*VerifyError]:
//
//   - every wait ends, with the message that is meant and of the length that is
//     expected, and all messages are waited for and released;
//   - no step reads what was not written or is gone, or writes what it must not;
//   - no two accesses to multicast memory of which one writes are unordered, in
//     this call or in another one before or after, of any shape;
//   - what is read on a board was told of by a message of its owner since it was posted,
//     and is of the latest posting to its cell; what is put to all is not overwritten
//     before the next message; and all ranks hear of the last posting of each;
//   - every element of the result is made of exactly the right contributions, in
//     the algorithm's documented order, which also means the same on all ranks,
//     and is called complete once, or, of a scan, never;
//   - Send is left as it was; if it is Recv, or one of them a block of the other,
//     all the same holds, other blocks of Send are left, and the other ranks see no
//     difference, so that each rank may choose;
//   - it takes the rounds and elements that the algorithm claims.
//
// It executes the schedules once for each aliasing, with symbols for values. One
// interleaving stands for all: a rank does its steps in a fixed order, and a step
// that can be done stays so whatever others do; and what two steps do to the same
// memory does not depend on the interleaving if messages order them, which
// vector clocks tell.
func Verify(schedules []*Schedule) error { return VerifyCalls(1, schedules) }

// VerifyCalls is Verify of several calls one after the other, with nothing
// between them.
func VerifyCalls(calls int, schedules []*Schedule) error {
	if err := checkSet(calls, schedules); err != nil {
		return err
	}
	y := newSymbols(len(schedules))
	apart := newMachine(schedules, calls, false, y)
	if err := apart.run(); err != nil {
		return err
	}
	if c := schedules[0].Shape.Collective; c != Broadcast && c != Barrier {
		same := newMachine(schedules, calls, true, y)
		if err := same.run(); err != nil {
			return err
		}
		for r := range same.procs {
			if same.procs[r].trace != apart.procs[r].trace {
				return same.errorAt(r, -1, 0, "sends something else than out of place")
			}
		}
	}
	return apart.checkClaim()
}

// checkSet checks that schedules are of all ranks of one call.
func checkSet(calls int, schedules []*Schedule) error {
	if calls < 1 || len(schedules) == 0 || schedules[0] == nil {
		return &VerifyError{Rank: -1, Step: -1, Why: "there is nothing to verify"}
	}
	a := schedules[0]
	bad := func(rank int, why string) error {
		return &VerifyError{Algorithm: a.Algorithm, Shape: a.Shape, Rank: rank, Step: -1, Why: why}
	}
	if err := a.Shape.check(0); err != nil {
		return bad(-1, err.Error())
	}
	if _, ok := Lookup(a.Shape.Collective, a.Algorithm); !ok {
		return bad(-1, "there is no such algorithm")
	}
	if len(schedules) != a.Shape.Ranks {
		return bad(-1, fmt.Sprintf("there are %d schedules", len(schedules)))
	}
	for r, s := range schedules {
		switch {
		case s == nil || s.Rank != r || s.Algorithm != a.Algorithm || !reflect.DeepEqual(s.Shape, a.Shape):
			return bad(r, "the schedule is of another rank, algorithm or shape")
		case s.MultiElems != a.MultiElems || s.CellElems != a.CellElems:
			return bad(r, fmt.Sprintf("the replica has %d elements and cells of %d, that of rank 0 %d and %d", s.MultiElems, s.CellElems, a.MultiElems, a.CellElems))
		case s.MultiElems < 0 || s.ScratchElems < 0 || s.CellElems < 0:
			return bad(r, "memory of negative size")
		case s.CellElems%a.Shape.unit() != 0:
			return bad(r, fmt.Sprintf("cells of %d elements, which are no multiple of %d bytes", s.CellElems, granule))
		}
	}
	return nil
}

// want is what must be in element i of Recv.
func (m *machine) want(call, rank, i int) value {
	s := m.shape
	switch s.Collective {
	case Broadcast:
		return m.symbols.leaf(call, s.Root, i)
	case AllGather, Gather:
		return m.symbols.leaf(call, i/s.Count, i%s.Count)
	case Scatter:
		return m.symbols.leaf(call, s.Root, rank*s.Count+i)
	case AllToAll:
		return m.symbols.leaf(call, i/s.Count, rank*s.Count+i%s.Count)
	}
	if s.Ranks == 1 {
		return m.symbols.leaf(call, 0, i)
	}
	elem := i
	if s.Collective == ReduceScatter {
		elem += rank * s.Count
	}
	return m.symbols.ordered(m.orders()[s.result(rank, i)], call, elem, !s.Collective.scans())
}

// orders are those of the elements, by the algorithm's documentation.
func (m *machine) orders() []*order {
	if m.order == nil {
		a, _ := Lookup(m.shape.Collective, m.schedules[0].Algorithm)
		m.order = a.order(m.shape)
	}
	return m.order
}

// checkClaim compares what the schedules take with what the algorithm claims.
func (m *machine) checkClaim() error {
	a, _ := Lookup(m.shape.Collective, m.schedules[0].Algorithm)
	claim, got := a.Claim(m.shape), Measure(m.schedules)
	bad := func(what string, got, claimed int) error {
		return m.errorAt(-1, -1, 0, fmt.Sprintf("takes %d %s, where the algorithm claims %d", got, what, claimed))
	}
	switch {
	case got.Rounds != claim.Rounds:
		return bad("rounds", got.Rounds, claim.Rounds)
	case got.TotalElems != claim.TotalElems:
		return bad("elements sent", got.TotalElems, claim.TotalElems)
	case got.RankElems > claim.RankElems:
		return bad("elements sent by one rank", got.RankElems, claim.RankElems)
	case got.MultiElems != claim.MultiElems:
		return bad("elements put to multicast memory", got.MultiElems, claim.MultiElems)
	}
	return nil
}

// Measure counts what schedules take.
func Measure(schedules []*Schedule) Claim {
	var c Claim
	stages := map[int]bool{}
	for _, s := range schedules {
		sent := 0
		for _, step := range s.Steps {
			switch step.Kind {
			case Put:
				stages[step.Stage] = true
				sent += step.Srcs[0].Len()
			case PutMulti:
				c.MultiElems += step.Srcs[0].Len()
			}
		}
		c.TotalElems += sent
		c.RankElems = max(c.RankElems, sent)
	}
	c.Rounds = len(stages)
	return c
}
