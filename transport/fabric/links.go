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
func (t *Transport) unseen() bool { return t.cfg.decider != nil }

// links number the phases of each link. This rank's links to the first ranks are
// numbered without a lock.
type links struct {
	near   [64]atomic.Uint64 // by To
	mu     sync.Mutex
	phases map[faults.Link]uint64
}

func (l *links) next(link faults.Link) uint64 {
	if link.To >= 0 && link.To < len(l.near) {
		return l.near[link.To].Add(1) - 1
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.phases == nil {
		l.phases = map[faults.Link]uint64{}
	}
	n := l.phases[link]
	l.phases[link] = n + 1
	return n
}

// A decision is what happens to a completion's phase on one link.
type decision struct {
	link  faults.Link
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
		fault, known := c.decidedOn(link)
		if !known {
			fault = d.Decide(link, c.t.links.next(link), set)
			c.decided = append(c.decided, decision{link, fault})
			if fault.Reported() {
				c.errors.Add(1)
			}
		}
		for _, p := range ops[i:] {
			if p.link() == link {
				p.fault, p.total = fault, total
			}
		}
	}
}

func (c *Completion) decidedOn(link faults.Link) (faults.Fault, bool) {
	for _, d := range c.decided {
		if d.link == link {
			return d.fault, true
		}
	}
	return faults.Fault{}, false
}
