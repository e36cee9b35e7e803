package plan

import "slices"

// This file cuts a collective into segments and runs their stages as a pipeline.
//
// An algorithm is written for one segment: a part of the elements so small that
// none of its messages exceeds a cell. What it does to a segment is divided into
// stages. A stage first sends what earlier stages left, then receives and
// computes. A message's Put and its Wait are in the same stage of the same
// segment, and no stage of a segment has two messages on one lane.
//
// Segment c begins at time start(c); at time t it is in stage t − start(c). At
// each time a rank does the sending halves of all segments under way, oldest
// first, then their receiving halves, and then what these left for later: copies,
// while puts to multicast memory are under way. At most Cells segments are under way.
//
// Why lanes stay in order: both ends order messages by (time, segment).
//
// Why nobody deadlocks: take the interleaving in which all ranks do time t, first
// all sending halves and then all receiving ones, before any does t+1. At the
// beginning of t all lanes are empty; at most Cells messages go on each, so no
// Put blocks; after that every Wait finds its message, and it is released. A
// rank that only puts, waits and releases in a fixed order can do so whatever
// the interleaving, if it can in one: no step of another rank ever disables a
// step that is enabled. Since all lanes are empty at the end as well, that
// extends to any sequence of calls.

// A part is a segment: elements from … to−1, of each block if there are blocks.
type part struct {
	index    int
	slot     int // of those that the segments under way have for themselves
	from, to int
}

func (p part) len() int { return p.to - p.from }

// of is the range of p in block b, of size elements, of a buffer.
func (p part) of(buf Buffer, b, size int) Range {
	return Range{Buf: buf, From: b*size + p.from, To: b*size + p.to}
}

// in is the range of p in a buffer.
func (p part) in(buf Buffer) Range { return Range{Buf: buf, From: p.from, To: p.to} }

// A recipe is how a rank treats segments.
type recipe struct {
	stages int
	most   int // elements of a segment at most; 0: any number
	unit   int // all segments but the last are multiples of it; 0: 1
	least  int // segments at least, if there are as many units

	scratch int // elements of Scratch that each segment under way has for itself
	multi   int // the same of Multi
	cell    int // elements of a cell on a Board, of which each segment under way has one
	extra   int // elements of Scratch that a segment may use within one half of a stage

	// begin returns what writes a segment's stages.
	begin func(p part) func(stage int)
}

// cut is how the elements are divided.
type cut struct {
	count, unit, segments int
	stages, flights       int
}

func (r recipe) cut(s Shape) cut {
	c := cut{count: s.Count, unit: max(r.unit, 1), segments: 1, stages: max(r.stages, 1)}
	units := ceil(s.Count, c.unit)
	if r.most > 0 {
		c.segments = ceil(units, max(r.most/c.unit, 1))
	}
	c.segments = max(c.segments, min(r.least, units), 1)
	c.flights = min(s.Cells, c.stages)
	return c
}

func (c cut) part(i int) part {
	from, to := share(ceil(c.count, c.unit), c.segments, i)
	return part{index: i, slot: i % c.flights, from: min(from*c.unit, c.count), to: min(to*c.unit, c.count)}
}

// parts are all segments.
func (c cut) parts() []part {
	parts := make([]part, c.segments)
	for i := range parts {
		parts[i] = c.part(i)
	}
	return parts
}

// slots is how many segments are under way at most.
func (c cut) slots() int { return min(c.flights, c.segments) }

// start is the time at which segment i begins: start(i+flights) is stages later
// than start(i), so that no more than that many are ever under way.
func (c cut) start(i int) int { return i/c.flights*c.stages + i%c.flights*c.stages/c.flights }

// share is the part from … to−1 of count elements that is rank's: the shares
// differ by one element at most, the larger ones first.
func share(count, ranks, rank int) (from, to int) {
	each, more := count/ranks, count%ranks
	from = rank*each + min(rank, more)
	to = from + each
	if rank < more {
		to++
	}
	return from, to
}

func ceil(a, b int) int { return (a + b - 1) / b }

func roundUp(a, b int) int { return ceil(a, b) * b }

// run writes all segments.
func (w *writer) run(r recipe) error {
	c := r.cut(w.shape)
	u := w.shape.unit()
	w.scratch, w.multi = roundUp(r.scratch, u), roundUp(r.multi, u)
	w.extra = w.scratch * c.slots()
	w.out.ScratchElems = w.extra + r.extra
	w.out.MultiElems, w.cell = w.multi*c.slots(), roundUp(r.cell, u)
	w.out.CellElems = w.cell

	type flight struct {
		part
		write      func(stage int)
		then, late []Step
	}
	var air []flight
	for t, next := 0, 0; next < c.segments || len(air) > 0; t++ {
		if next < c.segments && c.start(next) == t {
			p := c.part(next)
			air = append(air, flight{part: p, write: r.begin(p)})
			next++
		}
		for i := range air {
			f := &air[i]
			w.stage, w.segment, w.then, w.late = t-c.start(f.index), f.index, f.then[:0], f.late[:0]
			f.write(w.stage)
			f.then, f.late = w.then, w.late
		}
		for i := range air {
			w.out.Steps = append(w.out.Steps, air[i].then...)
		}
		for i := range air {
			w.out.Steps = append(w.out.Steps, air[i].late...)
		}
		if t == c.stages-1 { // the first segment is through: about how many steps will it be?
			done := 0
			for i := range air {
				done += t - c.start(air[i].index) + 1
			}
			more := len(w.out.Steps) * (c.segments*c.stages - done) / done
			w.out.Steps = slices.Grow(w.out.Steps, min(more, MaxSteps))
		}
		if len(w.out.Steps) > MaxSteps {
			return &LengthError{w.shape, w.out.Algorithm}
		}
		if len(air) > 0 && t-c.start(air[0].index) == c.stages-1 {
			air = append(air[:0], air[1:]...)
		}
	}
	return nil
}
