package plan

// Ring: data goes from each rank to the next one only.
//
// AllReduce: the elements are divided in n blocks. Block b starts at rank b+1
// and goes round once, each rank adding its own, until it is complete at rank b;
// then it goes round again for everyone. 2(n−1) rounds; each rank sends
// 2·S·(n−1)/n and reduces S·(n−1)/n.
//
// AllGather is the second half. n−1 rounds; each rank sends (n−1)·S.

func allReduceRing() Algorithm {
	return Algorithm{
		Name:   "ring",
		Source: "Patarasuk, Yuan: Bandwidth optimal all-reduce algorithms for clusters of workstations, JPDC 69 (2009)",
		Order:  "pairwise, for the share of rank b: b+1, b+2, …, n−1, 0, …, b",
		recipe: func(w *writer) recipe {
			n := w.shape.Ranks
			next, prev := (w.rank+1)%n, (w.rank+n-1)%n
			return recipe{stages: 2 * (n - 1), most: manyMessages(w.shape), begin: func(p part) func(int) {
				block := func(i int) part { return p.shareOf(w, (i%n+n)%n) }
				return func(stage int) {
					if stage >= n-1 {
						w.ring(stage-(n-1), func(b int) Range { return p.shareOf(w, b).in(Recv) })
						return
					}
					out, in := block(w.rank-1-stage), block(w.rank-2-stage)
					buf := Recv // what the previous stage left
					if stage == 0 {
						buf = Send
					}
					w.put(next, out.in(buf))
					box := w.wait(prev, in.len())
					w.combine(stage == n-2, in.in(Recv), box, in.in(Send))
					w.release(box)
				}
			}}
		},
		claim: func(s Shape) Claim {
			n := s.Ranks
			c := Claim{Rounds: 2 * (n - 1), TotalElems: 2 * (n - 1) * s.Count}
			for _, p := range (recipe{stages: 2 * (n - 1), most: manyMessages(s)}).cut(s).parts() {
				c.RankElems += 2 * (p.len() - p.len()/n)
			}
			return c
		},
		order: func(s Shape) []*order {
			n := s.Ranks
			r := recipe{stages: 2 * (n - 1), most: manyMessages(s)}
			orders := make([]*order, s.Count)
			for _, p := range r.cut(s).parts() {
				for b := range n {
					o := leaf(b + 1)
					for i := 2; i <= n; i++ {
						o = both(o, leaf(b+i))
					}
					fill(orders, p.share(n, b), o.mod(n))
				}
			}
			return orders
		},
	}
}

// ring writes stage 0…n−2 of an all-gather in which each rank begins with its
// own block.
func (w *writer) ring(stage int, block func(b int) Range) {
	n := w.shape.Ranks
	w.put((w.rank+1)%n, block((w.rank-stage+n)%n))
	w.receive((w.rank+n-1)%n, block((w.rank-stage-1+n)%n))
}

func allGatherRing() Algorithm {
	return Algorithm{
		Name:   "ring",
		Source: "Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH, IJHPCA 19 (2005)",
		recipe: gatherRing,
		claim:  everyoneToAll(func(s Shape) int { return s.Ranks - 1 }),
	}
}

func gatherRing(w *writer) recipe {
	return recipe{stages: w.shape.Ranks - 1, most: w.shape.message(), begin: func(p part) func(int) {
		block := func(b int) Range { return p.of(Recv, b, w.shape.Count) }
		return func(stage int) {
			if stage == 0 {
				w.prepare(block(w.rank), p.in(Send))
			}
			w.ring(stage, block)
		}
	}}
}
