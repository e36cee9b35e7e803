package collectives

import (
	"fmt"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

// An operator combines elements: one of package kernels, or a function of the
// program's.
type operator struct {
	op  kernels.Op
	f   folder // instead of op, if not nil
	fn  bool   // a function was asked for
	err error
}

// A folder is a function for an operator: fold(acc, x) sets each element of acc
// to acc op x.
type folder interface {
	fold(acc, x []byte)
}

type foldFunc[T any] func(acc, x []T)

func (f foldFunc[T]) fold(acc, x []byte) { f(sliceOf[T](acc), sliceOf[T](x)) }

func byFunc[T any](f func(acc, x []T)) operator {
	if f == nil {
		return operator{fn: true, err: fmt.Errorf("%w: nil function", comm.ErrArgument)}
	}
	return operator{fn: true, f: foldFunc[T](f)}
}

// check says why the operator can't reduce such elements.
func (o operator) check(c *comm.Communicator, e element) error {
	switch {
	case o.err != nil || e.err != nil:
		return first(o.err, e.err)
	case o.f == nil && !o.op.Valid():
		return fmt.Errorf("%w: %v", ErrOperator, o.op)
	case o.f == nil && !o.op.Supports(e.t):
		return fmt.Errorf("%w: %v of %v", ErrOperator, o.op, e.t)
	case c != nil && o.f != nil:
		if layout, _ := c.Lanes(); e.size > layout.MessageBytes() {
			return fmt.Errorf("%w: elements of %d bytes, where messages have %d", ErrType, e.size, layout.MessageBytes())
		}
	}
	return nil
}

// checkPrefix is check for Scan and Exscan.
func (o operator) checkPrefix(c *comm.Communicator, e element) error {
	if o.f == nil && o.op == kernels.Avg {
		return fmt.Errorf("%w: %v of some ranks", ErrOperator, o.op)
	}
	return o.check(c, e)
}

// reduction describes a call that reduces.
func (e element) reduction(k comm.Collective, count int, by operator) comm.Call {
	call := e.call(k, count)
	call.Op, call.Func = by.op, by.fn
	return call
}
