package collectives

import (
	"context"
	"fmt"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

// AllReduceMany reduces each of the tensors over all ranks, in place: a [Group] of
// an [AllReduce] for each, made with few messages however many there are. All ranks
// give as many tensors, the i-th of the same number of elements everywhere; the numbers
// may differ from tensor to tensor. No two may share memory. It blocks until the results
// are there. Errors, with the tensor as a call of the group: [ErrOverlap],
// [ErrOperator], and those of the package.
func AllReduceMany[T kernels.Number](ctx context.Context, c *comm.Communicator, tensors [][]T, op kernels.Op) error {
	o := allReduceMany(c, tensors, op)
	return o.run(ctx)
}

// StartAllReduceMany starts an [AllReduceMany] and does not block.
func StartAllReduceMany[T kernels.Number](ctx context.Context, c *comm.Communicator, tensors [][]T, op kernels.Op) *Request {
	return start(ctx, allReduceMany(c, tensors, op))
}

// NewAllReduceMany sets an [AllReduceMany] up.
func NewAllReduceMany[T kernels.Number](c *comm.Communicator, tensors [][]T, op kernels.Op) (*Persistent, error) {
	return newPersistent(allReduceMany(c, tensors, op))
}

func allReduceMany[T kernels.Number](c *comm.Communicator, tensors [][]T, op kernels.Op) operation {
	e, by := numberOf[T](), operator{op: op}
	if err := first(checkCommunicator(c), by.check(c, e)); err != nil {
		return operation{c: c, call: groupCall, err: err}
	}
	ops := make([]operation, len(tensors))
	for i, t := range tensors {
		b := kernels.Bytes(t)
		ops[i] = allReduce(c, e, b, b, by)
	}
	o := groupOf(c, ops)
	if o.err != nil {
		return o
	}
	list := make([]use, 0, len(ops))
	if n := independentCalls(ops, &list); n < len(ops) {
		o.call, o.err = groupCall, fmt.Errorf("call %d, %v: %w: with a tensor before", n+1, ops[n].call, ErrOverlap)
	}
	o.group.settle() // there is nothing to cut
	return o
}
