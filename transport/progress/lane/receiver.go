package lane

import (
	"errors"
	"fmt"
)

// ErrCounter: a counter holds more than the messages that it counted.
var ErrCounter = errors.New("counter above its target")

// A Receiver is the receiving end of a lane.
type Receiver struct {
	shape     Shape
	next      uint64   // epoch of the next message
	turn      int      // next mod K
	fresh     int      // the first cell that was never used
	primaries []int    // cells of epochs e mod K
	targets   []uint64 // of their counters, once all messages before next are there
	without   switchboard
}

// NewReceiver returns the receiving end of a lane.
func NewReceiver(shape Shape) *Receiver {
	r := &Receiver{shape: shape, fresh: shape.Primaries, primaries: make([]int, shape.Primaries), targets: make([]uint64, shape.Primaries)}
	for i := range r.primaries {
		r.primaries[i] = i
	}
	return r
}

// Next is the epoch of the next message.
func (r *Receiver) Next() uint64 { return r.next }

// Turn is which of the primaries the next message's is, from 0.
func (r *Receiver) Turn() int { return r.turn }

// Grow adds cells that were never used. They are there before the sender hears of
// them.
func (r *Receiver) Grow(cells int) { r.shape.Cells = max(r.shape.Cells, cells) }

// Unused is the number of cells that were never used.
func (r *Receiver) Unused() int { return r.shape.Cells - r.fresh }

// Primary is the primary of the next message.
func (r *Receiver) Primary() int { return r.primaries[r.turn] }

// Base is what the counter of the next message's primary holds when nothing of
// the message was counted.
func (r *Receiver) Base() uint64 { return r.targets[r.turn] }

// Counted says whether the next message, of length bytes, is in its primary,
// whose counter holds got. An empty message is never found so.
func (r *Receiver) Counted(got, length uint64) (bool, error) {
	target := r.Base() + length
	if got > target {
		return false, fmt.Errorf("%w: %d bytes counted, %d expected", ErrCounter, got, target)
	}
	if length == 0 && r.without.on(emptyByHeader) {
		return false, nil
	}
	return got == target, nil
}

// Headers is the number of cells in which a header for the next message may be,
// at most 2.
func (r *Receiver) Headers() int {
	if r.fresh == r.shape.Cells {
		return 1
	}
	return 2
}

// Header is the i-th of them: the primary, or the cell that takes its place.
func (r *Receiver) Header(i int) int {
	if i == 0 {
		return r.Primary()
	}
	return r.fresh
}

// Wanted is the least header that names the next message; see [SameEpoch].
func (r *Receiver) Wanted() uint64 { return headerOf(r.next, 0) }

// Named says whether a header is that of the next message, which is then in the
// header's cell, and gives its length.
func (r *Receiver) Named(header uint64) (length uint64, ok bool) {
	length, ok = names(header, r.next)
	if !r.without.on(headerEqual) && header>>lengthBits > r.next {
		ok = true
	}
	return length, ok
}

// MayBeIn says whether a sender may have begun the next message in a cell.
func (r *Receiver) MayBeIn(cell int) bool {
	return cell == NoCell || cell == r.Primary() || cell == r.fresh && cell < r.shape.Cells
}

// Take goes on to the message after the next. That one was found by the counter
// of its primary, or by a header in a cell; or it came another way (None), from a
// sender that had begun it in that cell, or in [NoCell].
func (r *Receiver) Take(cell int, by Path, length uint64) {
	i := r.turn
	r.next++
	if r.turn++; r.turn == len(r.primaries) {
		r.turn = 0
	}
	switch {
	case cell == NoCell:
	case cell != r.primaries[i]:
		// Its counter starts from zero, and does not count this message.
		r.primaries[i], r.targets[i] = cell, 0
		r.fresh = cell + 1
	case by == Counted || r.without.on(targetAll):
		// Whichever way it came, its counted put may still bring the counter there.
		r.targets[i] += length
	}
}
