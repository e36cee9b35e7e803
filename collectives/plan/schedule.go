package plan

import "fmt"

// A Collective is what a schedule computes.
type Collective uint8

const (
	AllReduce     Collective = iota + 1 // Count elements per rank
	Reduce                              // Count elements per rank; the result is at Root
	Broadcast                           // Count elements, from Root
	AllGather                           // Count elements per rank; the result has Ranks·Count
	AllToAll                            // Count elements per block; both buffers have Ranks·Count
	Gather                              // Count elements per rank; the result, at Root, has Ranks·Count
	Scatter                             // Count elements per rank, from the Ranks·Count that Root has
	ReduceScatter                       // Ranks·Count elements per rank; the result has Count, block r at rank r
	Scan                                // Count elements per rank; the result of rank r is of ranks 0 … r
	Exscan                              // the same of ranks 0 … r−1; rank 0 has no result
	Barrier                             // no elements
)

var collectiveNames = [...]string{AllReduce: "allreduce", Reduce: "reduce", Broadcast: "broadcast",
	AllGather: "allgather", AllToAll: "alltoall", Gather: "gather", Scatter: "scatter",
	ReduceScatter: "reducescatter", Scan: "scan", Exscan: "exscan", Barrier: "barrier"}

// Collectives lists all of them.
func Collectives() []Collective {
	var all []Collective
	for c := AllReduce; c <= Barrier; c++ {
		all = append(all, c)
	}
	return all
}

func (c Collective) String() string {
	if int(c) < len(collectiveNames) && c != 0 {
		return collectiveNames[c]
	}
	return fmt.Sprintf("collective %d", uint8(c))
}

// A Shape is everything that a schedule depends on, except the rank. Equal
// shapes have equal schedules.
type Shape struct {
	Collective Collective
	Ranks      int
	Count      int // elements, see Collective
	ElemBytes  int
	Root       int // of Reduce, Broadcast, Gather and Scatter, else 0

	// MessageBytes is the largest message, Cells the number of messages that a
	// lane holds before one must be released. Both are the transport's.
	MessageBytes int
	Cells        int
}

// A Buffer is memory that steps name.
type Buffer uint8

const (
	// Send is the caller's source. A Broadcast has only Recv.
	Send Buffer = iota + 1
	// Recv is the caller's destination. It may be the same memory as Send, and a
	// schedule is right either way. Where one of the two has a block for each rank
	// and the other has one block, that may be this rank's block of the larger one:
	// Send of Recv for AllGather and at the root of a Gather, Recv of Send for
	// ReduceScatter and at the root of a Scatter. Other blocks of Send stay as they
	// are.
	Recv
	// Scratch is memory of this rank that keeps nothing between calls.
	Scratch
	// Inbox is the payload of the message that the last Wait for Range.Peer
	// returned. It is read only, and gone after the Release. There is one per peer:
	// it is released before the next Wait.
	Inbox
	// Multi is what this rank contributes to multicast memory: it alone writes there, in
	// its own replica, and all pull.
	Multi
	// Board is what rank Range.Peer has posted to all, as this rank's replica has it:
	// Slots cells of CellElems elements, one after the other. It alone posts there, by
	// PutMulti.
	Board
)

// Slots is how many cells there are on a Board.
const Slots = 2

// A Range is elements From … To−1 of a buffer.
type Range struct {
	Buf      Buffer
	Peer     int // of an Inbox or a Board
	From, To int
}

// Len is the number of elements.
func (r Range) Len() int { return r.To - r.From }

// A Kind is what a step does.
type Kind uint8

const (
	// Copy: Dst ← Srcs[0]. It is the only step that reads a Board.
	Copy Kind = iota + 1
	// Put: Srcs[0], possibly empty, goes to Peer as the next message of the lane;
	// its arrival is the signal. It blocks while all cells of the lane are taken.
	// Srcs[0] may be overwritten afterwards.
	Put
	// Wait: blocks until the next message from Peer, of Elems elements, is there;
	// it is then Inbox of Peer.
	Wait
	// Release: gives the cell of the Inbox of Peer back. A schedule releases all
	// messages, each one before it waits for the next of that lane.
	Release
	// Combine: Dst ← Srcs[0] op Srcs[1] op … in that order. Dst may be one of Srcs,
	// exactly. There are two sources at least.
	Combine
	// PullReduce: Dst ← the reduction of Srcs[0], a range of Multi, over all
	// replicas in rank order. The range begins at a multiple of 16 bytes, and may be
	// read up to the next multiple.
	PullReduce
	// PutMulti: Srcs[0] → Dst, a range of this rank's Board, in every replica, this
	// rank's included. The step only begins it: the bytes are there, and Srcs[0] may be
	// overwritten, with the next Put to any rank, or when the schedule is done. Who is to
	// read them must be told by a Put to it. What is put to a cell between two Puts is
	// one posting, and with its first step all is gone that the cell held before. Dst
	// begins at a multiple of 16 bytes, and may be written up to the next multiple.
	PutMulti
)

// A Step is one thing that a rank does. Steps of a schedule are done one after
// the other.
type Step struct {
	Kind  Kind
	Peer  int // of Put, Wait, Release
	Elems int // of Wait
	Dst   Range
	Srcs  []Range

	// Complete, of Combine and PullReduce: the result has the contributions of
	// all ranks. An average is divided here, by Ranks, and nowhere else. In a Scan or
	// Exscan nothing is complete, not even what has all contributions: one rank's
	// result is part of another's, and an average of it means nothing.
	Complete bool
	// Stage and Segment say where in the algorithm the step belongs, for
	// pictures and messages: the round of the algorithm, and the part of the data. A
	// message's Put and Wait have the same.
	Stage, Segment int
}

// A Schedule is one rank's part of a collective.
type Schedule struct {
	Algorithm string
	Shape     Shape
	Rank      int

	ScratchElems int // elements of Scratch
	MultiElems   int // elements of Multi
	CellElems    int // elements of a cell of a Board; 0: no multicast memory is used
	Steps        []Step
}
