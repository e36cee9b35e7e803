package plan

// Direct algorithms: whoever has something for another rank sends it there.
// One round. What each rank sends:
//
//	reduce     S, to the root, which receives (n−1)·S
//	broadcast  (n−1)·S, the root
//	allgather  (n−1)·S
//	alltoall   (n−1)·S
//	barrier    n−1 empty messages

const folklore = "folklore; \"linear\" or \"scattered\" in MPI libraries"

func reduceDirect() Algorithm {
	return Algorithm{
		Name: "direct", Source: folklore, Order: "rank order, at once", RankOrder: true,
		recipe: func(w *writer) recipe {
			return recipe{stages: 1, most: w.shape.message(), begin: func(p part) func(int) {
				return func(int) {
					if w.rank == w.shape.Root {
						w.combineAll(p.in(Recv), p.in(Send))
					} else {
						w.put(w.shape.Root, p.in(Send))
					}
				}
			}}
		},
		claim: func(s Shape) Claim {
			return Claim{Rounds: 1, TotalElems: (s.Ranks - 1) * s.Count, RankElems: s.Count}
		},
		order: flatOrder,
	}
}

func broadcastDirect() Algorithm {
	return Algorithm{
		Name: "direct", Source: folklore,
		recipe: func(w *writer) recipe {
			return recipe{stages: 1, most: w.shape.message(), begin: func(p part) func(int) {
				return func(int) {
					if w.rank == w.shape.Root {
						w.peers(func(peer int) { w.put(peer, p.in(Recv)) })
					} else {
						w.receive(w.shape.Root, p.in(Recv))
					}
				}
			}}
		},
		claim: func(s Shape) Claim {
			total := (s.Ranks - 1) * s.Count
			return Claim{Rounds: 1, TotalElems: total, RankElems: total}
		},
	}
}

func allGatherDirect() Algorithm {
	return Algorithm{
		Name: "direct", Source: folklore,
		recipe: func(w *writer) recipe {
			size := w.shape.Count
			return recipe{stages: 1, most: w.shape.message(), begin: func(p part) func(int) {
				return func(int) {
					w.peers(func(peer int) { w.put(peer, p.in(Send)) })
					w.copy(p.of(Recv, w.rank, size), p.in(Send))
					w.senders(func(peer int) { w.receive(peer, p.of(Recv, peer, size)) })
				}
			}}
		},
		claim: everyoneToAll(func(Shape) int { return 1 }),
	}
}

func allToAllDirect() Algorithm {
	return Algorithm{
		Name: "direct", Source: folklore,
		recipe: func(w *writer) recipe {
			size := w.shape.Count
			return recipe{stages: 1, most: w.shape.message(), begin: func(p part) func(int) {
				return func(int) {
					// Nothing is received before all is sent: Recv may be Send.
					w.peers(func(peer int) { w.put(peer, p.of(Send, peer, size)) })
					w.copy(p.of(Recv, w.rank, size), p.of(Send, w.rank, size))
					w.senders(func(peer int) { w.receive(peer, p.of(Recv, peer, size)) })
				}
			}}
		},
		claim: everyoneToAll(func(Shape) int { return 1 }),
	}
}

func barrierDirect() Algorithm {
	return Algorithm{
		Name: "direct", Source: folklore,
		recipe: func(w *writer) recipe {
			return recipe{stages: 1, begin: func(part) func(int) {
				return func(int) {
					w.peers(w.signal)
					w.senders(w.await)
				}
			}}
		},
		claim: func(Shape) Claim { return Claim{Rounds: 1} },
	}
}

// everyoneToAll is the claim of algorithms in which a block of every rank for,
// or of, every other travels once.
func everyoneToAll(rounds func(Shape) int) func(Shape) Claim {
	return func(s Shape) Claim {
		each := (s.Ranks - 1) * s.Count
		return Claim{Rounds: rounds(s), TotalElems: s.Ranks * each, RankElems: each}
	}
}
