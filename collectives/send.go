package collectives

import (
	"context"

	"github.com/weft-go/weft/comm"
)

// Send sends buf to rank dest with a tag from 0 to [MaxTag]. It blocks until buf
// may be used again: for a short message (up to some KiB, see
// [comm.Communicator.Lanes]) that can be before the receiver has called [Recv], for a
// longer one it is not before. A message of no elements is one. Messages from one
// rank to another are received in the order in which their sends began, as far as a
// receive matches several.
//
// Any number of goroutines may send and receive at once, and while a collective
// runs. dest may be this rank; a long message needs a receive that was started then.
// Errors: [ErrPeer], [ErrTag], [ErrType], and those of the package.
func Send[T any](ctx context.Context, c *comm.Communicator, buf []T, dest, tag int) error {
	m := sendOf(c, elementOf[T](), bytesOf(buf), dest, tag)
	_, err := m.run(ctx)
	return err
}

// StartSend starts a [Send] and does not block. The request is done when buf may
// be used again.
func StartSend[T any](ctx context.Context, c *comm.Communicator, buf []T, dest, tag int) *Request {
	m := sendOf(c, elementOf[T](), bytesOf(buf), dest, tag)
	return m.start(ctx)
}

// AddSend adds a [Send] to a group.
func AddSend[T any](g *GroupCalls, buf []T, dest, tag int) {
	g.addMessage(sendOf(g.comm(), elementOf[T](), bytesOf(buf), dest, tag))
}
