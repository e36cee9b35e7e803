package fabric

import (
	"fmt"
	"hash/maphash"

	"github.com/weft-go/weft/transport"
)

// closed notes that a completion has no phase that must be waited for.
func (c *Completion) closed() {
	if t := c.t; t.strict() {
		t.openMu.Lock()
		delete(t.open, c)
		t.openMu.Unlock()
	}
}

// abandoned says what is wrong with giving a completion up now, or nil.
func (c *Completion) abandoned(op string) *RuleError {
	switch {
	case c.open:
		return c.t.broken(RuleNotSubmitted, op, transport.ErrPhase).because(fmt.Sprintf("%d operations", len(c.unsubmitted)))
	case c.started > 0:
		return c.t.broken(RuleDropped, op, transport.ErrPhase).because(fmt.Sprintf("a phase of %d operations was not waited for", c.started))
	}
	return nil
}

// dropCompletions finds the completions that Close cuts short.
func (t *Transport) dropCompletions() {
	t.openMu.Lock()
	defer t.openMu.Unlock()
	for c := range t.open {
		if err := c.abandoned("close"); err != nil {
			t.diag.add(err)
		}
	}
	clear(t.open)
}

// unexpected tells, once per phase, that it can't end.
func (c *Completion) unexpected() {
	if c.t.strict() && c.expected >= 0 {
		e := c.t.broken(RuleExpected, "test", transport.ErrTransactions)
		c.t.diag.add(e.because(fmt.Sprintf("%d expected, the operations have %d", c.expected, c.transactions)))
		c.expected = -1
	}
}

var sourceSeed = maphash.MakeSeed()

// seal notes what an operation's source is, to see whether it changes.
func (o *op) seal() { o.sum = maphash.Bytes(sourceSeed, o.source()) }

// checkSources wants the sources of the phase to be as they were.
func (c *Completion) checkSources() {
	for _, o := range c.submitted {
		if o.owned || o.fetches() || maphash.Bytes(sourceSeed, o.source()) == o.sum {
			continue
		}
		c.t.diag.add(c.t.broken(RuleSourceChanged, o.kind.String(), transport.ErrPhase).at(o.e, o.offset, uint64(o.n)))
	}
}

// counterShared finds an operation under way that has data where a counter of
// this one is, or the reverse.
func (c *Completion) counterShared(o *op) *RuleError {
	t := c.t
	clash := func(a, b *op) bool {
		return a.counts && a.counter < b.offset+uint64(b.n) && b.offset < a.counter+8
	}
	var found *op
	for _, list := range [][]*op{c.unsubmitted, c.submitted} {
		for _, p := range list {
			if p.e.blockIs(o.e) && (clash(o, p) && !p.reads() || clash(p, o) && !o.reads()) {
				found = p
			}
		}
	}
	if found == nil {
		return nil
	}
	return t.broken(RuleCounterShared, o.kind.String(), transport.ErrBounds).at(o.e, o.offset, uint64(o.n)).because(
		fmt.Sprintf("with a %v of %d bytes at %d of the same phase", found.kind, found.n, found.offset))
}

// blockIs says whether two ids name one endpoint.
func (e *endpoint) blockIs(other *endpoint) bool { return e.dev == other.dev && e.index == other.index }
