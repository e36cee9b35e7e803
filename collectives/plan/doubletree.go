package plan

import "math/bits"

// Double binary tree: segments go alternately by one of two binary trees. Below
// the root, which is the top of both, a rank is an inner one in one of the trees
// at most and a leaf in the other, so that all links are used in both
// directions. ⌈log2 n⌉ rounds each way; up, each rank sends S; down, an inner
// rank sends 2 · S/2.
//
// Ranks are counted from the root, v = 0 … n−1. In the first tree the children
// of the root and of the v with j zeros at the end are in the middle of what is
// left and right of it, as in a search tree: left of v is v − 2ʲ⁻¹, right of it
// the largest v + 2ⁱ there is, i < j; odd ones are leaves. The second one is the
// first with v and n−v exchanged, if n is odd, and else with all v > 0 moved by one.

// doubleTree takes the first tree for even segments.
func doubleTree(ranks, root, rank, segment int) tree {
	move := mover{ranks: ranks, second: segment%2 == 1}
	u := move.from((rank - root + ranks) % ranks) // place in the first tree
	t := tree{stages: bits.Len(uint(ranks - 1)), parent: -1}
	level := t.stages
	if u > 0 {
		level = bits.TrailingZeros(uint(u))
		parent := u&^(1<<level) | 1<<(level+1)
		if parent >= ranks {
			parent = u &^ (1 << level)
		}
		t.parent = (move.to(parent) + root) % ranks
		t.up = t.stages - 1
		if parent > 0 {
			t.up = bits.TrailingZeros(uint(parent)) - 1
		}
	}
	add := func(c int) {
		if c > 0 && c < ranks {
			before := c < u != (move.mirrors() && u > 0)
			t.children = append(t.children, child{rank: (move.to(c) + root) % ranks, stage: level - 1, before: before})
		}
	}
	if level == 0 {
		return t
	}
	if u > 0 {
		add(u - 1<<(level-1))
	}
	for i := level - 1; i >= 0; i-- {
		if u+1<<i < ranks {
			add(u + 1<<i)
			break
		}
	}
	return t
}

// A mover maps places in the first tree to those in the tree it stands for.
type mover struct {
	ranks  int
	second bool
}

func (m mover) mirrors() bool { return m.second && m.ranks%2 == 1 }

func (m mover) to(u int) int {
	switch {
	case !m.second || u == 0:
		return u
	case m.mirrors():
		return m.ranks - u
	}
	return u%(m.ranks-1) + 1
}

func (m mover) from(v int) int {
	switch {
	case !m.second || v == 0:
		return v
	case m.mirrors():
		return m.ranks - v
	}
	return (v+m.ranks-3)%(m.ranks-1) + 1
}

func doubleTreeAlgorithm() Algorithm {
	return Algorithm{
		Name:   "doubletree",
		Source: "Sanders, Speck, Träff: Two-tree algorithms for full bandwidth broadcast, reduction and scan, Parallel Computing 35 (2009)",
		recipe: func(w *writer) recipe { return treeRecipe(w, doubleTree, 2) },
		claim: func(s Shape) Claim {
			var half [2]int
			for _, p := range treeSegments(s, doubleTree, 2).cut(s).parts() {
				half[p.index%2] += p.len()
			}
			// An inner rank sends to its parent, to two children, or both.
			inner, leaf := 1, 1
			switch s.Collective {
			case Broadcast:
				inner, leaf = 2, 0
			case AllReduce:
				inner = 3
			}
			most, least := max(half[0], half[1]), min(half[0], half[1])
			return treeClaim(s, doubleTree, inner*most+leaf*least)
		},
	}
}

func broadcastDoubleTree() Algorithm { return doubleTreeAlgorithm() }

func reduceDoubleTree() Algorithm {
	a := doubleTreeAlgorithm()
	a.Order = "each rank with its children at once, in the order of two trees over the ranks root, root+1, …, root−1; if n is even, the second one takes root+1 last"
	a.order = func(s Shape) []*order { return treeOrder(s, doubleTree, 2) }
	return a
}

func allReduceDoubleTree() Algorithm {
	a := reduceDoubleTree()
	a.Order = "each rank with its children at once, in rank order; if n is even, rank 1 is last in the second tree"
	return a
}
