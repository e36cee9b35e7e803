package faults

import (
	"fmt"
	"sync/atomic"
)

// A Replay injects the faults of a log, each in the phase that had it, and no
// others.
type Replay struct {
	faults   map[place]*recorded
	left     atomic.Int64
	diverged atomic.Int64
}

type place struct {
	link  Link
	phase uint64
}

type recorded struct {
	fault Fault
	ops   OpSet
	met   atomic.Bool
}

// NewReplay returns a Replay of the records. They may come from several ranks but
// must be of one run: two for the same phase, or one that no Recorder makes, are
// an error.
func NewReplay(records []Record) (*Replay, error) {
	p := &Replay{faults: make(map[place]*recorded, len(records))}
	for _, r := range records {
		at := place{r.Link, r.Phase}
		if !r.Link.concrete() || !(r.Fault.Kind > None && r.Fault.Kind <= Dead) {
			return nil, fmt.Errorf("replay: %v phase %d %v: not the record of a fault", r.Link, r.Phase, r.Fault.Kind)
		}
		if p.faults[at] != nil {
			return nil, fmt.Errorf("replay: two faults for phase %d of link %v", r.Phase, r.Link)
		}
		p.faults[at] = &recorded{fault: r.Fault, ops: r.Ops}
	}
	p.left.Store(int64(len(records)))
	return p, nil
}

// Decide implements [Decider]. A phase gets its fault even if it holds other
// operations than the log says, see [Replay.Diverged], or goes by another alias. It
// neither allocates nor blocks.
func (p *Replay) Decide(link Link, _ int, phase uint64, ops OpSet) Fault {
	r := p.faults[place{link, phase}]
	if r == nil {
		return Fault{}
	}
	if !r.met.Swap(true) {
		p.left.Add(-1)
		if r.ops != ops {
			p.diverged.Add(1)
		}
	}
	return r.fault
}

// Left returns how many faults of the log have not been injected yet.
func (p *Replay) Left() int { return int(p.left.Load()) }

// Diverged returns how many faults were injected into phases that hold other
// operations than the log says: this run is not the logged one.
func (p *Replay) Diverged() int { return int(p.diverged.Load()) }
