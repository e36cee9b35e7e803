package comm

import (
	"context"
	"errors"
	"fmt"

	"github.com/weft-go/weft/comm/internal/mailbox"
	"github.com/weft-go/weft/transport/progress"
)

const (
	// AnySource is the source of a receive that takes a message of any rank.
	AnySource = mailbox.AnySource
	// AnyTag is the tag of a receive that takes a message with any tag.
	AnyTag = mailbox.AnyTag
	// MaxTag is the largest tag of a message.
	MaxTag = mailbox.MaxTag
)

// ErrTruncated: a message is longer than the buffer of the receive that matches
// it. On the receiving rank it is behind the [ErrMismatch] of both ranks.
var ErrTruncated = mailbox.ErrTruncated

// A MessageStatus says which message a receive took.
type MessageStatus = mailbox.Status

// A Message is a send or a receive that was started. For those who write calls.
type Message struct {
	q    *messages
	call Call
	req  mailbox.Request

	// Guarded by q.mu until ended is true.
	ended   bool
	err     error
	done    chan struct{} // closed when ended; nil if only its starter waits
	forget  func() bool   // takes the message off its context
	errored error         // why it ends, before the others have been told
}

// Done is closed when the message has ended: a send when its buffer is free
// again, a receive when the message is there.
func (m *Message) Done() <-chan struct{} { return m.done }

// Err is nil until the message has ended, and then its error or nil.
func (m *Message) Err() error {
	select {
	case <-m.done:
		return m.err
	default:
		return nil
	}
}

// Status is which message a receive took, once it has ended well.
func (m *Message) Status() MessageStatus {
	select {
	case <-m.done:
		return m.req.Status
	default:
		return MessageStatus{}
	}
}

// Wait waits until the message has ended, and returns its error, or until ctx is
// done, and returns that of ctx. A wait that lasts longer than the communicator's
// timeout ends the communicator.
func (m *Message) Wait(ctx context.Context) error {
	select {
	case <-m.done:
		return m.err
	default:
	}
	if err := m.q.await(ctx, false, m, nil); err != nil {
		return err
	}
	return m.err
}

// StartMessage starts an OpSend or OpRecv of buf, which then belongs to the
// message until it has ended. The arguments have been checked. The message ends
// with ctx.
func (c *Communicator) StartMessage(ctx context.Context, call Call, buf []byte) (*Message, error) {
	if err := c.checkBegin(ctx, call); err != nil {
		return nil, err
	}
	m := &Message{done: make(chan struct{})}
	if err := c.messages.start(ctx, m, call, buf); err != nil {
		return nil, err
	}
	return m, nil
}

// RunMessage makes an OpSend or OpRecv and blocks until it has ended. The
// arguments have been checked. It allocates nothing if called before.
func (c *Communicator) RunMessage(ctx context.Context, call Call, buf []byte) (MessageStatus, error) {
	if err := c.checkBegin(ctx, call); err != nil {
		return MessageStatus{}, err
	}
	q := c.messages
	m := q.take()
	if err := q.start(ctx, m, call, buf); err != nil {
		q.give(m)
		return MessageStatus{}, err
	}
	return q.run(ctx, m)
}

// RunMessages makes an OpSend of src and an OpRecv of dst at the same time, and
// blocks until both have ended.
func (c *Communicator) RunMessages(ctx context.Context, send Call, src []byte, recv Call, dst []byte) (MessageStatus, error) {
	if err := c.checkBegin(ctx, recv); err != nil {
		return MessageStatus{}, err
	}
	q := c.messages
	r, s := q.take(), q.take()
	if err := q.start(ctx, r, recv, dst); err != nil {
		q.give(r)
		q.give(s)
		return MessageStatus{}, err
	}
	err := q.start(ctx, s, send, src)
	if err == nil {
		_ = q.await(ctx, true, s, r)
		err = s.err
	}
	q.give(s)
	status, failed := q.run(ctx, r)
	if failed != nil {
		err = failed
	}
	return status, q.late(ctx, err)
}

// A departed error says that a message needs a rank that has closed the
// communicator.
type departed struct{ rank int }

func (d *departed) Error() string { return fmt.Sprintf("rank %d has closed the communicator", d.rank) }

// failMessage turns what ended a message into what its caller gets, and ends the
// communicator.
func (c *Communicator) failMessage(call Call, err error) error {
	stopped := c.stop.Err()
	if stopped == nil {
		e := &AbortError{Origin: c.rank, Reason: ReasonFailed, Call: call.String(), Detail: "in " + call.String(), cause: err}
		var wait *progress.WaitError
		var match *mailbox.MatchError
		var left *departed
		switch {
		case call.Collective == 0: // it came of no message of this rank
			e.Call, e.Detail = "", err.Error()
		case errors.As(err, &wait) && errors.Is(wait.Err, context.Canceled):
			e.Reason, e.cause = ReasonCanceled, wait.Err
		case errors.As(err, &wait):
			e.Reason, e.cause = ReasonTimeout, wait.Err
			var why string
			if e.Ranks, why = c.suspects(0, wait.Peer); why != "" {
				e.Detail += ": " + why
			}
		case errors.As(err, &match):
			e.Reason, e.Ranks = ReasonMismatch, sorted(match.Source, c.rank)
			e.Detail = match.Error()
		case errors.As(err, &left):
			e.Reason, e.Ranks, e.cause = ReasonClosed, []int{left.rank}, nil
		default:
			e.Detail += ": " + err.Error()
		}
		stopped = c.abort(e)
	}
	if call.Collective != 0 {
		c.told.Store(true)
	}
	return &OpError{Call: call, Rank: c.rank, Err: stopped}
}
