package comm

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weft-go/weft/comm/bootstrap"
	"github.com/weft-go/weft/transport"
)

var (
	// ErrNil: the communicator is nil.
	ErrNil = errors.New("nil communicator")
	// ErrClosed: the communicator is closed on this rank. One that had ended before, with
	// an [AbortError], goes on to return that.
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
	// ErrIsolated: this rank did not answer while the others agreed on what ends the
	// communicator, and was excluded. Of the other ranks' calls nothing is known.
	ErrIsolated = errors.New("this rank did not answer and was excluded")
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

// An AbortError says why a communicator does not go on. All its ranks agree on one,
// which is the first that was registered: every pending and later call, on every rank,
// returns it. Its fields are the same everywhere, and so is a [transport.FabricError]
// behind it.
type AbortError struct {
	Origin int    // the rank that ended the communicator; of the death of others the one that noticed
	Reason Reason // why
	Ranks  []int  // the ranks at fault, as far as known
	Call   string // what the origin was doing
	Seq    uint64 // number of that call; 0 outside calls
	Detail string

	// cause is, on the origin, the error behind it, and elsewhere what of it travels.
	cause error
	// isolated: this rank was excluded.
	isolated bool
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
	if e.isolated {
		fmt.Fprintf(&b, "; %v", ErrIsolated)
	}
	return b.String()
}

// onExcluded returns the error as a rank has it that was excluded.
func (e *AbortError) onExcluded() *AbortError {
	x := *e
	x.isolated = true
	return &x
}

// Is matches [ErrAborted], the sentinel of the reason, and [ErrIsolated] on a rank that
// was excluded.
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
	case ErrIsolated:
		return e.isolated
	}
	return false
}

// Unwrap returns, on the rank where it began, the error behind the abort: that
// of the context, or what Abort was given. On the others it returns the
// [transport.FabricError] if that is behind it, and the error of this rank's own
// context if that ended as well before the ranks had agreed, and nothing else.
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

// tidy makes the fields what they will be on the other ranks.
func (e *AbortError) tidy() {
	if len(e.Detail) > maxDetail {
		e.Detail = e.Detail[:maxDetail]
	}
	e.Detail = strings.ToValidUTF8(e.Detail, "\uFFFD")
	if len(e.Ranks) == 0 {
		e.Ranks = nil
	}
}

// wireAbort is an abort as it is sent.
type wireAbort struct {
	Origin int
	Reason Reason
	Ranks  []int  `json:",omitempty"`
	Call   string `json:",omitempty"`
	Seq    uint64
	Detail string                 `json:",omitempty"`
	Fabric *transport.FabricError `json:",omitempty"`
}

// encode packs an abort that is tidy.
func (e *AbortError) encode() []byte {
	w := wireAbort{Origin: e.Origin, Reason: e.Reason, Ranks: e.Ranks, Call: e.Call, Seq: e.Seq, Detail: e.Detail}
	errors.As(e.cause, &w.Fabric)
	b, err := json.Marshal(&w)
	if err != nil { // strings and integers always marshal
		return []byte("{}")
	}
	return b
}

// decodeAbort reads what a peer sent. Ranks out of range are dropped.
func decodeAbort(b []byte, size int) (*AbortError, error) {
	var w wireAbort
	if err := json.Unmarshal(b, &w); err != nil {
		return nil, fmt.Errorf("malformed abort: %w", err)
	}
	out := func(r int) bool { return r < 0 || r >= size }
	if out(w.Origin) {
		return nil, fmt.Errorf("malformed abort: origin %d of %d ranks", w.Origin, size)
	}
	e := &AbortError{Origin: w.Origin, Reason: w.Reason, Ranks: slices.DeleteFunc(w.Ranks, out), Call: w.Call, Seq: w.Seq, Detail: w.Detail}
	if w.Fabric != nil {
		e.cause = w.Fabric
	}
	e.tidy()
	return e, nil
}
