package plan

// Recursive doubling: in round j groups of 2ʲ neighbouring ranks are joined in
// pairs, each rank exchanging all it has with one of the other group. Ranks
// beyond a power of two are folded, see [fold], which costs two rounds more.
//
// AllReduce: ⌊log2 n⌋ (+2) rounds; each rank sends S·⌊log2 n⌋ (+S).
//
// AllGather: as many rounds while a message can hold all blocks that a rank has;
// otherwise a round is divided, a message for as many blocks as it holds. (n−1)·S
// per rank if n is a power of two.

func allReduceDoubling() Algorithm {
	return Algorithm{
		Name:   "doubling",
		Source: "Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH, IJHPCA 19 (2005) §4.4",
		Order:  foldedOrder,
		recipe: func(w *writer) recipe {
			f := foldOf(w.shape.Ranks)
			return recipe{stages: f.log + 2*f.extra(), most: w.shape.message(), begin: func(p part) func(int) {
				me := f.actor(w.rank)
				return w.folded(f, p, f.log, func(j int, acc *Range) {
					peer := f.rank(me ^ 1<<j)
					w.put(peer, *acc)
					box := w.wait(peer, p.len())
					lower, upper := *acc, box
					if peer < w.rank {
						lower, upper = box, *acc
					}
					w.combine(j == f.log-1, p.in(Recv), lower, upper)
					w.release(box)
					*acc = p.in(Recv)
				})
			}}
		},
		claim: func(s Shape) Claim {
			f := foldOf(s.Ranks)
			return Claim{
				Rounds:     f.log + 2*f.extra(),
				TotalElems: s.Count * (f.log<<f.log + 2*f.rem),
				RankElems:  s.Count * (f.log + f.extra()),
			}
		},
		order: foldOrder,
	}
}

func allGatherDoubling() Algorithm {
	return Algorithm{
		Name:   "doubling",
		Source: "Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH, IJHPCA 19 (2005) §4.1",
		recipe: func(w *writer) recipe {
			f, size := foldOf(w.shape.Ranks), w.shape.Count
			partner, me := f.partner(w.rank), f.actor(w.rank)
			rounds := gatherRounds(w.shape)
			return recipe{stages: rounds.total, most: w.shape.message(), extra: w.shape.message(), begin: func(p part) func(int) {
				blocks := func(sub, from, to, without int) []Range {
					var list []Range
					for b := from; b < to; b++ {
						if b != without {
							list = append(list, p.of(Recv, b, size))
						}
					}
					return rounds.group(list, sub)
				}
				return func(stage int) {
					if stage == 0 {
						w.prepare(p.of(Recv, w.rank, size), p.in(Send))
					}
					round, sub := rounds.at(stage)
					switch j := round - f.extra(); {
					case j < 0 && partner >= 0 && me < 0:
						w.pack(partner, blocks(sub, w.rank, w.rank+1, -1))
					case j < 0 && partner >= 0:
						w.unpack(partner, blocks(sub, partner, partner+1, -1))
					case j >= 0 && j < f.log && me >= 0:
						other := me ^ 1<<j
						from, to := f.group(me, j)
						w.pack(f.rank(other), blocks(sub, from, to, -1))
						from, to = f.group(other, j)
						w.unpack(f.rank(other), blocks(sub, from, to, -1))
					case j == f.log && partner >= 0 && me < 0:
						w.unpack(partner, blocks(sub, 0, f.ranks, w.rank))
					case j == f.log && partner >= 0:
						w.pack(partner, blocks(sub, 0, f.ranks, partner))
					}
				}
			}}
		},
		claim: func(s Shape) Claim {
			f := foldOf(s.Ranks)
			c := Claim{Rounds: gatherRounds(s).total, TotalElems: s.Ranks * (s.Ranks - 1) * s.Count}
			for j := range f.log {
				c.RankElems += s.Count * (1<<j + min(1<<j, f.rem))
			}
			c.RankElems += s.Count * (s.Ranks - 1) * f.extra()
			return c
		},
	}
}

// gatherRounds are the rounds of an AllGather by doubling.
func gatherRounds(s Shape) grouped {
	f := foldOf(s.Ranks)
	var most []int
	if f.rem > 0 {
		most = append(most, 1)
	}
	for j := range f.log {
		most = append(most, 1<<j+min(1<<j, f.rem))
	}
	if f.rem > 0 {
		most = append(most, s.Ranks-1)
	}
	return groupedBy(s, recipe{most: s.message()}, most)
}
