package elementwise

import (
	"encoding/binary"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/internal/mapped"
)

// Atom applies op to the element at offset of b and stores its old value at the
// start of old. operand and old are little-endian and long enough, the offset is
// in range and aligned, and [transport.AtomSupports] holds.
func Atom(b []byte, offset uint64, old, operand []byte, op transport.RedOp, typ kernels.Type) {
	if typ.Size() == 8 {
		w, v := mapped.Word(b, offset), binary.LittleEndian.Uint64(operand)
		var was uint64
		if op == transport.AtomCAS {
			next := binary.LittleEndian.Uint64(operand[8:])
			for was = w.Load(); was == v && !w.CompareAndSwap(v, next); was = w.Load() {
			}
		} else {
			was = red64(w, v, op, typ)
		}
		binary.LittleEndian.PutUint64(old, was)
		return
	}
	w, v := mapped.Word32(b, offset), binary.LittleEndian.Uint32(operand)
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
