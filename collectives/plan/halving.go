package plan

// Recursive halving and doubling: a reduce-scatter in which two groups of ranks
// exchange halves of the part that both still reduce, then an all-gather that
// goes the same way back. 2·⌊log2 n⌋ rounds; each rank sends 2·S·(n−1)/n and
// reduces S·(n−1)/n if n is a power of two. Ranks beyond a power of two are
// folded, see [fold]: two rounds and S more.
//
// The original exchanges the large halves with far ranks. Here neighbours come
// first, so that groups are of consecutive ranks at any time: the order is that
// of recursive doubling.

func allReduceHalving() Algorithm {
	return Algorithm{
		Name:   "halving",
		Source: "Rabenseifner: Optimization of Collective Reduction Operations, ICCS 2004",
		Order:  foldedOrder,
		recipe: func(w *writer) recipe {
			f := foldOf(w.shape.Ranks)
			me := f.actor(w.rank)
			r := halvingSegments(w.shape)
			r.begin = func(p part) func(int) {
				// parts[j] is what the group still reduces after j rounds.
				parts := []part{p}
				for j := 0; me >= 0 && j < f.log; j++ {
					parts = append(parts, parts[j].share(2, me>>j&1))
				}
				return w.folded(f, p, 2*f.log, func(stage int, acc *Range) {
					if stage < f.log {
						peer := f.rank(me ^ 1<<stage)
						keep, give := parts[stage+1], parts[stage].share(2, me>>stage&1^1)
						w.put(peer, give.in(acc.Buf))
						box := w.wait(peer, keep.len())
						lower, upper := keep.in(acc.Buf), box
						if peer < w.rank {
							lower, upper = upper, lower
						}
						w.combine(stage == f.log-1, keep.in(Recv), lower, upper)
						w.release(box)
						*acc = p.in(Recv)
						return
					}
					j := 2*f.log - 1 - stage
					peer := f.rank(me ^ 1<<j)
					w.put(peer, parts[j+1].in(Recv))
					w.receive(peer, parts[j].share(2, me>>j&1^1).in(Recv))
				})
			}
			return r
		},
		claim: func(s Shape) Claim {
			f := foldOf(s.Ranks)
			c := Claim{Rounds: 2 * (f.log + f.extra()), TotalElems: 2 * s.Count * (1<<f.log - 1 + f.rem)}
			for _, p := range halvingSegments(s).cut(s).parts() {
				c.RankElems += p.len() * f.extra()
				for n, j := p.len(), 0; j < f.log; j++ {
					n = ceil(n, 2)
					c.RankElems += 2 * n
				}
			}
			return c
		},
		order: foldOrder,
	}
}

// halvingSegments are as large as the largest message allows: half a segment,
// or a whole one where ranks are folded.
func halvingSegments(s Shape) recipe {
	f := foldOf(s.Ranks)
	return recipe{stages: 2 * (f.log + f.extra()), most: s.message() * (2 - f.extra())}
}
