package plan

// Multimem: reductions and copies that multicast memory does.
//
// AllReduce: each rank copies a segment to its own replica and signals to all.
// When all have signalled it reduces its share over all replicas, posts the result,
// and signals to all again. When all have signalled again it copies what each rank has
// posted. Two rounds of empty messages; S elements are pulled, and S posted, by all
// ranks together.
//
// Broadcast: all signal to the root that they have what the cell held before, the root
// posts the segment and signals, and they copy it. Two rounds of empty messages; the
// root posts S.
//
// What overlaps. A share is reduced and posted in chunks, so that one is pulled while
// the one before is under way to all; and the copies of a segment come after the posts
// of the next. What is under way is waited for by the next signal, and what it is put
// from stays as it is until then: chunks have different parts of Scratch.
//
// Why nothing is overwritten that is still read. What a rank contributes it alone
// writes, where nobody puts; where it posts it alone puts. So what a fabric that fails
// may still bring later lands in cells of a Board only, and which memory a cell is, is
// the executor's choice: see the package lane of transport/progress. The memory of a
// segment is used again two segments later. A rank that signals at the beginning of a
// segment has finished the segment two before: it copied what was posted. In AllReduce
// it also knows that all pulled their shares of it, as they signalled that later, so
// that it may copy in. And after the first signals of all ranks, posts meet no reader.
// The same holds from call to call, whatever the shapes and roots of the two: no rank
// touches another's replica before all have begun the call, and when a rank ends a call,
// all that others do to its replica in that call is done. [Verify] checks these two
// rules for each call, and the rest with vector clocks.
//
// Shares and the memory of a segment begin at multiples of 16 bytes.

const (
	// multimemChunk is the most bytes that are pulled, and posted, at once: moving them
	// takes a few times as long as to begin a phase.
	multimemChunk = 32 << 10
	// broadcastMessages is a segment of Broadcast, in messages. No message carries it,
	// and each costs a round of signals.
	broadcastMessages = 4
)

// multimemSegments are multiples of whole granules for each rank, of AllReduce as many
// as a message holds.
func multimemSegments(s Shape) recipe {
	u := s.unit()
	parts := s.Ranks
	if s.Collective == Broadcast {
		parts = broadcastMessages
	}
	return recipe{stages: 2, unit: u, most: parts * max(s.message()/u, 1) * u}
}

// granules is the share of a segment that a rank owns, in whole granules.
func (p part) granules(s Shape, rank int) (from, to int) {
	u := s.unit()
	from, to = share(ceil(p.len(), u), s.Ranks, rank)
	return min(from*u, p.len()), min(to*u, p.len())
}

// chunks calls f for the parts of n elements that are moved at once: whole granules.
func chunks(s Shape, n int, f func(from, to int)) {
	u := s.unit()
	most := max(min(multimemChunk, s.MessageBytes)/(u*s.ElemBytes), 1) * u
	for from := 0; from < n; from += most {
		f(from, min(from+most, n))
	}
}

func allReduceMultimem() Algorithm {
	return Algorithm{
		Name:      "multimem",
		Source:    "as NCCL's NVLS: Klenk, Jiang, Thorson, Dennison: An in-network architecture for accelerating shared-memory multiprocessor collectives, ISCA 2020",
		Order:     "rank order, at once, where software reduces; where a switch does, an order of its own, once for each element",
		Multicast: true,
		recipe: func(w *writer) recipe {
			s := w.shape
			r := multimemSegments(s)
			largest := r.cut(s).part(0)
			r.multi = roundUp(largest.len(), s.unit())
			_, share := largest.granules(s, 0)
			r.cell = roundUp(share, s.unit())
			r.extra = r.cell
			r.begin = func(p part) func(int) {
				mine, end := p.granules(s, w.rank)
				return func(stage int) {
					if stage == 0 {
						w.prepare(w.common(p, 0, p.len()), p.in(Send))
					}
					w.peers(w.signal)
					w.senders(w.await)
					if stage == 0 {
						chunks(s, end-mine, func(from, to int) {
							reduced := w.aside(to)
							reduced.From += from
							w.pullReduce(reduced, w.common(p, mine+from, mine+to))
							w.putMulti(w.posted(p, w.rank, from, to), reduced)
						})
						return
					}
					for owner := range s.Ranks {
						from, to := p.granules(s, owner)
						w.take(Range{Buf: Recv, From: p.from + from, To: p.from + to}, w.posted(p, owner, 0, to-from))
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
			s := w.shape
			r := multimemSegments(s)
			r.cell = roundUp(r.cut(s).part(0).len(), s.unit())
			root := s.Root
			r.begin = func(p part) func(int) {
				return func(stage int) {
					switch {
					case stage == 0 && w.rank == root:
						w.senders(w.await)
						chunks(s, p.len(), func(from, to int) {
							w.putMulti(w.posted(p, root, from, to), Range{Buf: Recv, From: p.from + from, To: p.from + to})
						})
					case stage == 0:
						w.signal(root)
					case w.rank == root:
						w.peers(w.signal)
					default:
						w.await(root)
						w.take(p.in(Recv), w.posted(p, root, 0, p.len()))
					}
				}
			}
			return r
		},
		claim: func(s Shape) Claim { return Claim{Rounds: 2, MultiElems: s.Count} },
	}
}
