package plan

// A writer writes one rank's schedule. The methods of its first group write to
// the sending half of the current stage, the others to the receiving half.
// Nothing is written for empty ranges, on either side.
type writer struct {
	shape Shape
	rank  int
	out   *Schedule

	stage, segment int
	then           []Step // the receiving half of the current stage
	late           []Step // what follows the receiving halves of all segments under way

	scratch, multi int // elements per segment under way
	cell           int // elements of a cell on a Board
	extra          int // where in Scratch recipe.extra begins
	ranges         []Range
}

// work is the part of Scratch, from its element at on, that a segment has for
// itself.
func (w *writer) work(p part, at, n int) Range {
	from := p.slot*w.scratch + at
	return Range{Buf: Scratch, From: from, To: from + n}
}

// posted is the part of a rank's Board that a segment has for itself.
func (w *writer) posted(p part, owner, from, to int) Range {
	at := p.slot * w.cell
	return Range{Buf: Board, Peer: owner, From: at + from, To: at + to}
}

// common is the part of Multi that a segment has for itself.
func (w *writer) common(p part, from, to int) Range {
	at := p.slot * w.multi
	return Range{Buf: Multi, From: at + from, To: at + to}
}

// aside is Scratch for use within one half of a stage.
func (w *writer) aside(n int) Range { return Range{Buf: Scratch, From: w.extra, To: w.extra + n} }

// peers calls f for all other ranks, beginning with the next: each rank begins
// with another one, so that not all write to one at the same time.
func (w *writer) peers(f func(peer int)) {
	for i := 1; i < w.shape.Ranks; i++ {
		f((w.rank + i) % w.shape.Ranks)
	}
}

// senders calls f for all other ranks, in the order in which peers makes them
// come to this one.
func (w *writer) senders(f func(peer int)) {
	for i := 1; i < w.shape.Ranks; i++ {
		f((w.rank + w.shape.Ranks - i) % w.shape.Ranks)
	}
}

// list keeps ranges as the sources of a step. They share memory with those of
// other steps, as there are many.
func (w *writer) list(ranges ...Range) []Range {
	if cap(w.ranges)-len(w.ranges) < len(ranges) {
		w.ranges = make([]Range, 0, max(256, len(ranges)))
	}
	at := len(w.ranges)
	w.ranges = append(w.ranges, ranges...)
	return w.ranges[at:len(w.ranges):len(w.ranges)]
}

func (w *writer) mark(s Step) Step {
	s.Stage, s.Segment = w.stage, w.segment
	return s
}

func (w *writer) first(s Step)  { w.out.Steps = append(w.out.Steps, w.mark(s)) }
func (w *writer) second(s Step) { w.then = append(w.then, w.mark(s)) }

// The sending half.

func (w *writer) put(peer int, src Range) {
	if src.Len() > 0 {
		w.first(Step{Kind: Put, Peer: peer, Srcs: w.list(src)})
	}
}

// signal puts an empty message.
func (w *writer) signal(peer int) {
	w.first(Step{Kind: Put, Peer: peer, Srcs: w.list(Range{Buf: Scratch})})
}

// prepare copies before anything is sent.
func (w *writer) prepare(dst, src Range) {
	if src.Len() > 0 {
		w.first(Step{Kind: Copy, Dst: dst, Srcs: w.list(src)})
	}
}

// pack puts several ranges as one message: through Scratch, unless they are
// one range in truth.
func (w *writer) pack(peer int, srcs []Range) {
	srcs = merge(srcs)
	if len(srcs) == 1 {
		w.put(peer, srcs[0])
		return
	}
	n := 0
	for _, src := range srcs {
		dst := w.aside(n + src.Len())
		dst.From += n
		w.prepare(dst, src)
		n += src.Len()
	}
	w.put(peer, w.aside(n))
}

// merge joins ranges that follow each other in one buffer.
func merge(ranges []Range) []Range {
	var out []Range
	for _, r := range ranges {
		if k := len(out) - 1; k >= 0 && follows(out[k], r) {
			out[k].To = r.To
		} else if r.Len() > 0 {
			out = append(out, r)
		}
	}
	return out
}

// follows says whether b begins where a ends.
func follows(a, b Range) bool { return a.Buf == b.Buf && a.To == b.From }

// The receiving half.

// wait receives a message of n elements and returns where it is.
func (w *writer) wait(peer, n int) Range {
	if n > 0 {
		w.second(Step{Kind: Wait, Peer: peer, Elems: n})
	}
	return Range{Buf: Inbox, Peer: peer, To: n}
}

// release gives back what wait returned.
func (w *writer) release(box Range) {
	if box.Len() > 0 {
		w.second(Step{Kind: Release, Peer: box.Peer})
	}
}

// await receives an empty message.
func (w *writer) await(peer int) {
	w.second(Step{Kind: Wait, Peer: peer})
	w.second(Step{Kind: Release, Peer: peer})
}

func (w *writer) copy(dst, src Range) {
	if src.Len() > 0 {
		w.second(Step{Kind: Copy, Dst: dst, Srcs: w.list(src)})
	}
}

// take copies what is posted, when all else is done that can be at this time.
func (w *writer) take(dst, src Range) {
	if src.Len() > 0 {
		w.late = append(w.late, w.mark(Step{Kind: Copy, Dst: dst, Srcs: w.list(src)}))
	}
}

// receive copies a message to dst.
func (w *writer) receive(peer int, dst Range) {
	box := w.wait(peer, dst.Len())
	w.copy(dst, box)
	w.release(box)
}

// unpack copies a message to several ranges.
func (w *writer) unpack(peer int, dsts []Range) {
	dsts = merge(dsts)
	n := 0
	for _, dst := range dsts {
		n += dst.Len()
	}
	box := w.wait(peer, n)
	at := 0
	for _, dst := range dsts {
		w.copy(dst, Range{Buf: Inbox, Peer: peer, From: at, To: at + dst.Len()})
		at += dst.Len()
	}
	w.release(box)
}

func (w *writer) combine(complete bool, dst Range, srcs ...Range) {
	if dst.Len() > 0 {
		w.second(Step{Kind: Combine, Dst: dst, Srcs: w.list(srcs...), Complete: complete})
	}
}

// reduceBlocks receives a message of several blocks and combines each with what
// the rank has of it, the lower rank's first. Blocks that follow each other
// everywhere are combined as one.
func (w *writer) reduceBlocks(peer int, complete bool, dsts, owns []Range) {
	n := 0
	for _, dst := range dsts {
		n += dst.Len()
	}
	box := w.wait(peer, n)
	for i, at := 0, 0; i < len(dsts); {
		dst, own := dsts[i], owns[i]
		for i++; i < len(dsts) && follows(dst, dsts[i]) && follows(own, owns[i]); i++ {
			dst.To, own.To = dsts[i].To, owns[i].To
		}
		lower, upper := own, Range{Buf: Inbox, Peer: peer, From: at, To: at + dst.Len()}
		if peer < w.rank {
			lower, upper = upper, lower
		}
		w.combine(complete, dst, lower, upper)
		at += dst.Len()
	}
	w.release(box)
}

// combineAll receives a message from every other rank and combines them with
// own, in rank order.
func (w *writer) combineAll(dst, own Range) {
	n := dst.Len()
	if n == 0 {
		return
	}
	w.senders(func(peer int) { w.wait(peer, n) })
	srcs := make([]Range, w.shape.Ranks)
	for r := range srcs {
		srcs[r] = Range{Buf: Inbox, Peer: r, To: n}
	}
	srcs[w.rank] = own
	w.combine(true, dst, srcs...)
	w.senders(func(peer int) { w.release(srcs[peer]) })
}

func (w *writer) pullReduce(dst, src Range) {
	if src.Len() > 0 {
		w.second(Step{Kind: PullReduce, Dst: dst, Srcs: w.list(src), Complete: true})
	}
}

func (w *writer) putMulti(dst, src Range) {
	if src.Len() > 0 {
		w.second(Step{Kind: PutMulti, Dst: dst, Srcs: w.list(src)})
	}
}
