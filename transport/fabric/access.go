package fabric

import (
	"fmt"

	"github.com/weft-go/weft/transport"
)

// issue checks an operation and starts it. In the fast mode it is over then,
// unless its phase may fail: then a fault plan must first see the whole of it.
func (t *Transport) issue(completion transport.Completion, h transport.Handle, align uint64, cast uint64, transactions int, o *op) error {
	o.offset = h.Offset
	e, err := t.target(o, h, align, cast)
	if err != nil {
		return err
	}
	c, ok := completion.(*Completion)
	if !ok || c == nil || c.t != t {
		return fmt.Errorf("fabric: %v: %w: a completion of another transport", o.kind, transport.ErrUnsupported)
	}
	o.c, o.e = c, e
	o.parts = *e.parts.Load()
	if t.strict() {
		if err := t.counterShared(o); err != nil {
			return err
		}
		if err := t.checkStored(o); err != nil {
			return err
		}
	}
	if err := c.start(o, transactions); err != nil {
		return err
	}
	if t.cfg.decider != nil {
		if of := c.decisionOn(o.link()); !of.calm || t.cfg.heldBack {
			c.enlist(o)
			return nil
		}
	}
	if t.cfg.mode != ModeFast {
		c.enlist(o)
		return nil
	}
	t.engine.pass()
	if !o.performWhole() {
		c.errors.Add(1)
	}
	return nil
}

// enlist keeps a started operation until it is submitted.
func (c *Completion) enlist(o *op) {
	if len(o.rest) > 0 { // each is one of its own
		for _, p := range o.rest {
			each := *o
			each.offset += p.Offset
			each.local, each.n, each.rest, each.span = p.Src, len(p.Src), nil, 0
			c.enlist(&each)
		}
		return
	}
	var p *op
	if n := len(c.idle); n > 0 {
		p = c.idle[n-1]
		c.idle = c.idle[:n-1]
	} else {
		p = new(op)
	}
	order := p.order
	*p = *o
	p.order = order
	p.cut(maxPieces)
	if c.t.strict() {
		p.seal()
		c.t.openMu.Lock()
		c.t.pending[p] = struct{}{}
		c.t.openMu.Unlock()
	}
	c.unsubmitted = append(c.unsubmitted, p)
}

// target checks what an operation names. cast is the kind of endpoint that the
// operation takes, align what its offset must be a multiple of.
func (t *Transport) target(o *op, h transport.Handle, align, cast uint64) (*endpoint, error) {
	n := uint64(max(o.n, o.span))
	name := func(r Rule, e *endpoint, err error) *RuleError {
		return t.broken(r, o.kind.String(), err).at(e, h.Offset, n)
	}
	table := t.endpoints()
	if int64(h.ID) >= int64(len(table)) || table[h.ID] == nil {
		if t.isClosed() {
			return nil, fmt.Errorf("fabric: %v: %w: %w", o.kind, transport.ErrClosed, transport.ErrUnknownEndpoint)
		}
		e := t.broken(RuleUnknown, o.kind.String(), transport.ErrUnknownEndpoint)
		e.Endpoint, e.Offset, e.Bytes = h.ID, h.Offset, n
		return nil, e
	}
	e := table[h.ID]
	if !e.ready.Load() {
		return nil, name(RuleBeforeReady, e, transport.ErrUnknownEndpoint)
	}
	bound := true
	for _, p := range *e.parts.Load() {
		v := p.view()
		bound = bound && v != nil && len(v.segments) > 0 && (n == 0 || v.covers(h.Offset, n)) && (!o.counts || v.covers(o.counter, 8))
	}
	switch {
	case !bound && !e.anythingBound():
		return nil, name(RuleUnknown, e, transport.ErrUnknownEndpoint).because("nothing is bound")
	case h.Offset > e.size || n > e.size-h.Offset:
		return nil, name(RuleBounds, e, transport.ErrBounds).because(fmt.Sprintf("the endpoint has %d", e.size))
	case h.Offset%align != 0 || o.kind != transport.OpAtom && n%transport.Granule != 0:
		return nil, name(RuleAlign, e, transport.ErrAlign).because(fmt.Sprintf("not a multiple of %d", align))
	case e.kind != cast:
		return nil, name(RuleEndpointType, e, transport.ErrUnsupported).because("unicast and multicast endpoints have operations of their own")
	case e.kind == kindMulticast && e.replica() == nil:
		return nil, name(RuleNotMember, e, transport.ErrUnsupported).because("this rank's device was not added under this id, which may be an alias of the one")
	case e.kind == kindUnicast && !t.cfg.support.OwnerAccess && e.dev == t.own:
		return nil, name(RuleOwnerAccess, e, transport.ErrUnsupported)
	}
	if o.counts {
		if err := t.checkCounter(o, e, h); err != nil {
			return nil, err
		}
	}
	if !bound {
		return nil, name(RuleBounds, e, transport.ErrBounds).because("not all of it is bound")
	}
	return e, nil
}

// anythingBound says whether all parts have something bound to them.
func (e *endpoint) anythingBound() bool {
	for _, p := range *e.parts.Load() {
		if v := p.view(); v == nil || len(v.segments) == 0 {
			return false
		}
	}
	return true
}

// replica is this rank's part in a multicast endpoint, or nil.
func (e *endpoint) replica() *home { return e.home }

// checkCounter checks a counter's place next to the operation's range, which is
// in bounds. The counter has its line for itself; that the operation's data leave the
// rest of the line alone is for the strict mode.
func (t *Transport) checkCounter(o *op, e *endpoint, h transport.Handle) error {
	name := func(r Rule, err error) *RuleError {
		return t.broken(r, o.kind.String(), err).at(e, o.counter, 8)
	}
	switch {
	case !e.counted:
		return name(RuleCountedFlag, transport.ErrUnsupported).because("it was created without counted operations")
	case o.counter%transport.CounterAlign != 0:
		return name(RuleCounterAlign, transport.ErrAlign)
	case o.counter > e.size || e.size-o.counter < 8:
		return name(RuleBounds, transport.ErrBounds).because(fmt.Sprintf("the endpoint has %d", e.size))
	case o.counter < h.Offset+uint64(max(o.n, o.span)) && h.Offset < o.counter+counterBytes(t.strict()):
		return name(RuleCounterShared, transport.ErrBounds).because(fmt.Sprintf("with its data at %d", h.Offset))
	}
	return nil
}
