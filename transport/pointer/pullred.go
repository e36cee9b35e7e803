package pointer

import (
	"fmt"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/internal/elementwise"
)

// PullRed implements [transport.Transport]. It is faster if dst is aligned to
// the element size.
func (t *Transport) PullRed(c transport.Completion, dst []byte, src transport.Handle, op transport.RedOp, typ kernels.Type) error {
	if !transport.PullRedSupports(op, typ) {
		return fmt.Errorf("pointer: pullred %v on %v: %w", op, typ, transport.ErrUnsupported)
	}
	e, err := t.access(c, src, len(dst), multicast, counter{}, len(dst))
	if err != nil {
		return err
	}
	var few [16][]byte
	srcs := few[:0]
	for i := range e.replicas {
		srcs = append(srcs, e.replicas[i].data[src.Offset:src.Offset+uint64(len(dst))])
	}
	return elementwise.PullRed(dst, srcs, op, typ)
}
