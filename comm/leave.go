package comm

import (
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/weft-go/weft/comm/bootstrap"
)

// leaveState follows the end of a communicator.
//
// A rank that closes it tells the others how many calls it has finished, and
// waits until each of them is in no call with it any more: only then is it sure
// that nobody uses its memory. A rank that is in a later call, or begins one,
// learns that it can't succeed.
type leaveState struct {
	mu     sync.Mutex
	after  map[int]uint64              // ranks that have closed, and their number of calls
	calls  map[int]map[uint64]toldCall // the last calls of those that have told, by number
	owed   []int                       // ranks to tell once no call is running
	waits  map[int]bool                // ranks whose answer this rank's Close waits for
	allOut chan struct{}               // closed when waits is empty; nil before Close
}

func (c *Communicator) hasLeft(rank int) bool {
	c.leave.mu.Lock()
	defer c.leave.mu.Unlock()
	_, ok := c.leave.after[rank]
	return ok
}

// encodeCalls packs the last calls of this rank for those it leaves.
func (c *Communicator) encodeCalls() []byte {
	data, err := json.Marshal(c.log.lastTold(callState(c.state.Load()).seq()))
	if err != nil { // numbers always marshal
		return nil
	}
	return data
}

// heardCalls takes the last calls of a peer.
func (c *Communicator) heardCalls(rank int, data []byte) {
	var calls map[uint64]toldCall
	if len(data) == 0 {
		return
	}
	if err := json.Unmarshal(data, &calls); err != nil {
		c.logger.Warn("ignored malformed calls", "from", rank, "error", err)
		return
	}
	c.leave.mu.Lock()
	defer c.leave.mu.Unlock()
	if c.leave.calls == nil {
		c.leave.calls = map[int]map[uint64]toldCall{}
	}
	c.leave.calls[rank] = calls
}

// lastWords returns the last calls of a rank, if it has told them because it or
// this one leaves.
func (c *Communicator) lastWords(rank int) map[uint64]toldCall {
	c.leave.mu.Lock()
	defer c.leave.mu.Unlock()
	return c.leave.calls[rank]
}

// disagreed returns what is wrong if a rank that has left made other calls than
// this one up to call last: it is too late to find that by its messages.
func (c *Communicator) disagreed(last uint64) *AbortError {
	for r := range c.members {
		if e := c.compare(r, c.lastWords(r), last); e != nil {
			return e
		}
	}
	return nil
}

// onLeave takes a peer's word that it closed the communicator after calls calls,
// of which data has the last.
func (c *Communicator) onLeave(rank int, calls uint64, data []byte) {
	c.heardCalls(rank, data)
	if c.messages != nil {
		c.messages.gone(rank) // before it is told that this rank does not need it
	}
	l := &c.leave
	l.mu.Lock()
	if l.after == nil {
		l.after = map[int]uint64{}
	}
	l.after[rank] = calls
	l.owed = append(l.owed, rank)
	l.mu.Unlock()
	c.notices.Or(noticeLeavers)
	c.exclude(rank)
	// Begin and End read notices after they change the state: one of the two
	// sides sees the other.
	if s := callState(c.state.Load()); s.running() {
		if s.seq() > calls {
			call, _ := c.log.load(s.seq())
			c.propose(c.leftTooEarly(rank, call, s.seq()))
		} else if e := c.disagreed(s.seq()); e != nil {
			c.propose(e)
		}
		return
	}
	c.endLeave()
}

// refuseLeft returns an error if call seq needs a rank that has left, or something has
// failed since.
func (c *Communicator) refuseLeft(seq uint64) error {
	if c.isEnding() {
		<-c.stop.Done()
		return c.stop.Err()
	}
	c.leave.mu.Lock()
	left := -1
	for r, calls := range c.leave.after {
		if seq > calls && (left < 0 || r < left) {
			left = r
		}
	}
	c.leave.mu.Unlock()
	if left < 0 {
		if e := c.disagreed(seq); e != nil {
			return c.abort(e)
		}
		return nil
	}
	call, _ := c.log.load(seq)
	return c.abort(c.leftTooEarly(left, call, seq))
}

func (c *Communicator) leftTooEarly(rank int, call Call, seq uint64) *AbortError {
	return &AbortError{Origin: c.rank, Reason: ReasonClosed, Ranks: []int{rank}, Call: call.numbered(seq), Seq: seq}
}

// endLeave tells the ranks that wait for it that no call is running, and, where
// their memory goes when they free it, that none of those is to come in which this
// rank may still write there.
func (c *Communicator) endLeave() {
	c.leave.mu.Lock()
	owed := c.leave.owed
	c.leave.owed = nil
	if c.world.keepsMemory() && c.stop.Err() == nil {
		done := callState(c.state.Load()).seq()
		later := func(r int) bool { return done < c.leave.after[r] }
		for _, r := range owed {
			if later(r) {
				c.leave.owed = append(c.leave.owed, r)
			}
		}
		owed = slices.DeleteFunc(owed, later)
	}
	c.leave.mu.Unlock()
	for _, r := range owed {
		_ = c.send(r, bootstrap.Message{Kind: msgLeft, Data: c.encodeCalls()})
	}
}

// onLeft takes a peer's word that it is in no call with this rank.
func (c *Communicator) onLeft(rank int) {
	l := &c.leave
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waits[rank] {
		delete(l.waits, rank)
		if len(l.waits) == 0 {
			close(l.allOut)
		}
	}
}

// announceLeave tells the others that this rank leaves after calls calls, and
// with what cause if it is not of its own will. It returns a channel that is
// closed when all have answered.
func (c *Communicator) announceLeave(calls uint64, cause error) <-chan struct{} {
	var abort *AbortError
	broken := errors.As(cause, &abort)
	l := &c.leave
	l.mu.Lock()
	l.waits, l.allOut = map[int]bool{}, make(chan struct{})
	for r := range c.members {
		// Of a rank that did not answer before, no answer is expected now.
		_, left := l.after[r]
		silent := broken && abort.Reason == ReasonTimeout && slices.Contains(abort.Ranks, r) || c.isExcluded(r) && !left
		if r != c.rank && !silent {
			l.waits[r] = true
		}
	}
	out := l.allOut
	if len(l.waits) == 0 {
		close(out)
	}
	l.mu.Unlock()
	last := c.encodeCalls()
	for r := range c.members {
		if r == c.rank {
			continue
		}
		if c.send(r, bootstrap.Message{Kind: msgLeave, Seq: calls, Data: last}) != nil {
			c.onLeft(r)
		}
	}
	return out
}
