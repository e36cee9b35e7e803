package collectives

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/weft-go/weft/comm"
)

const (
	// AnySource is the source of a receive that takes a message of any rank.
	AnySource = comm.AnySource
	// AnyTag is the tag of a receive that takes a message with any tag.
	AnyTag = comm.AnyTag
	// MaxTag is the largest tag of a message.
	MaxTag = comm.MaxTag
)

var (
	// ErrPeer: the destination or source of a message is not a rank.
	ErrPeer = errors.New("no such rank")
	// ErrTag: the tag of a message is negative, or larger than [MaxTag].
	ErrTag = errors.New("tag out of range")
	// ErrTruncated: a message is longer than the buffer of the receive that matches
	// it. On the rank that receives it comes with [comm.ErrMismatch], which the
	// others get.
	ErrTruncated = comm.ErrTruncated
)

// A Status says which message a receive took.
type Status struct {
	Source int // the rank that sent it
	Tag    int
	Count  int // elements
}

func (e element) status(s comm.MessageStatus) Status {
	return Status{Source: s.Source, Tag: s.Tag, Count: s.Bytes / max(e.size, 1)}
}

// A message is a send or a receive with its arguments, looked at but not begun.
type message struct {
	c    *comm.Communicator
	call comm.Call
	e    element
	buf  []byte
	err  error // why it is refused
}

func sendOf(c *comm.Communicator, e element, buf []byte, dest, tag int) message {
	m := messageOf(c, comm.OpSend, e, buf, dest, tag)
	m.err = first(checkCommunicator(c), e.err, checkSize(e))
	if m.err == nil {
		m.err = first(checkPeer(c, "destination", dest), checkTag(tag))
	}
	return m
}

func recvOf(c *comm.Communicator, e element, buf []byte, source, tag int) message {
	m := messageOf(c, comm.OpRecv, e, buf, source, tag)
	m.err = first(checkCommunicator(c), e.err, checkSize(e))
	if m.err == nil && source != AnySource {
		m.err = checkPeer(c, "source", source)
	}
	if m.err == nil && tag != AnyTag {
		m.err = checkTag(tag)
	}
	return m
}

func messageOf(c *comm.Communicator, kind comm.Collective, e element, buf []byte, peer, tag int) message {
	call := e.call(kind, e.count(buf))
	call.Root, call.Tag = peer, tag
	return message{c: c, call: call, e: e, buf: buf}
}

// checkSize refuses elements whose size an envelope can't say.
func checkSize(e element) error {
	if e.size > math.MaxInt32 {
		return fmt.Errorf("%w: %d bytes each", ErrType, e.size)
	}
	return nil
}

func checkPeer(c *comm.Communicator, what string, rank int) error {
	if rank < 0 || rank >= c.Size() {
		return fmt.Errorf("%w: %s %d of %d ranks", ErrPeer, what, rank, c.Size())
	}
	return nil
}

func checkTag(tag int) error {
	if tag < 0 || tag > MaxTag {
		return fmt.Errorf("%w: %d", ErrTag, tag)
	}
	return nil
}

// run is the blocking form.
func (m *message) run(ctx context.Context) (Status, error) {
	if m.err != nil {
		return Status{}, refuse(m.c, m.call, m.err)
	}
	s, err := m.c.RunMessage(ctx, m.call, m.buf)
	if err != nil {
		return Status{}, err
	}
	return m.e.status(s), nil
}

// start is the started form.
func (m *message) start(ctx context.Context) *Request {
	r := &Request{e: m.e}
	err := m.err
	if err != nil {
		err = refuse(m.c, m.call, err)
	} else {
		r.message, err = m.c.StartMessage(ctx, m.call, m.buf)
	}
	if err != nil {
		r.done, r.err = make(chan struct{}), err
		close(r.done)
	}
	return r
}
