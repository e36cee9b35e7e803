package plan

import "math/bits"

// A fold makes a power of two of any number of ranks: the first rem pairs of
// neighbours act as one, in the person of the even rank, which takes over what
// the odd one has before the algorithm and tells it the result after. The actors
// are numbered in the order of ranks, so that actors with numbers from k·2ʲ to
// (k+1)·2ʲ − 1 stand for consecutive ranks.
//
// Source: Thakur, Rabenseifner, Gropp 2005 §4.
type fold struct {
	ranks int
	log   int // there are 2^log actors
	rem   int
}

func foldOf(ranks int) fold {
	log := bits.Len(uint(ranks)) - 1
	return fold{ranks: ranks, log: log, rem: ranks - 1<<log}
}

// extra is 1 if there are pairs.
func (f fold) extra() int { return min(f.rem, 1) }

// partner is the other rank of a pair, −1 if rank is in none.
func (f fold) partner(rank int) int {
	if rank < 2*f.rem {
		return rank ^ 1
	}
	return -1
}

// actor is the number of a rank as an actor, −1 if its partner acts for it.
func (f fold) actor(rank int) int {
	switch {
	case rank >= 2*f.rem:
		return rank - f.rem
	case rank%2 == 0:
		return rank / 2
	}
	return -1
}

// rank is the rank of an actor.
func (f fold) rank(actor int) int {
	if actor < f.rem {
		return 2 * actor
	}
	return actor + f.rem
}

// group are the ranks from … to−1 for which the 2ʲ actors of actor's group stand.
func (f fold) group(actor, j int) (from, to int) {
	first := actor >> j << j
	return f.rank(first), f.rank(first + 1<<j)
}

// order is that of a reduction in which groups of actors are joined, the lower
// ones first, until one group is left.
func (f fold) order() *order {
	level := f.pairs()
	for len(level) > 1 {
		for i := range len(level) / 2 {
			level[i] = both(level[2*i], level[2*i+1])
		}
		level = level[:len(level)/2]
	}
	return level[0]
}

// farOrder is that of a reduction in which each actor of the lower half is joined
// with the one as far up in the upper half, until one is left.
func (f fold) farOrder() *order {
	level := f.pairs()
	for len(level) > 1 {
		half := len(level) / 2
		for i := range half {
			level[i] = both(level[i], level[half+i])
		}
		level = level[:half]
	}
	return level[0]
}

// pairs is what the actors have when the pairs are joined.
func (f fold) pairs() []*order {
	list := make([]*order, 1<<f.log)
	for i := range list {
		list[i] = leaf(f.rank(i))
		if i < f.rem {
			list[i] = both(list[i], leaf(f.rank(i)+1))
		}
	}
	return list
}

func foldOrder(s Shape) []*order { return same(s, foldOf(s.Ranks).order()) }

const foldedOrder = "pairwise, a balanced binary tree over the ranks in rank order; with 2ᵏ + r ranks ranks 2i and 2i+1 are joined first, for i < r"

// A folded allreduce: stage 0 is of the pairs, if there are any, then come the
// stages of inner, which works on acc, then again one of the pairs.
func (w *writer) folded(f fold, p part, stages int, inner func(stage int, acc *Range)) func(stage int) {
	acc := p.in(Send)
	partner, actor := f.partner(w.rank), f.actor(w.rank)
	return func(stage int) {
		switch inside := stage - f.extra(); {
		case inside < 0 && partner >= 0 && actor < 0:
			w.put(partner, acc)
		case inside < 0 && partner >= 0:
			box := w.wait(partner, acc.Len())
			w.combine(false, p.in(Recv), acc, box)
			w.release(box)
			acc = p.in(Recv)
		case inside >= 0 && inside < stages && actor >= 0:
			inner(inside, &acc)
		case inside == stages && partner >= 0 && actor < 0:
			w.receive(partner, p.in(Recv))
		case inside == stages && partner >= 0:
			w.put(partner, p.in(Recv))
		}
	}
}
