package collectives

import (
	"context"

	"github.com/weft-go/weft/comm"
)

// SendRecv receives a message into dst from source with recvTag, as [Recv] does,
// and at the same time sends src to dest with sendTag, as [Send] does, so that ranks
// which exchange messages, in pairs or round a ring, don't wait for each other. It
// blocks until both are done. dst and src must not overlap. Errors: [ErrOverlap],
// and those of Send and Recv.
func SendRecv[T any](ctx context.Context, c *comm.Communicator, dst []T, source, recvTag int, src []T, dest, sendTag int) (Status, error) {
	e := elementOf[T]()
	r, s := recvOf(c, e, bytesOf(dst), source, recvTag), sendOf(c, e, bytesOf(src), dest, sendTag)
	if r.err == nil && !apart(r.buf, s.buf) {
		r.err = ErrOverlap
	}
	if r.err != nil {
		return Status{}, refuse(c, r.call, r.err)
	}
	if s.err != nil {
		return Status{}, refuse(c, s.call, s.err)
	}
	status, err := c.RunMessages(ctx, s.call, s.buf, r.call, r.buf)
	if err != nil {
		return Status{}, err
	}
	return e.status(status), nil
}
