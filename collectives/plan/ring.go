package plan

// Ring: data goes from each rank to the next one only.
//
// AllReduce: the elements are divided in n blocks. Block b starts at rank b+1
// and goes round once, each rank adding its own, until it is complete at rank b;
// then it goes round again for everyone. 2(n−1) rounds; each rank sends
// 2·S·(n−1)/n and reduces S·(n−1)/n.
//
// ReduceScatter is the first half, with the blocks of the caller. n−1 rounds;
// each rank sends (n−1)·S and reduces that much.
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
					fill(orders, p.share(n, b), roundTo(b, n))
				}
			}
			return orders
		},
	}
}

// roundTo is the order of what goes round once, from the rank above b to b.
func roundTo(b, n int) *order {
	o := leaf(b + 1)
	for i := 2; i <= n; i++ {
		o = both(o, leaf(b+i))
	}
	return o.mod(n)
}

func reduceScatterRing() Algorithm {
	return Algorithm{
		Name:   "ring",
		Source: "the first half of Patarasuk, Yuan: Bandwidth optimal all-reduce algorithms for clusters of workstations, JPDC 69 (2009)",
		Order:  "pairwise, for the block of rank b: b+1, b+2, …, n−1, 0, …, b",
		recipe: func(w *writer) recipe {
			n, size := w.shape.Ranks, w.shape.Count
			next, prev := (w.rank+1)%n, (w.rank+n-1)%n
			r := recipe{stages: n - 1, most: w.shape.message()}
			if n > 2 {
				r.scratch = r.cut(w.shape).part(0).len()
			}
			r.begin = func(p part) func(int) {
				acc := w.work(p, 0, p.len()) // what the previous stage left
				return func(stage int) {
					if stage == 0 {
						w.put(next, p.of(Send, prev, size))
					} else {
						w.put(next, acc)
					}
					dst := acc
					if stage == n-2 {
						dst = p.in(Recv)
					}
					box := w.wait(prev, p.len())
					w.combine(stage == n-2, dst, box, p.of(Send, (w.rank-2-stage+2*n)%n, size))
					w.release(box)
				}
			}
			return r
		},
		claim: everyoneToAll(func(s Shape) int { return s.Ranks - 1 }),
		order: func(s Shape) []*order {
			return perRank(s, func(rank int) *order { return roundTo(rank, s.Ranks) })
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
