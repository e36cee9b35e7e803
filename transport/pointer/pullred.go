package pointer

import (
	"fmt"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
)

// PullRed implements [transport.Transport]. dst is aligned to the element size.
func (t *Transport) PullRed(c transport.Completion, dst []byte, src transport.Handle, op transport.RedOp, typ kernels.Type) error {
	if !transport.PullRedSupports(op, typ) {
		return fmt.Errorf("pointer: pullred %v on %v: %w", op, typ, transport.ErrUnsupported)
	}
	e, err := t.access(c, src, len(dst), multicast, len(dst))
	if err != nil {
		return err
	}
	if op == transport.RedAnd || op == transport.RedOr || op == transport.RedXor {
		copy(dst, e.replicas[0].data[src.Offset:])
		for i := range e.replicas[1:] {
			from := e.replicas[1+i].data[src.Offset : src.Offset+uint64(len(dst))]
			for j := range dst { // bitwise: bytes will do for any word
				dst[j] = byte(combine32(uint32(dst[j]), uint32(from[j]), op, kernels.TypeUint32))
			}
		}
		return nil
	}
	var few [16][]byte
	srcs := few[:0]
	for i := range e.replicas {
		srcs = append(srcs, e.replicas[i].data[src.Offset:src.Offset+uint64(len(dst))])
	}
	if err := kernels.Reduce(dst, srcs, typ, kernelOp(op)); err != nil {
		return fmt.Errorf("pointer: pullred: %w", err)
	}
	return nil
}
