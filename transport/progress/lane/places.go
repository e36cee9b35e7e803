package lane

// A Span is where in the slots of a lane a cell's message lies.
type Span struct {
	At   uint64 // in the slots
	Room uint64 // bytes from there on that are the cell's
}

// Places are those of a lane's primaries. Both ends follow them by the same rules, from
// the messages alone.
//
// A cell that takes a dirty one's place has a counter and a header that were never
// used. Of the slot only those bytes are dirty that the last message took: the
// messages before were clean, and have nothing left to do. So the new cell gets the rest
// of the old one's slot, if its message fits, and a slot that was never used
// otherwise. Many small messages that fail take no more slots than one large one.
//
// To write a line of which the receiver's cache has a copy takes twice as long. Such copies
// are gone when a lane comes back to a slot if messages are about as long as slots. Shorter
// ones lie at another place of their slot each time, all but their head, which tells how
// long they are: see Shift. What takes a dirty cell's place in the rest of a slot stays where
// it is, so that messages that fail take twice their length on average, and not half a slot.
type Places struct {
	head    uint64 // that does not move; 0: nothing does
	whole   uint64 // up to so many bytes a message does not either
	line    uint64 // what moves does so by multiples of this
	turns   []Span
	last    []uint64 // bytes up to the end of the last message of each
	slot    uint64   // size of a slot
	fresh   uint64   // the first slot that was never used
	end     uint64   // of the slots
	without switchboard
}

// InOnePiece is up to how many bytes a message lies in one piece.
const InOnePiece = 512

// NewPlaces returns the places of a lane with slots of a size, of which there are as
// many as fit in all. The first head bytes of messages do not move in them, or nothing if
// head is 0.
func NewPlaces(primaries int, slot, all, head uint64) Places {
	p := Places{head: head, whole: InOnePiece, line: 64, turns: make([]Span, primaries), last: make([]uint64, primaries), slot: slot}
	p.start(all)
	return p
}

func (p *Places) start(all uint64) {
	for i := range p.turns {
		p.turns[i] = Span{uint64(i) * p.slot, p.slot}
	}
	p.fresh, p.end = uint64(len(p.turns))*p.slot, all
}

// Turn is the place of the i-th primary.
func (p *Places) Turn(i int) Span { return p.turns[i] }

// Of is the place of the primary of an epoch.
func (p *Places) Of(epoch uint64) Span { return p.turns[epoch%uint64(len(p.turns))] }

// Shift is how far behind its head the rest of an epoch's message lies at a place, length
// bytes in all.
func (p *Places) Shift(at Span, epoch, length uint64) uint64 {
	if p.head == 0 || length <= p.whole || at.Room < p.slot {
		return 0
	}
	body := (length - p.head + p.line - 1) / p.line * p.line
	return epoch / uint64(len(p.turns)) % max(1, (at.Room-p.head)/body) * body
}

// Next is the place of a cell that takes the place of an epoch's primary with a
// message of length bytes, if there is one.
func (p *Places) Next(epoch, length uint64) (Span, bool) {
	i := epoch % uint64(len(p.turns))
	to := p.turns[i]
	if p.without.on(behindLast) {
		to.At, to.Room = to.At+p.last[i], to.Room-p.last[i]
	}
	if to.Room < length {
		to = Span{p.fresh, p.slot}
	}
	return to, to.At+to.Room <= p.end
}

// Unused is the number of bytes in slots that were never used.
func (p *Places) Unused() uint64 { return p.end - p.fresh }

// Grow adds bytes in slots that were never used.
func (p *Places) Grow(bytes uint64) { p.end += bytes }

// Take notes the message of an epoch: in the primary, or in a cell that takes its
// place.
func (p *Places) Take(epoch, length uint64, moved bool) {
	i := epoch % uint64(len(p.turns))
	if moved {
		to, _ := p.Next(epoch, length)
		if to.At == p.fresh {
			p.fresh += p.slot
		}
		p.turns[i] = to
	}
	p.last[i] = p.Shift(p.turns[i], epoch, length) + length
}
