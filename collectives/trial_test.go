package collectives

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"unsafe"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

// A world is what all ranks of a test have in common: each rank's input, as long
// as any collective needs it; a call takes as much as it wants.
type world[T any] struct {
	n, count int // ranks, elements of a block
	seed     uint64
	in       [][]T
	junk     []T // what is in memory before: a pattern, again and again
	same     func(a, b T) bool
	reducers []reducer[T]
	// Of each reducer, of the ranks 0…r: prefix[r] of count elements, total of all.
	prefix [][][]T
	total  [][]T
}

// A reducer is an operator: what it makes of the ranks' inputs, and how to call
// the collectives with it.
type reducer[T any] struct {
	name      string
	reference func(in [][]T, count int) []T
	whole     bool // makes no sense for some ranks only

	allReduce, scan, exscan, reduceScatterBlock func(c *comm.Communicator, dst, src []T) forms
	reduce                                      func(c *comm.Communicator, dst, src []T, root int) forms
	reduceScatter                               func(c *comm.Communicator, dst, src []T, counts []int) forms
}

func byOp[T kernels.Number](op kernels.Op) reducer[T] {
	return reducer[T]{
		name:      op.String(),
		reference: func(in [][]T, count int) []T { return refOp(in, count, op) },
		whole:     op == kernels.Avg,
		allReduce: func(c *comm.Communicator, dst, src []T) forms { return allReduceForms(c, dst, src, op) },
		scan:      func(c *comm.Communicator, dst, src []T) forms { return scanForms(c, dst, src, op) },
		exscan:    func(c *comm.Communicator, dst, src []T) forms { return exscanForms(c, dst, src, op) },
		reduceScatterBlock: func(c *comm.Communicator, dst, src []T) forms {
			return reduceScatterBlockForms(c, dst, src, op)
		},
		reduce: func(c *comm.Communicator, dst, src []T, root int) forms { return reduceForms(c, dst, src, op, root) },
		reduceScatter: func(c *comm.Communicator, dst, src []T, counts []int) forms {
			return reduceScatterForms(c, dst, src, counts, op)
		},
	}
}

// byOperator makes the function of a …Func form from an operator on two elements.
func byOperator[T any](name string, op func(a, b T) T) reducer[T] {
	f := func(acc, x []T) {
		for i := range acc {
			acc[i] = op(acc[i], x[i])
		}
	}
	return reducer[T]{
		name:      name,
		reference: func(in [][]T, count int) []T { return refFold(in, count, op) },
		allReduce: func(c *comm.Communicator, dst, src []T) forms { return allReduceFuncForms(c, dst, src, f) },
		scan:      func(c *comm.Communicator, dst, src []T) forms { return scanFuncForms(c, dst, src, f) },
		exscan:    func(c *comm.Communicator, dst, src []T) forms { return exscanFuncForms(c, dst, src, f) },
		reduceScatterBlock: func(c *comm.Communicator, dst, src []T) forms {
			return reduceScatterBlockFuncForms(c, dst, src, f)
		},
		reduce: func(c *comm.Communicator, dst, src []T, root int) forms { return reduceFuncForms(c, dst, src, f, root) },
		reduceScatter: func(c *comm.Communicator, dst, src []T, counts []int) forms {
			return reduceScatterFuncForms(c, dst, src, counts, f)
		},
	}
}

func newWorld[T any](n, count int, seed uint64, gen func(*rand.Rand) T, same func(a, b T) bool, reducers []reducer[T]) *world[T] {
	w := &world[T]{n: n, count: count, seed: seed, in: make([][]T, n), junk: make([]T, pattern, 2*pattern+n*count+2*guardElems), same: same, reducers: reducers}
	for p := range w.in {
		w.in[p] = make([]T, n*count)
		r := rand.New(rand.NewPCG(seed, uint64(p)))
		for i := range w.in[p] {
			w.in[p][i] = gen(r)
		}
	}
	r := rand.New(rand.NewPCG(seed, 1000))
	for i := range w.junk {
		w.junk[i] = gen(r)
	}
	for len(w.junk) < cap(w.junk) {
		w.junk = append(w.junk, w.junk[:min(len(w.junk), cap(w.junk)-len(w.junk))]...)
	}
	for _, k := range reducers {
		var prefix [][]T
		for p := range n {
			if p < n-1 && !k.whole {
				prefix = append(prefix, k.reference(w.in[:p+1], count))
			}
		}
		w.prefix = append(w.prefix, prefix)
		w.total = append(w.total, k.reference(w.in, n*count))
	}
	return w
}

// upTo is the reduction k of the ranks 0…r.
func (w *world[T]) upTo(k, r int) []T {
	if r == w.n-1 {
		return w.total[k][:w.count]
	}
	return w.prefix[k][r]
}

const lengths = 5 // ways to draw blocks of different length

// blocks draws the elements of n blocks in one of these ways, none longer than
// count.
func (w *world[T]) blocks(way int) []int {
	r := rand.New(rand.NewPCG(w.seed, uint64(way)))
	counts := make([]int, w.n)
	for p := range counts {
		switch way % lengths {
		case 0: // some without elements
			counts[p] = w.count * (p % 2)
		case 1: // growing
			counts[p] = w.count * p / max(w.n-1, 1)
		case 2: // all for one
			if p == int(w.seed%uint64(w.n)) {
				counts[p] = w.count
			}
		case 3:
			counts[p] = r.IntN(w.count + 1)
		case 4: // the same
			counts[p] = w.count
		}
	}
	return counts
}

// A trial is one call on one rank.
type trial[T any] struct {
	name string
	src  []T
	n    int // elements of dst
	want []T // what dst has afterwards; nil: it is not written
	// The other slice of a rooted call is ignored on the other ranks.
	noDst, noSrc bool
	places       []place // where dst and src are; the call is made for each
	call         func(dst, src []T) forms
}

// A place is where dst and src are: in memory of their own, or at these
// elements of the same.
type place struct {
	shared   bool
	dst, src int
}

func separate() place              { return place{} }
func together(d, s int) place      { return place{true, d, s} }
func (t *trial[T]) at(i int) place { return t.places[i%len(t.places)] }

// moves are the trials of the collectives that reduce nothing.
func (w *world[T]) moves(c *comm.Communicator) []trial[T] {
	n, count, me := w.n, w.count, c.Rank()
	in := w.in[me]
	root := int(w.seed % uint64(n))
	equal := w.blocks(4)
	ts := []trial[T]{{
		name: "Barrier", places: []place{separate()}, call: func(_, _ []T) forms { return barrierForms(c) },
	}, {
		name: "AllGather", src: in[:count], n: n * count, want: refGather(w.in, equal), places: []place{separate(), together(0, me*count)},
		call: func(dst, src []T) forms { return allGatherForms(c, dst, src) },
	}}

	// Broadcast has one slice.
	bcast := trial[T]{
		name: "Broadcast", n: count, want: w.in[root][:count], places: []place{together(0, 0)},
		call: func(buf, _ []T) forms { return broadcastForms(c, buf, root) },
	}
	if me == root {
		bcast.src = in[:count]
	}
	ts = append(ts, bcast)

	ts = append(ts,
		w.gather("Gather", equal, root, me, func(dst, src []T) forms { return gatherForms(c, dst, src, root) }),
		w.scatter("Scatter", equal, root, me, func(dst, src []T) forms { return scatterForms(c, dst, src, root) }))
	for i := range 2 {
		counts := w.blocks(int(w.seed%lengths) + i)
		total := startOf(counts, n)
		ts = append(ts, trial[T]{
			name: "AllGatherV", src: in[:counts[me]], n: total, want: refGather(w.in, counts), places: []place{separate(), together(0, startOf(counts, me))},
			call: func(dst, src []T) forms { return allGatherVForms(c, dst, counts, src) },
		})
		mine := counts
		if me != root {
			mine = nil // nobody else needs to know
		}
		ts = append(ts,
			w.gather("GatherV", counts, root, me, func(dst, src []T) forms { return gatherVForms(c, dst, mine, src, root) }),
			w.scatter("ScatterV", counts, root, me, func(dst, src []T) forms { return scatterVForms(c, dst, src, mine, root) }))
	}

	all := func(f func(p, q int) int) [][]int {
		m := make([][]int, n)
		for p := range m {
			for q := range n {
				m[p] = append(m[p], f(p, q))
			}
		}
		return m
	}
	counts := w.blocks(int(w.seed / lengths % lengths))
	for _, k := range []struct {
		name   string
		m      [][]int // from, to
		places []place
	}{
		{"AllToAll", all(func(p, q int) int { return count }), []place{separate(), together(0, 0)}},
		{"AllToAllV", all(func(p, q int) int { return counts[(2*p+q)%n] }), []place{separate()}},
		{"AllToAllV of two equals", all(func(p, q int) int { return counts[(p+q)%n] }), []place{separate(), together(0, 0)}},
	} {
		from := all(func(p, q int) int { return k.m[q][p] })
		ts = append(ts, trial[T]{
			name: k.name, src: in[:startOf(k.m[me], n)], n: startOf(from[me], n), want: refAllToAll(w.in, k.m, me), places: k.places,
			call: func(dst, src []T) forms {
				if k.name == "AllToAll" {
					return allToAllForms(c, dst, src)
				}
				return allToAllVForms(c, dst, from[me], src, k.m[me])
			},
		})
	}
	return ts
}

func (w *world[T]) gather(name string, counts []int, root, me int, call func(dst, src []T) forms) trial[T] {
	t := trial[T]{name: name, src: w.in[me][:counts[me]], noDst: me != root, call: call, places: []place{separate(), separate()}}
	if me == root {
		t.n, t.want = startOf(counts, w.n), refGather(w.in, counts)
		t.places[1] = together(0, startOf(counts, root))
	}
	return t
}

func (w *world[T]) scatter(name string, counts []int, root, me int, call func(dst, src []T) forms) trial[T] {
	total := startOf(counts, w.n)
	t := trial[T]{name: name, n: counts[me], want: refScatter(w.in[root][:total], counts, me), noSrc: me != root, call: call, places: []place{separate(), separate()}}
	if me == root {
		t.src = w.in[root][:total]
		t.places[1] = together(startOf(counts, root), 0)
	}
	return t
}

// reductions are the trials with reducer k.
func (w *world[T]) reductions(c *comm.Communicator, k int) []trial[T] {
	n, count, me := w.n, w.count, c.Rank()
	in, by, total := w.in[me], w.reducers[k], w.total[k]
	root := int((w.seed + uint64(k)) % uint64(n))
	counts := w.blocks(int((w.seed + uint64(k)) % lengths))
	inPlace := []place{separate(), together(0, 0)}
	reduce := trial[T]{
		name: "Reduce", src: in[:count], noDst: me != root, places: []place{separate(), separate()},
		call: func(dst, src []T) forms { return by.reduce(c, dst, src, root) },
	}
	if me == root {
		reduce.n, reduce.want, reduce.places = count, total[:count], inPlace
	}
	ts := []trial[T]{reduce, {
		name: "AllReduce", src: in[:count], n: count, want: total[:count], places: inPlace,
		call: func(dst, src []T) forms { return by.allReduce(c, dst, src) },
	}, {
		name: "ReduceScatterBlock", src: in[:n*count], n: count, want: total[me*count:][:count], places: []place{separate(), together(me*count, 0), together(0, 0)},
		call: func(dst, src []T) forms { return by.reduceScatterBlock(c, dst, src) },
	}, {
		name: "ReduceScatter", src: in[:startOf(counts, n)], n: counts[me], want: refScatter(total, counts, me), places: []place{separate(), together(startOf(counts, me), 0), together(0, 0)},
		call: func(dst, src []T) forms { return by.reduceScatter(c, dst, src, counts) },
	}}
	if !by.whole {
		scan := trial[T]{
			name: "Scan", src: in[:count], n: count, want: w.upTo(k, me), places: inPlace,
			call: func(dst, src []T) forms { return by.scan(c, dst, src) },
		}
		exscan := trial[T]{
			name: "Exscan", src: in[:count], n: count, places: inPlace,
			call: func(dst, src []T) forms { return by.exscan(c, dst, src) },
		}
		if me > 0 {
			exscan.want = w.upTo(k, me-1)
		}
		ts = append(ts, scan, exscan)
	}
	for i := range ts {
		ts[i].name += " " + by.name
	}
	return ts
}

// A layout is a trial's memory: dst and src between guards, in one array or in
// two.
type layout[T any] struct {
	t        *trial[T]
	p        place
	got      [2][]T
	junk     [2][]T // what was in them first
	dst, src []T
	from     int // element of got[0] where dst is
	srcIn    int // which array src is in
	srcFrom  int // and from which element on
	forms    forms
}

const pattern = 1009 // elements

const guardElems = 5 // odd, so that a slice is not aligned to more than its elements

// lay makes the memory for place i, each array by alloc.
func (t *trial[T]) lay(i int, alloc func(k, n int) []T) *layout[T] {
	l := &layout[T]{t: t, p: t.at(i)}
	n := t.n
	if t.noDst && i > 0 {
		n = 3 // ignored, and not to be written
	}
	part := func(k, from, n int) []T { return l.got[k][guardElems+from:][:n:n] }
	area := func(k, n int) { l.got[k] = alloc(k, n+2*guardElems) }
	l.from = guardElems + l.p.dst
	if l.p.shared {
		area(0, max(l.p.dst+n, l.p.src+len(t.src)))
		l.src, l.srcFrom = part(0, l.p.src, len(t.src)), guardElems+l.p.src
	} else {
		area(0, n)
		area(1, max(len(t.src), 3))
		l.src, l.srcIn, l.srcFrom = part(1, 0, len(t.src)), 1, guardElems
		if t.noSrc && i > 0 {
			l.src = part(1, 0, 3)
		}
	}
	l.dst = part(0, l.p.dst, n)
	if t.noDst && i == 0 {
		l.dst = nil
	}
	if t.noSrc && i == 0 {
		l.src = nil
	}
	l.forms = t.call(l.dst, l.src)
	return l
}

// fill sets the memory to what it has before a call.
func (l *layout[T]) fill(w *world[T], r *rand.Rand) {
	for k := range l.got {
		l.junk[k] = w.junk[r.IntN(pattern):][:len(l.got[k])]
		copy(l.got[k], l.junk[k])
	}
	copy(l.src, l.t.src)
}

// check compares it with what it should have.
func (l *layout[T]) check(w *world[T]) error {
	for k, got := range l.got {
		// The parts that have different things: the result, the source where the result is
		// not, and around them what was there.
		dst, src := [2]int{}, [2]int{}
		if k == 0 {
			dst = [2]int{l.from, l.from + len(l.t.want)}
		}
		if k == l.srcIn && len(l.src) > 0 {
			src = [2]int{l.srcFrom, l.srcFrom + min(len(l.src), len(l.t.src))}
		}
		cuts := []int{0, dst[0], dst[1], src[0], src[1], len(got)}
		slices.Sort(cuts)
		for c, end := range cuts[1:] {
			i := cuts[c]
			part, want := got[i:end], l.junk[k][i:end]
			inDst := i >= dst[0] && i < dst[1]
			if inDst {
				want = l.t.want[i-dst[0]:][:end-i]
			} else if i >= src[0] && i < src[1] {
				want = l.t.src[i-src[0]:][:end-i]
			}
			if bytes.Equal(bytesOf(part), bytesOf(want)) {
				continue
			}
			for j := range part {
				if bytes.Equal(bytesOf(part[j:j+1]), bytesOf(want[j:j+1])) {
					continue
				}
				if !inDst {
					return fmt.Errorf("wrote outside dst, at %d of array %d", i+j, k)
				}
				if !w.same(part[j], want[j]) {
					return fmt.Errorf("element %d is %v, want %v", i+j-l.from, part[j], want[j])
				}
			}
		}
	}
	return nil
}

// formSet says which forms of a call are tried.
type formSet uint8

const (
	blocking formSet = 1 << iota
	started
	persistent
	grouped
	allForms formSet = 1<<iota - 1

	// onlyReductions leaves out the others, which know of a type its size only.
	onlyReductions formSet = 1 << iota
	// symmetric has the slices in symmetric memory, or some of them on some ranks.
	symmetric
)

// private makes memory that only this rank has.
func private[T any](_, n int) []T { return make([]T, n) }

// reused makes such memory for one layout at a time: that of the one before, if it is
// enough.
func reused[T any]() func(k, n int) []T {
	var areas [2][]T
	return func(k, n int) []T {
		if n > len(areas[k]) {
			areas[k] = make([]T, n)
		}
		return areas[k][:n:n]
	}
}

// symmetricMemory makes symmetric memory for the arrays of one layout at a time: in
// the p-th of some ways.
func (w *world[T]) symmetricMemory(ctx context.Context, c *comm.Communicator) (memory func(p int) func(k, n int) []T, free func(), err error) {
	var zero T
	var areas [2][]uint64
	var frees []func() error
	free = func() {
		for _, f := range frees {
			f()
		}
	}
	for k := range areas {
		b, err := comm.Alloc[uint64](ctx, c, (w.n*w.count+64)*int(unsafe.Sizeof(zero))/8+1)
		if err != nil {
			return nil, free, err
		}
		areas[k], frees = b.Slice(), append(frees, b.Free)
	}
	return func(p int) func(k, n int) []T {
		return func(k, n int) []T {
			if p%4 == 1 && k == 0 || p%4 == 2 && k == 1 || p%4 == 3 && c.Rank() == w.n-1 {
				return private[T](k, n)
			}
			return sliceOf[T](bytesOf(areas[k])[:n*int(unsafe.Sizeof(zero))])
		}
	}, free, nil
}

func (f formSet) String() string {
	return map[formSet]string{blocking: "blocking", started: "started", persistent: "persistent", grouped: "grouped"}[f]
}

// run makes all trials in the given forms.
func (w *world[T]) run(ctx context.Context, c *comm.Communicator, set formSet) error {
	r := rand.New(rand.NewPCG(w.seed, uint64(c.Rank())+2000))
	var ts []trial[T]
	if set&onlyReductions == 0 {
		ts = w.moves(c)
	}
	for k := range w.reducers {
		ts = append(ts, w.reductions(c, k)...)
	}
	failed := func(l *layout[T], form formSet, err error) error {
		return fmt.Errorf("%s, %v, %+v: rank %d of %d, count %d, seed %d: %w", l.t.name, form, l.p, c.Rank(), w.n, w.count, w.seed, err)
	}
	// tried makes one call, or some together, on fresh memory.
	tried := func(form formSet, call func() error, ls ...*layout[T]) error {
		for _, l := range ls {
			l.fill(w, r)
		}
		if err := call(); err != nil {
			return failed(ls[0], form, err)
		}
		for _, l := range ls {
			if err := l.check(w); err != nil {
				return failed(l, form, err)
			}
		}
		return nil
	}

	own := reused[T]()
	memory := func(int) func(k, n int) []T { return own }
	ways := 1
	if set&symmetric != 0 {
		var free func()
		var err error
		memory, free, err = w.symmetricMemory(ctx, c)
		defer free()
		if err != nil {
			return err
		}
		ways = 4
	}
	for i := range ts {
		for p := range ways * len(ts[i].places) {
			l := ts[i].lay(p/ways, memory(p))
			if set&blocking != 0 {
				if err := tried(blocking, func() error { return l.forms.block(ctx) }, l); err != nil {
					return err
				}
			}
			if set&persistent == 0 {
				continue
			}
			call, err := l.forms.setUp()
			if err != nil {
				return failed(l, persistent, err)
			}
			for range 2 {
				if err := tried(persistent, func() error { return call.Run(ctx) }, l); err != nil {
					return err
				}
			}
			if err := tried(persistent, func() error { return call.Start(ctx).Wait(ctx) }, l); err != nil {
				return err
			}
		}
	}

	// The others several at a time.
	batch := 25
	if w.count > 2000 {
		batch = 4
	}
	for p := range 3 {
		for i := 0; i < len(ts) && set&(started|grouped) != 0; i += batch {
			var ls []*layout[T]
			for k := i; k < min(i+batch, len(ts)); k++ {
				ls = append(ls, ts[k].lay(p%len(ts[k].places), private[T]))
			}
			if set&started != 0 {
				if err := tried(started, func() error {
					var requests []*Request
					for _, l := range ls {
						requests = append(requests, l.forms.start(ctx))
					}
					return WaitAll(ctx, requests...)
				}, ls...); err != nil {
					return err
				}
			}
			if set&grouped == 0 {
				continue
			}
			addAll := func(g *GroupCalls) error {
				for _, l := range ls {
					l.forms.add(g)
				}
				return nil
			}
			group, err := NewGroup(c, addAll)
			if err != nil {
				return failed(ls[0], grouped, err)
			}
			for _, call := range []func() error{
				func() error { return Group(ctx, c, addAll) },
				func() error { return StartGroup(ctx, c, addAll).Wait(ctx) },
				func() error { return group.Run(ctx) },
				func() error { return group.Run(ctx) },
			} {
				if err := tried(grouped, call, ls...); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
