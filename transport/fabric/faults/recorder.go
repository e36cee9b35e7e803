package faults

import (
	"sync/atomic"

	"github.com/weft-go/weft/transport"
)

// A Recorder passes another Decider's decisions on, counts the faults among them
// and hands them to a sink.
type Recorder struct {
	decider Decider
	sink    func(Record)
	phases  [numKinds]atomic.Uint64
	ops     [numKinds][numOps]atomic.Uint64
}

// NewRecorder returns a Recorder of d's decisions. sink, which may be nil, is
// called for every fault by the goroutine that asks, before Decide returns; it is
// called from as many goroutines at once as ask. [Log.Add] is such a sink.
func NewRecorder(d Decider, sink func(Record)) *Recorder {
	return &Recorder{decider: d, sink: sink}
}

// Decide implements [Decider]. What it adds to the other Decider's, it adds only
// when there is a fault.
func (r *Recorder) Decide(link Link, alias int, phase uint64, ops OpSet) Fault {
	f := r.decider.Decide(link, alias, phase, ops)
	if f.Kind == None {
		return f
	}
	r.phases[f.Kind].Add(1)
	for k := range transport.OpKind(numOps) {
		if ops.Has(k) {
			r.ops[f.Kind][k].Add(1)
		}
	}
	if r.sink != nil {
		r.sink(Record{link, phase, ops, f})
	}
	return f
}

// Stats counts injected faults.
type Stats struct {
	// Phases[kind] phases were hit by a fault of that kind.
	Phases [numKinds]uint64
	// Ops[kind][op] of them held operations of that kind. A phase that holds
	// several kinds counts for each.
	Ops [numKinds][numOps]uint64
}

// Stats returns the counts so far.
func (r *Recorder) Stats() Stats {
	var s Stats
	for kind := range s.Phases {
		s.Phases[kind] = r.phases[kind].Load()
		for op := range s.Ops[kind] {
			s.Ops[kind][op] = r.ops[kind][op].Load()
		}
	}
	return s
}
