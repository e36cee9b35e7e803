package collectives

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weft-go/weft/comm"
)

// A Request is a call that was started. Its slices belong to the call until it
// is done.
//
// Calls that were started on one communicator run in the order of their start,
// also before blocking calls that come later, in a goroutine of their own: they
// make progress while the program computes, if it leaves them a processor. A launcher
// that binds each rank to one (mpirun does: --bind-to none) has the two take turns.
type Request struct {
	done chan struct{}
	err  error // written before done is closed

	ctx context.Context
	op  operation

	message *comm.Message // instead of all that, of a send or receive
	e       element
}

// Done is closed when the call has ended.
func (r *Request) Done() <-chan struct{} {
	switch {
	case r == nil:
		return noRequest
	case r.message != nil:
		return r.message.Done()
	}
	return r.done
}

// noRequest is closed, for requests that are nil.
var noRequest = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Status says, of a [StartRecv] that has ended well, which message it took.
func (r *Request) Status() Status {
	if r == nil || r.message == nil {
		return Status{}
	}
	return r.e.status(r.message.Status())
}

// Err is nil until the call has ended, and then its error or nil. It does not block.
func (r *Request) Err() error {
	switch {
	case r == nil:
		return errNoRequest
	case r.message != nil:
		return r.message.Err()
	}
	select {
	case <-r.done:
		return r.err
	default:
		return nil
	}
}

// Wait waits until the call has ended, and returns its error, or until ctx is
// done, and returns the error of ctx: the call goes on then, and can be waited for
// again. What ends the call itself is the context that it was started with.
func (r *Request) Wait(ctx context.Context) error {
	if r == nil || ctx == nil {
		return errNoRequest
	}
	if r.message != nil {
		return r.message.Wait(ctx)
	}
	select {
	case <-r.done:
		return r.err
	default:
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

var errNoRequest = fmt.Errorf("weft: %w: nil request or context", comm.ErrArgument)

// WaitAll waits until all calls have ended, and returns their errors joined, of
// those that the end of one communicator ended the first, or until ctx is done.
// Requests that are nil are left out.
func WaitAll(ctx context.Context, requests ...*Request) error {
	var errs []error
	var told []*comm.AbortError
	for _, r := range requests {
		if r == nil {
			continue
		}
		err := r.Wait(ctx)
		if err != nil && r.Err() == nil { // ctx is done, the call is not
			return err
		}
		var abort *comm.AbortError
		if errors.As(err, &abort) {
			if slices.Contains(told, abort) {
				continue
			}
			told = append(told, abort)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// start starts an operation.
func start(ctx context.Context, o operation) *Request {
	o.dstCounts, o.srcCounts = slices.Clone(o.dstCounts), slices.Clone(o.srcCounts)
	r := &Request{done: make(chan struct{}), ctx: ctx, op: o}
	if o.err != nil {
		r.err = refuse(o.c, o.call, o.err)
		close(r.done)
		return r
	}
	if o.group != nil && o.group.private {
		go func() { // not in turn: others may be behind the calls that this rank makes next
			r.err = o.exchange(ctx)
			close(r.done)
		}()
		return r
	}
	o.c.Start((*startedOperation)(r))
	return r
}

// startedOperation is a Request as a [comm.Job].
type startedOperation Request

func (r *startedOperation) Run() {
	e, err := r.op.beginStarted(r.ctx)
	switch {
	case err != nil:
		r.err = err
	case r.op.callsFunc():
		r.op.doFunc(r.ctx, e, &r.err, true)
	default:
		r.err = r.op.do(r.ctx, e)
	}
}

func (r *startedOperation) Ended() {
	r.op = operation{} // keep nothing of the caller's
	close(r.done)
}

var _ comm.Job = (*startedOperation)(nil)
