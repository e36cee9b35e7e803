package progress

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weft-go/weft/transport"
)

// MailHead is the length of the header of a mail message.
const MailHead = 24

const (
	// mailTag is the word before the header: epoch and length.
	mailTag    = 8
	mailPrefix = mailTag + MailHead
)

// Mail is the second set of lanes of an engine, for messages whose time and
// length their receiver does not know. It never blocks. It is for one goroutine at a
// time, and may be used while the engine is in a call. To wait for news there is
// [MailWatch].
type Mail struct {
	port
	e     *Engine
	lanes lanes

	out []mailOut
	in  []mailIn

	kicks atomic.Uint64
}

// mailOut is the sending end of the mail lane to one peer.
type mailOut struct {
	next   uint64 // epoch of the next message
	credit uint64 // epochs that the peer has finished, as last seen
	full   bool   // the last TrySend found no free cell
}

// mailIn is the receiving end of the mail lane from one peer.
type mailIn struct {
	next     uint64   // epoch of the next message
	released uint64   // epochs credited to the peer
	targets  []uint64 // of each cell's counter, once the messages up to next are there
	seen     uint64   // counter of next's cell when Poll last looked
}

func newMail(e *Engine) (*Mail, error) {
	n := e.layout.Ranks
	m := &Mail{
		port: port{t: e.t, rank: e.rank, stage: make([]byte, stageBytes), wait: e.newWaiter()},
		e:    e, lanes: e.layout.mail(),
		out: make([]mailOut, n), in: make([]mailIn, n),
	}
	for i := range m.in {
		m.in[i].targets = make([]uint64, m.lanes.cells)
	}
	m.wait.ctx = context.Background()
	m.wait.timeout = phaseTimeout
	var err error
	m.phase, err = e.t.NewCompletion(1)
	return m, err
}

// phaseTimeout bounds how long the operations of one message take: they end in
// bounded time, so this is only for transports that don't keep their word.
const phaseTimeout = time.Minute

// MailBytes is the largest body of one message.
func (m *Mail) MailBytes() int { return m.e.layout.MailBytes() }

// TrySend sends a message, header and body, to a peer, and says whether there
// was a free cell for it. The body, at most MailBytes, has been read when it
// returns.
func (m *Mail) TrySend(peer int, head *[MailHead]byte, body []byte) (bool, error) {
	if err := m.e.checkLane(peer, len(body), m.MailBytes()); err != nil {
		return false, err
	}
	lane := &m.out[peer]
	cells := uint64(m.lanes.cells)
	if lane.next >= lane.credit+cells {
		credit := m.e.mem.Load(m.lanes.credit(peer))
		if credit > lane.next {
			return false, fmt.Errorf("progress: rank %d released %d mail messages of the %d sent", peer, credit, lane.next)
		}
		lane.credit = credit
	}
	if lane.full = lane.next >= lane.credit+cells; lane.full {
		return false, nil
	}
	cell := int(lane.next % cells)
	binary.NativeEndian.PutUint64(m.stage, mailTagOf(lane.next, MailHead+len(body)))
	copy(m.stage[mailTag:], head[:])
	at := transport.Handle{ID: m.e.peers[peer].ID(), Offset: m.lanes.slot(m.rank, cell)}
	m.wait.deadline = time.Time{}
	if err := m.put(peer, at, m.lanes.counter(m.rank, cell), mailPrefix, body, lane.next); err != nil {
		return false, err
	}
	lane.next++
	return true, nil
}

// mailTagOf is the first word of the message of an epoch, n bytes with its
// header. Epochs count from 1 here, so that no message is like the zeros of a new
// slot.
func mailTagOf(epoch uint64, n int) uint64 { return uint64(uint32(epoch+1))<<32 | uint64(uint32(n)) }

// Poll returns the next message of a peer, header and body, if it is there. It
// is in place, valid until Release.
//
// The message is there when the slot's first word names its epoch, and the
// counter has grown by the length in that word since the cell's last message.
// Neither is enough: pieces of a message land in any order, and a counter never
// exceeds the bytes that have landed. The word is one of 8 aligned bytes, which are
// never seen in part.
func (m *Mail) Poll(peer int) (msg []byte, ok bool, err error) {
	if err := m.e.checkLane(peer, 0, 0); err != nil {
		return nil, false, err
	}
	lane := &m.in[peer]
	cells := uint64(m.lanes.cells)
	if lane.next == lane.released+cells {
		return nil, false, nil // all cells are in use here, whatever the counter says
	}
	cell := int(lane.next % cells)
	got := m.e.mem.Load(m.lanes.counter(peer, cell))
	before := lane.targets[cell]
	if lane.seen = got; got == before {
		return nil, false, nil
	}
	m.t.Fence(transport.FenceAcquire)
	slot := m.lanes.slot(peer, cell)
	tag := m.e.mem.Load(slot)
	n := tag & (1<<32 - 1)
	known := tag>>32 == mailTagOf(lane.next, 0)>>32
	arrived := got - before
	if arrived > uint64(m.lanes.slotBytes) || known && (n < MailHead || n > uint64(m.lanes.slotBytes-mailTag) || arrived > uint64(roundUp(mailTag+int(n)))) {
		return nil, false, fmt.Errorf("progress: %d bytes counted in a mail cell from rank %d, of a message of %d", arrived, peer, n)
	}
	if !known || arrived != uint64(roundUp(mailTag+int(n))) {
		return nil, false, nil
	}
	lane.targets[cell] = got
	lane.next++
	lane.seen = lane.targets[lane.next%cells]
	return m.e.mem.Bytes()[slot+mailTag : slot+mailTag+n : slot+mailTag+n], true, nil
}

// Release gives back the cells of all messages polled from a peer. They must not
// be touched any more.
func (m *Mail) Release(peer int) error {
	if err := m.e.checkLane(peer, 0, 0); err != nil {
		return err
	}
	lane := &m.in[peer]
	if lane.released == lane.next {
		return nil
	}
	at := transport.Handle{ID: m.e.peers[peer].ID(), Offset: m.lanes.credit(m.rank)}
	m.wait.deadline = time.Time{}
	if err := m.raise(peer, at, lane.next); err != nil {
		return err
	}
	lane.released = lane.next
	return nil
}

// Kick is news for all that wait for some. It is for any goroutine.
func (m *Mail) Kick() {
	m.kicks.Add(1)
	m.wait.bell.Ring()
}

// A MailWatch is what one goroutine needs to wait for news. Several may wait at
// once.
type MailWatch struct {
	m     *Mail
	wait  waiter
	words []word // that Wait waits for
}

// NewWatch returns a watch. It is for any goroutine.
func (m *Mail) NewWatch() *MailWatch { return &MailWatch{m: m, wait: m.e.newWaiter()} }

// Begin says how the waits that follow end: with ctx, and after timeout (0:
// never), counted from the first that is not short. Waits in the background take
// no processor from others.
func (w *MailWatch) Begin(ctx context.Context, timeout time.Duration, background bool) {
	w.wait.ctx, w.wait.timeout, w.wait.deadline, w.wait.unhurried = ctx, timeout, time.Time{}, background
}

// Watch has the next Wait end when there is news from now on: when more arrives of
// some peer's message than its last Poll found, a cell is free again of a peer for
// which TrySend found none, or someone kicks. It uses the Mail, which is for one
// goroutine at a time.
func (w *MailWatch) Watch() {
	m := w.m
	words := append(w.words[:0], word{own: &m.kicks, want: m.kicks.Load() + 1})
	cells := uint64(m.lanes.cells)
	for p := range m.in {
		if p == m.rank {
			continue
		}
		in, out := &m.in[p], &m.out[p]
		if in.next < in.released+cells {
			words = append(words, word{offset: m.lanes.counter(p, int(in.next%cells)), want: in.seen + 1})
		}
		if out.full {
			credit := word{offset: m.lanes.credit(p), want: out.next - cells + 1}
			words = append(words, credit)
			// It is news once, even if nobody uses the cell.
			out.full = m.e.mem.Load(credit.offset) < credit.want
		}
	}
	w.words = words
}

// Wait waits for news, see Watch. What ends it otherwise is an error: [WaitError]
// with the given peer, or that of Stop. It does not use the Mail.
func (w *MailWatch) Wait(peer int) error {
	_, err := w.wait.any(w.words, peer)
	return err
}
