package progress

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/progress/lane"
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
	outEnd
	full uint64 // credit without which the last TrySend could not send; 0: it could
}

// mailIn is the receiving end of the mail lane from one peer.
type mailIn struct {
	inEnd
	credit lane.Word // at the peer: epochs released
	freed  uint64    // its last value
	seen   uint64    // counter of the next message's primary when Poll last looked
	// arrived is how many messages had come by detour then; 0 if it was not for the
	// next message that Poll looked.
	arrived uint64
}

func newMail(e *Engine, l lanes) (*Mail, error) {
	n := e.layout.Ranks
	m := &Mail{
		e: e, lanes: l,
		out: make([]mailOut, n), in: make([]mailIn, n),
	}
	var err error
	if m.port, err = newPort(&e.cfg, &e.space, e.roads, e.newWaiter()); err != nil {
		return nil, err
	}
	m.isMail = true
	e.mailArrived = make([]arrivals, n)
	for i := range m.in {
		m.out[i].outEnd = e.newOut(i, &m.lanes, &e.mailArrived[i])
		m.in[i].inEnd = newIn(&m.lanes)
	}
	m.wait.ctx = context.Background()
	m.wait.timeout = phaseTimeout
	return m, nil
}

// headers is the number of cells that a message may be in by header.
func (in *mailIn) headers(faulty bool) int {
	if !faulty {
		return 0
	}
	return in.Headers()
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
	out := &m.out[peer]
	step, err := m.begin(out, mailBytes(MailHead+len(body)))
	if err != nil || step.Do == lane.WaitCredit {
		return false, err
	}
	binary.NativeEndian.PutUint64(m.stage, mailTagOf(step.Epoch, MailHead+len(body)))
	copy(m.stage[mailTag:], head[:])
	m.wait.deadline = time.Time{}
	if err := m.send(&out.outEnd, step, mailPrefix, body); err != nil {
		return false, err
	}
	return true, nil
}

// begin begins a message if there is credit for it.
func (m *Mail) begin(out *mailOut, length uint64) (lane.Step, error) {
	step, err := m.open(&out.outEnd, length)
	if err == nil && step.Do == lane.WaitCredit {
		if err = m.look(&out.outEnd); err == nil {
			step, err = m.open(&out.outEnd, length)
		}
	}
	out.full = 0
	if step.Do == lane.WaitCredit {
		out.full = step.Epoch + 1
	}
	return step, err
}

// mailBytes is what a message of n bytes, header included, takes of a cell.
func mailBytes(n int) uint64 { return uint64(roundUp(mailTag + n)) }

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
	in := &m.in[peer]
	if in.Next() == in.freed+uint64(m.lanes.primaries) {
		return nil, false, nil // all cells are in use here, whatever the counter says
	}
	at := in.Primary()
	got := m.mem.load(m.lanes.counter(peer, at))
	in.seen = got
	// The counter is below its base where messages of this cell came by header.
	if base := in.Base(); got > base {
		arrived := got - base
		m.t.Fence(transport.FenceAcquire)
		p := in.places.Turn(in.Turn())
		n, known := m.tagged(peer, p)
		if arrived > uint64(m.lanes.slotBytes) || known && (n < MailHead || mailBytes(n) > p.Room || arrived > mailBytes(n)) {
			return nil, false, fmt.Errorf("progress: %d bytes counted in a mail cell from rank %d, of a message of %d", arrived, peer, n)
		}
		if known && arrived == mailBytes(n) {
			return m.take(peer, at, p, lane.Counted, n), true, nil
		}
	}
	for i := range in.headers(m.faulty) {
		at := in.Header(i)
		length, ok := in.Named(m.mem.load(m.lanes.header(peer, at)))
		if !ok {
			continue
		}
		m.t.Fence(transport.FenceAcquire)
		p := in.places.Turn(in.Turn())
		if at != in.Primary() {
			if p, ok = in.places.Next(in.Next(), length); !ok {
				return nil, false, fmt.Errorf("progress: mail from rank %d in a cell without a slot: %w", peer, transport.ErrBounds)
			}
		}
		n, known := m.tagged(peer, p)
		if !known || n < MailHead || mailBytes(n) > p.Room || mailBytes(n) != length {
			return nil, false, fmt.Errorf("progress: a header of %d bytes from rank %d, of a message of %d", length, peer, n)
		}
		m.stats[peer].ByHeader++
		return m.take(peer, at, p, lane.Header, n), true, nil
	}
	if m.detour != nil {
		in.arrived = m.e.mailArrived[peer].count.Load()
		if d, ok := m.e.mailArrived[peer].take(in.Next()); ok {
			if len(d.data) < mailPrefix || !in.MayBeIn(d.cell) {
				return nil, false, fmt.Errorf("from rank %d: %w: mail of %d bytes, cell %d", peer, ErrDetour, len(d.data), d.cell)
			}
			length := mailBytes(len(d.data) - mailTag)
			if d.cell != lane.NoCell {
				in.places.Take(in.Next(), length, d.cell != in.Primary())
			}
			in.Take(d.cell, lane.None, length)
			in.seen, in.arrived = in.Base(), 0
			return d.data[mailTag:], true, nil
		}
	}
	return nil, false, nil
}

// tagged is the length that a slot's first word says, and whether it names the
// next message.
func (m *Mail) tagged(peer int, at lane.Span) (n int, known bool) {
	tag := m.mem.load(m.lanes.slot(peer, at))
	return int(tag & (1<<32 - 1)), tag>>32 == mailTagOf(m.in[peer].Next(), 0)>>32
}

// take takes the next message, of n bytes.
func (m *Mail) take(peer int, cell int, at lane.Span, by lane.Path, n int) []byte {
	in := &m.in[peer]
	in.places.Take(in.Next(), mailBytes(n), cell != in.Primary())
	in.Take(cell, by, mailBytes(n))
	if m.faulty {
		m.wait.deadline = time.Time{}
		m.renew(m.e, &in.inEnd, peer)
	}
	in.seen, in.arrived = in.Base(), 0
	slot := m.lanes.slot(peer, at) + mailTag
	return m.mem.at(slot, uint64(n))
}

// Release gives back the cells of all messages polled from a peer. They must not
// be touched any more.
func (m *Mail) Release(peer int) error {
	if err := m.e.checkLane(peer, 0, 0); err != nil {
		return err
	}
	in := &m.in[peer]
	if in.freed == in.Next() {
		return nil
	}
	m.wait.deadline = time.Time{}
	if err := m.raise(&in.credit, peer, m.lanes.credit(m.rank), in.Next()); err != nil {
		return err
	}
	in.freed = in.Next()
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
	for p := range m.in {
		if p == m.rank {
			continue
		}
		in, out := &m.in[p], &m.out[p]
		if in.Next() < in.freed+uint64(m.lanes.primaries) {
			words = append(words, word{offset: m.lanes.counter(p, in.Primary()), want: in.seen + 1})
			for i := range in.headers(m.faulty) {
				words = append(words, word{offset: m.lanes.header(p, in.Header(i)), want: in.Wanted(), header: true})
			}
			if m.detour != nil {
				words = append(words, word{own: &m.e.mailArrived[p].count, want: in.arrived + 1})
			}
		}
		if out.full > 0 {
			words = append(words, word{offset: out.credit, want: out.full})
			if m.detour != nil {
				words = append(words, word{own: out.credits, want: out.full})
			}
			// It is news once, even if nobody uses the cell.
			if max(m.mem.load(out.credit), out.credits.Load()) >= out.full {
				out.full = 0
			}
		}
	}
	w.words = words
}

// Wait waits for news, see Watch. What ends it otherwise is an error: [WaitError]
// with the given peer, or that of Stop. It does not use the Mail.
func (w *MailWatch) Wait(peer int) error {
	_, _, err := w.wait.any(w.words, peer)
	return err
}
