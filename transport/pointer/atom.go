package pointer

import (
	"encoding/binary"
	"fmt"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
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
	if size == 8 {
		w, v := word(r.data, dst.Offset), binary.LittleEndian.Uint64(operand)
		var was uint64
		if op == transport.AtomCAS {
			next := binary.LittleEndian.Uint64(operand[8:])
			for was = w.Load(); was == v && !w.CompareAndSwap(v, next); was = w.Load() {
			}
		} else {
			was = red64(w, v, op, typ)
		}
		binary.LittleEndian.PutUint64(old, was)
	} else {
		w, v := word32(r.data, dst.Offset), binary.LittleEndian.Uint32(operand)
		var was uint32
		if op == transport.AtomCAS {
			next := binary.LittleEndian.Uint32(operand[4:])
			for was = w.Load(); was == v && !w.CompareAndSwap(v, next); was = w.Load() {
			}
		} else {
			was = red32(w, v, op, typ)
		}
		binary.LittleEndian.PutUint32(old, was)
	}
	r.bell.ringIfArmed()
	return nil
}
