package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Causes of a failed [Connect], found with errors.Is in a [*JoinError].
var (
	// ErrMissing reports that ranks did not arrive in time. Such an error is
	// also context.DeadlineExceeded.
	ErrMissing = errors.New("ranks did not arrive in time")
	// ErrToken reports that two processes do not share the job's token.
	ErrToken = errors.New("wrong job token")
	// ErrUser reports a process of another user where a rank was expected.
	ErrUser = errors.New("process of another user")
	// ErrDuplicateRank reports that two processes claim one rank.
	ErrDuplicateRank = errors.New("two processes claim the same rank")
	// ErrSize reports that ranks do not agree on the size of the job.
	ErrSize = errors.New("ranks disagree on the size of the job")
	// ErrVersion reports ranks built with incompatible versions of weft.
	ErrVersion = errors.New("ranks speak different protocol versions")
	// ErrGeneration reports that one rank has connected more often than another.
	ErrGeneration = errors.New("ranks have connected a different number of times")
	// ErrProtocol reports bytes that no rank of ours would send.
	ErrProtocol = errors.New("malformed or unexpected frame")
	// ErrAddress reports that a rank can't listen at, or be reached at, its address.
	ErrAddress = errors.New("address can't be used")
	// ErrCanceled reports that a rank gave up before the job was complete.
	ErrCanceled = errors.New("a rank gave up")
	// ErrRefused reports a rank that can't take part in the job, see [Refuse].
	ErrRefused = errors.New("a rank can't take part")
)

// Causes of a failed Send that lie with the message.
var (
	// ErrMessage reports a message that the channel can't carry.
	ErrMessage = errors.New("message can't be sent")
	// ErrUnsupported reports something this system or build can't do.
	ErrUnsupported = errors.New("not supported here")
)

// causes gives the errors above names for the wire.
var causes = map[string]error{
	"missing": ErrMissing, "token": ErrToken, "user": ErrUser, "duplicate": ErrDuplicateRank, "size": ErrSize,
	"version": ErrVersion, "generation": ErrGeneration, "protocol": ErrProtocol, "address": ErrAddress,
	"canceled": ErrCanceled, "refused": ErrRefused, "gone": ErrGone, "unsupported": ErrUnsupported,
}

// A LaunchError reports an environment that asks for something that can't be
// honoured, such as several ranks without a way to tell them apart.
type LaunchError struct {
	Seen    string // what was found, e.g. "SLURM_NTASKS=4"
	Problem string // what is wrong with it
	Remedy  string // what to do
}

func (e *LaunchError) Error() string {
	s := "weft: launch: " + e.Problem
	if e.Seen != "" {
		s += " (" + e.Seen + ")"
	}
	if e.Remedy != "" {
		s += "; " + e.Remedy
	}
	return s
}

// A JoinError reports that the ranks of a job did not come together.
type JoinError struct {
	Err    error // one of the causes above, or ErrGone
	Rank   int   // the rank that found it
	Ranks  []int // the ranks it concerns
	Detail string
}

func (e *JoinError) Error() string {
	s := fmt.Sprintf("weft: connect: %v", e.Err)
	if len(e.Ranks) > 0 {
		s += ": " + rankList(e.Ranks)
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return fmt.Sprintf("%s (found by rank %d)", s, e.Rank)
}

// Unwrap gives the cause.
func (e *JoinError) Unwrap() error { return e.Err }

// Is makes a time-out recognisable without knowledge of this package.
func (e *JoinError) Is(target error) bool {
	return target == context.DeadlineExceeded && e.Err == ErrMissing ||
		target == context.Canceled && e.Err == ErrCanceled
}

// A PeerError reports that a rank can't be talked to any more. It wraps ErrGone.
type PeerError struct {
	Peer int
	Err  error // what was seen, may be nil
}

func (e *PeerError) Error() string {
	s := fmt.Sprintf("weft: rank %d: %v", e.Peer, ErrGone)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap gives ErrGone and what was seen.
func (e *PeerError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrGone}
	}
	return []error{ErrGone, e.Err}
}

// errGoodbye is what Send wraps once the peer has said goodbye.
var errGoodbye = errors.New("it said goodbye")

// causeName finds the cause in err; "" when there is none.
func causeName(err error) string {
	for name, cause := range causes {
		if errors.Is(err, cause) {
			return name
		}
	}
	return ""
}

// rankList writes ranks as "rank 3" or "ranks 0, 3, 5".
func rankList(ranks []int) string {
	if len(ranks) == 1 {
		return fmt.Sprintf("rank %d", ranks[0])
	}
	const most = 16
	parts := make([]string, 0, most)
	for i, r := range ranks {
		if i == most {
			return fmt.Sprintf("ranks %s and %d more", strings.Join(parts, ", "), len(ranks)-most)
		}
		parts = append(parts, fmt.Sprint(r))
	}
	return "ranks " + strings.Join(parts, ", ")
}
