package plan

import (
	"math/bits"
	"slices"
)

// Gather and Scatter by a binomial tree, the same as for Reduce and Broadcast:
// a message has the blocks of a whole subtree, which are those of consecutive
// ranks, counted from the root. ⌈log2 n⌉ rounds while a message can hold all
// blocks; otherwise a round is divided, a message for as many as it holds. About
// n/2·S·log2 n are sent in all.
//
// A Gather goes up: an inner rank collects the blocks of its subtree, its own
// first, in Scratch. A Scatter goes down, the rounds in reverse; an inner rank
// keeps in Scratch what is for others.

const subtrees = "Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH, IJHPCA 19 (2005) §4.2, the scatter of a long broadcast"

// subtreeRanks is the number of ranks in the subtree whose top is v ranks above
// the root.
func subtreeRanks(ranks, v int) int {
	if v == 0 {
		return ranks
	}
	return min(v&-v, ranks-v)
}

// A subtree has the ranks that are from … to−1 above another one, which is the
// parent of its top, rank.
type subtree struct{ rank, from, to int }

// below is the subtree below a rank whose blocks travel in a round, if any.
func (s Shape) below(t tree, rank, round int) (subtree, bool) {
	for _, c := range t.children {
		if c.stage == round {
			d := (c.rank - rank + s.Ranks) % s.Ranks
			return subtree{c.rank, d, d + subtreeRanks(s.Ranks, (c.rank-s.Root+s.Ranks)%s.Ranks)}, true
		}
	}
	return subtree{}, false
}

func gatherTree() Algorithm {
	return Algorithm{
		Name: "tree", Source: subtrees,
		recipe: func(w *writer) recipe {
			s, t := w.shape, binomial(w.shape.Ranks, w.shape.Root, w.rank, 0)
			rounds := subtreeRounds(s, false)
			r := recipe{stages: rounds.total, most: s.message()}
			mine := subtreeRanks(s.Ranks, (w.rank-s.Root+s.Ranks)%s.Ranks)
			if t.parent >= 0 && mine > 1 {
				r.scratch = mine * r.cut(s).part(0).len()
			}
			r.begin = func(p part) func(int) {
				// block is that of the rank d above this one.
				block := func(d int) Range {
					switch {
					case t.parent < 0:
						return p.of(Recv, (w.rank+d)%s.Ranks, s.Count)
					case mine == 1:
						return p.in(Send)
					}
					return w.work(p, d*p.len(), p.len())
				}
				return func(stage int) {
					if stage == 0 && mine > 1 {
						w.prepare(block(0), p.in(Send))
					}
					round, sub := rounds.at(stage)
					if t.parent >= 0 && round == t.up {
						w.pack(t.parent, rounds.message(0, mine, sub, block))
					}
					if b, ok := s.below(t, w.rank, round); ok {
						w.unpack(b.rank, rounds.message(b.from, b.to, sub, block))
					}
				}
			}
			return r
		},
		claim: func(s Shape) Claim {
			c := Claim{Rounds: subtreeRounds(s, false).total}
			for v := 1; v < s.Ranks; v++ {
				elems := subtreeRanks(s.Ranks, v) * s.Count
				c.TotalElems += elems
				c.RankElems = max(c.RankElems, elems)
			}
			return c
		},
	}
}

func scatterTree() Algorithm {
	return Algorithm{
		Name: "tree", Source: subtrees,
		recipe: func(w *writer) recipe {
			s, t := w.shape, binomial(w.shape.Ranks, w.shape.Root, w.rank, 0)
			rounds := subtreeRounds(s, true)
			r := recipe{stages: rounds.total, most: s.message()}
			mine := subtreeRanks(s.Ranks, (w.rank-s.Root+s.Ranks)%s.Ranks)
			if t.parent < 0 {
				r.extra = s.message() // for messages of ranks on both sides of the end
			} else {
				r.scratch = (mine - 1) * r.cut(s).part(0).len()
			}
			r.begin = func(p part) func(int) {
				// block is that of the rank d above this one.
				block := func(d int) Range {
					switch {
					case t.parent < 0:
						return p.of(Send, (w.rank+d)%s.Ranks, s.Count)
					case d == 0:
						return p.in(Recv)
					}
					return w.work(p, (d-1)*p.len(), p.len())
				}
				return func(stage int) {
					round, sub := rounds.at(stage)
					round = t.stages - 1 - round
					if b, ok := s.below(t, w.rank, round); ok {
						w.pack(b.rank, rounds.message(b.from, b.to, sub, block))
					}
					if t.parent >= 0 && round == t.up {
						w.unpack(t.parent, rounds.message(0, mine, sub, block))
					}
					if t.parent < 0 && stage == 0 {
						w.copy(p.in(Recv), block(0))
					}
				}
			}
			return r
		},
		claim: func(s Shape) Claim {
			c := gatherTree().claim(s)
			c.RankElems = (s.Ranks - 1) * s.Count // the root's
			return c
		},
	}
}

// subtreeRounds are the rounds in which blocks go up, or down.
func subtreeRounds(s Shape, down bool) grouped {
	var most []int
	for j := range bits.Len(uint(s.Ranks - 1)) {
		most = append(most, subtreeRanks(s.Ranks, 1<<j))
	}
	if down {
		slices.Reverse(most)
	}
	return groupedBy(s, recipe{most: s.message()}, most)
}
