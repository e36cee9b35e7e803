package mailbox

import (
	"errors"
	"fmt"
	"math"

	"github.com/weft-go/weft/kernels"
)

const (
	// AnySource is the source of a receive that takes a message of any rank.
	AnySource = -1
	// AnyTag is the tag of a receive that takes a message with any tag.
	AnyTag = -1
	// MaxTag is the largest tag.
	MaxTag = math.MaxInt32
)

// An Elem is the type of a message's elements, as far as the two ends compare
// it.
type Elem struct {
	Type  kernels.Type // TypeInvalid for what is no number
	Bytes int          // size, from 1 to MaxInt32
}

func (e Elem) String() string {
	if e.Type == kernels.TypeInvalid {
		return fmt.Sprintf("%d-byte elements", e.Bytes)
	}
	return e.Type.String()
}

// A Request is a send or a receive. Its owner sets the first fields before
// [Mailbox.Send] or [Mailbox.Recv], and leaves it and Buf alone until it is done;
// then it may be used again. The zero value of the rest is right.
type Request struct {
	Peer int // destination, or source or AnySource
	Tag  int // or AnyTag, for a receive
	Buf  []byte
	Elem Elem
	// Owner is for the owner.
	Owner any

	// Status says, of a receive that is done, what was received.
	Status Status
	// Err is why it failed, if it is done and did.
	Err error

	state  state
	next   *Request // in the list that it is in
	id     uint32   // in the table that it is in
	theirs uint32   // the peer's number of the same message
	moved  int      // bytes sent or received of a transfer
}

func (r *Request) link() **Request { return &r.next }

// Done says whether the request is done.
func (r *Request) Done() bool { return r.state == done }

type state uint8

const (
	idle    state = iota
	posted        // receive: in Mailbox.posted
	matched       // receive: in peer.clearings and Mailbox.receives
	cleared       // receive: in Mailbox.receives
	queued        // send: in peer.envelopes
	offered       // send: the envelope is with the peer, or with this rank's unexpected messages
	moving        // send: in peer.transfers
	done
)

// A Status says which message a receive took.
type Status struct {
	Source int
	Tag    int
	Bytes  int
}

var (
	// ErrTruncated: a message is longer than the buffer of the receive that matches it.
	ErrTruncated = errors.New("message is longer than the receive buffer")
	// ErrElem: the two ends of a message differ in the type of its elements.
	ErrElem = errors.New("sender and receiver differ in element type")
)

// A MatchError says that a message matched a receive that can't take it. It is
// [ErrTruncated] or [ErrElem].
type MatchError struct {
	Status      // of the message
	Dest   int  // the receiving rank
	Sent   Elem // of the message
	Want   Elem // of the receive
	Room   int  // bytes of the receive's buffer
	Err    error
}

func (e *MatchError) Error() string {
	return fmt.Sprintf("%v: rank %d sent %d %v with tag %d, rank %d receives up to %d %v",
		e.Err, e.Source, e.Bytes/e.Sent.Bytes, e.Sent, e.Tag, e.Dest, e.Room/e.Want.Bytes, e.Want)
}

func (e *MatchError) Unwrap() error { return e.Err }
