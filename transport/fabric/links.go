package fabric

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/weft-go/weft/transport/fabric/faults"
)

// FaultsVariable is the environment variable with the fault plan of fabrics made
// without [WithFaults] or [WithDecider].
const FaultsVariable = "WEFT_FAULTS"

// WithFaults has a plan decide which phases fail; see the package faults for its
// grammar. It takes the place of [FaultsVariable].
func WithFaults(plan string) Option {
	return func(c *config) error {
		c.envFaults = false
		return c.setPlan(plan)
	}
}

// WithDecider has d decide which phases fail: a [faults.Injector], a
// [faults.Recorder] that logs what it decides, or a [faults.Replay] of such a log.
// nil decides for none.
func WithDecider(d faults.Decider) Option {
	return func(c *config) error {
		c.envFaults, c.decider = false, d
		return nil
	}
}

func (c *config) faultsFromEnvironment() error {
	if plan := os.Getenv(FaultsVariable); plan != "" {
		if err := c.setPlan(plan); err != nil {
			return fmt.Errorf("%s: %w", FaultsVariable, err)
		}
	}
	return nil
}

func (c *config) setPlan(text string) error {
	plan, err := faults.Parse(text)
	if err != nil {
		return err
	}
	c.decider = nil
	if text == "" {
		return nil
	}
	c.decider, err = faults.New(plan)
	return err
}

// unseen says whether the race detector must not see bytes move.
func (t *Transport) unseen() bool { return raceEnabled && t.cfg.decider != nil }

// links number the phases of each link. This rank's links to the first ranks and to
// multicast endpoints are numbered without a lock.
type links struct {
	near      [64]linkState // by To
	multicast linkState
	mu        sync.Mutex
	far       map[faults.Link]*linkState
}

type linkState struct {
	next atomic.Uint64 // number of the next phase
	// seen is what was last foreseen: number of a block of phases, counted from 1 and
	// modulo 2³², and below it which of them may fail.
	seen atomic.Uint64
}

func (l *links) of(link faults.Link) *linkState {
	switch {
	case link.To == faults.Multicast:
		return &l.multicast
	case link.To >= 0 && link.To < len(l.near):
		return &l.near[link.To]
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.far[link]
	if n == nil {
		if l.far == nil {
			l.far = map[faults.Link]*linkState{}
		}
		n = new(linkState)
		l.far[link] = n
	}
	return n
}

// number numbers a phase, and says whether f, if not nil, is certain that it passes.
func (l *links) number(link faults.Link, f faults.Foreseer) (phase uint64, calm bool) {
	n := l.of(link)
	phase = n.next.Add(1) - 1
	if f == nil {
		return phase, false
	}
	block, i := phase/faults.Block, phase%faults.Block
	seen := n.seen.Load()
	if uint32(seen>>faults.Block) != uint32(block+1) {
		seen = (block+1)<<faults.Block | uint64(f.Suspects(link, block))
		n.seen.Store(seen)
	}
	return phase, seen>>i&1 == 0
}

// A decision is what happens to a completion's phase on one link.
type decision struct {
	link  faults.Link
	phase uint64
	calm  bool // it is certain to pass
	known bool // the fault is
	fault faults.Fault
}

// link is the link that an operation uses. A rank that is not known counts as 0.
func (o *op) link() faults.Link {
	l := faults.Link{From: max(o.e.t.cfg.rank, 0), To: max(o.peer(), 0)}
	if o.e.kind == kindMulticast {
		l.To = faults.Multicast
	}
	return l
}

// decide asks what happens to operations that are about to be submitted. The first
// submit of a phase on a link decides for all of the phase on that link.
func (c *Completion) decide(ops []*op) {
	d := c.t.cfg.decider
	if d == nil {
		return
	}
	for i, o := range ops {
		link := o.link()
		first := true
		for _, p := range ops[:i] {
			first = first && p.link() != link
		}
		if !first {
			continue
		}
		total := 0
		var set faults.OpSet
		for _, p := range ops[i:] {
			if p.link() == link {
				p.first = total
				total += p.units()
				set = set.With(p.kind)
			}
		}
		of := c.decisionOn(link)
		if !of.known {
			of.known = true
			if !of.calm {
				of.fault = d.Decide(link, o.e.alias, of.phase, set)
			}
			if of.fault.Reported() {
				c.errors.Add(1)
			}
		}
		for _, p := range ops[i:] {
			if p.link() == link {
				p.fault, p.total = of.fault, total
			}
		}
	}
}

// decisionOn returns what is decided about the completion's phase on a link. The
// first who asks gives the phase its number. It is valid until the next call.
func (c *Completion) decisionOn(link faults.Link) *decision {
	for i := range c.decided {
		if c.decided[i].link == link {
			return &c.decided[i]
		}
	}
	phase, calm := c.t.links.number(link, c.t.foreseer)
	c.decided = append(c.decided, decision{link: link, phase: phase, calm: calm})
	return &c.decided[len(c.decided)-1]
}
