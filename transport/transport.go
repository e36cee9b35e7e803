package transport

import (
	"context"

	"github.com/weft-go/weft/kernels"
)

// A Transport is one rank's access to a kind of fabric. Its methods may be
// called from several goroutines at once, operations on one completion from one.
//
// Operations return an error only for a use that the contract forbids, and have
// then started nothing: [ErrUnknownEndpoint], [ErrBounds], [ErrAlign],
// [ErrTransactions], [ErrPhase], [ErrUnsupported]. Whether a started operation worked is in
// the report of its phase.
type Transport interface {
	// Name is the name by which options and reports know the transport.
	Name() string
	Limits() Limits

	// Alloc returns zeroed memory of at least size bytes that can be bound.
	Alloc(size uint64) (Memory, error)
	// Create makes a unicast endpoint that this rank owns.
	Create(cfg EndpointConfig) (Endpoint, error)
	// Import makes a peer's endpoint known under an id of this rank's own. A
	// malformed or foreign handle is [ErrHandle].
	Import(x Exported) (Endpoint, error)
	// JoinMulticast makes a multicast endpoint together with the other members
	// of a group, each of which calls it with its own rank me of n, the same
	// configuration and its own replica, bound at offset 0. exchange is an
	// all-gather among the members; it is called the same number of times by
	// all, by a member that can't go on as well, so that nobody waits for it: the
	// others get a [MemberError]. A member for which exchange fails calls it no more.
	// With an error there may be an endpoint all the same. Others may be about to
	// reach it: it is to be destroyed when all know that they can't go on.
	JoinMulticast(ctx context.Context, cfg EndpointConfig, me, n int, replica Memory, exchange Exchange) (Endpoint, error)
	// NewCompletion returns a completion whose phases expect 1…[MaxArrivals] arrivals.
	NewCompletion(arrivals int) (Completion, error)
	// Fence orders accesses by endpoint and by pointer.
	Fence(f Fence)

	// Put copies src to dst.
	Put(c Completion, dst Handle, src []byte) error
	// PutMasked copies the bytes of each 16-byte unit of src whose bit in mask is
	// set, bit 0 being the unit's first byte.
	PutMasked(c Completion, dst Handle, src []byte, mask uint16) error
	// PutCounted copies src to dst and adds len(src) to the counter, a place in
	// the same endpoint, in steps and at moments of the transport's choice.
	PutCounted(c Completion, dst Handle, src []byte, counterOffset uint64) error
	// PutMultimem copies src to dst in every replica of a multicast endpoint.
	PutMultimem(c Completion, dst Handle, src []byte) error
	// PutCountedMultimem does so and adds to the counter of every replica.
	PutCountedMultimem(c Completion, dst Handle, src []byte, counterOffset uint64) error
	// Get copies from src to dst.
	Get(c Completion, dst []byte, src Handle) error
	// Red combines each element of src into dst, each element atomically.
	// dst[i] = dst[i] op src[i]; see [RedSupports].
	Red(c Completion, dst Handle, src []byte, op RedOp, t kernels.Type) error
	// RedCounted does so and adds len(src) to the counter.
	RedCounted(c Completion, dst Handle, src []byte, op RedOp, t kernels.Type, counterOffset uint64) error
	// RedMultimem does as Red in every replica of a multicast endpoint.
	RedMultimem(c Completion, dst Handle, src []byte, op RedOp, t kernels.Type) error
	// PullRed reads src from every replica of a multicast endpoint and stores the
	// reduction, in the order of the members, in dst; see [PullRedSupports].
	PullRed(c Completion, dst []byte, src Handle, op RedOp, t kernels.Type) error
	// Atom applies op to the one element at dst, whose offset is a multiple of the
	// element's size, and stores its old value at the start of old. operand holds
	// the operand; for AtomCAS the compared value and then the new one. All are
	// little-endian. See [AtomSupports].
	Atom(c Completion, old []byte, dst Handle, operand []byte, op RedOp, t kernels.Type) error

	// Close gives all of this rank's endpoints up.
	Close() error
}

// Exchange is an out-of-band all-gather: it returns what every member of a
// group gave, in the order of their ranks. The caller closes what it got. Its own
// export may come back without the File, which it has.
type Exchange func(ctx context.Context, mine Exported) ([]Exported, error)

// A Mapper is a transport whose endpoints are mapped memory: code that knows can
// load and store instead of starting operations.
type Mapper interface {
	// Map returns the n bytes at h. They are valid until the endpoint is destroyed.
	Map(h Handle, n uint64) ([]byte, error)
	// Waker returns what wakes the owner of an endpoint's memory. It is valid as long.
	Waker(id EndpointID) (Waker, error)
}

// A Reacher is a transport that starts operations, and gets to the memory behind some
// endpoints by pointer as well, where nothing is reported. That is a way around links
// that do not work. What is mapped memory in the first place is a [Mapper].
type Reacher interface {
	// Reach returns the access by pointer to what an id names; of a multicast endpoint to
	// the replica of a member, else member is 0. It is [ErrUnsupported] where there is none.
	// It is valid until the endpoint is destroyed.
	Reach(id EndpointID, member int) (Access, error)
}

// An Access reaches the memory behind an endpoint by pointer. What a call does is done
// when it returns. Each call looks up what is bound at that time; what is not is
// [ErrBounds], and nothing was done. Offsets are those of the endpoint: multiples of
// [Granule] as are lengths, of 8 for words. It may be used by several goroutines at once.
//
// On this rank, [FenceAcquire] stands between its operations on some memory and a store
// there, and [FenceRelease] between a store and its operations on the same memory.
type Access interface {
	// Store copies src to offset.
	Store(offset uint64, src []byte) error
	// Count adds n to the counter at offset, and wakes its owner.
	Count(offset, n uint64) error
	// Raise raises the word at offset to value if it is less, and wakes its owner. It is
	// atomic with Red by RedMax on the same word.
	Raise(offset, value uint64) error
	// Load copies from offset to dst.
	Load(dst []byte, offset uint64) error
}

// A Streamer is a transport whose operations are copies by this rank's processor.
type Streamer interface {
	// Stream has long puts go around the processor's caches from now on, or no more. It
	// changes no results, and may be called at any time.
	Stream(on bool)
}

// A Joiner is a transport that makes one operation of several counted puts, where that is
// less work.
type Joiner interface {
	// PutCountedParts is a PutCounted of each of the parts, at its offset from dst. Their
	// bytes may be counted all at once. What lies between them must be bound as well.
	PutCountedParts(c Completion, dst Handle, parts []Part, counterOffset uint64) error
}

// A Part is some of what several puts bring.
type Part struct {
	Offset uint64 // from where the first of them begins, a multiple of Granule
	Src    []byte
}

// A Waker wakes the owner of memory whose words were changed by a store instead of an
// operation.
type Waker interface {
	// RingIfArmed rings the memory's doorbell if its owner sleeps or is about to. The
	// store comes before it, by an atomic operation.
	RingIfArmed()
}
