package fabric

import (
	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/fabric/faults"
)

// An op is an operation that was started. The engine executes it in units: each
// is one piece of its bytes at one part of its endpoint. A fetching operation
// concerns all parts at once.
type op struct {
	c       *Completion
	e       *endpoint
	parts   []*part
	kind    transport.OpKind
	redOp   transport.RedOp
	typ     kernels.Type
	mask    uint16
	counts  bool
	counter uint64
	offset  uint64
	n       int
	local   []byte           // source, or destination of what is fetched
	rest    []transport.Part // further sources of a put, from the same offset
	span    int              // bytes from there to the end of what is put, if n is not that
	operand []byte           // of an atom

	owned bool   // the source may change: it was copied, or read
	sum   uint64 // of the source, strict mode only

	pieceBytes, pieces int

	// under the engine
	order  []uint16 // units, shuffled
	next   int
	failed bool
	done   bool

	unreleased bool // it met memory that was not released, and told so

	// of the fault that the op meets
	fault        faults.Fault
	first, total int // number of the op's first unit, and how many the phase has
}

// maxPieces is into how many pieces an operation's bytes are cut.
const maxPieces = 8

// cut divides the operation into n pieces at most. The same operation is always
// cut in the same way, so that a fault hits the same bytes.
func (o *op) cut(n int) {
	o.pieces = 1
	o.pieceBytes = o.n
	if o.kind == transport.OpAtom || o.n == 0 {
		return
	}
	units := o.n / transport.Granule
	o.pieceBytes = (units + n - 1) / n * transport.Granule
	o.pieces = (o.n + o.pieceBytes - 1) / o.pieceBytes
}

// fetches says whether the operation only reads its endpoint.
func (o *op) fetches() bool { return o.kind == transport.OpGet || o.kind == transport.OpPullRed }

// source is what the operation reads of this rank's.
func (o *op) source() []byte {
	switch {
	case o.fetches():
		return nil
	case o.kind == transport.OpAtom:
		return o.operand
	}
	return o.local
}

// own has the operation read a copy of its source from now on, in b if it is large
// enough.
func (o *op) own(b []byte) {
	if o.owned || o.fetches() {
		return
	}
	o.owned = true
	src := o.source()
	if cap(b) < len(src) {
		b = make([]byte, len(src))
	}
	b = b[:len(src)]
	move(b, src, raceEnabled)
	if o.kind == transport.OpAtom {
		o.operand = b
	} else {
		o.local = b
	}
}

func (o *op) units() int {
	if o.fetches() {
		return o.pieces
	}
	return o.pieces * len(o.parts)
}

// forget lets go of what the operation refers to, and keeps what can be used again.
func (o *op) forget() { *o = op{order: o.order[:0]} }

// peer is the rank on the other side.
func (o *op) peer() int { return o.e.dev.rank }
