package comm

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weft-go/weft/comm/bootstrap"
	"github.com/weft-go/weft/transport/progress/lane"
)

// A record is an abort as ranks agree on it.
type record struct {
	by    int // the rank that proposed it
	abort *AbortError
}

// agreement drives this rank's part in agreeing on what ends the communicator: it
// brings notices, and finds out who is silent.
type agreement struct {
	mu   sync.Mutex
	part *lane.Agreement[*record]
	own  *AbortError // what this rank proposed, with its cause
	told bool        // stop has been set to what was agreed

	// While this rank waits for others to agree, a timer ticks.
	ticking bool
	last    time.Time // when the next tick began to be waited for
	stage   int       // of part, at the last one
	ticks   int       // in that stage
	waits   []int
	closed  bool // this rank has left
	timer   *time.Timer
	looks   sync.WaitGroup // ticks to come or running
	left    chan struct{}  // closed with closed

	votes votes
}

const (
	// answerTime is how long a live peer may take to answer a question.
	answerTime = 250 * time.Millisecond
	// tickTime is between looks at who keeps this rank waiting. A bound is counted in
	// ticks: a process that was stopped finds that all time is up when it goes on, and
	// must first hear what the others have said meanwhile.
	tickTime = answerTime / patience
	// patience is how many ticks a registrar waits for replies.
	patience = 5
	// maxTicks is how many ticks others wait for a registrar that answers but does
	// not get on: it takes no longer than patience twice.
	maxTicks = 4 * patience
)

// propose proposes that e ends the communicator. It does not wait.
func (c *Communicator) propose(e *AbortError) {
	e.tidy()
	c.noteMismatch(e)
	if c.stop.Err() != nil {
		return
	}
	c.advance(func(a *agreement) {
		if a.own == nil {
			a.own = e
		}
		a.part.Fail(&record{c.rank, e})
	})
}

// abort ends the communicator. It returns the error that counts, on which all ranks
// agree: an earlier one, if there was one. That takes no longer than a few times
// answerTime, and less than a millisecond if all ranks answer.
func (c *Communicator) abort(e *AbortError) error {
	c.propose(e)
	<-c.stop.Done()
	return c.stop.Err()
}

// ending says whether the communicator has ended, or this rank knows that it will.
func (c *Communicator) ending() bool {
	a := &c.agreement
	a.mu.Lock()
	defer a.mu.Unlock()
	waits, _ := a.part.Waits(nil)
	return len(waits) > 0 || c.stop.Err() != nil
}

// exclude says that ranks are dead, have left or are silent.
func (c *Communicator) exclude(ranks ...int) {
	c.advance(func(a *agreement) { a.part.Out(ranks...) })
}

// advance changes this rank's part, and does what comes of that.
func (c *Communicator) advance(change func(*agreement)) {
	a := &c.agreement
	a.mu.Lock()
	before := a.part.Committed()
	change(a)
	for _, s := range a.part.Take() {
		_ = c.notify(s.To, &s.Notice) // the end of a peer is noticed elsewhere
	}
	r, final, isolated := a.part.Failure()
	news := final && !a.told
	a.told = final
	if a.waits, _ = a.part.Waits(a.waits); len(a.waits) > 0 && !a.ticking && !a.closed {
		a.ticking, a.ticks, a.last = true, 0, time.Now()
		c.notices.Or(noticeLeavers) // no call begins any more
		c.tickLater()
	}
	if a.part.Committed() != before {
		a.votes.poke()
	}
	own := a.own
	a.mu.Unlock()
	if !news {
		return
	}
	e := r.abort
	if own != nil {
		known := *e
		switch {
		case r.by == c.rank || own.Reason == e.Reason && own.Origin == e.Origin:
			known.cause = own.cause // which does not travel
		case own.Reason == ReasonCanceled || own.Reason == ReasonTimeout:
			known.cause = errors.Join(e.cause, own.cause) // this rank's context ended as well
		}
		e = &known
	}
	if isolated {
		e = e.onExcluded()
	}
	c.noteMismatch(e)
	if c.stop.Set(e) {
		c.logger.Warn("communicator aborted", "reason", e.Reason, "error", e.Error())
	}
}

// tick looks who keeps this rank waiting for so long that it does without them.
func (c *Communicator) tick() {
	a := &c.agreement
	a.mu.Lock()
	var stage int
	a.waits, stage = a.part.Waits(a.waits)
	if len(a.waits) == 0 || a.closed {
		a.ticking = false
		a.mu.Unlock()
		return
	}
	if stage != a.stage || time.Since(a.last) > answerTime { // then it was this rank that was away
		a.stage, a.ticks = stage, 0
	}
	a.ticks++
	var silent, others []int
	switch registrar := a.part.Registrar(); {
	case registrar == c.rank:
		if a.ticks >= patience {
			silent = append(silent, a.waits...)
		}
	case a.ticks >= maxTicks:
		silent = append(silent, registrar)
	default:
		for r := range c.members {
			if r != c.rank && !a.part.IsOut(r) {
				others = append(others, r)
			}
		}
	}
	a.mu.Unlock()
	if len(others) > 0 { // all of them: the next registrar may be silent as well
		if silent, _ = c.silentOf(a.left, others); a.isLeft() {
			return // it has not heard them out
		}
	}
	if len(silent) > 0 {
		c.logger.Warn("ranks do not answer", "ranks", silent)
	}
	c.advance(func(a *agreement) {
		a.part.Out(silent...)
		if a.last = time.Now(); !a.closed {
			c.tickLater()
		}
	})
}

// tickLater has tick called. agreement.mu is held, and this rank has not left.
func (c *Communicator) tickLater() {
	a := &c.agreement
	a.looks.Add(1)
	a.timer = time.AfterFunc(tickTime, func() {
		defer a.looks.Done()
		c.tick()
	})
}

// silentOf returns which of some ranks do not answer, and the answers of the others. If
// none of several does, it may be this rank that was away, and it asks again. It ends
// early when cancel, which may be nil, is closed.
func (c *Communicator) silentOf(cancel <-chan struct{}, ranks []int) (silent []int, answers []*answer) {
	answers = c.inquire(cancel, answerTime, ranks...)
	if silent = missing(answers, ranks); len(silent) == len(ranks) && len(ranks) > 1 {
		answers = c.inquire(cancel, answerTime, ranks...)
		silent = missing(answers, ranks)
	}
	return silent, answers
}

// missing returns the ranks of which there is no answer.
func missing(answers []*answer, ranks []int) (silent []int) {
	for _, r := range ranks {
		if answers[r] == nil {
			silent = append(silent, r)
		}
	}
	return silent
}

// isExcluded says whether a rank is known to be dead or silent, or has left.
func (c *Communicator) isExcluded(rank int) bool {
	a := &c.agreement
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.part.IsOut(rank)
}

// isEnding says whether the ranks are about to agree on what ends the communicator.
func (c *Communicator) isEnding() bool {
	a := &c.agreement
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waits, _ = a.part.Waits(a.waits)
	return len(a.waits) > 0
}

// leaveAgreement has this rank, which closes the communicator, take no more part in
// agreeing, once what is about to be agreed is.
func (c *Communicator) leaveAgreement() {
	if c.isEnding() {
		<-c.stop.Done()
	}
	c.advance(func(a *agreement) {
		a.part.Out(c.rank)
		if a.closed {
			return
		}
		a.closed = true
		close(a.left)
		if a.timer != nil && a.timer.Stop() {
			a.looks.Done()
		}
	})
	a := &c.agreement
	a.looks.Wait() // one that runs ends at once
}

// isLeft says whether this rank has left.
func (a *agreement) isLeft() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.closed
}

// A wireNotice is a notice as it is sent.
type wireNotice struct {
	Kind      lane.NoticeKind
	Ballot    int
	Out       lane.Ranks `json:",omitempty"`
	By        int
	Committed uint64
	Proposer  int
	Abort     json.RawMessage `json:",omitempty"` // if there is one
}

// notify sends a notice. agreement.mu is held, so that they go in order.
func (c *Communicator) notify(to int, m *lane.Notice[*record]) error {
	switch m.Kind {
	case lane.NoticeVote:
		return c.send(to, bootstrap.Message{Kind: msgVote, Seq: m.Committed, Data: binary.LittleEndian.AppendUint32(nil, c.history)})
	case lane.NoticeCommit:
		return c.send(to, bootstrap.Message{Kind: msgCommit, Seq: m.Committed})
	}
	data, err := encodeNotice(m)
	if err != nil {
		return err
	}
	return c.send(to, bootstrap.Message{Kind: msgAgree, Data: data})
}

func encodeNotice(m *lane.Notice[*record]) ([]byte, error) {
	w := wireNotice{Kind: m.Kind, Ballot: m.Ballot, Out: m.Out, By: m.By, Committed: m.Committed}
	if m.Holds {
		w.Proposer, w.Abort = m.Failure.by, m.Failure.abort.encode()
	}
	return json.Marshal(&w)
}

// decodeNotice reads what a peer of a communicator of n ranks sent.
func decodeNotice(b []byte, n int) (lane.Notice[*record], error) {
	var w wireNotice
	if err := json.Unmarshal(b, &w); err != nil {
		return lane.Notice[*record]{}, fmt.Errorf("malformed notice: %w", err)
	}
	m := lane.Notice[*record]{Kind: w.Kind, Ballot: w.Ballot, Out: w.Out, By: w.By, Committed: w.Committed}
	if len(w.Abort) > 0 {
		e, err := decodeAbort(w.Abort, n)
		if err != nil {
			return m, err
		}
		m.Holds, m.Failure = true, &record{w.Proposer, e}
	}
	switch w.Kind {
	case lane.NoticePropose, lane.NoticeAsk, lane.NoticeTell, lane.NoticeFinal:
		if !m.Holds {
			return m, fmt.Errorf("malformed notice: kind %d without an abort", w.Kind)
		}
	case lane.NoticeAnswer, lane.NoticeAck, lane.NoticeRefuse:
	default: // the others are messages of their own
		return m, fmt.Errorf("malformed notice: kind %d", w.Kind)
	}
	return m, nil
}

// onAgree takes a peer's notice.
func (c *Communicator) onAgree(from int, data []byte) {
	m, err := decodeNotice(data, c.Size())
	if err != nil {
		c.logger.Warn("ignored", "from", from, "error", err)
		return
	}
	if m.Holds {
		c.noteMismatch(m.Failure.abort)
	}
	c.advance(func(a *agreement) { a.part.Hear(from, m) })
}
