package comm

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/weft-go/weft/comm/bootstrap"
)

// An answer is what a rank tells of itself when a peer asks. Ranks ask only when
// something takes long, or is wrong.
type answer struct {
	Seq     uint64              // last call that began
	Running bool                // and whether it still runs
	Calls   map[uint64]toldCall // the last calls, by number
}

// questions collects answers for the goroutine that inquires.
type questions struct {
	asking sync.Mutex // held by the one that collects

	mu      sync.Mutex
	number  uint64        // of the last inquiry, from 1: other answers are to asking without one
	answers []*answer     // nil when nobody collects
	open    int           // answers still to come
	all     chan struct{} // closed when none is
}

// ask asks one rank where it is. The answer is looked at when it comes.
func (c *Communicator) ask(rank int, inquiry uint64) error {
	return c.send(rank, bootstrap.Message{Kind: msgAsk, Seq: inquiry})
}

// inquire asks ranks, of which this one is none, and returns what came within d and
// before cancel, which may be nil, is closed, by rank; nil for a rank that was not asked
// or did not answer.
func (c *Communicator) inquire(cancel <-chan struct{}, d time.Duration, ranks ...int) []*answer {
	if len(ranks) == 0 {
		return make([]*answer, c.Size())
	}
	q := &c.asks
	q.asking.Lock()
	defer q.asking.Unlock()
	q.mu.Lock()
	q.number++
	q.answers, q.open, q.all = make([]*answer, c.Size()), len(ranks), make(chan struct{})
	number, all := q.number, q.all
	q.mu.Unlock()
	for _, r := range ranks {
		_ = c.ask(r, number)
	}
	// In pieces: a process that was stopped meanwhile finds one over when it goes on, and
	// has the others to take what has come.
	piece := time.NewTicker(d / patience)
	defer piece.Stop()
	for i, open := 0, true; open && i < patience; i++ {
		select {
		case <-all:
			open = false
		case <-cancel:
			open = false
		case <-piece.C:
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	got := q.answers
	q.answers = nil
	return got
}

func (c *Communicator) onAsk(rank int, inquiry uint64) {
	s := callState(c.state.Load())
	data, err := json.Marshal(&answer{Seq: s.seq(), Running: s.running(), Calls: c.log.lastTold(s.seq())})
	if err != nil {
		return
	}
	_ = c.send(rank, bootstrap.Message{Kind: msgAnswer, Seq: inquiry, Data: data})
}

func (c *Communicator) onAnswer(rank int, m bootstrap.Message) {
	a := new(answer)
	if err := json.Unmarshal(m.Data, a); err != nil {
		c.logger.Warn("ignored a malformed answer", "from", rank, "error", err)
		return
	}
	q := &c.asks
	q.mu.Lock()
	if q.answers != nil && m.Seq == q.number && q.answers[rank] == nil {
		q.answers[rank] = a
		if q.open--; q.open == 0 {
			close(q.all)
		}
	}
	q.mu.Unlock()
	// The peer may have made another call than this rank, and the one that runs
	// never end.
	if s := callState(c.state.Load()); s.running() {
		if e := c.compare(rank, a.Calls, s.seq()); e != nil {
			c.propose(e)
		}
	}
}

// compare returns what is wrong if a peer made other calls than this rank, which
// made last so far. It is the first of them.
func (c *Communicator) compare(peer int, theirs map[uint64]toldCall, last uint64) *AbortError {
	for seq := c.log.first(last); seq <= last; seq++ {
		ours, ok := c.log.told(seq)
		if other, told := theirs[seq]; ok && told && !ours.agrees(other.Call) {
			a, b := describe(other, ours, seq)
			return c.mismatch(peer, a, b, ours.Call, seq)
		}
	}
	return nil
}

// onStall is called when a call of this rank waits for a peer for long: it
// asks where the others are.
func (c *Communicator) onStall(peer int) {
	seq := callState(c.state.Load()).seq()
	if seq == c.asked || seq == 0 {
		_ = c.ask(peer, 0)
		return
	}
	c.asked = seq
	for r := range c.members {
		if r != c.rank {
			_ = c.ask(r, 0)
		}
	}
}
