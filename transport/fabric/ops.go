package fabric

import (
	"fmt"
	"math"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
)

// Put implements [transport.Transport].
func (t *Transport) Put(c transport.Completion, dst transport.Handle, src []byte) error {
	return t.put(c, dst, kindUnicast, &op{kind: transport.OpPut, local: src})
}

// PutMasked implements [transport.Transport].
func (t *Transport) PutMasked(c transport.Completion, dst transport.Handle, src []byte, mask uint16) error {
	return t.put(c, dst, kindUnicast, &op{kind: transport.OpPutMasked, local: src, mask: mask})
}

// PutCounted implements [transport.Transport].
func (t *Transport) PutCounted(c transport.Completion, dst transport.Handle, src []byte, counterOffset uint64) error {
	return t.put(c, dst, kindUnicast, &op{kind: transport.OpPutCounted, local: src, counts: true, counter: counterOffset})
}

// PutCountedParts implements [transport.Joiner]. In the fast mode the parts are one
// operation, unless their phase may fail.
func (t *Transport) PutCountedParts(c transport.Completion, dst transport.Handle, parts []transport.Part, counterOffset uint64) error {
	o := &op{kind: transport.OpPutCounted, counts: true, counter: counterOffset, rest: parts}
	for _, p := range parts {
		switch {
		case p.Offset > math.MaxInt/2:
			return t.broken(RuleBounds, o.kind.String(), transport.ErrBounds).because(fmt.Sprintf("a part at %d", p.Offset))
		case (p.Offset|uint64(len(p.Src)))%transport.Granule != 0:
			return t.broken(RuleAlign, o.kind.String(), transport.ErrAlign).because(fmt.Sprintf("a part of %d bytes at %d", len(p.Src), p.Offset))
		}
		o.n, o.span = o.n+len(p.Src), max(o.span, int(p.Offset)+len(p.Src))
	}
	return t.issue(c, dst, transport.Granule, kindUnicast, o.n/transport.Granule, o)
}

// PutMultimem implements [transport.Transport].
func (t *Transport) PutMultimem(c transport.Completion, dst transport.Handle, src []byte) error {
	return t.put(c, dst, kindMulticast, &op{kind: transport.OpPutMultimem, local: src})
}

// PutCountedMultimem implements [transport.Transport].
func (t *Transport) PutCountedMultimem(c transport.Completion, dst transport.Handle, src []byte, counterOffset uint64) error {
	return t.put(c, dst, kindMulticast, &op{kind: transport.OpPutCountedMultimem, local: src, counts: true, counter: counterOffset})
}

func (t *Transport) put(c transport.Completion, dst transport.Handle, cast uint64, o *op) error {
	o.n = len(o.local)
	return t.issue(c, dst, transport.Granule, cast, o.n/transport.Granule, o)
}

// Get implements [transport.Transport]. If its phase is reported, what is late may
// be written to dst after the report: see [Transport.Drain].
func (t *Transport) Get(c transport.Completion, dst []byte, src transport.Handle) error {
	o := &op{kind: transport.OpGet, local: dst, n: len(dst)}
	return t.issue(c, src, transport.Granule, kindUnicast, o.n, o)
}

// Red implements [transport.Transport].
func (t *Transport) Red(c transport.Completion, dst transport.Handle, src []byte, redOp transport.RedOp, typ kernels.Type) error {
	return t.red(c, dst, kindUnicast, &op{kind: transport.OpRed, local: src, redOp: redOp, typ: typ})
}

// RedCounted implements [transport.Transport].
func (t *Transport) RedCounted(c transport.Completion, dst transport.Handle, src []byte, redOp transport.RedOp, typ kernels.Type, counterOffset uint64) error {
	return t.red(c, dst, kindUnicast, &op{kind: transport.OpRedCounted, local: src, redOp: redOp, typ: typ, counts: true, counter: counterOffset})
}

// RedMultimem implements [transport.Transport].
func (t *Transport) RedMultimem(c transport.Completion, dst transport.Handle, src []byte, redOp transport.RedOp, typ kernels.Type) error {
	return t.red(c, dst, kindMulticast, &op{kind: transport.OpRedMultimem, local: src, redOp: redOp, typ: typ})
}

func (t *Transport) red(c transport.Completion, dst transport.Handle, cast uint64, o *op) error {
	if !transport.RedSupports(o.redOp, o.typ) {
		return t.noOperator(o)
	}
	o.n = len(o.local)
	return t.issue(c, dst, transport.Granule, cast, o.n/transport.Granule, o)
}

// PullRed implements [transport.Transport].
func (t *Transport) PullRed(c transport.Completion, dst []byte, src transport.Handle, redOp transport.RedOp, typ kernels.Type) error {
	o := &op{kind: transport.OpPullRed, local: dst, n: len(dst), redOp: redOp, typ: typ}
	if !PullRedSupports(redOp, typ) {
		return t.noOperator(o)
	}
	return t.issue(c, src, transport.Granule, kindMulticast, o.n, o)
}

// Atom implements [transport.Transport]. old must not overlap operand, which is the
// operation's source: the strict mode finds that it changed.
func (t *Transport) Atom(c transport.Completion, old []byte, dst transport.Handle, operand []byte, redOp transport.RedOp, typ kernels.Type) error {
	o := &op{kind: transport.OpAtom, local: old, redOp: redOp, typ: typ}
	if !transport.AtomSupports(redOp, typ) {
		return t.noOperator(o)
	}
	o.n = typ.Size()
	operands := o.n
	if redOp == transport.AtomCAS {
		operands *= 2
	}
	if len(old) < o.n || len(operand) < operands {
		e := t.broken(RuleBounds, o.kind.String(), transport.ErrBounds)
		return e.because(fmt.Sprintf("%v on %v with %d bytes for the old value and %d of operands", redOp, typ, len(old), len(operand)))
	}
	o.local, o.operand = old[:o.n], operand[:operands]
	return t.issue(c, dst, uint64(o.n), kindUnicast, 1, o)
}

func (t *Transport) noOperator(o *op) error {
	return t.broken(RuleOperator, o.kind.String(), transport.ErrUnsupported).because(fmt.Sprintf("%v on %v", o.redOp, o.typ))
}
