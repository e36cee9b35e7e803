package progress

import (
	"context"
	"fmt"
	"time"

	"github.com/weft-go/weft/transport"
)

// A WaitPolicy says how a rank waits. It is the same on all ranks of a node.
type WaitPolicy struct {
	// InProcess: the peers are goroutines of this process, to which the Go
	// scheduler must give its threads.
	InProcess bool
	// Oversubscribed: some ranks share a processor, so that a rank that spins
	// keeps a peer from the work it waits for.
	Oversubscribed bool
}

// The stages of a wait, in polls of the word.
const (
	spinPolls  = 2000 // with a pause each: of the order of 100 µs
	pauseLoops = 8    // processor pauses per poll
	stopEvery  = 64   // polls between looks at Stop while spinning
	yieldPolls = 400  // giving the processor away each time
	goschedPer = 16   // yields between yields to other goroutines of the process
	spinLocal  = 64   // goroutine ranks: polls before yielding
	// sleepMax bounds a sleep: context and deadline are looked at in between.
	sleepMax = 20 * time.Millisecond
)

// A WaitError reports a wait that ended before its word had its value.
type WaitError struct {
	Peer int // whom the wait was for
	Got  uint64
	Want uint64
	Err  error // the context's error, or context.DeadlineExceeded
}

func (e *WaitError) Error() string {
	return fmt.Sprintf("waiting for rank %d: %v", e.Peer, e.Err)
}

func (e *WaitError) Unwrap() error { return e.Err }

// waiter is what every wait of an engine needs.
type waiter struct {
	policy WaitPolicy
	mem    transport.Memory
	bell   transport.Doorbell
	stop   *Stop

	// of the current call
	ctx      context.Context
	timeout  time.Duration // 0: none
	deadline time.Time     // zero until a wait of the call was not short
	onStall  func(peer int)
}

// StallAfter is how long a wait lasts before OnStall is called, and how often then.
const StallAfter = 250 * time.Millisecond

// until waits until the word at offset of the engine's memory is at least want
// and returns its value.
func (w *waiter) until(offset, want uint64, peer int) (uint64, error) {
	// Short waits: no clock, no system call.
	polls, pause := spinPolls, pauseLoops
	if w.policy.InProcess {
		polls, pause = spinLocal, 1
	}
	if w.policy.Oversubscribed {
		polls = 1
	}
	for i := 0; i < polls; i++ {
		if got := w.mem.Load(offset); got >= want {
			return got, nil
		}
		if i%stopEvery == stopEvery-1 && w.stop.Err() != nil {
			return 0, w.stop.Err()
		}
		spinPause(pause)
	}
	return w.untilSlow(offset, want, peer)
}

func (w *waiter) untilSlow(offset, want uint64, peer int) (uint64, error) {
	for i := 0; i < yieldPolls; i++ {
		if got := w.mem.Load(offset); got >= want {
			return got, nil
		}
		if err := w.stop.Err(); err != nil {
			return 0, err
		}
		if w.policy.InProcess || i%goschedPer == goschedPer-1 {
			yieldGoroutine()
		} else {
			yieldThread()
		}
	}
	start := time.Now()
	if w.timeout > 0 && w.deadline.IsZero() {
		w.deadline = start.Add(w.timeout)
	}
	nextStall := start.Add(StallAfter)
	for {
		ticket := w.bell.Arm()
		got := w.mem.Load(offset)
		err := w.stop.Err()
		if got < want && err == nil {
			w.bell.Sleep(ticket, sleepMax)
			got, err = w.mem.Load(offset), w.stop.Err()
		}
		w.bell.Disarm()
		switch {
		case got >= want:
			return got, nil
		case err != nil:
			return 0, err
		}
		if err := w.expired(); err != nil {
			return 0, &WaitError{Peer: peer, Got: got, Want: want, Err: err}
		}
		if now := time.Now(); w.onStall != nil && now.After(nextStall) {
			w.onStall(peer)
			nextStall = now.Add(StallAfter)
		}
	}
}

// done waits until a completion's phase is done.
func (w *waiter) done(c transport.Completion, peer int) error {
	for i := 0; !c.Test(); i++ {
		switch {
		case i < spinPolls:
			spinPause(1)
			continue
		case w.policy.InProcess:
			yieldGoroutine()
		default:
			yieldThread()
		}
		if i%goschedPer != 0 {
			continue
		}
		if err := w.stop.Err(); err != nil {
			return err
		}
		if w.timeout > 0 && w.deadline.IsZero() {
			w.deadline = time.Now().Add(w.timeout)
		}
		if err := w.expired(); err != nil {
			return &WaitError{Peer: peer, Err: err}
		}
	}
	return nil
}

// expired returns the context's error, or context.DeadlineExceeded after the deadline.
func (w *waiter) expired() error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	if !w.deadline.IsZero() && time.Now().After(w.deadline) {
		return fmt.Errorf("%w after %v", context.DeadlineExceeded, w.timeout)
	}
	return nil
}
