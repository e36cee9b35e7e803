package transport

import (
	"errors"
	"fmt"
)

var (
	// ErrHandle: an exported handle is malformed, or of another job or transport.
	ErrHandle = errors.New("not a valid endpoint handle")
	// ErrUnknownEndpoint: the id names no endpoint of this rank, or one that is
	// not bound.
	ErrUnknownEndpoint = errors.New("unknown endpoint")
	// ErrBounds: a range is outside the endpoint.
	ErrBounds = errors.New("out of the endpoint's bounds")
	// ErrAlign: an offset or length is not a multiple of what it must be.
	ErrAlign = errors.New("misaligned")
	// ErrTransactions: the phase would hold too many transactions.
	ErrTransactions = errors.New("too many transactions in one phase")
	// ErrPhase: a completion's method was called out of turn.
	ErrPhase = errors.New("completion used out of turn")
	// ErrUnsupported: the transport or the endpoint does not have the operation.
	ErrUnsupported = errors.New("not supported")
	// ErrNotOwner: only an endpoint's owner can do that.
	ErrNotOwner = errors.New("not the endpoint's owner")
	// ErrClosed: the transport is closed.
	ErrClosed = errors.New("transport is closed")
)

// A MemberError says that another member of a group can't go on. Why, that member
// knows.
type MemberError struct{ Member int }

func (e *MemberError) Error() string { return fmt.Sprintf("member %d can't go on", e.Member) }

// OthersGo returns a [MemberError] if a member of a group other than me gave an empty
// export, as one does that can't go on.
func OthersGo(all []Exported, me int) error {
	for i, x := range all {
		if i != me && x.Handle == ([HandleBytes]byte{}) {
			return &MemberError{i}
		}
	}
	return nil
}

// A FabricError says which phase failed for good, and where.
type FabricError struct {
	Op       OpKind
	Rank     int // who started the phase
	Peer     int // whom it concerned; Rank itself for all of a multicast endpoint
	Endpoint EndpointID
	Offset   uint64
	Epoch    uint64
	Attempts int
	Status   Report
}

func (e *FabricError) Error() string {
	if e.Peer == e.Rank { // no rank has a lane to itself
		return fmt.Sprintf("rank %d: %s of multicast memory (endpoint %d, offset %d, epoch %d) %v after %d attempts",
			e.Rank, e.Op, e.Endpoint, e.Offset, e.Epoch, e.Status, e.Attempts)
	}
	return fmt.Sprintf("rank %d: %s to rank %d (endpoint %d, offset %d, epoch %d) %v after %d attempts",
		e.Rank, e.Op, e.Peer, e.Endpoint, e.Offset, e.Epoch, e.Status, e.Attempts)
}
