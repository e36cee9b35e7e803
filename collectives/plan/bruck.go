package plan

import "math/bits"

// Bruck's algorithms: ⌈log2 n⌉ rounds for any n. In round j a rank sends to one
// that is 2ʲ away.
//
// AllGather: it sends all blocks that it has, or those that still lack, to the
// rank 2ʲ below. Each rank sends (n−1)·S. Blocks are kept where they belong and
// not rotated: only a message of blocks on both sides of the end is packed.
//
// AllToAll: a block for the rank d above goes there by way of the ranks that
// the binary digits of d say, together with about n/2 others each time. A rank
// sends S for each 1 in the binary numbers 1 … n−1, about S·n/2·log2 n.
//
// A round is divided if a message does not hold its blocks.

const bruck = "Bruck, Ho, Kipnis, Upfal, Weathersby: Efficient algorithms for all-to-all communications in multiport message-passing systems, IEEE TPDS 8 (1997)"

func allGatherBruck() Algorithm {
	return Algorithm{
		Name:   "bruck",
		Source: bruck,
		recipe: func(w *writer) recipe {
			n, size := w.shape.Ranks, w.shape.Count
			rounds := bruckRounds(w.shape)
			return recipe{stages: rounds.total, most: w.shape.message(), extra: w.shape.message(), begin: func(p part) func(int) {
				blocks := func(sub, first, count int) []Range {
					list := make([]Range, count)
					for i := range list {
						list[i] = p.of(Recv, (first+i)%n, size)
					}
					return rounds.group(list, sub)
				}
				return func(stage int) {
					if stage == 0 {
						w.prepare(p.of(Recv, w.rank, size), p.in(Send))
					}
					j, sub := rounds.at(stage)
					count := min(1<<j, n-1<<j)
					w.pack((w.rank-1<<j+n)%n, blocks(sub, w.rank, count))
					above := (w.rank + 1<<j) % n
					w.unpack(above, blocks(sub, above, count))
				}
			}}
		},
		claim: everyoneToAll(func(s Shape) int { return bruckRounds(s).total }),
	}
}

func bruckRounds(s Shape) grouped {
	var most []int
	for j := 0; 1<<j < s.Ranks; j++ {
		most = append(most, min(1<<j, s.Ranks-1<<j))
	}
	return groupedBy(s, recipe{most: s.message()}, most)
}

func allToAllBruck() Algorithm {
	return Algorithm{
		Name:   "bruck",
		Source: bruck,
		recipe: func(w *writer) recipe {
			n, size := w.shape.Ranks, w.shape.Count
			r, rounds := bruckAllToAll(w.shape)
			longest := r.cut(w.shape).part(0).len()
			r.scratch, r.extra = n*longest, w.shape.message()
			r.begin = func(p part) func(int) {
				// Block d in Scratch is on its way to the rank d above, or a part of that
				// way: at the end, from the rank d below.
				work := func(d int) Range { return w.work(p, d*p.len(), p.len()) }
				return func(stage int) {
					if stage == 0 {
						for d := 1; d < n; d++ {
							w.prepare(work(d), p.of(Send, (w.rank+d)%n, size))
						}
						w.prepare(p.of(Recv, w.rank, size), p.of(Send, w.rank, size))
					}
					j, sub := rounds.at(stage)
					var out, in []Range
					for d := 1; d < n; d++ {
						if d>>j&1 == 0 {
							continue
						}
						out = append(out, work(d))
						if d>>j == 1 { // the last part of the way
							in = append(in, p.of(Recv, (w.rank-d+n)%n, size))
						} else {
							in = append(in, work(d))
						}
					}
					w.pack((w.rank+1<<j)%n, rounds.group(out, sub))
					w.unpack((w.rank-1<<j+n)%n, rounds.group(in, sub))
				}
			}
			return r
		},
		claim: func(s Shape) Claim {
			_, rounds := bruckAllToAll(s)
			c := Claim{Rounds: rounds.total}
			for d := 1; d < s.Ranks; d++ {
				c.RankElems += s.Count * bits.OnesCount(uint(d))
			}
			c.TotalElems = s.Ranks * c.RankElems
			return c
		},
	}
}

// bruckAllToAll has segments of which a message holds all blocks of a round, if
// a message holds so many elements.
func bruckAllToAll(s Shape) (recipe, grouped) {
	var most []int
	largest := 0
	for j := 0; 1<<j < s.Ranks; j++ {
		count := 0
		for d := 1; d < s.Ranks; d++ {
			count += d >> j & 1
		}
		most = append(most, count)
		largest = max(largest, count)
	}
	r := recipe{most: max(s.message()/largest, 1)}
	rounds := groupedBy(s, r, most)
	r.stages = rounds.total
	return r, rounds
}
