package pointer

import (
	"fmt"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/internal/elementwise"
)

// Atom implements [transport.Transport].
func (t *Transport) Atom(c transport.Completion, old []byte, dst transport.Handle, operand []byte, op transport.RedOp, typ kernels.Type) error {
	if !transport.AtomSupports(op, typ) {
		return fmt.Errorf("pointer: atom %v on %v: %w", op, typ, transport.ErrUnsupported)
	}
	size := typ.Size()
	operands := size
	if op == transport.AtomCAS {
		operands *= 2
	}
	if len(old) < size || len(operand) < operands {
		return fmt.Errorf("pointer: atom %v on %v with %d bytes for the old value and %d of operands: %w", op, typ, len(old), len(operand), transport.ErrBounds)
	}
	e, err := t.lookup(dst, uint64(size), uint64(size))
	if err != nil {
		return err
	}
	if e.multicast {
		return fmt.Errorf("pointer: atom on multicast endpoint %d: %w", dst.ID, transport.ErrUnsupported)
	}
	if err := book(c, 1); err != nil {
		return err
	}
	r := &e.replicas[0]
	elementwise.Atom(r.data, dst.Offset, old, operand, op, typ)
	r.bell.RingIfArmed()
	return nil
}
