package comm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// leaveTime bounds how long Close waits for the other ranks to be out of their
// calls. Live ranks answer at once; only a stopped process takes longer.
const leaveTime = 2 * time.Second

// Close leaves the communicator and frees what belongs to it, [Buffer]s
// included: their slices must not be used after. Each rank calls it once it
// needs the communicator no more, in any order; Close waits until no rank uses
// this rank's memory, not until the others close as well. A rank that is in a
// collective which this rank did not finish, or calls one later, gets
// [ErrPeerClosed]. If ranks made different calls and no call of this rank has said
// so, as in those that don't wait for others, Close returns the [ErrMismatch], as far
// as it is known by then. It waits for what is enqueued on this rank's device, and if a
// call there has failed and neither a call of this rank nor AsyncErr has said so, returns
// the [AbortError] on which the ranks agree. With a stopped process among
// the ranks it takes two seconds; so it does on a fabric if a rank has yet to make a
// call that this one has made. If a call of this rank does not
// end, as its operator is a function that does not return, or that called Close, it
// returns an [ErrConcurrent] after two seconds and frees nothing.
//
// Closing the communicator that [Init] or [Local] returned closes all that came
// of it by Split and Dup, and leaves the job; started by MPI, it ends MPI, which
// waits for the other ranks. A second Close does nothing.
func (c *Communicator) Close() error {
	if c == nil {
		return ErrNil
	}
	var err error
	c.closing.Do(func() {
		if c.id == rootID {
			for _, child := range c.world.others(c) {
				err = errors.Join(err, child.Close())
			}
		}
		err = errors.Join(err, c.shut())
		if c.id == rootID {
			err = errors.Join(err, c.leaveJob())
		}
	})
	return err
}

// shut leaves one communicator.
func (c *Communicator) shut() error {
	d := c.device.Load()
	var work error
	if d != nil {
		work = d.quiesce() // while the others still answer
	}
	failedLater := c.failedLater()
	if failedLater {
		_ = c.laterErr() // has all ranks know
	}
	c.leaveAgreement()
	cause := c.stop.Err()
	c.stop.Set(ErrClosed) // ends a call of another goroutine, and refuses new ones
	if !c.ownEnded() {
		// A function of the program's is in the call, or it is Close's own caller that
		// makes it. What the call may still use stays.
		c.world.stuck.Store(true)
		c.silent = true
		c.announceLeave(callState(c.state.Load()).seq()-1, cause)
		c.world.unregister(c)
		return &OpError{Rank: c.rank, Err: fmt.Errorf("Close: %w; its memory is not freed", ErrConcurrent)}
	}
	if c.messages != nil {
		c.messages.close()
	}
	calls := callState(c.state.Load()).seq()
	if c.failed.Load() {
		calls-- // the last one: what others do in it can't succeed
	}
	kept := false
	out := c.announceLeave(calls, cause)
	c.endLeave()
	wait := time.NewTimer(leaveTime)
	defer wait.Stop()
	select {
	case <-out:
	case <-wait.C:
		if cause == nil && c.world.keepsMemory() {
			// Some rank has not come to a call that this one has ended. It may write here.
			kept = true
			break
		}
		c.silent = true
		c.logger.Warn("closed while a rank does not answer", "cause", cause)
	}
	c.world.unregister(c)
	errs := []error{work}
	if d != nil {
		work = d.close()
		if cause == nil {
			errs = append(errs, work)
		} else {
			c.world.tidied(work)
		}
	}
	if !c.told.Load() {
		err := c.untold(cause)
		if err == nil && failedLater && !c.seen.Load() {
			err = &OpError{Rank: c.rank, Err: cause}
		}
		errs = append(errs, err)
	}
	if kept {
		c.logger.Debug("closed; the memory goes with the job")
		c.xchg.drop()
		return errors.Join(errs...)
	}
	var given []error // what the transport says of what it is given back
	for _, b := range c.liveBuffers() {
		given = append(given, b.free())
	}
	if c.engine != nil {
		c.detours.deliverTo(nil)
		given = append(given, c.engine.Close())
	}
	c.xchg.drop()
	if cause == nil {
		errs = append(errs, given...)
	} else {
		c.world.tidied(errors.Join(given...))
	}
	return errors.Join(errs...)
}

// ownEnded waits until this rank's calls have ended, which they do at once unless
// they are in a function of the program's. It says whether they have.
func (c *Communicator) ownEnded() bool {
	for limit := time.Now().Add(leaveTime); callState(c.state.Load()).running() || c.started.pending.Load() != 0; {
		if time.Now().After(limit) {
			return false
		}
		time.Sleep(100 * time.Microsecond)
	}
	return true
}

// untold returns that ranks disagreed about calls, if that was found and this
// rank's calls have not said so. Where ranks may run ahead none of them need have
// waited for it. cause is why the communicator ended, nil if by Close.
func (c *Communicator) untold(cause error) error {
	if cause == nil {
		if err := c.compareCalls(); err != nil {
			return err
		}
	}
	e := c.disagreement.Load()
	if errors.As(cause, &e) && e.Reason != ReasonMismatch {
		return nil // that is not what the ranks agreed on
	}
	if e == nil {
		return nil
	}
	seq := callState(c.state.Load()).seq()
	call, _ := c.log.load(seq)
	return &OpError{Call: call, Rank: c.rank, Seq: seq, Err: e}
}

// compareCalls finds that a rank, as far as it has told, made another call than
// this one: a call that does not wait for others can end well on a rank all the same.
func (c *Communicator) compareCalls() error {
	e := c.disagreed(callState(c.state.Load()).seq())
	if e == nil {
		return nil
	}
	call, _ := c.log.load(e.Seq)
	return &OpError{Call: call, Rank: c.rank, Seq: e.Seq, Err: e}
}

// leaveJob closes the control channel. A healthy job ends together; with a rank
// dead there is nobody to wait for.
func (c *Communicator) leaveJob() error {
	limit := c.timeout
	if err := c.stop.Err(); c.silent || !errors.Is(err, ErrClosed) {
		limit = leaveTime
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return c.world.close(ctx)
}

// others returns the open communicators of this rank except c.
func (w *world) others(c *Communicator) []*Communicator {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []*Communicator
	for _, o := range w.comms {
		if o != c {
			list = append(list, o)
		}
	}
	slices.SortFunc(list, func(a, b *Communicator) int {
		if a.id < b.id {
			return -1
		}
		return 1
	})
	return list
}
