package kernels

import (
	"errors"
	"fmt"
)

// The reasons for which a call is refused. Errors of this package wrap one of
// them, for errors.Is.
var (
	// ErrOp says that an operator is none of those declared here, or is not
	// defined for the element type.
	ErrOp = errors.New("no such reduction operator")
	// ErrType says that an element type is none of those declared here.
	ErrType = errors.New("unknown element type")
	// ErrNoSource says that a reduction was given no source.
	ErrNoSource = errors.New("no source")
	// ErrLength says that a buffer is no whole number of elements, or that a
	// source is longer or shorter than the destination.
	ErrLength = errors.New("wrong length")
	// ErrAlign says that a buffer is not aligned for its element type.
	ErrAlign = errors.New("misaligned buffer")
	// ErrOverlap says that the destination overlaps a source without being
	// exactly the same memory.
	ErrOverlap = errors.New("destination overlaps source partly")
)

// ArgumentError is the error of [Reduce] and [ReduceSlices]. Nothing was
// written when it is returned.
type ArgumentError struct {
	Err    error  // one of the Err variables of this package
	Source int    // index of the source at fault, −1 for any other argument
	Detail string // what was found and what was wanted
}

// Error gives the reason, the source if there is one, and the detail.
func (e *ArgumentError) Error() string {
	s := "kernels: " + e.Err.Error()
	if e.Source >= 0 {
		s += fmt.Sprintf(" (source %d)", e.Source)
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// Unwrap returns e.Err.
func (e *ArgumentError) Unwrap() error { return e.Err }

func refuse(reason error, source int, format string, args ...any) error {
	return &ArgumentError{Err: reason, Source: source, Detail: fmt.Sprintf(format, args...)}
}
