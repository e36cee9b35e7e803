package comm

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weft-go/weft/comm/bootstrap"
)

var (
	// ErrNil: the communicator is nil.
	ErrNil = errors.New("nil communicator")
	// ErrClosed: the communicator is closed on this rank.
	ErrClosed = errors.New("communicator is closed")
	// ErrConcurrent: another goroutine is in a collective of the communicator.
	// The communicator stays usable; the other call goes on.
	ErrConcurrent = errors.New("another collective of this communicator is running")
	// ErrUnreachable: no transport reaches a peer.
	ErrUnreachable = errors.New("no transport reaches the peer")
	// ErrArgument: an argument is out of range.
	ErrArgument = errors.New("invalid argument")

	// ErrAborted: the communicator was ended by some rank; every [AbortError] is this.
	ErrAborted = errors.New("communicator is aborted")
	// ErrPeerDead: a rank's process ended without closing the communicator.
	ErrPeerDead = errors.New("a rank is dead")
	// ErrPeerClosed: a rank closed the communicator while others still use it.
	ErrPeerClosed = errors.New("a rank closed the communicator")
	// ErrMismatch: ranks called different collectives, or one with different
	// counts, types, operators or roots.
	ErrMismatch = errors.New("ranks disagree")
)

// An OpError is what a failed call of a collective returns. errors.Is sees
// through it.
type OpError struct {
	Call Call
	Rank int    // this rank; -1 if there is no communicator
	Seq  uint64 // number of the call on this communicator, from 1; 0 if it did not begin
	Err  error
}

func (e *OpError) Error() string {
	if e.Call.Collective == 0 { // Close, before any call
		return fmt.Sprintf("weft: rank %d: %v", e.Rank, e.Err)
	}
	return fmt.Sprintf("weft: rank %d: %s: %v", e.Rank, e.Call.numbered(e.Seq), e.Err)
}

func (e *OpError) Unwrap() error { return e.Err }

// An UnreachableError says which rank no transport reaches. It is
// [ErrUnreachable].
type UnreachableError struct {
	Rank  int              // this rank
	Peer  int              // the first that it can't reach
	Why   string           // for people
	Ranks []bootstrap.Peer // all ranks, and where they are
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("weft: rank %d: %v: rank %d is %s", e.Rank, ErrUnreachable, e.Peer, e.Why)
}

func (e *UnreachableError) Unwrap() error { return ErrUnreachable }

// A Reason says why a communicator was aborted.
type Reason string

const (
	ReasonDead     Reason = "dead"     // a rank's process is gone
	ReasonClosed   Reason = "closed"   // a rank closed the communicator too early
	ReasonTimeout  Reason = "timeout"  // a deadline passed
	ReasonCanceled Reason = "canceled" // a context was cancelled
	ReasonMismatch Reason = "mismatch" // ranks called different things
	ReasonAbort    Reason = "abort"    // a program called Abort
	ReasonFailed   Reason = "failed"   // a transport failed
)

// An AbortError says why a communicator does not go on. The first that a rank
// learns of stays: every pending and later call returns it.
type AbortError struct {
	Origin int    // the rank that ended the communicator
	Reason Reason // why
	Ranks  []int  // the ranks at fault, as far as known
	Call   string // what the origin was doing
	Seq    uint64 // number of that call; 0 outside calls
	Detail string

	// cause is, on the origin, the error behind it.
	cause error
}

func (e *AbortError) Error() string {
	var b strings.Builder
	switch e.Reason {
	case ReasonDead:
		fmt.Fprintf(&b, "%s dead", are(e.Ranks))
	case ReasonClosed:
		fmt.Fprintf(&b, "%s closed the communicator", named(e.Ranks))
	case ReasonTimeout:
		fmt.Fprintf(&b, "rank %d gave up waiting", e.Origin)
		if len(e.Ranks) > 0 {
			fmt.Fprintf(&b, " for %s", named(e.Ranks))
		}
	case ReasonCanceled:
		fmt.Fprintf(&b, "cancelled on rank %d", e.Origin)
	case ReasonMismatch:
		b.WriteString("ranks disagree")
	case ReasonAbort:
		fmt.Fprintf(&b, "aborted by rank %d", e.Origin)
	default:
		fmt.Fprintf(&b, "failed on rank %d", e.Origin)
	}
	if e.Seq != 0 && e.Reason != ReasonMismatch {
		fmt.Fprintf(&b, " (rank %d in %s)", e.Origin, e.Call)
	}
	if e.Detail != "" {
		fmt.Fprintf(&b, ": %s", e.Detail)
	}
	return b.String()
}

// Is matches [ErrAborted], and the sentinel of the reason.
func (e *AbortError) Is(target error) bool {
	switch target {
	case ErrAborted:
		return true
	case ErrPeerDead:
		return e.Reason == ReasonDead
	case ErrPeerClosed:
		return e.Reason == ReasonClosed
	case ErrMismatch:
		return e.Reason == ReasonMismatch
	}
	return false
}

// Unwrap returns, on the rank where it began, the error behind the abort: that
// of the context, or what Abort was given.
func (e *AbortError) Unwrap() error { return e.cause }

func named(ranks []int) string {
	switch len(ranks) {
	case 0:
		return "a rank"
	case 1:
		return fmt.Sprintf("rank %d", ranks[0])
	}
	var b strings.Builder
	b.WriteString("ranks ")
	for i, r := range ranks {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%d", r)
	}
	return b.String()
}

func are(ranks []int) string {
	if len(ranks) > 1 {
		return named(ranks) + " are"
	}
	return named(ranks) + " is"
}

// maxDetail keeps an abort within one control message.
const maxDetail = 4 << 10

func (e *AbortError) encode() []byte {
	w := *e
	if len(w.Detail) > maxDetail {
		w.Detail = w.Detail[:maxDetail]
	}
	b, err := json.Marshal(&w)
	if err != nil { // strings and integers always marshal
		return []byte("{}")
	}
	return b
}

// decodeAbort reads what a peer sent. Ranks out of range are dropped.
func decodeAbort(b []byte, size int) (*AbortError, error) {
	e := new(AbortError)
	if err := json.Unmarshal(b, e); err != nil {
		return nil, fmt.Errorf("malformed abort: %w", err)
	}
	out := func(r int) bool { return r < 0 || r >= size }
	if out(e.Origin) {
		return nil, fmt.Errorf("malformed abort: origin %d of %d ranks", e.Origin, size)
	}
	e.Ranks = slices.DeleteFunc(e.Ranks, out)
	return e, nil
}
