package collectives

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/weft-go/weft/comm"
)

var (
	// ErrCount: a slice has the wrong number of elements.
	ErrCount = errors.New("wrong number of elements")
	// ErrOverlap: dst and src overlap in a way that the operation does not allow.
	ErrOverlap = errors.New("dst and src overlap")
	// ErrRoot: the root is not a rank.
	ErrRoot = errors.New("root out of range")
	// ErrOperator: no such reduction operator, or not for these elements.
	ErrOperator = errors.New("no such operator")
	// ErrType: elements of this type can't be in a call.
	ErrType = errors.New("not a type of elements")
)

// A PanicError is the error of a call whose operator, a function of the
// program's, did not return. It is behind the [comm.AbortError] on that rank.
type PanicError struct {
	Value any    // what it panicked with; nil if it ended its goroutine
	Stack []byte // where, for people
}

func (e *PanicError) Error() string {
	if e.Value == nil {
		return "the operator ended its goroutine"
	}
	return fmt.Sprintf("the operator panicked: %v", e.Value)
}

// Unwrap returns what the operator panicked with, if that is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// refuse returns the error of a call with wrong arguments.
func refuse(c *comm.Communicator, call comm.Call, err error) error {
	return &comm.OpError{Call: call, Rank: c.Rank(), Err: err}
}

// first returns the first error that is not nil.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func checkCommunicator(c *comm.Communicator) error {
	if c.Size() == 0 { // nil, or one that nobody made
		return comm.ErrNil
	}
	return nil
}

func checkRoot(c *comm.Communicator, root int) error {
	if c != nil && (root < 0 || root >= c.Size()) {
		return fmt.Errorf("%w: %d of %d ranks", ErrRoot, root, c.Size())
	}
	return nil
}

// isRoot says whether root is one of c's ranks.
func isRoot(c *comm.Communicator, root int) bool { return uint(root) < uint(c.Size()) }

// checkCount checks the number of elements of a slice given in bytes.
func checkCount(name string, b []byte, e element, want int) error {
	if got := e.count(b); got != want {
		return fmt.Errorf("%w: %s has %d, not %d", ErrCount, name, got, want)
	}
	return nil
}

// checkBlocks checks that a number of elements is one of equal blocks.
func checkBlocks(c *comm.Communicator, name string, total int) error {
	if c != nil && total%c.Size() != 0 {
		return fmt.Errorf("%w: %s has %d, which are not blocks for %d ranks", ErrCount, name, total, c.Size())
	}
	return nil
}

// checkBlock allows a part that shares nothing with the whole, or is the block
// of it that begins at byte at.
func checkBlock(partName string, part []byte, wholeName string, whole []byte, at int) error {
	if mayBlock(part, whole, at) {
		return nil
	}
	return fmt.Errorf("%w: %s may only be this rank's block of %s", ErrOverlap, partName, wholeName)
}

func mayBlock(part, whole []byte, at int) bool {
	return same(part, within(whole, at, len(part))) || apart(part, whole)
}

// checkAlias allows slices that share nothing, or that are the same.
func checkAlias(dst, src []byte) error {
	if mayAlias(dst, src) {
		return nil
	}
	return ErrOverlap
}

func mayAlias(dst, src []byte) bool { return same(dst, src) || apart(dst, src) }

// same says whether two slices are the same memory.
func same(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// within returns n bytes of b from at on, or nil if it hasn't so many.
func within(b []byte, at, n int) []byte {
	if at > len(b) || n > len(b)-at {
		return nil
	}
	return b[at:][:n]
}

// apart says whether two slices share nothing.
func apart(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return true
	}
	x, y := uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&b[0]))
	return x+uintptr(len(a)) <= y || y+uintptr(len(b)) <= x
}
