package comm

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/weft-go/weft/transport/progress"
)

// BeginEnqueue begins a collective call that the ranks' devices carry out later. It is for
// those who write such collectives: they put the call on a stream, and end it by
// [Communicator.EndEnqueue]. seq is the call's number, and history a hash of what all calls
// up to this one were, by which ranks whose calls differ are found. An error means that the
// call did not begin.
func (c *Communicator) BeginEnqueue(call Call) (seq uint64, history uint32, err error) {
	if c == nil {
		return 0, 0, &OpError{Call: call, Rank: -1, Err: ErrNil}
	}
	if _, err := c.Begin(context.Background(), call); err != nil {
		return 0, 0, err
	}
	return callState(c.state.Load()).seq(), c.history, nil
}

// EndEnqueue ends what BeginEnqueue began. err says why the call is on no stream; it ends the
// communicator for all, since the other ranks' devices will wait for this one's.
func (c *Communicator) EndEnqueue(err error) error { return c.end(err, false) }

// enqueued is how a communicator learns of the calls that were enqueued.
type enqueued struct {
	word   *uint64
	failed func() (seq uint64, err error)
}

// SetLater sets what says whether a call that was enqueued has failed. Every call reads the
// word as it begins: it is not 0 once one has failed, and stays readable until the
// communicator is closed ([Device.OnFree]). failed returns the call's number, 0 if that is not
// known, and a [progress.WaitError], a [progress.MismatchError] or any other error, and nil as
// long as none has. It must not block, and may be called at any time.
func (c *Communicator) SetLater(word *uint64, failed func() (seq uint64, err error)) {
	c.later.Store(&enqueued{word, failed})
	c.notices.Or(noticeLater)
}

// failedLater says whether a call that was enqueued has failed. It is for calls that Close
// waits for, and Close: the word goes with the communicator's memory.
func (c *Communicator) failedLater() bool {
	if c.notices.Load()&noticeLater == 0 {
		return false
	}
	return atomic.LoadUint64(c.later.Load().word) != 0
}

// laterErr returns why the communicator does not go on. It sees to it that it does not, if a call
// that was enqueued has failed.
func (c *Communicator) laterErr() error {
	if err := c.stop.Err(); err != nil {
		return err
	}
	later := c.later.Load()
	if later == nil {
		return nil
	}
	seq, err := later.failed()
	if err == nil {
		return nil
	}
	call, _ := c.log.load(seq)
	var wait *progress.WaitError
	var mismatch *progress.MismatchError
	switch {
	case errors.As(err, &wait):
		return c.gaveUp(call, seq, wait)
	case errors.As(err, &mismatch):
		return c.disagree(call, seq, mismatch)
	}
	return c.abort(&AbortError{Origin: c.rank, Reason: ReasonFailed, Call: call.numbered(seq), Seq: seq, Detail: err.Error(), cause: err})
}

// Extension is what [Communicator.Extend] made, or nil.
func (c *Communicator) Extension() any {
	if x := c.extension.Load(); x != nil {
		return *x
	}
	return nil
}

// Extend makes what the layer above keeps of this communicator's devices, unless it was made
// before. All ranks call it, and it blocks until all have made theirs; if one can't, all
// get an error and the communicator stays usable.
func (c *Communicator) Extend(ctx context.Context, make func() (any, error)) (any, error) {
	if x := c.Extension(); x != nil {
		return x, nil
	}
	call := Call{Collective: OpAlloc, Device: true}
	if _, err := c.Begin(ctx, call); err != nil {
		return nil, err
	}
	x, err := make()
	if err = c.endAgreed(call, c.agree(ctx, err)); err != nil {
		return nil, err
	}
	c.extension.Store(&x)
	return x, nil
}
