package transport

import (
	"context"
	"os"
	"time"
)

// EndpointID names an endpoint to the rank that created or imported it.
type EndpointID uint32

// A Handle names a place: Offset bytes into an endpoint.
type Handle struct {
	ID     EndpointID
	Offset uint64
}

// Add returns the handle n bytes further on.
func (h Handle) Add(n uint64) Handle { return Handle{h.ID, h.Offset + n} }

// HandleBytes is the size of an endpoint's exported handle.
const HandleBytes = 64

// An Exported endpoint can travel to another rank over the control channel.
type Exported struct {
	Handle [HandleBytes]byte
	// File is the descriptor that goes with the handle, between processes of
	// one node. Whoever holds an Exported closes its File when Import has
	// returned; [Exported.Close] does that.
	File *os.File
	// Ref goes with the handle between ranks of one process.
	Ref any
}

// Close closes what came with x.
func (x Exported) Close() {
	if x.File != nil {
		x.File.Close()
	}
}

// EndpointConfig says what endpoint to create.
type EndpointConfig struct {
	Size    uint64 // bytes of offset space, a multiple of Limits.BindAlign
	Counted bool   // the endpoint takes counted operations
}

// An Endpoint is a bounded offset space that operations name by its ID.
type Endpoint interface {
	ID() EndpointID
	// Size is the size of the offset space in bytes.
	Size() uint64
	// Ready waits until the endpoint can be bound and used: creation and import
	// are asynchronous.
	Ready(ctx context.Context) error
	// Bind puts memory behind the offsets offset … offset+m.Size()−1. At offset 0 the
	// memory may be larger than the endpoint. Only the owner binds.
	Bind(offset uint64, m Memory) error
	// Unbind takes the memory away that one Bind put there. Nobody may use those
	// offsets any more: that takes a barrier before.
	Unbind(offset, size uint64) error
	// Export returns what peers need to import the endpoint. Only the owner exports.
	Export() (Exported, error)
	// Destroy gives the endpoint up on this rank. Its memory is not freed.
	Destroy() error
}

// Memory is zeroed memory of this rank that can be bound to endpoints.
type Memory interface {
	// Size is the size in bytes.
	Size() uint64
	// Bytes is the owner's view of the memory. After Free it must not be touched.
	Bytes() []byte
	// Load reads the 8-byte word at offset atomically; offset is a multiple of 8
	// and in range.
	Load(offset uint64) uint64
	// Doorbell is rung by operations that change words of this memory.
	Doorbell() Doorbell
	// Free gives the memory back. It must not be bound anywhere, and nobody may
	// use its doorbell any more.
	Free() error
}

// A Doorbell lets the owner of memory sleep until one of its words changes:
//
//	ticket := d.Arm()
//	if the word has not changed { d.Sleep(ticket, timeout) }
//	d.Disarm()
//
// The word must be read after Arm. Several goroutines of the owner may sleep at
// once, for different words, each with a ticket of its own: a ring wakes them all,
// and operations ring as long as one is armed.
type Doorbell interface {
	// Arm says that a goroutine of the owner is about to sleep.
	Arm() uint32
	// Sleep returns when the bell was rung since the Arm that gave the ticket, or
	// after about timeout; it may return early.
	Sleep(ticket uint32, timeout time.Duration)
	// Disarm says that it is awake. Each Arm is followed by one.
	Disarm()
	// Ring wakes all that sleep.
	Ring()
}

// A Fence orders accesses through an endpoint and accesses through a pointer to
// the same memory, on the rank that issues it.
type Fence uint8

const (
	// FenceAcquire stands after a word was seen to have its awaited value and
	// before the memory it speaks of is read through a pointer.
	FenceAcquire Fence = iota
	// FenceRelease stands after writes through a pointer and before operations
	// that read the same memory through an endpoint.
	FenceRelease
)
