package cuda

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrNoDriver says that there is no CUDA driver to load. [NoDriverError] has the details.
	ErrNoDriver = errors.New("no CUDA driver")

	// ErrNotInDriver says that the driver is too old for a function that was called.
	ErrNotInDriver = errors.New("not in this CUDA driver")

	// ErrInvalid says that a call's arguments make no sense, and the driver was not asked.
	ErrInvalid = errors.New("invalid argument")
)

// NoDriverError says where a driver was looked for, and what kept it from being
// loaded. It is an [ErrNoDriver].
type NoDriverError struct {
	Tried  []string // names of libraries
	Reason string
}

func (e *NoDriverError) Error() string {
	if len(e.Tried) == 0 {
		return fmt.Sprintf("cuda: %v: %s", ErrNoDriver, e.Reason)
	}
	return fmt.Sprintf("cuda: %v: looked for %s: %s", ErrNoDriver, strings.Join(e.Tried, ", "), e.Reason)
}

func (e *NoDriverError) Unwrap() error { return ErrNoDriver }

// Error is a call that the driver refused, or an earlier failure on the device
// that it reported on this occasion. It is its Code for errors.Is.
type Error struct {
	Code   Code
	Op     string // the function, as in CUDA's manual
	Detail string // more than the code says, if there is more
}

func (e *Error) Error() string {
	s := "cuda: " + e.Op + ": " + e.Code.Name()
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

func (e *Error) Unwrap() error { return e.Code }

// Error is the code's name.
func (c Code) Error() string { return c.Name() }

// Name is CUDA's name of the code, such as CUDA_ERROR_OUT_OF_MEMORY.
func (c Code) Name() string {
	if name, ok := codeNames[c]; ok {
		return name
	}
	return fmt.Sprintf("CUresult %d", int32(c))
}

// Fatal tells whether the code says that the process can't use the device any
// more: all later calls fail with it.
func (c Code) Fatal() bool {
	switch c {
	case IllegalAddress, LaunchTimeout, Assert, HardwareStackError, IllegalInstruction,
		MisalignedAddress, InvalidAddressSpace, InvalidPC, LaunchFailed,
		ECCUncorrectable, NVLinkUncorrectable, Contained, ExternalDevice:
		return true
	}
	return false
}

func invalid(op, format string, args ...any) error {
	return fmt.Errorf("cuda: %s: %w: %s", op, ErrInvalid, fmt.Sprintf(format, args...))
}
