package plan

// Direct one-shot: every rank sends all it has to every other, and reduces
// everything itself. One round; each rank sends (n−1)·S and reduces n·S.

func allReduceOneShot() Algorithm {
	return Algorithm{
		Name:      "oneshot",
		Source:    "folklore; the \"symmetric\" algorithm of shared memory collectives",
		Order:     "rank order, at once",
		RankOrder: true,
		recipe: func(w *writer) recipe {
			return recipe{stages: 1, most: w.shape.message(), begin: func(p part) func(int) {
				return func(int) {
					w.peers(func(peer int) { w.put(peer, p.in(Send)) })
					w.combineAll(p.in(Recv), p.in(Send))
				}
			}}
		},
		claim: func(s Shape) Claim {
			n := s.Ranks
			return Claim{Rounds: 1, TotalElems: n * (n - 1) * s.Count, RankElems: (n - 1) * s.Count}
		},
		order: flatOrder,
	}
}
