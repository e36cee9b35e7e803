package plan

import "math/bits"

// Scan and Exscan. In a Scan rank r gets the reduction of ranks 0 … r, in an
// Exscan that of 0 … r−1. Here are the chain and recursive doubling; the direct
// way is in direct.go.
//
// Chain: rank r waits for the prefix 0 … r−1, adds its own, and sends that to
// r+1. n−1 rounds; each rank sends S and reduces S. It needs many segments.
//
// Doubling: in round j rank r sends what it has, which is of ranks r−2ʲ+1 … r or
// of all from 0 on, to the rank 2ʲ above, where it goes in front. ⌈log2 n⌉ rounds;
// a rank sends S in each round in which there is a rank so far above.
//
// In an Exscan a rank has two sums: the one it keeps, without its own, in Recv,
// and the one it passes on, in Scratch. It makes the second as long as somebody
// needs it.

// A prefix is what a rank has of a segment.
type prefix struct {
	w       *writer
	p       part
	pass    Range // the sum with its own
	begun   bool  // Recv has something
	scratch Range // of an Exscan
}

func (w *writer) prefix(p part) *prefix {
	x := &prefix{w: w, p: p, pass: p.in(Send)}
	if w.shape.Collective == Exscan {
		x.scratch = w.work(p, 0, p.len())
	}
	return x
}

// receive puts what peer sends in front. more: what the rank has then will be
// passed on.
func (x *prefix) receive(peer int, more bool) {
	w, recv := x.w, x.p.in(Recv)
	box := w.wait(peer, x.p.len())
	if w.shape.Collective == Scan {
		w.combine(false, recv, box, x.pass)
		x.pass = recv
	} else {
		if more { // before Recv is written, which may be Send
			w.combine(false, x.scratch, box, x.pass)
			x.pass = x.scratch
		}
		if x.begun {
			w.combine(false, recv, box, recv)
		} else {
			w.copy(recv, box)
		}
		x.begun = true
	}
	w.release(box)
}

// alone is all that rank 0 does for itself.
func (x *prefix) alone() {
	if x.w.shape.Collective == Scan {
		x.w.copy(x.p.in(Recv), x.p.in(Send))
	}
}

// prefixRecipe has Scratch on ranks that receive and pass on.
func prefixRecipe(w *writer, stages int, passes bool) recipe {
	r := recipe{stages: stages, most: w.shape.message()}
	if w.shape.Collective == Exscan && w.rank > 0 && passes {
		r.scratch = r.cut(w.shape).part(0).len()
	}
	return r
}

func scanChain() Algorithm {
	return Algorithm{
		Name:   "chain",
		Source: "folklore; \"linear\" in MPI libraries",
		Order:  "pairwise, in rank order: ((0 1) 2) …",
		recipe: func(w *writer) recipe {
			last := w.shape.Ranks - 1
			r := prefixRecipe(w, last, w.rank < last)
			r.begin = func(p part) func(int) {
				x := w.prefix(p)
				return func(stage int) {
					if stage == w.rank {
						w.put(w.rank+1, x.pass)
					}
					switch {
					case stage == w.rank-1:
						x.receive(w.rank-1, w.rank < last)
					case stage == 0 && w.rank == 0:
						x.alone()
					}
				}
			}
			return r
		},
		claim: func(s Shape) Claim {
			return Claim{Rounds: s.Ranks - 1, TotalElems: (s.Ranks - 1) * s.Count, RankElems: s.Count}
		},
		order: func(s Shape) []*order {
			o := leaf(0)
			return perRank(s, func(rank int) *order {
				if s.Collective == Exscan {
					rank--
				}
				switch {
				case rank < 0:
					return nil
				case rank > 0:
					o = both(o, leaf(rank))
				}
				return o
			})
		},
	}
}

func scanDoubling() Algorithm {
	return Algorithm{
		Name:   "doubling",
		Source: "Kogge, Stone: A parallel algorithm for the efficient solution of a general class of recurrence equations, IEEE ToC C-22 (1973); Hillis, Steele: Data parallel algorithms, CACM 29 (1986)",
		Order:  "pairwise, in rank order: the last rank of the result with the one before, those with the two before, those with the four before, …",
		recipe: func(w *writer) recipe {
			n := w.shape.Ranks
			r := prefixRecipe(w, bits.Len(uint(n-1)), w.rank+2 < n)
			r.begin = func(p part) func(int) {
				x := w.prefix(p)
				return func(stage int) {
					if above := w.rank + 1<<stage; above < n {
						w.put(above, x.pass)
					}
					switch below := w.rank - 1<<stage; {
					case below >= 0:
						x.receive(below, w.rank+2<<stage < n)
					case stage == 0:
						x.alone()
					}
				}
			}
			return r
		},
		claim: func(s Shape) Claim {
			c := Claim{Rounds: bits.Len(uint(s.Ranks - 1))}
			c.RankElems = c.Rounds * s.Count
			for j := range c.Rounds {
				c.TotalElems += (s.Ranks - 1<<j) * s.Count
			}
			return c
		},
		order: func(s Shape) []*order {
			with := make([]*order, s.Ranks) // its own
			without := make([]*order, s.Ranks)
			for r := range with {
				with[r] = leaf(r)
			}
			for d := 1; d < s.Ranks; d *= 2 {
				for r := s.Ranks - 1; r >= d; r-- {
					if without[r] == nil {
						without[r] = with[r-d]
					} else {
						without[r] = both(with[r-d], without[r])
					}
					with[r] = both(with[r-d], with[r])
				}
			}
			return perRank(s, func(rank int) *order {
				if s.Collective == Exscan {
					return without[rank]
				}
				return with[rank]
			})
		},
	}
}
