package plan

// ReduceScatter by recursive halving: two groups of ranks exchange the blocks of
// each other's ranks, and each goes on with those of its own ranks. ⌊log2 n⌋ rounds
// while a message can hold all blocks; otherwise a round is divided, a message for
// as many as it holds. Each rank sends and reduces (n−1)·S if n is a power of two.
// Ranks beyond a power of two are folded, see [fold]: two rounds more, and n·S that
// the odd rank of a pair sends.
//
// As in the original, and other than in AllReduce, far ranks come first, so that
// the blocks of a message are next to each other at any time. Nothing is packed: a
// message of several blocks is of whole ones.

func reduceScatterHalving() Algorithm {
	return Algorithm{
		Name:   "halving",
		Source: "Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH, IJHPCA 19 (2005) §4.4, for commutative operations",
		Order:  "pairwise, a balanced binary tree with far ranks joined first: with 2ᵏ ranks r and r + 2ᵏ⁻¹, those with r + 2ᵏ⁻² and its partner, …; with 2ᵏ + q ranks ranks 2i and 2i+1 are joined before, for i < q, and act as one",
		recipe: func(w *writer) recipe {
			s, f := w.shape, foldOf(w.shape.Ranks)
			partner, me := f.partner(w.rank), f.actor(w.rank)
			rounds := halvingRounds(s)
			r := recipe{stages: rounds.total, most: s.message()}
			// The blocks base … top−1 are in Scratch from the first reduction on.
			base, top := 0, 0
			switch {
			case me >= 0 && partner >= 0:
				top = s.Ranks
			case me >= 0:
				base, top = f.group(me, f.log-1)
			}
			r.scratch = (top - base) * r.cut(s).part(0).len()
			r.begin = func(p part) func(int) {
				sent := func(b int) Range { return p.of(Send, b, s.Count) }
				acc := func(b int) Range { return w.work(p, (b-base)*p.len(), p.len()) }
				result := func(b int) Range {
					if b == w.rank {
						return p.in(Recv)
					}
					return acc(b)
				}
				return func(stage int) {
					round, sub := rounds.at(stage)
					switch j := f.log - 1 - (round - f.extra()); {
					case j == f.log && partner >= 0 && me < 0:
						w.pack(partner, rounds.message(0, s.Ranks, sub, sent))
					case j == f.log && partner >= 0:
						w.reduceBlocks(partner, false, rounds.message(0, s.Ranks, sub, acc), rounds.message(0, s.Ranks, sub, sent))
					case 0 <= j && j < f.log && me >= 0:
						from, to := acc, acc
						if j == f.log-1 && partner < 0 {
							from = sent
						}
						if j == 0 {
							to = result
						}
						other := me ^ 1<<j
						peer := f.rank(other)
						a, b := f.group(other, j)
						w.pack(peer, rounds.message(a, b, sub, from))
						a, b = f.group(me, j)
						w.reduceBlocks(peer, j == 0, rounds.message(a, b, sub, to), rounds.message(a, b, sub, from))
					case j < 0 && partner >= 0 && me < 0:
						w.receive(partner, p.in(Recv))
					case j < 0 && partner >= 0:
						w.put(partner, acc(partner))
					}
				}
			}
			return r
		},
		claim: func(s Shape) Claim {
			f := foldOf(s.Ranks)
			c := Claim{Rounds: halvingRounds(s).total, TotalElems: f.rem * (s.Ranks + 1) * s.Count}
			if f.rem > 0 {
				c.RankElems = s.Ranks * s.Count
			}
			for me := range 1 << f.log {
				elems := 0
				for j := range f.log {
					from, to := f.group(me^1<<j, j)
					elems += (to - from) * s.Count
				}
				c.TotalElems += elems
				if f.partner(f.rank(me)) >= 0 {
					elems += s.Count
				}
				c.RankElems = max(c.RankElems, elems)
			}
			return c
		},
		order: func(s Shape) []*order { return same(s, foldOf(s.Ranks).farOrder()) },
	}
}

// halvingRounds are the rounds of a ReduceScatter by halving.
func halvingRounds(s Shape) grouped {
	f := foldOf(s.Ranks)
	var most []int
	if f.rem > 0 {
		most = append(most, s.Ranks)
	}
	for j := f.log - 1; j >= 0; j-- {
		from, to := f.group(0, j) // the one with the most pairs
		most = append(most, to-from)
	}
	if f.rem > 0 {
		most = append(most, 1)
	}
	return groupedBy(s, recipe{most: s.message()}, most)
}
