package plan

// Direct algorithms: whoever has something for another rank sends it there.
// One round. What each rank sends:
//
//	reduce         S, to the root, which receives (n−1)·S
//	broadcast      (n−1)·S, the root
//	allgather      (n−1)·S
//	alltoall       (n−1)·S
//	gather         S, to the root, which receives (n−1)·S
//	scatter        (n−1)·S, the root
//	reducescatter  (n−1)·S
//	scan, exscan   (n−1−r)·S, rank r, to all ranks above
//	barrier        n−1 empty messages

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

func gatherDirect() Algorithm {
	return Algorithm{
		Name: "direct", Source: folklore,
		recipe: func(w *writer) recipe {
			root, size := w.shape.Root, w.shape.Count
			return recipe{stages: 1, most: w.shape.message(), begin: func(p part) func(int) {
				return func(int) {
					if w.rank != root {
						w.put(root, p.in(Send))
						return
					}
					w.copy(p.of(Recv, root, size), p.in(Send))
					w.senders(func(peer int) { w.receive(peer, p.of(Recv, peer, size)) })
				}
			}}
		},
		claim: func(s Shape) Claim {
			return Claim{Rounds: 1, TotalElems: (s.Ranks - 1) * s.Count, RankElems: s.Count}
		},
	}
}

func scatterDirect() Algorithm {
	return Algorithm{
		Name: "direct", Source: folklore,
		recipe: func(w *writer) recipe {
			root, size := w.shape.Root, w.shape.Count
			return recipe{stages: 1, most: w.shape.message(), begin: func(p part) func(int) {
				return func(int) {
					if w.rank != root {
						w.receive(root, p.in(Recv))
						return
					}
					w.peers(func(peer int) { w.put(peer, p.of(Send, peer, size)) })
					w.copy(p.in(Recv), p.of(Send, root, size))
				}
			}}
		},
		claim: func(s Shape) Claim {
			total := (s.Ranks - 1) * s.Count
			return Claim{Rounds: 1, TotalElems: total, RankElems: total}
		},
	}
}

func reduceScatterDirect() Algorithm {
	return Algorithm{
		Name: "direct", Source: folklore, Order: "rank order, at once", RankOrder: true,
		recipe: func(w *writer) recipe {
			size := w.shape.Count
			return recipe{stages: 1, most: w.shape.message(), begin: func(p part) func(int) {
				return func(int) {
					w.peers(func(peer int) { w.put(peer, p.of(Send, peer, size)) })
					w.combineAll(p.in(Recv), p.of(Send, w.rank, size))
				}
			}}
		},
		claim: everyoneToAll(func(Shape) int { return 1 }),
		order: flatOrder,
	}
}

// scanDirect is of both Scan and Exscan, which leaves out what the rank itself
// has.
func scanDirect() Algorithm {
	return Algorithm{
		Name: "direct", Source: folklore, Order: "rank order, at once", RankOrder: true,
		recipe: func(w *writer) recipe {
			return recipe{stages: 1, most: w.shape.message(), begin: func(p part) func(int) {
				return func(int) {
					for peer := w.rank + 1; peer < w.shape.Ranks; peer++ {
						w.put(peer, p.in(Send))
					}
					var srcs []Range
					for peer := range w.rank {
						srcs = append(srcs, w.wait(peer, p.len()))
					}
					boxes := srcs
					if w.shape.Collective == Scan {
						srcs = append(srcs, p.in(Send))
					}
					switch len(srcs) {
					case 0:
					case 1:
						w.copy(p.in(Recv), srcs[0])
					default:
						w.combine(false, p.in(Recv), srcs...)
					}
					for _, box := range boxes {
						w.release(box)
					}
				}
			}}
		},
		claim: func(s Shape) Claim {
			n := s.Ranks
			return Claim{Rounds: 1, TotalElems: n * (n - 1) / 2 * s.Count, RankElems: (n - 1) * s.Count}
		},
		order: func(s Shape) []*order {
			return perRank(s, func(rank int) *order {
				if s.Collective == Scan {
					rank++ // the first that is not in it
				}
				switch rank {
				case 0:
					return nil
				case 1:
					return leaf(0)
				}
				return ranksAtOnce(rank)
			})
		},
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
