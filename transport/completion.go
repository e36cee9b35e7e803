package transport

import "fmt"

// Status is what a report says of a phase.
type Status uint8

const (
	// StatusClean: every operation of the phase was executed once and has
	// nothing left to do.
	StatusClean Status = iota
	// StatusFailed: something in the phase failed.
	StatusFailed
)

func (s Status) String() string {
	if s == StatusClean {
		return "clean"
	}
	return "failed"
}

// A Report is the outcome of one phase.
type Report struct {
	Status Status
	// Errors is the number of failures that the transport counted, if it counts.
	Errors int
	// Code is the transport's own code of the first failure, for people.
	Code uint8
}

// Clean says that nothing failed.
func (r Report) Clean() bool { return r.Status == StatusClean }

func (r Report) String() string {
	if r.Clean() {
		return "clean"
	}
	return fmt.Sprintf("failed (errors %d, code %#x)", r.Errors, r.Code)
}

// A Completion tracks phases, one after the other. It belongs to one goroutine.
// A phase goes: operations are started on it, Submit, Arrive (as often as the
// completion expects), Test until done, Report; then the next phase begins.
type Completion interface {
	// Submit hands the operations started so far to the transport. A phase can't
	// be done before all its operations were submitted.
	Submit() error
	// Arrive makes one of the arrivals of the current phase. It fails with
	// [ErrPhase] when all are made.
	Arrive() error
	// Test says whether the phase is done. It does not block.
	Test() bool
	// Report returns the report of the phase that Test found done, and begins the
	// next phase. It fails with [ErrPhase] before that.
	Report() (Report, error)
}
