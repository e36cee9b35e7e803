package collectives

import (
	"fmt"
	"slices"

	"github.com/weft-go/weft/collectives/plan"
	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
)

// lanes is what a schedule's steps become: [progress.Engine], or in tests
// something that records.
type lanes interface {
	Send(peer int, data []byte) error
	Recv(peer, n int) ([]byte, error)
	Release(peer int) error
	ReleaseLater(peer, keep int) error
	Multi() []byte
	Board(owner, slot int) ([]byte, error)
	PutMulti(slot int, offset uint64, data []byte) error
	Settle() error
	PullReduce(dst []byte, offset uint64, op transport.RedOp, t kernels.Type) error
	Stopped() error

	// What calls without a schedule do.
	BeginShort()
	GiveShort(peer int, data []byte)
	TakeShort(peer, n int) ([]byte, error)
	EndShort() error
	StageRound() uint64
	OpenStage(round uint64, n int) ([]byte, error)
	CountStage(peer, n int)
	FillStage(dst, src []byte)
	FarStages() bool
	PublishStage(round uint64, n int, kept bool)
	TakeStage(peer int, round uint64, n int, kept bool) ([]byte, error)
	EndStage(round uint64)
}

// execution is the memory that a schedule runs on.
type execution struct {
	lanes lanes
	t     kernels.Type // of elements that are reduced by package kernels
	op    kernels.Op
	f     folder                 // the operator, if it is a function
	size  int                    // of an element, in bytes
	bufs  [plan.Multi + 1][]byte // by plan.Buffer; Inbox and Board are per peer
	window
	packed []part   // what elements are made of, in a group
	inbox  [][]byte // the current message of each peer
	srcs   [][]byte // room for the sources of one step
	acc    []byte   // room for what a function makes
	pieces [][]byte // the same as srcs, of one part of packed
}

// A window is the part of a call that one schedule of several moves: count
// elements of each block, from from on, where blocks lie stride elements apart. The
// schedule knows blocks of count elements.
type window struct {
	on                  bool
	from, count, stride int
}

// place returns where element i of the caller's memory is.
func (w *window) place(i int) int {
	if !w.on {
		return i
	}
	return i/w.count*w.stride + w.from + i%w.count
}

// check says whether each range of a schedule is within a block, so that it has
// a place.
func (w *window) check(s *plan.Schedule) error {
	if !w.on {
		return nil
	}
	fits := func(r plan.Range) bool {
		caller := r.Buf == plan.Send || r.Buf == plan.Recv
		return !caller || r.Len() == 0 || r.From/w.count == (r.To-1)/w.count
	}
	for i := range s.Steps {
		st := &s.Steps[i]
		if !fits(st.Dst) || slices.ContainsFunc(st.Srcs, func(r plan.Range) bool { return !fits(r) }) {
			return fmt.Errorf("%s can't do %d elements at a time of more: %w", s.Algorithm, w.count, transport.ErrUnsupported)
		}
	}
	return nil
}

// run does the steps of a schedule, one after the other.
func (x *execution) run(s *plan.Schedule) error {
	size := x.size
	for i := range s.Steps {
		st := &s.Steps[i]
		var err error
		switch st.Kind {
		case plan.Copy:
			if src := st.Srcs[0]; src.Buf == plan.Board {
				err = x.take(x.bytes(st.Dst, size), src, s.CellElems, size)
			} else {
				copy(x.bytes(st.Dst, size), x.bytes(src, size))
			}
		case plan.Put:
			err = x.lanes.Send(st.Peer, x.bytes(st.Srcs[0], size))
		case plan.Wait:
			x.inbox[st.Peer], err = x.lanes.Recv(st.Peer, st.Elems*size)
		case plan.Release:
			x.inbox[st.Peer] = nil
			err = x.lanes.Release(st.Peer)
		case plan.Combine:
			err = x.combine(st, s.Shape.Ranks, size)
		case plan.PullReduce:
			err = x.pullReduce(st, s.Shape.Ranks, size)
		case plan.PutMulti:
			err = x.lanes.PutMulti(st.Dst.From/s.CellElems, uint64(st.Dst.From%s.CellElems*size), x.bytes(st.Srcs[0], size))
		default:
			err = fmt.Errorf("step %d of %s: unknown kind %d", i, s.Algorithm, st.Kind)
		}
		if err != nil {
			return err
		}
	}
	if s.CellElems > 0 {
		return x.lanes.Settle()
	}
	return nil
}

// take copies what a rank has posted.
func (x *execution) take(dst []byte, src plan.Range, cellElems, size int) error {
	cell, err := x.lanes.Board(src.Peer, src.From/cellElems)
	if err != nil {
		return err
	}
	from := src.From % cellElems * size
	if len(cell) < from+len(dst) {
		return fmt.Errorf("rank %d posted %d bytes of %d: %w", src.Peer, len(cell), from+len(dst), transport.ErrBounds)
	}
	copy(dst, cell[from:])
	return nil
}

// bytes returns the memory of a range.
func (x *execution) bytes(r plan.Range, size int) []byte {
	if r.Buf == plan.Inbox {
		return x.inbox[r.Peer][r.From*size : r.To*size]
	}
	if r.From == r.To {
		return nil // a signal has no buffer
	}
	from := r.From
	if r.Buf == plan.Send || r.Buf == plan.Recv {
		from = x.place(from) // a range is always within a block
	}
	to := from + r.Len()
	return x.bufs[r.Buf][from*size : to*size : to*size]
}

// combine reduces the sources of a step. A partial average is a sum; the one
// that is complete is divided, before it is rounded.
func (x *execution) combine(st *plan.Step, ranks, size int) error {
	srcs := x.srcs[:0]
	for _, r := range st.Srcs {
		srcs = append(srcs, x.bytes(r, size))
	}
	x.srcs = srcs
	if x.packed != nil {
		return x.combinePacked(st, srcs, ranks)
	}
	return x.reduce(x.bytes(st.Dst, size), srcs, st.Complete, ranks)
}

// reduce combines sources in dst, which may be one of them. complete says that
// they have the contributions of all ranks.
func (x *execution) reduce(dst []byte, srcs [][]byte, complete bool, ranks int) error {
	switch {
	case x.f != nil:
		return x.foldAll(dst, srcs)
	case x.op != kernels.Avg:
		return kernels.Reduce(dst, srcs, x.t, x.op)
	case complete:
		return kernels.Average(dst, srcs, x.t, ranks)
	}
	return kernels.Reduce(dst, srcs, x.t, kernels.Sum)
}

// foldAll reduces by a function. As that may take long each time, and what it reduces
// may all be there, it looks in between whether the communicator goes on.
func (x *execution) foldAll(dst []byte, srcs [][]byte) error {
	if len(dst) == 0 {
		return nil
	}
	acc := dst
	if slices.ContainsFunc(srcs[1:], func(src []byte) bool { return same(src, dst) }) {
		acc = grown(&x.acc, len(dst)) // what dst holds is still needed
	}
	if !same(acc, srcs[0]) {
		copy(acc, srcs[0])
	}
	for _, src := range srcs[1:] {
		if err := x.lanes.Stopped(); err != nil {
			return err
		}
		x.f.fold(acc, src)
	}
	if !same(acc, dst) {
		copy(dst, acc)
	}
	return nil
}

func (x *execution) pullReduce(st *plan.Step, ranks, size int) error {
	op, t, ok := pullOp(x.t, x.op)
	if !ok {
		return fmt.Errorf("pull-reduce %v of %v: %w", x.op, x.t, transport.ErrUnsupported)
	}
	dst := x.bytes(st.Dst, size)
	if err := x.lanes.PullReduce(dst, uint64(st.Srcs[0].From*size), op, t); err != nil {
		return err
	}
	if x.op == kernels.Avg && st.Complete {
		x.srcs = append(x.srcs[:0], dst)
		return kernels.Average(dst, x.srcs, x.t, ranks)
	}
	return nil
}

// pullOp returns the pull-reduction that computes op on elements of type t with
// the bits of [kernels.Reduce], and whether there is one. Signed sums are
// unsigned sums.
func pullOp(t kernels.Type, op kernels.Op) (transport.RedOp, kernels.Type, bool) {
	half := t == kernels.TypeFloat16 || t == kernels.TypeBFloat16
	var red transport.RedOp
	switch {
	case op == kernels.Min:
		red = transport.RedMin
	case op == kernels.Max:
		red = transport.RedMax
	case op == kernels.Sum, op == kernels.Avg && !half: // an average of halves would be rounded twice
		red = transport.RedAdd
		switch t {
		case kernels.TypeInt32:
			t = kernels.TypeUint32
		case kernels.TypeInt64:
			t = kernels.TypeUint64
		}
	default:
		return 0, t, false
	}
	return red, t, transport.PullRedSupports(red, t)
}
