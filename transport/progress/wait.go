package progress

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/progress/lane"
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
	// spinPolls are with pauses: some tens of µs. The kernel may have put two ranks
	// on one processor although there is one for each, so it can't be long.
	spinPolls  = 400
	pauseLoops = 8   // processor pauses per poll
	eagerPolls = 64  // of them with one pause: what is on its way is seen at once
	stopEvery  = 64  // polls between looks at Stop while spinning
	yieldPolls = 400 // giving the processor away each time
	// yieldMost bounds these in time: another program that wants the processor has it for
	// some ms each time, and a rank that sleeps is back sooner than one that yields.
	yieldMost  = 2 * time.Millisecond
	goschedPer = 16 // yields between yields to other goroutines of the process
	spinLocal  = 64 // goroutine ranks: polls before yielding
	// sleepMax bounds a sleep: context and deadline are looked at in between.
	sleepMax = 20 * time.Millisecond
	// sleepGrown is the same when some words are in memory with a bell of its own.
	sleepGrown = time.Millisecond
)

// A WaitError reports a wait that ended before its word had its value.
type WaitError struct {
	Peer int // whom the wait was for; -1: for any
	// Got and Want are the word's value and what was waited for; both are 0 in a
	// wait for one of several words or for the end of this rank's own operations.
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
	mem    *space
	bell   transport.Doorbell
	stop   *Stop

	// of the current call
	ctx      context.Context
	timeout  time.Duration // 0: none
	deadline time.Time     // zero until a wait of the call was not short

	single [1]word
	stats  WaitStats
	// unhurried: the wait is in the background, and takes no processor from others.
	unhurried bool

	// Any of the following may be nil.

	onStall func(peer int)
	// hopeless says why the word at offset won't get any further than got, or nil.
	hopeless func(peer int, offset, got uint64) error
	// idle is called before each sleep.
	idle func()
}

// A word is what is waited for: that a word is at least want, or a header that
// names the same epoch as want.
type word struct {
	own    *atomic.Uint64 // a word of this process, or nil: the one at offset
	offset uint64         // of the engine's memory
	want   uint64
	header bool
}

// StallAfter is how long a wait lasts before OnStall is called, and how often then.
const StallAfter = 250 * time.Millisecond

// until waits until the word at offset of the engine's memory is at least want
// and returns its value. A word that is there counts even if Stop is set.
func (w *waiter) until(offset, want uint64, peer int) (uint64, error) {
	w.single[0] = word{offset: offset, want: want}
	got, _, err := w.any(w.single[:], peer)
	return got, err
}

// any waits until one of the words is what is wanted of it, and returns its value
// and which it is. What the first comes to may be hopeless.
func (w *waiter) any(words []word, peer int) (got uint64, which int, err error) {
	// Short waits: no clock, no system call.
	polls, pauses := w.spins()
	for i := 0; i < polls; i++ {
		if got, which := w.look(words); which >= 0 {
			w.stats.Pauses += pausesOf(i, pauses)
			return got, which, nil
		}
		if i%stopEvery == stopEvery-1 {
			if err := w.stop.Err(); err != nil {
				return w.ended(words, err)
			}
		}
		if i < eagerPolls {
			spinPause(1)
		} else {
			spinPause(pauses)
		}
	}
	w.stats.Pauses += pausesOf(polls, pauses)
	return w.anySlow(words, peer)
}

// pausesOf is how many pauses were between so many polls.
func pausesOf(polls, pauses int) uint64 {
	if polls <= eagerPolls {
		return uint64(polls)
	}
	return uint64(eagerPolls + (polls-eagerPolls)*pauses)
}

// look returns the value of the first word that is what is wanted of it, or else
// that of the last, and −1.
func (w *waiter) look(words []word) (got uint64, which int) {
	for i := range words {
		if own := words[i].own; own != nil {
			got = own.Load()
		} else {
			got = w.mem.load(words[i].offset)
		}
		if int64(got-words[i].want) >= 0 && (!words[i].header || lane.SameEpoch(got, words[i].want)) {
			return got, i
		}
	}
	return got, -1
}

// ended ends a wait since Stop is set, unless a word has come between the last look and
// that: the peer that wrote it may be what ended since, in a later call.
func (w *waiter) ended(words []word, err error) (uint64, int, error) {
	if got, which := w.look(words); which >= 0 {
		return got, which, nil
	}
	return 0, -1, err
}

func (w *waiter) anySlow(words []word, peer int) (uint64, int, error) {
	var began time.Time
	for i := range w.yields() {
		if got, which := w.look(words); which >= 0 {
			return got, which, nil
		}
		if err := w.stop.Err(); err != nil {
			return w.ended(words, err)
		}
		if i == 1 { // most waits end before
			began = time.Now()
		} else if i > 1 && i&(i-1) == 0 && time.Since(began) > yieldMost {
			break
		}
		w.yield(i)
	}
	now := w.startClock()
	nextStall := now.Add(StallAfter)
	for {
		ticket := w.bell.Arm()
		got, which := w.look(words)
		err := w.stop.Err()
		if which < 0 && err == nil {
			if w.idle != nil {
				w.idle() // after Arm: what comes from now on rings
			}
			w.stats.Sleeps++
			w.bell.Sleep(ticket, w.nap(now))
			got, which = w.look(words)
			err = w.stop.Err()
		}
		w.bell.Disarm()
		switch {
		case which >= 0:
			return got, which, nil
		case err != nil:
			return w.ended(words, err)
		}
		now = time.Now()
		expired, stalled := w.expired(now), now.After(nextStall)
		if expired == nil && !stalled {
			continue
		}
		failed := &WaitError{Peer: peer, Err: expired}
		if first := words[0]; first.own == nil {
			if len(words) > 1 {
				got = w.mem.load(first.offset)
			} else {
				failed.Got, failed.Want = got, first.want
			}
			if w.hopeless != nil {
				if err := w.hopeless(peer, first.offset, got); err != nil {
					return 0, -1, err
				}
			}
		}
		if expired != nil {
			return 0, -1, failed
		}
		if w.onStall != nil {
			w.onStall(peer)
		}
		nextStall = now.Add(StallAfter)
	}
}

// errPhase: a phase has not ended within its own bound.
var errPhase = errors.New("phase is not done")

// done waits until a completion's phase is done, at most for the given time (0: as
// long as the call waits): errPhase. Nothing rings when it is, and it should not
// take long: this never sleeps.
func (w *waiter) done(c transport.Completion, peer int, most time.Duration) error {
	polls, pauses := w.spins()
	for i := 0; i < polls; i++ {
		if c.Test() {
			return nil
		}
		w.stats.Pauses += uint64(pauses)
		spinPause(pauses)
	}
	begin := w.startClock()
	nextStall := begin.Add(StallAfter)
	for i := 1; !c.Test(); i++ {
		if err := w.stop.Err(); err != nil {
			return err
		}
		// What a fabric in software does is done by a goroutine of this process.
		if i%goschedPer != 0 {
			w.stats.Yields++
			yieldGoroutine()
			continue
		}
		w.yield(0)
		now := time.Now()
		if err := w.expired(now); err != nil {
			return &WaitError{Peer: peer, Err: err}
		}
		if most > 0 && now.Sub(begin) >= most {
			return errPhase
		}
		if w.onStall != nil && now.After(nextStall) {
			w.onStall(peer)
			nextStall = now.Add(StallAfter)
		}
	}
	return nil
}

// spins says how often to look before giving the processor away, and how long
// to pause in between.
func (w *waiter) spins() (polls, pauses int) {
	switch {
	case w.policy.Oversubscribed || w.unhurried:
		return 1, 1
	case w.policy.InProcess:
		return spinLocal, 1
	}
	return spinPolls, pauseLoops
}

// yields says how often to give the processor away before sleeping.
func (w *waiter) yields() int {
	if w.unhurried {
		return 1
	}
	return yieldPolls
}

// yield gives the processor away, to whom may have the i-th turn.
func (w *waiter) yield(i int) {
	w.stats.Yields++
	if w.policy.InProcess || i%goschedPer == goschedPer-1 {
		yieldGoroutine()
	} else {
		yieldThread()
	}
}

// startClock reads the clock for the first time in a wait that is not short,
// and sets the call's deadline if this is the first of the call.
func (w *waiter) startClock() time.Time {
	now := time.Now()
	if w.timeout > 0 && w.deadline.IsZero() {
		w.deadline = now.Add(w.timeout)
	}
	return now
}

// nap is how long to sleep at most.
func (w *waiter) nap(now time.Time) time.Duration {
	most := sleepMax
	if w.mem.grown() {
		most = sleepGrown
	}
	if w.deadline.IsZero() {
		return most
	}
	return max(0, min(most, w.deadline.Sub(now)))
}

// expired returns the context's error, or context.DeadlineExceeded after the deadline.
func (w *waiter) expired(now time.Time) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	if !w.deadline.IsZero() && !now.Before(w.deadline) {
		return fmt.Errorf("%w after %v", context.DeadlineExceeded, w.timeout)
	}
	return nil
}
