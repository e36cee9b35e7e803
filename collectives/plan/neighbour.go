package plan

// Neighbour exchange: in the first round a rank exchanges blocks with one
// neighbour, then alternately with the other and with that one, always what it
// got last: two blocks. n/2 rounds; each rank sends (n−1)·S. It needs an even
// number of ranks; with an odd one it is the ring.

func allGatherNeighbour() Algorithm {
	return Algorithm{
		Name:   "neighbour",
		Source: "Chen, Zhang, Zhang, Yuan: Performance evaluation of allgather algorithms on terascale Linux cluster with fast Ethernet, HPC Asia 2005",
		recipe: func(w *writer) recipe {
			n, size := w.shape.Ranks, w.shape.Count
			if n%2 == 1 {
				return gatherRing(w)
			}
			rounds := neighbourRounds(w.shape)
			sign := 1 - w.rank%2*2 // even ranks look up, odd ones down
			// pair is the first block of what a rank gets in a round; in round 0 it
			// makes its own pair complete.
			pair := func(round int) int {
				k := (round + 1) / 2
				if round%2 == 1 {
					k = -k
				}
				return ((w.rank/2+sign*k)%(n/2) + n/2) % (n / 2) * 2
			}
			return recipe{stages: rounds.total, most: w.shape.message(), extra: w.shape.message(), begin: func(p part) func(int) {
				return func(stage int) {
					if stage == 0 {
						w.prepare(p.of(Recv, w.rank, size), p.in(Send))
					}
					round, sub := rounds.at(stage)
					peer := (w.rank + sign + n) % n
					if round%2 == 1 {
						peer = (w.rank - sign + n) % n
					}
					if round == 0 {
						w.put(peer, p.of(Recv, w.rank, size))
						w.receive(peer, p.of(Recv, peer, size))
						return
					}
					out, in := pair(round-1), pair(round)
					w.pack(peer, rounds.group([]Range{p.of(Recv, out, size), p.of(Recv, out+1, size)}, sub))
					w.unpack(peer, rounds.group([]Range{p.of(Recv, in, size), p.of(Recv, in+1, size)}, sub))
				}
			}}
		},
		claim: everyoneToAll(func(s Shape) int {
			if s.Ranks%2 == 1 {
				return s.Ranks - 1
			}
			return neighbourRounds(s).total
		}),
	}
}

func neighbourRounds(s Shape) grouped {
	most := make([]int, s.Ranks/2)
	for i := range most {
		most[i] = min(1+i, 2)
	}
	return groupedBy(s, recipe{most: s.message()}, most)
}
