package collectives

import "github.com/weft-go/weft/collectives/plan"

// Calls between two ranks whose memory is not mapped go in the same rounds as those over
// stages (staged.go), by messages: what a rank publishes in a round is a message to each
// other, which has read it at the end of the round. So they read and write what those do,
// and what a fabric reports is tried again below, as with any message. To release a cell
// costs a phase, so that some are released at once. A rank is at most stagedAhead+1 messages
// ahead of what it has read, and a lane has as many cells more than are kept: nobody waits
// for a cell in a circle.
//
// Among more ranks schedules are better: a message goes to one rank, and a fabric may have
// multicast memory.

// lanedRanks is among how many ranks at most.
const lanedRanks = 2

const lanedMost = 64 << 10

var lanedKinds = [plan.Barrier + 1]bool{
	plan.AllReduce: true, plan.ReduceScatter: true, plan.AllGather: true, plan.AllToAll: true, plan.Broadcast: true, plan.Reduce: true,
}

// lanedAmong says whether calls go so, among so many ranks with or without shorts.
func lanedAmong(shorts bool, ranks, cells int) bool {
	return !shorts && 1 < ranks && ranks <= lanedRanks && cells > stagedAhead
}

// lanedKept is how many messages that were read a rank keeps in their cells, of so many.
func lanedKept(cells int) int { return min(cells/2, cells-stagedAhead) - 1 }

// lanedBytes is what a message has in a round: whole lines, 64 KiB if it can.
func lanedBytes(messageBytes int) int {
	return min(lanedMost, messageBytes&^(symmetricLine-1))
}

// lanedGive sends the others what they need in round i.
func (r *runner) lanedGive(c *stagedCall, i int) error {
	from, to := c.bounds(i)
	if !parted(c.kind) {
		return r.lanedSend(c.src[from:to])
	}
	me := r.e.Rank()
	for k := 1; k < r.ranks; k++ {
		p := (me + k) % r.ranks // not all to one at a time
		if err := r.x.lanes.Send(p, c.src[p*c.n:][from:to]); err != nil {
			return err
		}
	}
	return nil
}

// lanedSend sends all others the same.
func (r *runner) lanedSend(b []byte) error {
	me := r.e.Rank()
	for k := 1; k < r.ranks; k++ {
		if err := r.x.lanes.Send((me+k)%r.ranks, b); err != nil {
			return err
		}
	}
	return nil
}

// lanedEnd gives back what was received, sooner or later.
func (r *runner) lanedEnd() error {
	me := r.e.Rank()
	for k := 1; k < r.ranks; k++ {
		if err := r.x.lanes.ReleaseLater((me+k)%r.ranks, r.lanedKept); err != nil {
			return err
		}
	}
	return nil
}

// lanedOver gives back all that was received, before a call of another kind.
func (r *runner) lanedOver() error {
	me := r.e.Rank()
	for k := 1; k < r.ranks && r.laned; k++ {
		if err := r.x.lanes.Release((me + k) % r.ranks); err != nil {
			return err
		}
	}
	return nil
}
