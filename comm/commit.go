package comm

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/weft-go/weft/comm/bootstrap"
	"github.com/weft-go/weft/transport/progress"
	"github.com/weft-go/weft/transport/progress/lane"
)

// votes are what rank 0 of a communicator with commit knows of the votes on the
// running call. agreement.mu guards it.
type votes struct {
	news chan struct{} // poked when there is something to look at
	cast []vote        // of rank 0: the last of each rank
	own  vote          // of this rank, while it waits
	odd  int           // 1 + a rank that voted after other calls than this one
	look *time.Timer
}

// A vote says that a rank's part of a call is done, and after which calls.
type vote struct {
	seq     uint64
	history uint32
}

func (v *votes) poke() {
	select {
	case v.news <- struct{}{}:
	default: // it has not been looked at yet
	}
}

// onVote takes a peer's vote.
func (c *Communicator) onVote(rank int, m bootstrap.Message) {
	if !c.commits || c.rank != 0 || len(m.Data) != 4 {
		return
	}
	c.advance(func(a *agreement) {
		a.votes.cast[rank] = vote{m.Seq, binary.LittleEndian.Uint32(m.Data)}
		c.count(a, rank)
	})
}

// count counts a rank's vote if this rank, which is 0, has voted as well. One that
// made other calls before has not voted for the same.
func (c *Communicator) count(a *agreement, rank int) {
	v := &a.votes
	switch theirs := v.cast[rank]; {
	case v.own.seq == 0 || theirs.seq != v.own.seq:
	case theirs.history == v.own.history:
		a.part.Hear(rank, lane.Notice[*record]{Kind: lane.NoticeVote, Committed: theirs.seq})
	case v.odd == 0:
		v.odd = 1 + rank
		v.poke()
	}
}

func (c *Communicator) onCommit(rank int, seq uint64) {
	if rank == 0 {
		c.advance(func(a *agreement) { a.part.Hear(rank, lane.Notice[*record]{Kind: lane.NoticeCommit, Committed: seq}) })
	}
}

// vote ends this rank's part of call seq, which went well: it waits until that of all
// ranks has, or the communicator ends without it.
func (c *Communicator) vote(seq uint64) error {
	v := &c.agreement.votes
	c.advance(func(a *agreement) {
		v.own, v.odd = vote{seq, c.history}, 0
		if c.rank == 0 {
			for r := 1; r < c.Size(); r++ {
				c.count(a, r)
			}
		}
		a.part.Vote(seq)
	})
	err := c.awaitVotes(seq)
	c.agreement.mu.Lock()
	v.own = vote{}
	c.agreement.mu.Unlock()
	if err == nil && c.rank == 0 {
		// The process may end right after this: the others should hear of it.
		if f, ok := c.world.ch.(bootstrap.Flusher); ok {
			f.Flush(flushTime)
		}
	}
	return err
}

// flushTime bounds how long the word that a call is committed may wait to be handed to
// the kernel: longer than no time only if a peer has not read for long.
const flushTime = 20 * time.Millisecond

// awaitVotes waits until call seq is committed, and returns nil, or never will be.
func (c *Communicator) awaitVotes(seq uint64) error {
	a := &c.agreement
	v := &a.votes
	call, _ := c.log.load(seq)
	began, stall, deadline := time.Now(), progress.StallAfter, c.engine.Deadline()
	if v.look == nil {
		v.look = time.NewTimer(mailEvery)
	} else {
		v.look.Reset(mailEvery)
	}
	defer v.look.Stop()
	for {
		// First: a communicator that ends while this rank looks may do so in a later call,
		// which the others only make if this one is committed.
		ended := c.stop.Err()
		a.mu.Lock()
		returns, failed := a.part.Outcome(seq, true, true)
		odd, missing := v.odd-1, v.missing(seq)
		a.mu.Unlock()
		if returns && !failed {
			return nil
		}
		if returns {
			<-c.stop.Done() // it is about to be set
			return c.stop.Err()
		}
		if ended != nil {
			return ended
		}
		if odd >= 0 {
			theirs, ours := v.cast[odd].tag(), v.own.tag()
			return c.disagree(call, seq, &progress.MismatchError{Peer: odd, Got: theirs, Want: ours})
		}
		var failure error
		select {
		case <-v.news:
		case <-c.stop.Done():
		case <-c.ctx.Done():
			failure = c.ctx.Err()
		case <-v.look.C:
			v.look.Reset(mailEvery)
			c.messages.idle() // a peer may be held up by a message to this rank
			switch now := time.Now(); {
			case !now.Before(deadline):
				failure = fmt.Errorf("%w after %v", context.DeadlineExceeded, c.timeout)
			case now.Sub(began) >= stall:
				stall += progress.StallAfter
				c.onStall(max(missing, 0))
			}
		}
		if failure != nil {
			// The others may all have voted before they hear of it: then the call went well,
			// and what ends is the communicator.
			_ = c.gaveUp(call, seq, &progress.WaitError{Peer: missing, Err: failure})
		}
	}
}

func (v vote) tag() progress.Tag { return progress.Tag{Seq: uint32(v.seq), Signature: v.history} }

// missing returns the first rank that has not voted, or −1 if this rank does not know.
func (v *votes) missing(seq uint64) int {
	for r := 1; r < len(v.cast); r++ {
		if v.cast[r].seq != seq {
			return r
		}
	}
	return -1
}
