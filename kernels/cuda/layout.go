package cuda

import (
	"unsafe"

	"github.com/weft-go/weft/kernels"
)

// Sizes that the kernels are compiled with; see layout.cuh.
const (
	MaxRanks   = 72  // of a communicator
	MaxBuffers = 256 // registered by a communicator
	Threads    = 512 // of every block

	SmallBytes    = Threads * 8 // of a small call's block, per lane
	StageBytes    = 128 << 10
	MailLanes     = 4 // parts of a message, each with slots of its own
	MailSlots     = 2
	MailSlotBytes = 64 << 10
	SliceBytes    = 128

	// SmallTotal is the most bytes that a rank sends the others by a small call. It is where
	// a large call takes as long on two GPUs; with more ranks, both do more.
	SmallTotal = 256 << 10

	packetBytes  = 16
	helloWords   = 8
	laneBytes    = 128 // and for each rank
	arrivedBytes = 128
	mailBytes    = 512
	// SegmentHeader is where a segment's lanes begin.
	SegmentHeader = 4096 + 8*MaxRanks*MaxBuffers
	// BufferTable is where in a segment the addresses of registered buffers are: that of
	// rank p's buffer number b at BufferTable + 8·(p·MaxBuffers + b − 1).
	BufferTable = 4096
)

// The values of comm.Collective that kernels know.
const (
	AllReduce          = 1
	Reduce             = 2
	Broadcast          = 3
	AllGather          = 4
	AllToAll           = 5
	Barrier            = 6
	ReduceScatterBlock = 8
)

// MaxLanes is the most blocks that a collective has.
const MaxLanes = 64

// Lanes is how many blocks a collective may have where so many ranks of the communicator
// share a device with so many multiprocessors. Two blocks fit a multiprocessor, so that two
// communicators can be at work at the same time. All ranks use the least of theirs.
func Lanes(multiprocessors, ranksOnDevice int) int {
	return max(1, min(MaxLanes, multiprocessors/max(ranksOnDevice, 1)))
}

// MailBlocks is how many blocks a message has in one direction, a divisor of MailLanes, so that
// those of both directions are no more than those of a collective, but for one each.
func MailBlocks(lanes int) int {
	n := MailLanes
	for n > 1 && 2*n > lanes {
		n /= 2
	}
	return n
}

// SmallMost is the longest block of a small call. With more ranks it is shorter, so that the
// packets take about as much memory with any number of them.
func SmallMost(ranks, lanes int) int {
	return min(lanes*SmallBytes, SmallTotal/max(ranks-1, 1))
}

// SegmentBytes is the size of a segment.
func SegmentBytes(ranks, lanes int) int {
	lane := laneBytes + ranks*(arrivedBytes+2*helloWords*packetBytes) + 2*StageBytes
	mail := mailBytes + MailSlots*MailSlotBytes
	small := 2 * ranks * Threads * packetBytes
	smallLanes := (SmallMost(ranks, lanes) + SmallBytes - 1) / SmallBytes
	return SegmentHeader + lanes*lane + ranks*MailLanes*mail + smallLanes*small
}

// Args are the arguments of all kernels. Addresses are those of the rank's device.
type Args struct {
	Segment              [MaxRanks]uint64 // of each rank, where this one maps it
	Page                 uint64           // a [Page], as the device reaches it
	Dst, Src             uint64
	DstOffset, SrcOffset uint64 // of Dst and Src in their buffers
	Count                uint64 // elements of a block; where nothing is reduced, bytes
	TimeoutNs            uint64 // for one wait
	Seq                  uint64 // the host's number of the call, for records
	DstBuffer, SrcBuffer uint32 // numbers of the buffers, from 1; 0: peers don't map it
	Rank, Ranks          uint32
	Lanes                uint32 // that segments have; the grid may be smaller
	Collective, Op, Root uint32 // a comm.Collective, a kernels.Op
	Hash                 uint32 // of what all ranks must agree on
	Flags                uint32
	To, From             uint32 // of messages; MaxRanks: there is none
}

// InPlace is a flag of [Args]: Dst and Src overlap.
const InPlace = 1

// Blocks are the second argument of LargeMove and Mail: what goes to and comes from each
// rank, in bytes.
type Blocks struct {
	SendAt, SendBytes, RecvAt, RecvBytes [MaxRanks]uint64
}

// What the parameters of a kernel may take is 4 KiB. This does not compile where it is more.
const _ = uint(4096 - unsafe.Sizeof(Args{}) - unsafe.Sizeof(Blocks{}))

// Page is memory of the host that the kernels of one rank reach. Its fields are written by
// the one side while the other reads them: use atomics.
type Page struct {
	Abort  uint64 // not 0: kernels end. Written by the host.
	_      [56]byte
	Record Record
}

// Record is what the first kernel of a rank that failed says of it.
type Record struct {
	Written    uint64 // 1: the rest is there
	Reason     Reason
	Rank, Peer uint32 // Peer: for whom it waited, or who failed before
	Collective uint32
	Seq        uint64
	Epoch      uint64 // calls of the lane before this one; of messages, chunks
	Step       uint64
	Lane       uint32
	Awaited    Awaited
	Want, Seen uint64 // what it waited for, and what was there; Want of Poisoned, see Cause
}

// Cause is, of a record that says Poisoned, why the kernel of Peer had failed, and for whom
// that had waited.
func (r *Record) Cause() (reason Reason, peer int) {
	return Reason(uint16(r.Want >> 16)), int(r.Want >> 32)
}

// Reason is why a kernel failed.
type Reason uint32

const (
	Timeout  Reason = iota + 1
	Aborted         // the host said so
	Poisoned        // kernels of the peer failed before
	Mismatch        // the peer is in another call
)

// Awaited is what a kernel waited for.
type Awaited uint32

const (
	AwaitPacket  Awaited = iota + 1 // of a small call
	AwaitHello                      // what a peer says as a call begins
	AwaitStep                       // the end of a step
	AwaitCredit                     // leave to send another chunk of a message
	AwaitHeader                     // of a chunk
	AwaitCounter                    // the bytes of a chunk
)

var reasons = [...]string{Timeout: "timeout", Aborted: "aborted", Poisoned: "a peer failed", Mismatch: "mismatch"}

var awaiteds = [...]string{
	AwaitPacket: "data", AwaitHello: "the beginning of the call", AwaitStep: "the end of a step",
	AwaitCredit: "room for a message", AwaitHeader: "a message", AwaitCounter: "the bytes of a message",
}

func (r Reason) String() string { return name(reasons[:], uint32(r)) }

func (a Awaited) String() string { return name(awaiteds[:], uint32(a)) }

func name(names []string, i uint32) string {
	if int(i) < len(names) && names[i] != "" {
		return names[i]
	}
	return "unknown"
}

// Types are the element types that kernels reduce.
var Types = []kernels.Type{
	kernels.TypeFloat32, kernels.TypeFloat64, kernels.TypeFloat16, kernels.TypeBFloat16,
	kernels.TypeInt32, kernels.TypeInt64, kernels.TypeUint8, kernels.TypeFloat8E4M3, kernels.TypeFloat8E5M2,
}

// Supports reports whether there are kernels for an operator on a type.
func Supports(t kernels.Type, op kernels.Op) bool {
	if op > kernels.Avg {
		return false
	}
	for _, have := range Types {
		if have == t {
			return true
		}
	}
	return false
}

// Names of kernels. Those of reductions are in SmallReduce and LargeReduce.
const (
	SmallMove = "weft_small_move" // Broadcast, AllGather, AllToAll, Barrier (Args)
	LargeMove = "weft_large_move" // AllGather, AllToAll, AllToAllV (Args, Blocks)
	Mail      = "weft_mail"       // Send, Recv or both (Args, Blocks)
)

// SmallReduce and LargeReduce are the kernels of AllReduce, Reduce and ReduceScatterBlock by
// element type; those of LargeReduce do Broadcast, too. They take Args.
var SmallReduce, LargeReduce = reductions("weft_small_"), reductions("weft_large_")

func reductions(prefix string) map[kernels.Type]string {
	names := map[kernels.Type]string{}
	for _, t := range Types {
		names[t] = prefix + t.String()
	}
	return names
}

// Names are those of all kernels.
func Names() []string {
	names := []string{SmallMove, LargeMove, Mail}
	for _, t := range Types {
		names = append(names, SmallReduce[t], LargeReduce[t])
	}
	return names
}

// HasBlocks says whether a kernel takes [Blocks] behind [Args].
func HasBlocks(name string) bool { return name == LargeMove || name == Mail }

// layout is what the compiled form has in weft_layout, see weft.cu.
func layout() []uint32 {
	var a Args
	var b Blocks
	var p Page
	var r Record
	at := func(n uintptr) uint32 { return uint32(n) }
	return []uint32{
		at(unsafe.Sizeof(a)), at(unsafe.Offsetof(a.Segment)), at(unsafe.Offsetof(a.Page)), at(unsafe.Offsetof(a.Dst)), at(unsafe.Offsetof(a.Src)),
		at(unsafe.Offsetof(a.DstOffset)), at(unsafe.Offsetof(a.SrcOffset)), at(unsafe.Offsetof(a.Count)), at(unsafe.Offsetof(a.TimeoutNs)),
		at(unsafe.Offsetof(a.Seq)), at(unsafe.Offsetof(a.DstBuffer)), at(unsafe.Offsetof(a.SrcBuffer)), at(unsafe.Offsetof(a.Rank)),
		at(unsafe.Offsetof(a.Ranks)), at(unsafe.Offsetof(a.Lanes)), at(unsafe.Offsetof(a.Collective)), at(unsafe.Offsetof(a.Op)),
		at(unsafe.Offsetof(a.Root)), at(unsafe.Offsetof(a.Hash)), at(unsafe.Offsetof(a.Flags)), at(unsafe.Offsetof(a.To)), at(unsafe.Offsetof(a.From)),
		at(unsafe.Sizeof(b)), at(unsafe.Offsetof(b.SendAt)), at(unsafe.Offsetof(b.SendBytes)), at(unsafe.Offsetof(b.RecvAt)), at(unsafe.Offsetof(b.RecvBytes)),
		at(unsafe.Sizeof(p)), at(unsafe.Offsetof(p.Abort)), at(unsafe.Offsetof(p.Record)),
		at(unsafe.Sizeof(r)), at(unsafe.Offsetof(r.Written)), at(unsafe.Offsetof(r.Reason)), at(unsafe.Offsetof(r.Rank)), at(unsafe.Offsetof(r.Peer)),
		at(unsafe.Offsetof(r.Collective)), at(unsafe.Offsetof(r.Seq)), at(unsafe.Offsetof(r.Epoch)), at(unsafe.Offsetof(r.Step)),
		at(unsafe.Offsetof(r.Lane)), at(unsafe.Offsetof(r.Awaited)), at(unsafe.Offsetof(r.Want)), at(unsafe.Offsetof(r.Seen)),
		SegmentHeader, 0, 128, BufferTable, laneBytes, arrivedBytes, mailBytes, packetBytes,
		MaxRanks, MaxBuffers, Threads, SmallBytes, StageBytes, helloWords, MailLanes, MailSlots, MailSlotBytes,
		AllReduce, Reduce, Broadcast, AllGather, AllToAll, Barrier, ReduceScatterBlock,
		uint32(kernels.Sum), uint32(kernels.Prod), uint32(kernels.Min), uint32(kernels.Max), uint32(kernels.Avg),
	}
}
