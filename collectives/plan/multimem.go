package plan

// Multimem: reductions and copies that multicast memory does.
//
// AllReduce: each rank copies a segment to its own replica and signals to all.
// When all have signalled it reduces its share over all replicas, puts the result
// to that share in all of them, and signals to all again. When all have
// signalled again it copies the segment out. Two rounds of empty messages; S
// elements are pulled, and S put, by all ranks together.
//
// Broadcast: all signal to the root that the segment's memory is free, the root
// puts the segment to all replicas and signals, and they copy it out. Two rounds of
// empty messages; the root puts S.
//
// Why nothing is overwritten that is still read. A share is reduced by its owner
// only, who puts the result there after that. A segment's memory is used again
// two segments later. A rank that signals at the beginning of a segment has
// finished the segment two before: it copied it out. In AllReduce it also knows
// that all pulled their shares of it, as they signalled that later, so that it may
// copy in. And after the first signals of all ranks, puts meet no reader. The
// same holds from call to call, whatever the shapes and roots of the two: no rank
// touches another's replica before all have begun the call, and when a rank ends
// a call, all that others do to its replica in that call is done. [Verify] checks
// these two rules for each call, and the rest with vector clocks.
//
// Shares and the memory of a segment begin at multiples of 16 bytes.

// multimemSegments are multiples of whole granules for each rank.
func multimemSegments(s Shape) recipe {
	u := s.unit()
	r := recipe{stages: 2, unit: u, most: s.Ranks * max(s.message()/u, 1) * u}
	if s.Collective == Broadcast {
		r.most /= s.Ranks
	}
	r.multi = roundUp(r.cut(s).part(0).len(), u)
	return r
}

// granules is the share of a segment that a rank owns, in whole granules.
func (p part) granules(s Shape, rank int) (from, to int) {
	u := s.unit()
	from, to = share(ceil(p.len(), u), s.Ranks, rank)
	return min(from*u, p.len()), min(to*u, p.len())
}

func allReduceMultimem() Algorithm {
	return Algorithm{
		Name:      "multimem",
		Source:    "as NCCL's NVLS: Klenk, Jiang, Thorson, Dennison: An in-network architecture for accelerating shared-memory multiprocessor collectives, ISCA 2020",
		Order:     "rank order, at once, where software reduces; where a switch does, an order of its own, once for each element",
		Multicast: true,
		recipe: func(w *writer) recipe {
			r := multimemSegments(w.shape)
			r.extra = r.multi
			r.begin = func(p part) func(int) {
				from, to := p.granules(w.shape, w.rank)
				mine := w.common(p, from, to)
				return func(stage int) {
					if stage == 0 {
						w.prepare(w.common(p, 0, p.len()), p.in(Send))
					}
					w.peers(w.signal)
					w.senders(w.await)
					if stage == 0 {
						w.pullReduce(w.aside(mine.Len()), mine)
						w.putMulti(mine, w.aside(mine.Len()))
					} else {
						w.copy(p.in(Recv), w.common(p, 0, p.len()))
					}
				}
			}
			return r
		},
		claim: func(s Shape) Claim { return Claim{Rounds: 2, MultiElems: s.Count} },
		order: flatOrder,
	}
}

func broadcastMultimem() Algorithm {
	return Algorithm{
		Name:      "multimem",
		Source:    "as NCCL's NVLS, see allreduce",
		Multicast: true,
		recipe: func(w *writer) recipe {
			r := multimemSegments(w.shape)
			root := w.shape.Root
			r.begin = func(p part) func(int) {
				all := w.common(p, 0, p.len())
				return func(stage int) {
					switch {
					case stage == 0 && w.rank == root:
						w.senders(w.await)
						w.putMulti(all, p.in(Recv))
					case stage == 0:
						w.signal(root)
					case w.rank == root:
						w.peers(w.signal)
					default:
						w.await(root)
						w.copy(p.in(Recv), all)
					}
				}
			}
			return r
		},
		claim: func(s Shape) Claim { return Claim{Rounds: 2, MultiElems: s.Count} },
	}
}
