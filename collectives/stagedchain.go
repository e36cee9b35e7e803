package collectives

import (
	"github.com/weft-go/weft/collectives/plan"
	"github.com/weft-go/weft/internal/cache"
	"github.com/weft-go/weft/kernels"
)

// Scan and Exscan over stages are a chain: of each chunk a rank takes what the one before
// it has published, the reduction up to there, and publishes it with its own. A rank may be
// a stage ahead of those above, so that on the way of a large call all work, and ranks that
// share a processor do many chunks before they give it away.
//
// S bytes per rank; one rank reads and writes 2·S and 2·S, whatever the number of ranks.

// chains says whether a prefix is reduced along a chain. Types that are rounded once, at the
// end, are reduced at once instead: each rank takes from all below.
func (r *runner) chains(k plan.Collective) bool {
	if k != plan.Scan && k != plan.Exscan {
		return false
	}
	switch r.x.t {
	case kernels.TypeFloat16, kernels.TypeBFloat16, kernels.TypeFloat8E4M3, kernels.TypeFloat8E5M2:
		return r.x.f != nil || r.ranks == 2
	}
	return true
}

// stagedChain does a Scan or an Exscan.
func (r *runner) stagedChain(c *stagedCall) error {
	rounds := c.cut(min(c.chunk, max(r.limits.link/r.x.size*r.x.size, r.x.size)), r.x.size)
	for i := range rounds {
		if err := r.stagedLink(c, i); err != nil {
			return err
		}
		if i+1 < rounds {
			from, to := c.bounds(i + 1)
			cache.Fetch(c.src[from:to]) // while others are at this round
		}
		r.x.lanes.EndStage(c.first + uint64(i))
	}
	return nil
}

// stagedLink is what a rank does in round i of a chain.
func (r *runner) stagedLink(c *stagedCall, i int) error {
	e, x, me := r.x.lanes, &r.x, r.e.Rank()
	t := c.first + uint64(i)
	from, to := c.bounds(i)
	own, dst := c.src[from:to], c.dst[from:to]
	scans := c.kind == plan.Scan
	sum := own // of all up to this rank
	var before []byte
	if me > 0 {
		var err error
		if before, err = e.TakeStage(me-1, t, to-from, false); err != nil {
			return err
		}
	}
	switch {
	case me < r.ranks-1:
		slot, err := e.OpenStage(t, to-from)
		if err != nil {
			return err
		}
		if me > 0 {
			if sum = slot; e.FarStages() {
				sum = grown(&r.bounce, to-from)
			}
			x.srcs = append(x.srcs[:0], before, own)
			err = x.reduce(sum, x.srcs, true, r.ranks)
			clear(x.srcs)
			if err != nil {
				return err
			}
		}
		if me == 0 || e.FarStages() {
			e.FillStage(slot, sum)
		}
		e.CountStage(me+1, to-from)
		e.PublishStage(t, to-from, false)
	case scans:
		x.srcs = append(x.srcs[:0], before, own)
		err := r.stagedReduce(c, dst, x.srcs)
		clear(x.srcs)
		return err
	}
	switch {
	case !scans && me > 0:
		c.move(dst, before)
	case scans && !same(dst, sum):
		c.move(dst, sum)
	}
	return nil
}
