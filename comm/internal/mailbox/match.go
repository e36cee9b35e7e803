package mailbox

// An arrived message is one for which there is no receive yet.
type arrived struct {
	Status
	elem Elem
	data []byte // an eager message
	next *arrived

	// Of a message whose data is still with its sender: what the sender's envelope
	// said, and if that is this rank, its request.
	pending bool
	id      uint32
	send    *Request
}

func (a *arrived) link() **arrived { return &a.next }

// maxSpare bounds the arrived messages whose memory is kept for the next.
const maxSpare = 64

// newArrived returns an arrived message without data, in memory used before if
// there is some.
func (m *Mailbox) newArrived(s Status, e Elem) *arrived {
	var a *arrived
	if m.spares > 0 {
		a = m.spare.pop()
		m.spares--
		*a = arrived{data: a.data[:0]}
	} else {
		a = new(arrived)
	}
	a.Status, a.elem = s, e
	return a
}

func (m *Mailbox) recycle(a *arrived) {
	a.send = nil
	if m.spares < maxSpare {
		m.spare.push(a)
		m.spares++
	}
}

// takes says whether a receive may take a message.
func (r *Request) takes(s Status) bool {
	return (r.Peer == AnySource || r.Peer == s.Source) && (r.Tag == AnyTag || r.Tag == s.Tag)
}

// receiveFor takes the receive that was posted first of those that a message
// matches out of the posted ones.
func (m *Mailbox) receiveFor(s Status) *Request {
	return m.posted.take(func(r *Request) bool { return r.takes(s) })
}

// messageFor takes the message that arrived first of those that match a receive
// out of the arrived ones.
func (m *Mailbox) messageFor(r *Request) *arrived {
	return m.unexpected.take(func(a *arrived) bool { return r.takes(a.Status) })
}

// accept notes which message a receive got, and fails it if it can't take it.
func (m *Mailbox) accept(r *Request, s Status, e Elem) bool {
	r.Status = s
	if e == r.Elem && s.Bytes <= len(r.Buf) {
		return true
	}
	err := &MatchError{Status: s, Dest: m.rank, Sent: e, Want: r.Elem, Room: len(r.Buf), Err: ErrTruncated}
	if e != r.Elem {
		err.Err = ErrElem
	}
	m.finish(r, err)
	return false
}
