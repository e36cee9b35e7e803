package comm

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/weft-go/weft/comm/bootstrap"
)

// An answer is what a rank tells of itself when a peer asks for a call. Ranks
// ask only when something takes long.
type answer struct {
	Seq     uint64 // last call that began
	Running bool   // and whether it still runs
	About   uint64 // the call asked for
	Known   bool   // whether it is remembered
	Call    Call
}

// questions collects answers for the goroutine that asked all.
type questions struct {
	mu      sync.Mutex
	answers []*answer     // nil when nobody collects
	open    int           // answers still to come
	all     chan struct{} // closed when none is
}

// ask asks one rank for call seq. The answer is looked at when it comes.
func (c *Communicator) ask(rank int, seq uint64) error {
	return c.send(rank, bootstrap.Message{Kind: msgAsk, Seq: seq})
}

// askAll asks all ranks for call seq and returns what came within d; nil for a
// rank that did not answer, and for this one.
func (c *Communicator) askAll(seq uint64, d time.Duration) []*answer {
	q := &c.asks
	q.mu.Lock()
	q.answers, q.open, q.all = make([]*answer, c.Size()), c.Size()-1, make(chan struct{})
	all := q.all
	q.mu.Unlock()
	for r := range c.members {
		if r != c.rank {
			_ = c.ask(r, seq)
		}
	}
	limit := time.NewTimer(d)
	defer limit.Stop()
	select {
	case <-all:
	case <-limit.C:
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	got := q.answers
	q.answers = nil
	return got
}

func (c *Communicator) onAsk(rank int, seq uint64) {
	s := callState(c.state.Load())
	a := answer{Seq: s.seq(), Running: s.running(), About: seq}
	if seq <= a.Seq {
		a.Call, a.Known = c.log.load(seq)
	}
	data, err := json.Marshal(&a)
	if err != nil {
		return
	}
	_ = c.send(rank, bootstrap.Message{Kind: msgAnswer, Seq: seq, Data: data})
}

func (c *Communicator) onAnswer(rank int, m bootstrap.Message) {
	a := new(answer)
	if err := json.Unmarshal(m.Data, a); err != nil {
		c.logger.Warn("ignored a malformed answer", "from", rank, "error", err)
		return
	}
	q := &c.asks
	q.mu.Lock()
	if q.answers != nil && q.answers[rank] == nil {
		q.answers[rank] = a
		if q.open--; q.open == 0 {
			close(q.all)
		}
	}
	q.mu.Unlock()
	// The peer may be in another call than this rank, and neither would ever end.
	s := callState(c.state.Load())
	if !a.Known || a.About != s.seq() || !s.running() {
		return
	}
	if ours, ok := c.log.load(s.seq()); ok && !ours.agrees(a.Call) {
		c.abort(c.mismatch(rank, a.Call.numbered(a.About), ours, s.seq()))
	}
}

// onStall is called when a call of this rank waits for a peer for long: it
// asks where the others are.
func (c *Communicator) onStall(peer int) {
	seq := callState(c.state.Load()).seq()
	if seq == c.asked || seq == 0 {
		_ = c.ask(peer, seq)
		return
	}
	c.asked = seq
	for r := range c.members {
		if r != c.rank {
			_ = c.ask(r, seq)
		}
	}
}
