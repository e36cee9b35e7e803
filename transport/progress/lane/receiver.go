package lane

import (
	"errors"
	"fmt"
)

// ErrCounter: a counter holds more than the messages that it counted.
var ErrCounter = errors.New("counter above its target")

// A Receiver is the receiving end of a lane.
type Receiver struct {
	shape      Shape
	next       uint64 // epoch of the next message
	generation int
	targets    []uint64 // of the primaries' counters, once all messages before next are there
	without    switchboard
}

// NewReceiver returns the receiving end of a lane.
func NewReceiver(shape Shape) *Receiver {
	return &Receiver{shape: shape, targets: make([]uint64, shape.Primaries)}
}

// Next is the epoch of the next message.
func (r *Receiver) Next() uint64 { return r.next }

// Primary is the primary of the next message.
func (r *Receiver) Primary() Place {
	return Place{r.generation, int(r.next % uint64(r.shape.Primaries))}
}

// Base is what the counter of the next message's primary holds when nothing of
// the message was counted.
func (r *Receiver) Base() uint64 { return r.targets[r.next%uint64(r.shape.Primaries)] }

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

// Headers is the number of cells in which a header for the next message may be.
func (r *Receiver) Headers() int {
	n := 1 + r.shape.Spares
	if r.shape.Spares > 0 && r.generation+1 < r.shape.Generations {
		n++ // the first spare of the next generation
	}
	return n
}

// Header is the i-th of them.
func (r *Receiver) Header(i int) Place {
	switch {
	case i == 0:
		return r.Primary()
	case i <= r.shape.Spares:
		return Place{r.generation, r.shape.Primaries + i - 1}
	}
	return Place{r.generation + 1, r.shape.Primaries}
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

// Take goes on to the message after the next. That one was found by the counter
// of its primary, or by a header in a cell, or came another way (None) from a sender
// that had begun it in that cell.
func (r *Receiver) Take(at Place, by Path, length uint64) {
	counted := &r.targets[r.next%uint64(r.shape.Primaries)]
	r.next++
	if at.Generation != r.generation {
		// The new counters start from zero, and none of them counts this message.
		r.generation = at.Generation
		clear(r.targets)
		return
	}
	// Whichever way it came, its counted put may still bring the counter there.
	if by == Counted || r.without.on(targetAll) {
		*counted += length
	}
}
