package fabric

import (
	"fmt"
	"hash/maphash"

	"github.com/weft-go/weft/transport"
)

// closed notes that a completion has no phase that must be waited for, and that its
// operations are over.
func (c *Completion) closed(ops ...[]*op) {
	if t := c.t; t.strict() {
		t.openMu.Lock()
		delete(t.open, c)
		for _, list := range ops {
			for _, o := range list {
				delete(t.pending, o)
			}
		}
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

// checkSources wants the sources of the phase to be as they were. It tells of the
// first that is not, and how many more there are.
func (c *Completion) checkSources() {
	var first *op
	changed := 0
	for _, o := range c.submitted {
		if o.owned || o.fetches() || maphash.Bytes(sourceSeed, o.source()) == o.sum {
			continue
		}
		if changed++; first == nil {
			first = o
		}
	}
	if first == nil {
		return
	}
	e := c.t.broken(RuleSourceChanged, first.kind.String(), ErrUndefined).at(first.e, first.offset, uint64(first.n))
	if changed > 1 {
		e = e.because(fmt.Sprintf("and of %d more operations of the phase", changed-1))
	}
	c.t.diag.add(e)
}

// counterBytes is how much of a counter's line data must leave alone.
func counterBytes(strict bool) uint64 {
	if strict {
		return transport.CounterAlign
	}
	return 8
}

// counterShared finds an operation of this rank, of any completion whose phase was
// not reported, that has data in the line of a counter of this one, or the reverse.
func (t *Transport) counterShared(o *op) error {
	clash := func(a, b *op) bool {
		return a.counts && !b.fetches() && a.counter < b.offset+uint64(b.n) && b.offset < a.counter+counterBytes(true)
	}
	t.openMu.Lock()
	defer t.openMu.Unlock()
	for p := range t.pending {
		if !p.e.blockIs(o.e) || !clash(o, p) && !clash(p, o) {
			continue
		}
		phase := "the same phase"
		if p.c != o.c {
			phase = "a phase that was not reported"
		}
		return t.broken(RuleCounterShared, o.kind.String(), transport.ErrBounds).at(o.e, o.offset, uint64(o.n)).because(
			fmt.Sprintf("with a %v of %d bytes at %d of %s", p.kind, p.n, p.offset, phase))
	}
	return nil
}

// blockIs says whether two ids name one endpoint.
func (e *endpoint) blockIs(other *endpoint) bool { return e.dev == other.dev && e.index == other.index }
