package plan

// Direct two-shot: each rank owns a share of the elements. It gets that share
// from all ranks, reduces it in rank order, and sends the result to all. Two
// rounds; each rank sends 2·S·(n−1)/n and reduces S.

func allReduceTwoShot() Algorithm {
	return Algorithm{
		Name:      "twoshot",
		Source:    "reduce-scatter and all-gather, each by direct exchange: van de Geijn, On Global Combine Operations, JPDC 22 (1994)",
		Order:     "rank order, at once",
		RankOrder: true,
		recipe: func(w *writer) recipe {
			return recipe{stages: 2, most: manyMessages(w.shape), begin: func(p part) func(int) {
				mine := p.shareOf(w, w.rank)
				return func(stage int) {
					if stage == 0 {
						w.peers(func(peer int) { w.put(peer, p.shareOf(w, peer).in(Send)) })
						w.combineAll(mine.in(Recv), mine.in(Send))
						return
					}
					w.peers(func(peer int) { w.put(peer, mine.in(Recv)) })
					w.senders(func(peer int) { w.receive(peer, p.shareOf(w, peer).in(Recv)) })
				}
			}}
		},
		claim: func(s Shape) Claim {
			n := s.Ranks
			c := Claim{Rounds: 2, TotalElems: 2 * (n - 1) * s.Count}
			for _, p := range (recipe{stages: 2, most: manyMessages(s)}).cut(s).parts() {
				c.RankElems += p.len() + (n-2)*ceil(p.len(), n)
			}
			return c
		},
		order: flatOrder,
	}
}

// manyMessages is the size of segments that are divided among the ranks.
func manyMessages(s Shape) int { return s.Ranks * s.message() }

// shareOf is the share of a segment that a rank owns.
func (p part) shareOf(w *writer, rank int) part { return p.share(w.shape.Ranks, rank) }

func (p part) share(ranks, rank int) part {
	from, to := share(p.len(), ranks, rank)
	p.from, p.to = p.from+from, p.from+to
	return p
}
