package collectives

import (
	"context"

	"github.com/weft-go/weft/comm"
)

// Recv receives a message from rank source, or [AnySource], with a tag, or
// [AnyTag], into buf, and says which it was. It blocks until the message is there. Of
// the messages that match it takes the one that came first. buf may be longer than
// the message, and is not written beyond it. A message that is longer than buf is
// [ErrTruncated], one of other elements [comm.ErrMismatch]; either ends the
// communicator.
//
// What a rank sent before it closed the communicator, or died, can be received
// afterwards, as far as it was sent whole. A receive that only such ranks could
// serve fails; of one from AnySource that is assumed when all others have closed and
// this rank has not sent to itself. Errors: [ErrPeer], [ErrTag], [ErrType],
// and those of the package.
func Recv[T any](ctx context.Context, c *comm.Communicator, buf []T, source, tag int) (Status, error) {
	m := recvOf(c, elementOf[T](), bytesOf(buf), source, tag)
	return m.run(ctx)
}

// StartRecv starts a [Recv] and does not block. [Request.Status] has what was
// received. It has no deadline of its own but that of ctx: only a wait for it is
// bounded by the communicator's timeout.
func StartRecv[T any](ctx context.Context, c *comm.Communicator, buf []T, source, tag int) *Request {
	m := recvOf(c, elementOf[T](), bytesOf(buf), source, tag)
	return m.start(ctx)
}

// AddRecv adds a [Recv] to a group. The group does not say which message it took.
func AddRecv[T any](g *GroupCalls, buf []T, source, tag int) {
	g.addMessage(recvOf(g.comm(), elementOf[T](), bytesOf(buf), source, tag))
}
