package plan

import "math/bits"

// Dissemination barrier: in round j each rank signals to the one 2ʲ above and
// waits for the one 2ʲ below. ⌈log2 n⌉ rounds, an empty message per rank in each.

func barrierDissemination() Algorithm {
	return Algorithm{
		Name:   "dissemination",
		Source: "Hensgen, Finkel, Manber: Two algorithms for barrier synchronization, Int. J. Parallel Programming 17 (1988)",
		recipe: func(w *writer) recipe {
			n := w.shape.Ranks
			return recipe{stages: bits.Len(uint(n - 1)), begin: func(part) func(int) {
				return func(stage int) {
					w.signal((w.rank + 1<<stage) % n)
					w.await((w.rank - 1<<stage + n) % n)
				}
			}}
		},
		claim: func(s Shape) Claim { return Claim{Rounds: bits.Len(uint(s.Ranks - 1))} },
	}
}
