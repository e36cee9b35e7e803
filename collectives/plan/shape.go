package plan

import (
	"fmt"
	"math"
	"math/bits"
)

// Limits of what is built. They bound the memory of a schedule.
const (
	MaxRanks = 1 << 16
	MaxSteps = 1 << 20 // of one rank
)

// granule is the unit in which multicast memory is written and reduced: ranges
// of Multi that PutMulti and PullReduce name begin at a multiple of it, and
// elements up to the next multiple are nobody else's.
const granule = 16

// A ShapeError says what is wrong with a Shape or a rank.
type ShapeError struct {
	Shape Shape
	Why   string
}

func (e *ShapeError) Error() string { return fmt.Sprintf("plan: %v: %s", e.Shape, e.Why) }

// An AlgorithmError names an algorithm that the collective does not have.
type AlgorithmError struct {
	Collective Collective
	Name       string
}

func (e *AlgorithmError) Error() string {
	return fmt.Sprintf("plan: %v has no algorithm %q", e.Collective, e.Name)
}

// A LengthError says that a schedule would have more than MaxSteps steps. Larger
// messages make it shorter.
type LengthError struct {
	Shape     Shape
	Algorithm string
}

func (e *LengthError) Error() string {
	return fmt.Sprintf("plan: %v by %s: more than %d steps", e.Shape, e.Algorithm, MaxSteps)
}

// String is like "allreduce of 8 elements of 4 bytes on 3 ranks".
func (s Shape) String() string {
	text := fmt.Sprintf("%v of %d elements of %d bytes on %d ranks", s.Collective, s.Count, s.ElemBytes, s.Ranks)
	if s.Collective.rooted() {
		text += fmt.Sprintf(", root %d", s.Root)
	}
	return text
}

func (c Collective) rooted() bool {
	return c == Reduce || c == Broadcast || c == Gather || c == Scatter
}

func (c Collective) reduces() bool {
	return c == Reduce || c == AllReduce || c == ReduceScatter || c.scans()
}

// scans says whether each rank has the reduction of some ranks only.
func (c Collective) scans() bool { return c == Scan || c == Exscan }

// sendElems and recvElems are the elements of the caller's buffers on a rank.
func (s Shape) sendElems(rank int) int {
	switch s.Collective {
	case AllReduce, Reduce, AllGather, Gather, Scan, Exscan:
		return s.Count
	case AllToAll, ReduceScatter:
		return s.Ranks * s.Count
	case Scatter:
		if rank == s.Root {
			return s.Ranks * s.Count
		}
	}
	return 0
}

func (s Shape) recvElems(rank int) int {
	switch s.Collective {
	case AllReduce, Broadcast, Scatter, ReduceScatter, Scan:
		return s.Count
	case Reduce:
		if rank == s.Root {
			return s.Count
		}
	case AllGather, AllToAll:
		return s.Ranks * s.Count
	case Gather:
		if rank == s.Root {
			return s.Ranks * s.Count
		}
	case Exscan:
		if rank > 0 {
			return s.Count
		}
	}
	return 0
}

// own is where the one block of a buffer begins in the other, if they are the
// same memory and the other one has a block per rank.
func (s Shape) own(rank int) int {
	if s.sendElems(rank) == s.recvElems(rank) {
		return 0
	}
	return rank * s.Count
}

// result is which of the elements that are reduced element i of a rank's Recv
// is, among results of them: each rank has its own, or all have the same.
func (s Shape) result(rank, i int) int {
	if s.Collective == ReduceScatter || s.Collective.scans() {
		return rank*s.Count + i
	}
	return i
}

func (s Shape) results() int { return s.result(s.Ranks-1, s.Count) }

// message is the number of elements that a message holds.
func (s Shape) message() int { return s.MessageBytes / s.ElemBytes }

// unit is the smallest number of elements that fills whole granules.
func (s Shape) unit() int {
	size := uint(s.ElemBytes)
	return granule >> min(bits.TrailingZeros(size), bits.TrailingZeros(granule))
}

func (s Shape) check(rank int) error {
	bad := func(format string, args ...any) error { return &ShapeError{s, fmt.Sprintf(format, args...)} }
	switch {
	case s.Collective < AllReduce || s.Collective > Barrier:
		return bad("no such collective")
	case s.Ranks < 1 || s.Ranks > MaxRanks:
		return bad("ranks must be 1 to %d", MaxRanks)
	case rank < 0 || rank >= s.Ranks:
		return bad("no rank %d", rank)
	case s.Root < 0 || s.Root >= s.Ranks:
		return bad("no root %d", s.Root)
	case s.Root != 0 && !s.Collective.rooted():
		return bad("root %d of a collective without one", s.Root)
	case s.Count < 0:
		return bad("negative count")
	case s.Count != 0 && s.Collective == Barrier:
		return bad("a barrier has no elements")
	case s.ElemBytes < 1:
		return bad("elements must have a byte at least")
	case s.MessageBytes < s.ElemBytes:
		return bad("a message of %d bytes holds no element", s.MessageBytes)
	case s.Cells < 1:
		return bad("a lane needs a cell")
	}
	// So few that Scratch and Multi can be counted as well.
	const most = uint64(1) << 50
	each := uint64(s.Ranks) * min(uint64(s.ElemBytes), most)
	if uint64(s.MessageBytes) > most || uint64(s.ElemBytes) > most || uint64(s.Count) > most/each ||
		s.Count > math.MaxInt/s.Ranks {
		return bad("too many bytes")
	}
	return nil
}
