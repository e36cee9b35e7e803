package comm

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weft-go/weft/comm/bootstrap"
	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/progress"
)

// world is what all communicators of one rank have in common: the control
// channel, the transport, and who is alive.
type world struct {
	ch        bootstrap.Channel
	transport transport.Transport // nil if it could not be opened
	unopened  error               // why
	inProcess bool
	settings  settings
	logger    *slog.Logger

	waitOnce sync.Once
	waiting  progress.WaitPolicy // see waitPolicy

	mu      sync.Mutex
	comms   map[uint64]*Communicator
	dead    []int // world ranks
	early   map[uint64][]earlyMessage
	arrived []uint64 // communicators with early messages, the oldest first
	nEarly  int
	gone    map[uint64]struct{} // communicators closed lately, and
	goneIDs []uint64            // their ids, the oldest first
	shared  map[any]any         // see Communicator.Shared
	closing bool
	stuck   atomic.Bool // a call did not end: its communicator's memory stays
	// failed says that a communicator ended in the middle of a call. What the transport
	// has to say of operations that nobody waited for is no news then.
	failed   atomic.Bool
	faultLog *os.File // nil: faults are not logged
}

// An earlyMessage came for a communicator that this rank has not made yet.
type earlyMessage struct {
	from int
	m    bootstrap.Message
}

const (
	// maxEarly bounds early messages: with more, the oldest are dropped. They are
	// for communicators that failed before this rank made them.
	maxEarly = 4096
	// maxGone bounds the closed communicators that are remembered, so that what
	// still comes for them is not taken for early.
	maxGone = 4096
)

// Kinds of control messages.
const (
	msgExchange uint8 = iota + 1 // part of an all-gather
	msgAgree                     // a notice about what ends the communicator
	msgAsk                       // where are you? Seq is the number of the inquiry, or 0
	msgAnswer                    // to msgAsk
	msgLeave                     // the sender has closed the communicator after Seq calls
	msgLeft                      // to msgLeave: the sender is in no call with you any more
	msgDetour                    // part of a message between engines
	msgAway                      // to msgAgree: the sender has no such communicator any more
	msgVote                      // the sender's part of call Seq is done
	msgCommit                    // everybody's is
)

func newWorld(ch bootstrap.Channel, inProcess bool, s settings) *world {
	t, faultLog, err := openTransport(ch, inProcess, s)
	return &world{
		ch: ch, transport: t, unopened: err, faultLog: faultLog, inProcess: inProcess, settings: s,
		logger: s.logger.With("rank", ch.Rank()),
		comms:  map[uint64]*Communicator{}, early: map[uint64][]earlyMessage{}, shared: map[any]any{}, gone: map[uint64]struct{}{},
	}
}

// keepsMemory says that memory must be there as long as a peer may write to it:
// where it is not mapped, peers have none of their own that would stay.
func (w *world) keepsMemory() bool { return w.transport != nil && w.transport.Limits().LateWrites }

// tidied takes what a transport says of a communicator that ended in the middle
// of a call.
func (w *world) tidied(err error) {
	w.failed.Store(true)
	if err != nil {
		w.logger.Debug("closed after a failure", "error", err)
	}
}

// HandleMessage implements [bootstrap.Handler].
func (w *world) HandleMessage(from int, m bootstrap.Message) {
	w.mu.Lock()
	c := w.comms[m.Comm]
	if _, gone := w.gone[m.Comm]; c == nil && !gone && (m.Kind == msgExchange || m.Kind == msgAgree) {
		w.keepEarly(from, m)
		w.mu.Unlock()
		return
	}
	w.mu.Unlock()
	switch {
	case c != nil:
		c.handle(from, m)
	case m.Kind == msgLeave:
		// Closed here before: there is nothing for which the peer must wait.
		_ = w.ch.Send(from, bootstrap.Message{Kind: msgLeft, Comm: m.Comm})
	case m.Kind == msgAgree:
		_ = w.ch.Send(from, bootstrap.Message{Kind: msgAway, Comm: m.Comm})
	default:
		closeFiles(m)
	}
}

// keepEarly keeps a message for later. w.mu is held.
func (w *world) keepEarly(from int, m bootstrap.Message) {
	if len(w.early[m.Comm]) == 0 {
		w.arrived = append(w.arrived, m.Comm)
	}
	w.early[m.Comm] = append(w.early[m.Comm], earlyMessage{from, m})
	for w.nEarly++; w.nEarly > maxEarly; {
		for _, e := range w.takeEarly(w.arrived[0]) {
			closeFiles(e.m)
		}
	}
}

// takeEarly returns what came early for a communicator, and forgets it. w.mu is
// held.
func (w *world) takeEarly(id uint64) []earlyMessage {
	early, ok := w.early[id]
	if !ok {
		return nil
	}
	delete(w.early, id)
	w.nEarly -= len(early)
	w.arrived = slices.DeleteFunc(w.arrived, func(other uint64) bool { return other == id })
	return early
}

// handle takes a control message for this communicator.
func (c *Communicator) handle(from int, m bootstrap.Message) {
	rank := slices.Index(c.members, from)
	if rank < 0 {
		closeFiles(m)
		return
	}
	switch m.Kind {
	case msgExchange:
		c.xchg.put(c, rank, m)
	case msgAgree:
		c.onAgree(rank, m.Data)
	case msgAway:
		c.exclude(rank)
	case msgVote:
		c.onVote(rank, m)
	case msgCommit:
		c.onCommit(rank, m.Seq)
	case msgAsk:
		c.onAsk(rank, m.Seq)
	case msgAnswer:
		c.onAnswer(rank, m)
	case msgLeave:
		c.onLeave(rank, m.Seq, m.Data)
	case msgLeft:
		c.heardCalls(rank, m.Data)
		c.onLeft(rank)
	case msgDetour:
		c.onDetour(rank, m)
	default:
		closeFiles(m)
	}
}

func closeFiles(m bootstrap.Message) {
	for _, f := range m.Files {
		f.Close()
	}
}

// register makes a communicator known and hands it what came early.
func (w *world) register(c *Communicator) {
	w.mu.Lock()
	w.comms[c.id] = c
	early := w.takeEarly(c.id)
	dead := slices.Clone(w.dead)
	w.mu.Unlock()
	for _, e := range early {
		c.handle(e.from, e.m)
	}
	c.mourn(dead)
}

func (w *world) unregister(c *Communicator) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.comms, c.id)
	w.gone[c.id] = struct{}{}
	if w.goneIDs = append(w.goneIDs, c.id); len(w.goneIDs) > maxGone {
		delete(w.gone, w.goneIDs[0])
		w.goneIDs = w.goneIDs[1:]
	}
}

// deathGrace is how long the ranks that die together are collected, so that
// the first to go is among those named.
const deathGrace = 30 * time.Millisecond

// HandleGone implements [bootstrap.Handler].
func (w *world) HandleGone(peer int, err error) {
	w.mu.Lock()
	closing := w.closing
	if err != nil {
		w.dead = append(w.dead, peer)
	}
	w.mu.Unlock()
	if closing {
		return
	}
	for _, c := range w.others(nil) {
		if r := slices.Index(c.members, peer); r >= 0 {
			c.onLeft(r) // nobody need wait for its answer any more
			c.exclude(r)
			if err == nil && !c.hasLeft(r) {
				// It left the job without having come to this communicator.
				c.propose(c.leftTooEarly(r, Call{}, 0))
			}
		}
	}
	if err != nil {
		w.logger.Warn("rank is gone", "peer", peer, "error", err)
		time.AfterFunc(deathGrace, w.mournAll)
	}
}

func (w *world) mournAll() {
	w.mu.Lock()
	dead := slices.Clone(w.dead)
	w.mu.Unlock()
	for _, c := range w.others(nil) {
		c.mourn(dead)
	}
}

// mourn ends the communicator if some of its ranks are among the dead, unless
// they had left it.
func (c *Communicator) mourn(dead []int) {
	var ranks []int
	for r, m := range c.members {
		if slices.Contains(dead, m) && !c.hasLeft(r) {
			ranks = append(ranks, r)
		}
	}
	if len(ranks) > 0 {
		c.propose(&AbortError{Origin: c.rank, Reason: ReasonDead, Ranks: ranks, cause: bootstrap.ErrGone})
	}
}

// close closes the control channel, and the transport with it.
func (w *world) close(ctx context.Context) error {
	w.mu.Lock()
	w.closing = true
	w.mu.Unlock()
	var err error
	if w.keepsMemory() { // until all have left
		err = w.ch.Close(ctx)
	}
	if w.transport != nil && !w.stuck.Load() {
		if terr := w.transport.Close(); w.failed.Load() {
			w.tidied(terr)
		} else {
			err = errors.Join(err, terr)
		}
	}
	if !w.keepsMemory() {
		err = errors.Join(err, w.ch.Close(ctx))
	}
	if w.faultLog != nil {
		err = errors.Join(err, w.faultLog.Close())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.arrived) > 0 {
		for _, e := range w.takeEarly(w.arrived[0]) {
			closeFiles(e.m)
		}
	}
	return err
}
