package bootstrap

import (
	"context"
	"errors"
	"os"
	"time"
)

// MaxData is the largest payload of one [Message] in bytes.
const MaxData = 32 << 10

// MaxFiles is the largest number of descriptors that one [Message] carries.
const MaxFiles = 8

var (
	// ErrGone reports that a rank's process ended without a goodbye.
	ErrGone = errors.New("process is gone")
	// ErrChannelClosed reports use of a channel after Close.
	ErrChannelClosed = errors.New("control channel is closed")
	// ErrUnresponsive reports that a rank's process did not take a message for
	// longer than the channel waits.
	ErrUnresponsive = errors.New("process does not take messages")
)

// A Message is one datagram on the control channel. Messages from one rank to
// another arrive whole, once, and in the order in which they were sent.
type Message struct {
	Kind uint8  // meaning is the receiver's; a channel reserves nothing
	Comm uint64 // communicator the message belongs to
	Seq  uint64 // sequence number, meaning is the receiver's
	Data []byte // at most MaxData bytes

	// Files are descriptors to hand over; only between processes of one node.
	// Send takes ownership of neither: the sender still closes its own. The
	// receiver owns what it gets.
	Files []*os.File

	// Ref travels only between ranks of one process ([Local]); elsewhere it
	// must be nil.
	Ref any
}

// A Handler takes what arrives on a [Channel]. Calls concerning one peer are
// made in order from one goroutine; calls for different peers run concurrently.
// A handler may call Send but must not block otherwise.
type Handler interface {
	// HandleMessage takes a message. Data and Files belong to the handler. Files
	// that this process has no room for are missing.
	HandleMessage(from int, m Message)
	// HandleGone is called exactly once for each peer (never for the own rank), after its last message:
	// err is nil when the peer said goodbye, else it wraps ErrGone. It is also
	// called (with nil) for peers still connected when this side closes.
	HandleGone(peer int, err error)
}

// A Peer describes one rank to the others.
type Peer struct {
	Rank int
	Host string // host name, for people
	Node string // equal for two ranks exactly when they can share memory
	PID  int
	CPUs []int // affinity mask: the CPUs the process may run on
}

// A Channel is the out-of-band control channel between all ranks of a job:
// reliable, ordered per pair of ranks, open for the life of the world
// communicator. It is for bootstrap, agreement and liveness, never for data.
type Channel interface {
	Rank() int
	Size() int
	// Peer describes a rank, this one included.
	Peer(rank int) Peer
	// Source names where rank and size came from, for people
	// ("mpi", "env:OMPI", "env:PMI", "env:SLURM", "env:torchrun", "weft run", "local", "single").
	Source() string
	// Start begins delivery to h. It is called once; what arrived earlier is
	// kept. Without it nothing is handled.
	Start(h Handler)
	// Send queues m for rank to, which may be the own rank, and returns without
	// waiting for the peer. It fails with ErrGone or ErrChannelClosed when the
	// message can't be delivered any more, with ErrUnresponsive as well when too
	// much is waiting for the peer, which is then given up, and with ErrMessage
	// when the channel can't carry it. Data may be reused, and Files closed,
	// when Send returns.
	Send(to int, m Message) error
	// Close says goodbye to the peers, delivers what is queued within ctx (or
	// DefaultCloseTimeout, when ctx has no deadline), and releases all that the
	// channel holds. It must not be called by a handler. A second call does
	// nothing. A channel of MPI also waits, within ctx, for the others to close.
	Close(ctx context.Context) error
}

// A Flusher is a channel whose messages are written by a goroutine of their own.
type Flusher interface {
	// Flush waits until what was queued so far is handed to the kernel, from where
	// it arrives even if this process ends, but at most d.
	Flush(d time.Duration)
}
