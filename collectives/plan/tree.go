package plan

import "math/bits"

// Trees. A reduction goes up: each rank combines what it has with what its
// children send, and sends the result to its parent. A broadcast goes down the
// same way, its stages in reverse. An AllReduce is both, at rank 0.
//
// Here are the parts that all trees share, and the binomial tree and the chain;
// the double tree has a file of its own.
//
// Binomial tree (ranks counted from the root): ⌈log2 n⌉ rounds; a rank sends S
// up, the root S·⌈log2 n⌉ down.
//
// Chain (ranks counted from the root, each sends to the next): n−1 rounds, each
// rank sends S. It needs many segments.

// A tree is a rank's place in one.
type tree struct {
	stages   int
	parent   int // −1: root
	up       int // stage in which this rank sends to its parent
	children []child
}

type child struct {
	rank  int
	stage int // in which it sends to this rank: those of one rank never decrease
	// before: what the child sends comes before this rank's own in the order.
	before bool
}

// A grower gives the place of a rank in the tree for a segment, counted from root.
type grower func(ranks, root, rank, segment int) tree

func binomial(ranks, root, rank, _ int) tree {
	v := (rank - root + ranks) % ranks
	t := tree{stages: bits.Len(uint(ranks - 1)), parent: -1}
	t.up = t.stages
	if v > 0 {
		t.up = bits.TrailingZeros(uint(v))
		t.parent = (rank - 1<<t.up + ranks) % ranks
	}
	for j := 0; j < t.up && v+1<<j < ranks; j++ {
		t.children = append(t.children, child{rank: (rank + 1<<j) % ranks, stage: j})
	}
	return t
}

func chain(ranks, root, rank, _ int) tree {
	v := (rank - root + ranks) % ranks
	t := tree{stages: ranks - 1, parent: -1, up: ranks - 1 - v}
	if v > 0 {
		t.parent = (rank - 1 + ranks) % ranks
	}
	if v < ranks-1 {
		t.children = []child{{rank: (rank + 1) % ranks, stage: ranks - 2 - v}}
	}
	return t
}

// up writes a stage of a reduction. What the rank has is acc; a rank with
// children keeps what it makes in dst.
func (t tree) reduce(w *writer, stage int, acc *Range, dst Range) {
	if t.parent >= 0 && stage == t.up {
		w.put(t.parent, *acc)
	}
	var before, after []Range
	for _, c := range t.children {
		if c.stage != stage {
			continue
		}
		box := w.wait(c.rank, acc.Len())
		if c.before {
			before = append(before, box)
		} else {
			after = append(after, box)
		}
	}
	if len(before)+len(after) == 0 {
		return
	}
	srcs := append(append(append([]Range(nil), before...), *acc), after...)
	w.combine(t.parent < 0 && stage == t.stages-1, dst, srcs...)
	for _, box := range append(before, after...) {
		w.release(box)
	}
	*acc = dst
}

// broadcast writes a stage of a broadcast of what is at buf.
func (t tree) broadcast(w *writer, stage int, buf Range) {
	stage = t.stages - 1 - stage
	for _, c := range t.children {
		if c.stage == stage {
			w.put(c.rank, buf)
		}
	}
	if t.parent >= 0 && stage == t.up {
		w.receive(t.parent, buf)
	}
}

// treeRecipe does a Reduce, a Broadcast or an AllReduce on trees.
func treeRecipe(w *writer, grow grower, least int) recipe {
	s := w.shape
	r := treeSegments(s, grow, least)
	if s.Collective == Reduce && w.rank != s.Root {
		r.scratch = r.cut(s).part(0).len()
	}
	r.begin = func(p part) func(int) {
		t := grow(s.Ranks, s.Root, w.rank, p.index)
		acc, dst := p.in(Send), p.in(Recv)
		if s.Collective == Reduce && t.parent >= 0 {
			dst = w.work(p, 0, p.len()) // a Recv is at the root only
		}
		return func(stage int) {
			switch {
			case s.Collective == Broadcast:
				t.broadcast(w, stage, dst)
			case stage < t.stages:
				t.reduce(w, stage, &acc, dst)
			default:
				t.broadcast(w, stage-t.stages, dst)
			}
		}
	}
	return r
}

func treeSegments(s Shape, grow grower, least int) recipe {
	stages := grow(s.Ranks, s.Root, s.Root, 0).stages
	if s.Collective == AllReduce {
		stages *= 2
	}
	return recipe{stages: stages, most: s.message(), least: least}
}

// treeClaim is what each tree takes: an element goes once up or down each edge.
func treeClaim(s Shape, grow grower, rankElems int) Claim {
	r := treeSegments(s, grow, 0)
	total := (s.Ranks - 1) * s.Count
	if s.Collective == AllReduce {
		total *= 2
	}
	return Claim{Rounds: r.stages, TotalElems: total, RankElems: rankElems}
}

// treeOrder is the order of a reduction on trees.
func treeOrder(s Shape, grow grower, least int) []*order {
	orders := make([]*order, s.Count)
	known := map[int]*order{}
	for _, p := range treeSegments(s, grow, least).cut(s).parts() {
		o := known[p.index%max(least, 1)]
		if o == nil {
			o = treeOrderBelow(s, grow, s.Root, p.index)
			known[p.index%max(least, 1)] = o
		}
		fill(orders, p, o)
	}
	return orders
}

// treeOrderBelow is the order of what rank sends up: children that come in the same
// stage are combined at once.
func treeOrderBelow(s Shape, grow grower, rank, segment int) *order {
	t := grow(s.Ranks, s.Root, rank, segment)
	acc := leaf(rank)
	for i := 0; i < len(t.children); {
		var before, after []*order
		stage := t.children[i].stage
		for ; i < len(t.children) && t.children[i].stage == stage; i++ {
			c := t.children[i]
			if o := treeOrderBelow(s, grow, c.rank, segment); c.before {
				before = append(before, o)
			} else {
				after = append(after, o)
			}
		}
		acc = &order{of: append(append(before, acc), after...)}
	}
	return acc
}

func binomialAlgorithm() Algorithm {
	return Algorithm{
		Name:   "tree",
		Source: "Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH, IJHPCA 19 (2005) §4.2",
		recipe: func(w *writer) recipe { return treeRecipe(w, binomial, 0) },
		claim: func(s Shape) Claim {
			rankElems := s.Count
			if s.Collective != Reduce {
				rankElems *= bits.Len(uint(s.Ranks - 1))
			}
			return treeClaim(s, binomial, rankElems)
		},
	}
}

func reduceTree() Algorithm {
	a := binomialAlgorithm()
	a.Order = "pairwise, a binomial tree over the ranks root, root+1, …, n−1, 0, …, root−1"
	a.order = func(s Shape) []*order { return treeOrder(s, binomial, 0) }
	return a
}

func allReduceTree() Algorithm {
	a := reduceTree()
	a.Order = "pairwise, a binomial tree over the ranks in rank order"
	return a
}

func broadcastTree() Algorithm { return binomialAlgorithm() }

func broadcastChain() Algorithm {
	return Algorithm{
		Name:   "chain",
		Source: "folklore; \"pipeline\" in MPI libraries",
		recipe: func(w *writer) recipe { return treeRecipe(w, chain, 0) },
		claim:  func(s Shape) Claim { return treeClaim(s, chain, s.Count) },
	}
}
