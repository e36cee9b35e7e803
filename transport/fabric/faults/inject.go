package faults

import "math/bits"

// A Decider says what happens to each phase. It may be asked from several
// goroutines at once, in any order.
type Decider interface {
	// Decide returns the fault of a phase, the zero Fault if there is none. link
	// is without wildcards; alias tells the ids of the rank that name the target
	// apart, in the order in which it made them, 0 for the first; phase is the number
	// on the link, whatever the alias; ops are the kinds of the operations in it.
	Decide(link Link, alias int, phase uint64, ops OpSet) Fault
}

// An Injector decides by a plan. Its answers depend on its plan and on the
// arguments only.
type Injector struct {
	plan Plan
}

// New returns an Injector for a plan. The error is that of [Plan.Validate].
func New(p Plan) (*Injector, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	p = p.normal()
	p.Burst = max(p.Burst, 1)
	if p.Kinds == 0 {
		p.Kinds = AllKinds
	}
	if p.Ops == 0 {
		p.Ops = AllOps
	}
	return &Injector{p}, nil
}

// Decide implements [Decider]. It neither allocates nor blocks.
func (in *Injector) Decide(link Link, alias int, phase uint64, ops OpSet) Fault {
	key := in.linkKey(link)
	if in.dead(link, alias, phase) {
		return Fault{Dead, splitMix(phaseKey(key, phase), 2)}
	}
	if ops&in.plan.Ops == 0 || !in.within(phase) || !in.matches(link) || !in.hit(key, phase) {
		return Fault{}
	}
	p := phaseKey(key, phase)
	return Fault{in.kind(splitMix(p, 1)), splitMix(p, 2)}
}

func (in *Injector) dead(link Link, alias int, phase uint64) bool {
	for _, d := range in.plan.Dead {
		if d.matches(link, alias, phase) {
			return true
		}
	}
	return false
}

// dying says whether the link is dead by some alias.
func (in *Injector) dying(link Link, phase uint64) bool {
	for _, d := range in.plan.Dead {
		if d.matches(link, d.Alias-1, phase) {
			return true
		}
	}
	return false
}

// within says whether faults are drawn for a phase of that number.
func (in *Injector) within(phase uint64) bool {
	return in.plan.Rate != 0 && phase >= in.plan.From && (in.plan.To == 0 || phase < in.plan.To)
}

// matches says whether faults are drawn for a link.
func (in *Injector) matches(link Link) bool {
	for _, l := range in.plan.Links {
		if l.matches(link) {
			return true
		}
	}
	return len(in.plan.Links) == 0
}

// hit says whether a fault began at the phase or so shortly before it that its
// burst reaches it. Looking back instead of remembering keeps the decision a
// function of the phase.
func (in *Injector) hit(key, phase uint64) bool {
	back := min(uint64(in.plan.Burst-1), phase-in.plan.From)
	for j := phase - back; ; j++ {
		if float64(splitMix(phaseKey(key, j), 0)>>11)*0x1p-53 < in.plan.Rate {
			return true
		}
		if j == phase {
			return false
		}
	}
}

// kind picks one of the plan's kinds.
func (in *Injector) kind(word uint64) Kind {
	set := in.plan.Kinds
	for range below(word, bits.OnesCount8(uint8(set))) {
		set &= set - 1
	}
	return Kind(bits.TrailingZeros8(uint8(set)))
}

func (in *Injector) linkKey(link Link) uint64 {
	key := splitMix(in.plan.Seed, 0)
	key = splitMix(key^uint64(link.From), 0)
	return splitMix(key^uint64(link.To), 0)
}

func phaseKey(linkKey, phase uint64) uint64 { return splitMix(linkKey^phase, 0) }
