package mailbox

import (
	"fmt"

	"github.com/weft-go/weft/transport"
)

// A Network carries messages between this rank and each of the others, in order
// and without loss, a few at a time. Nothing of it blocks.
type Network interface {
	// TrySend sends a message, header and body, and says whether there was room for
	// it. It has read both when it returns.
	TrySend(peer int, head *[HeadBytes]byte, body []byte) (bool, error)
	// Poll returns the next message of a peer, header and body, if it is there. It is
	// valid until Release.
	Poll(peer int) (msg []byte, ok bool, err error)
	// Release makes room for as many messages of a peer as were polled.
	Release(peer int) error
}

// Config says what a mailbox works on.
type Config struct {
	Rank, Ranks int
	Net         Network
	// BodyBytes is the largest body of a message of the network. Messages up to this
	// length are sent eagerly.
	BodyBytes int
	// Done, if not nil, is called with each request when it is done. It must not
	// call the mailbox.
	Done func(*Request)
}

// A Mailbox is one rank's end of all messages of a communicator. It is for one
// goroutine at a time.
type Mailbox struct {
	net         Network
	rank        int
	bodyBytes   int
	onDone      func(*Request)
	outstanding int
	err         error // nothing goes on, because of this

	peers      []peer
	posted     list[Request, *Request]
	unexpected list[arrived, *arrived]
	spare      list[arrived, *arrived]
	spares     int
	sends      table  // offered to other ranks, or moving
	receives   table  // moving
	toItself   bool   // this rank has sent to itself
	sent       uint64 // messages of the network, to tell news
	head       [HeadBytes]byte
}

// peer is what goes on with one rank.
type peer struct {
	envelopes list[Request, *Request] // sends that have not been offered
	clearings list[Request, *Request] // receives whose sender is to be told
	transfers list[Request, *Request] // sends whose data is on the way
	segment   bool                    // the next message is a segment, if there is the choice
	gone      error                   // nothing goes to this rank or comes from it any more
}

// New returns the mailbox of a rank.
func New(cfg Config) (*Mailbox, error) {
	if cfg.Ranks < 1 || cfg.Rank < 0 || cfg.Rank >= cfg.Ranks || cfg.BodyBytes < 1 {
		return nil, fmt.Errorf("mailbox: rank %d of %d, messages of %d bytes: %w", cfg.Rank, cfg.Ranks, cfg.BodyBytes, transport.ErrBounds)
	}
	return &Mailbox{net: cfg.Net, rank: cfg.Rank, bodyBytes: cfg.BodyBytes, onDone: cfg.Done, peers: make([]peer, cfg.Ranks)}, nil
}

// Outstanding is the number of requests that are not done.
func (m *Mailbox) Outstanding() int { return m.outstanding }

// Send starts a send. It may be done at once, and fails only through r: the
// caller has checked destination, tag and buffer.
func (m *Mailbox) Send(r *Request) {
	m.outstanding++
	p := &m.peers[r.Peer]
	switch {
	case m.err != nil:
		m.finish(r, m.err)
	case r.Peer == m.rank:
		m.sendSelf(r)
	case p.gone != nil:
		m.finish(r, p.gone)
	default:
		r.state = queued
		if len(r.Buf) > m.bodyBytes {
			r.id = m.sends.add(r)
		}
		p.envelopes.push(r)
		if err := m.push(r.Peer); err != nil {
			m.Fail(err)
		}
	}
}

// sendSelf is Send to this rank.
func (m *Mailbox) sendSelf(r *Request) {
	m.toItself = true
	s := Status{Source: m.rank, Tag: r.Tag, Bytes: len(r.Buf)}
	if to := m.receiveFor(s); to != nil {
		if m.accept(to, s, r.Elem) {
			copy(to.Buf, r.Buf)
			m.finish(to, nil)
		}
		m.finish(r, nil)
		return
	}
	a := m.newArrived(s, r.Elem)
	m.unexpected.push(a)
	if len(r.Buf) <= m.bodyBytes {
		a.data = append(a.data, r.Buf...)
		m.finish(r, nil)
		return
	}
	a.pending, a.send = true, r
	r.state = offered
}

// Recv starts a receive. It may be done at once, and fails only through r: the
// caller has checked source and tag. A message that came before everything ended
// is still received.
func (m *Mailbox) Recv(r *Request) {
	m.outstanding++
	r.state = posted
	a := m.messageFor(r)
	if a == nil {
		if err := m.hopeless(r); err != nil {
			m.finish(r, err)
		} else {
			m.posted.push(r)
		}
		return
	}
	defer m.recycle(a)
	ok := m.accept(r, a.Status, a.elem)
	switch {
	case !a.pending:
		if ok {
			copy(r.Buf, a.data)
			m.finish(r, nil)
		}
	case a.send != nil: // to itself
		if ok {
			copy(r.Buf, a.send.Buf)
			m.finish(r, nil)
		}
		m.finish(a.send, nil)
	case ok:
		m.clear(r, a.Source, a.id)
	}
}

// clear has the sender of an envelope told that it may send.
func (m *Mailbox) clear(r *Request, source int, id uint32) {
	p := &m.peers[source]
	if err := m.err; err != nil || p.gone != nil {
		if err == nil {
			err = p.gone
		}
		m.finish(r, err)
		return
	}
	r.state, r.moved, r.theirs = matched, 0, id
	r.id = m.receives.add(r)
	p.clearings.push(r)
}

// hopeless returns an error if nobody is left who could send what a receive waits
// for. That this rank could is assumed only if it has done so before.
func (m *Mailbox) hopeless(r *Request) error {
	if m.err != nil {
		return m.err
	}
	if r.Peer != AnySource {
		return m.peers[r.Peer].gone
	}
	if m.toItself {
		return nil
	}
	var gone error
	for i := range m.peers {
		if i == m.rank {
			continue
		}
		if gone = m.peers[i].gone; gone == nil {
			return nil
		}
	}
	return gone // nil without peers
}

func (m *Mailbox) finish(r *Request, err error) {
	r.state, r.Err = done, err
	m.outstanding--
	if m.onDone != nil {
		m.onDone(r)
	}
}

// Messages per peer that a step handles at most, each way: a peer that is fast
// does not keep it from the others.
const stepMessages = 16

// Step takes what has arrived and sends what there is room for. It says whether
// it did anything: without news it need not be called again.
func (m *Mailbox) Step() (news bool, err error) {
	if m.err != nil {
		return false, m.err
	}
	for p := range m.peers {
		if p == m.rank || m.peers[p].gone != nil {
			continue
		}
		for range stepMessages {
			got, err := m.pull(p)
			if err == nil && got {
				news = true
				err = m.net.Release(p)
			}
			if err != nil {
				return news, err
			}
			if !got {
				break
			}
		}
	}
	before := m.sent
	for p := range m.peers {
		if err := m.push(p); err != nil {
			return news, err
		}
	}
	news = news || m.sent != before
	return news, nil
}

// pull takes the next message of a peer, if it is there.
func (m *Mailbox) pull(from int) (bool, error) {
	msg, ok, err := m.net.Poll(from)
	if err != nil || !ok {
		return false, err
	}
	h, body, err := parse(msg)
	if err == nil {
		err = m.handle(from, h, body)
	}
	if err != nil {
		return false, fmt.Errorf("mailbox: from rank %d: %w", from, err)
	}
	return true, nil
}

func (m *Mailbox) handle(from int, h head, body []byte) error {
	switch h.kind {
	case eager, envelope:
		s := Status{Source: from, Tag: int(h.tag), Bytes: h.bytes}
		r := m.receiveFor(s)
		switch {
		case r == nil:
			a := m.newArrived(s, h.elem)
			a.pending, a.id = h.kind == envelope, h.id
			a.data = append(a.data, body...)
			m.unexpected.push(a)
		case !m.accept(r, s, h.elem):
		case h.kind == eager:
			copy(r.Buf, body)
			m.finish(r, nil)
		default:
			m.clear(r, from, h.id)
		}
	case clearing:
		r := m.sends.get(h.id)
		if r == nil || r.Peer != from || r.state != offered {
			return fmt.Errorf("asks for message %d, which was not offered", h.id)
		}
		r.state, r.moved, r.theirs = moving, 0, h.answer
		m.peers[from].transfers.push(r)
	case data:
		r := m.receives.get(h.id)
		if r == nil || r.Status.Source != from || r.state != cleared || len(body) > r.Status.Bytes-r.moved {
			return fmt.Errorf("%d bytes of message %d, which was not asked for", len(body), h.id)
		}
		r.moved += copy(r.Buf[r.moved:], body)
		if r.moved == r.Status.Bytes {
			m.receives.drop(r.id)
			m.finish(r, nil)
		}
	}
	return nil
}

// push sends a peer what there is to send, as far as there is room.
func (m *Mailbox) push(to int) error {
	p := &m.peers[to]
	for range stepMessages {
		var ok bool
		var err error
		switch {
		case !p.clearings.empty():
			ok, err = m.pushClearing(to, p)
		case !p.transfers.empty() && (p.segment || p.envelopes.empty()):
			ok, err = m.pushSegment(to, p)
		case !p.envelopes.empty():
			ok, err = m.pushEnvelope(to, p)
		}
		if err != nil || !ok {
			return err
		}
		m.sent++
	}
	return nil
}

func (m *Mailbox) trySend(to int, h head, body []byte) (bool, error) {
	h.put(&m.head)
	return m.net.TrySend(to, &m.head, body)
}

func (m *Mailbox) pushClearing(to int, p *peer) (bool, error) {
	r := p.clearings.head
	ok, err := m.trySend(to, head{kind: clearing, id: r.theirs, answer: r.id}, nil)
	if ok {
		p.clearings.pop()
		r.state = cleared
	}
	return ok, err
}

func (m *Mailbox) pushEnvelope(to int, p *peer) (bool, error) {
	r := p.envelopes.head
	h := head{kind: eager, elem: r.Elem, tag: uint32(r.Tag), bytes: len(r.Buf)}
	body := r.Buf
	if len(r.Buf) > m.bodyBytes {
		h.kind, h.id, body = envelope, r.id, nil
	}
	ok, err := m.trySend(to, h, body)
	if !ok {
		return false, err
	}
	p.envelopes.pop()
	p.segment = true
	if h.kind == eager {
		m.finish(r, nil)
	} else {
		r.state = offered
	}
	return true, nil
}

func (m *Mailbox) pushSegment(to int, p *peer) (bool, error) {
	r := p.transfers.head
	end := min(len(r.Buf), r.moved+m.bodyBytes)
	ok, err := m.trySend(to, head{kind: data, id: r.theirs}, r.Buf[r.moved:end])
	if !ok {
		return false, err
	}
	p.transfers.pop()
	p.segment = false
	if r.moved = end; end < len(r.Buf) {
		p.transfers.push(r) // behind the others
		return true, nil
	}
	m.sends.drop(r.id)
	m.finish(r, nil)
	return true, nil
}
