package comm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weft-go/weft/comm/bootstrap"
	"github.com/weft-go/weft/transport/progress"
)

// Abort ends the communicator for all its ranks: every pending and later call
// on it returns an [AbortError] that names this rank and err. It does not wait.
// Close is still to be called.
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

// AsyncErr returns why the communicator does not go on, or nil.
func (c *Communicator) AsyncErr() error {
	if c == nil {
		return ErrNil
	}
	return c.stop.Err()
}

// abort ends the communicator and tells the others. It returns the error that
// counts, which is an earlier one if there was one.
func (c *Communicator) abort(e *AbortError) error {
	c.aborting.Lock()
	defer c.aborting.Unlock()
	c.noteMismatch(e)
	if err := c.stop.Err(); err != nil {
		return err
	}
	// The others are told first: whoever sees the stop may close the communicator
	// at once, and that message must not overtake this one.
	c.passOn(e) // a peer that can't be told notices that by itself
	// The process may end right after this: what is said by then should be heard.
	if f, ok := c.world.ch.(bootstrap.Flusher); ok {
		f.Flush(flushTime)
	}
	if !c.stop.Set(e) { // closed meanwhile
		return c.stop.Err()
	}
	c.logger.Warn("communicator aborted", "reason", e.Reason, "error", e.Error())
	return e
}

// passOn tells the others why this rank leaves, if cause is an abort: the word
// of whoever ended the communicator may still be on its way to them.
func (c *Communicator) passOn(cause error) {
	var e *AbortError
	if !errors.As(cause, &e) {
		return
	}
	data := e.encode()
	for r := range c.members {
		if r != c.rank {
			_ = c.send(r, bootstrap.Message{Kind: msgAbort, Data: data})
		}
	}
}

// onAbort takes a peer's abort. It is not passed on: its origin told everybody.
func (c *Communicator) onAbort(from int, data []byte) {
	e, err := decodeAbort(data, c.Size())
	if err != nil {
		c.logger.Warn("ignored", "from", from, "error", err)
		return
	}
	c.noteMismatch(e)
	if c.stop.Set(e) {
		c.logger.Warn("communicator aborted", "reason", e.Reason, "error", e.Error())
	}
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
// the one that this rank waits for, if it is one.
func (c *Communicator) suspects(seq uint64, waitedFor int) ([]int, string) {
	var others []int
	for r := range c.members {
		if r != c.rank {
			others = append(others, r)
		}
	}
	var silent, absent []int
	for r, a := range c.inquire(answerTime, others...) {
		switch {
		case r == c.rank:
		case a == nil:
			silent = append(silent, r)
		case a.Seq < seq:
			absent = append(absent, r)
		}
	}
	switch {
	case len(silent) > 0:
		return silent, "no answer on the control channel either"
	case len(absent) > 0:
		return absent, "not in the call yet"
	}
	if waitedFor < 0 { // any
		return nil, ""
	}
	return []int{waitedFor}, ""
}

// flushTime bounds how long an abort waits to be handed to the kernel: longer
// than no time only if a peer has not read for long.
const flushTime = 20 * time.Millisecond

// answerTime is how long a live peer may take to answer a question.
const answerTime = 250 * time.Millisecond

// explainTime bounds how long a rank that found a mismatch waits to be told what
// the peer called.
const explainTime = time.Second

// disagree ends the communicator because a peer's message was not of this call.
func (c *Communicator) disagree(call Call, seq uint64, m *progress.MismatchError) error {
	calls := c.lastWords(m.Peer) // a rank that is gone does not answer
	if calls == nil {
		if a := c.inquire(explainTime, m.Peer)[m.Peer]; a != nil {
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
