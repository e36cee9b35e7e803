package comm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weft-go/weft/transport/progress"
)

// Abort ends the communicator for all its ranks: every pending and later call
// on it returns an [AbortError] that names this rank and err, unless it has ended
// otherwise before. Abort returns when the ranks have agreed on that, which takes as long
// as a message there and back, or under a second if some do not answer. Close is still to
// be called.
func (c *Communicator) Abort(err error) {
	if c == nil {
		return
	}
	if err == nil {
		err = errors.New("no reason given")
	}
	e := &AbortError{Origin: c.rank, Reason: ReasonAbort, Detail: err.Error(), cause: err}
	if s := callState(c.state.Load()); s.running() {
		if call, ok := c.log.load(s.seq()); ok {
			e.Call, e.Seq = call.numbered(s.seq()), s.seq()
		}
	}
	c.abort(e)
}

// AsyncErr returns why the communicator does not go on, or nil. If a call that was enqueued
// on a device has failed, it ends the communicator, as the next call would, which takes as
// long as [Communicator.Abort].
func (c *Communicator) AsyncErr() error {
	if c == nil {
		return ErrNil
	}
	err := c.laterErr()
	if err != nil {
		c.seen.Store(true)
	}
	return err
}

// gaveUp ends the communicator because a wait of this rank ended without what
// it waited for.
func (c *Communicator) gaveUp(call Call, seq uint64, wait *progress.WaitError) error {
	e := &AbortError{Origin: c.rank, Call: call.numbered(seq), Seq: seq, Ranks: []int{wait.Peer}, cause: wait.Err}
	if errors.Is(wait.Err, context.Canceled) {
		e.Reason, e.Ranks = ReasonCanceled, nil
		return c.abort(e)
	}
	e.Reason = ReasonTimeout
	if wait.Peer == c.rank { // its context was done before
		e.Ranks = nil
		return c.abort(e)
	}
	e.Ranks, e.Detail = c.suspects(seq, wait.Peer)
	return c.abort(e)
}

// suspects asks all ranks where they are and returns those that hold call seq
// up: the ones that don't answer, else the ones that are not in the call, else
// the one that this rank waits for, if it is one. Those that don't answer are
// excluded: this communicator ends without them.
func (c *Communicator) suspects(seq uint64, waitedFor int) ([]int, string) {
	var others []int
	for r := range c.members {
		if r != c.rank {
			others = append(others, r)
		}
	}
	silent, answers := c.silentOf(nil, others)
	var absent []int
	for r, a := range answers {
		if a != nil && a.Seq < seq {
			absent = append(absent, r)
		}
	}
	switch {
	case len(silent) > 0:
		c.exclude(silent...)
		return silent, "no answer on the control channel either"
	case len(absent) > 0:
		return absent, "not in the call yet"
	}
	if waitedFor < 0 { // any
		return nil, ""
	}
	return []int{waitedFor}, ""
}

// explainTime bounds how long a rank that found a mismatch waits to be told what
// the peer called.
const explainTime = time.Second

// disagree ends the communicator because a peer's message was not of this call.
func (c *Communicator) disagree(call Call, seq uint64, m *progress.MismatchError) error {
	calls := c.lastWords(m.Peer) // a rank that is gone does not answer
	if calls == nil {
		if a := c.inquire(nil, explainTime, m.Peer)[m.Peer]; a != nil {
			calls = a.Calls
		}
	}
	e := c.compare(m.Peer, calls, seq)
	if e == nil {
		// They agree about the calls that both remember. The peer's sequence number
		// is known to 32 bits and close to ours.
		theirs, text := seq+uint64(int64(int32(m.Got.Seq-m.Want.Seq))), "in another call"
		if other, ok := calls[theirs]; ok {
			text = other.numbered(theirs)
			if theirs == seq && m.Note == "" {
				m.Note = "an earlier call differs"
			}
		}
		e = c.mismatch(m.Peer, text, call.numbered(seq), call, seq)
	}
	if m.Note != "" {
		e.Detail += " (" + m.Note + ")"
	}
	return c.abort(e)
}

// noteMismatch keeps an abort for Close, if it is a mismatch: it may be all that
// this rank hears of it.
func (c *Communicator) noteMismatch(e *AbortError) {
	if e.Reason == ReasonMismatch {
		c.disagreement.CompareAndSwap(nil, e)
	}
}

// mismatch says who called what.
func (c *Communicator) mismatch(peer int, theirs, ours string, call Call, seq uint64) *AbortError {
	return &AbortError{
		Origin: c.rank, Reason: ReasonMismatch, Ranks: sorted(c.rank, peer), Call: call.numbered(seq), Seq: seq,
		Detail: fmt.Sprintf("rank %d: %s; rank %d: %s", peer, theirs, c.rank, ours),
	}
}

func sorted(ranks ...int) []int {
	slices.Sort(ranks)
	return ranks
}
