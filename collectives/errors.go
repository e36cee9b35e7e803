package collectives

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

var (
	// ErrCount: a slice has the wrong number of elements.
	ErrCount = errors.New("wrong number of elements")
	// ErrOverlap: dst and src overlap in a way that the operation does not allow.
	ErrOverlap = errors.New("dst and src overlap")
	// ErrRoot: the root is not a rank.
	ErrRoot = errors.New("root out of range")
	// ErrOperator: no such reduction operator.
	ErrOperator = errors.New("unknown operator")
)

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
	if c == nil {
		return comm.ErrNil
	}
	return nil
}

func checkOp(op kernels.Op) error {
	if !op.Valid() {
		return fmt.Errorf("%w: %v", ErrOperator, op)
	}
	return nil
}

func checkRoot(c *comm.Communicator, root int) error {
	if c != nil && (root < 0 || root >= c.Size()) {
		return fmt.Errorf("%w: %d of %d ranks", ErrRoot, root, c.Size())
	}
	return nil
}

// checkCount checks the number of elements of a slice given in bytes.
func checkCount(name string, b []byte, t kernels.Type, want int) error {
	if got := len(b) / t.Size(); got != want {
		return fmt.Errorf("%w: %s has %d, not %d", ErrCount, name, got, want)
	}
	return nil
}

// checkAlias allows slices that share nothing, or that are the same.
func checkAlias(dst, src []byte) error {
	if len(dst) == 0 || len(src) == 0 {
		return nil
	}
	d, s := uintptr(unsafe.Pointer(unsafe.SliceData(dst))), uintptr(unsafe.Pointer(unsafe.SliceData(src)))
	if d == s && len(dst) == len(src) || d+uintptr(len(dst)) <= s || s+uintptr(len(src)) <= d {
		return nil
	}
	return ErrOverlap
}
