package plan

// Pairwise exchange: in each round a rank exchanges blocks with one other. n−1
// rounds if n is even; if it is odd, n rounds, in one of which a rank rests. Each
// rank sends (n−1)·S.
//
// The pairs are those of a round-robin tournament: in round t, i and j with
// i + j ≡ t modulo n, or modulo n−1 if n is even, where the one that is left
// meets rank n−1. As both send each other's block in the same round, Recv may be
// Send, which is not so if blocks are sent to the rank t above.

func allToAllPairwise() Algorithm {
	return Algorithm{
		Name:   "pairwise",
		Source: "Thakur, Rabenseifner, Gropp 2005 §4.3; pairs as in Kirkman's tournaments (1847)",
		recipe: func(w *writer) recipe {
			n, size := w.shape.Ranks, w.shape.Count
			return recipe{stages: pairings(n), most: w.shape.message(), begin: func(p part) func(int) {
				return func(stage int) {
					if stage == 0 {
						w.prepare(p.of(Recv, w.rank, size), p.of(Send, w.rank, size))
					}
					if peer := opponent(n, w.rank, stage); peer != w.rank {
						w.put(peer, p.of(Send, peer, size))
						w.receive(peer, p.of(Recv, peer, size))
					}
				}
			}}
		},
		claim: everyoneToAll(func(s Shape) int { return pairings(s.Ranks) }),
	}
}

// pairings is the number of rounds of a tournament.
func pairings(n int) int { return n - 1 + n%2 }

// opponent is the rank that one meets in a round, itself if it rests.
func opponent(n, rank, round int) int {
	m := pairings(n)
	if rank == m { // the last of an even number
		return round * (m + 1) / 2 % m
	}
	peer := (round - rank + m) % m
	if peer == rank && n%2 == 0 {
		return m
	}
	return peer
}
