package pointer

import (
	"fmt"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/internal/elementwise"
)

// Red implements [transport.Transport].
func (t *Transport) Red(c transport.Completion, dst transport.Handle, src []byte, op transport.RedOp, typ kernels.Type) error {
	return t.red(c, dst, src, op, typ, unicast, counter{})
}

// RedCounted implements [transport.Transport].
func (t *Transport) RedCounted(c transport.Completion, dst transport.Handle, src []byte, op transport.RedOp, typ kernels.Type, counterOffset uint64) error {
	return t.red(c, dst, src, op, typ, unicast, counter{true, counterOffset})
}

// RedMultimem implements [transport.Transport].
func (t *Transport) RedMultimem(c transport.Completion, dst transport.Handle, src []byte, op transport.RedOp, typ kernels.Type) error {
	return t.red(c, dst, src, op, typ, multicast, counter{})
}

func (t *Transport) red(c transport.Completion, dst transport.Handle, src []byte, op transport.RedOp, typ kernels.Type, cast casting, count counter) error {
	if !transport.RedSupports(op, typ) {
		return fmt.Errorf("pointer: red %v on %v: %w", op, typ, transport.ErrUnsupported)
	}
	e, err := t.access(c, dst, len(src), cast, count, len(src)/transport.Granule)
	if err != nil {
		return err
	}
	for i := range e.replicas {
		r := &e.replicas[i]
		elementwise.Red(r.data[dst.Offset:dst.Offset+uint64(len(src))], src, op, typ)
		if count.counts {
			r.count(count.offset, len(src))
		} else {
			r.bell.RingIfArmed()
		}
	}
	return nil
}
