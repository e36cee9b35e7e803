package faults

// A Foreseer is a [Decider] that knows beforehand which phases can't fail, so that
// nobody need ask about them.
type Foreseer interface {
	Decider
	// Suspects says to which of the phases block·Block … block·Block+Block−1 of a link
	// Decide may give a fault: bit i is for the i-th of them. It gives none to the
	// others, whatever they hold and by whichever alias they go.
	Suspects(link Link, block uint64) uint32
}

// Block is how many phases [Foreseer] speaks of at once.
const Block = 32

// Suspects implements [Foreseer].
func (in *Injector) Suspects(link Link, block uint64) (set uint32) {
	key := in.linkKey(link)
	drawn := in.matches(link)
	for i := range uint64(Block) {
		phase := block*Block + i
		if in.dying(link, phase) || drawn && in.within(phase) && in.hit(key, phase) {
			set |= 1 << i
		}
	}
	return set
}

// Suspects implements [Foreseer] as far as the other Decider does.
func (r *Recorder) Suspects(link Link, block uint64) uint32 {
	if f, ok := r.decider.(Foreseer); ok {
		return f.Suspects(link, block)
	}
	return 1<<Block - 1
}

// Suspects implements [Foreseer].
func (p *Replay) Suspects(link Link, block uint64) (set uint32) {
	for i := range uint64(Block) {
		if p.faults[place{link, block*Block + i}] != nil {
			set |= 1 << i
		}
	}
	return set
}
