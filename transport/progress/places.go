package progress

// A place is where in the slots of a lane a cell's message lies.
type place struct {
	at   uint64 // in the slots
	room uint64 // bytes from there on that are the cell's
}

// places are those of a lane's primaries. Both ends follow them by the same rules, from
// the messages alone.
//
// A cell that takes a dirty one's place has a counter and a header that were never
// used. Of the slot only those bytes are dirty that the last message took: the
// messages before were clean, and have nothing left to do. So the new cell gets the rest
// of the old one's slot, if its message fits, and a slot that was never used
// otherwise. Many small messages that fail take no more slots than one large one.
type places struct {
	turns []place
	last  []uint64 // length of the last message of each
	slot  uint64   // size of a slot
	fresh uint64   // the first slot that was never used
	end   uint64   // of the slots
}

func newPlaces(l *lanes) places {
	p := places{turns: make([]place, l.primaries), last: make([]uint64, l.primaries), slot: uint64(l.slotBytes)}
	for i := range p.turns {
		p.turns[i] = place{uint64(i) * p.slot, p.slot}
	}
	p.fresh = uint64(l.primaries) * p.slot
	p.end = l.bytes - l.slots
	return p
}

// of is the place of the primary of an epoch.
func (p *places) of(epoch uint64) place { return p.turns[epoch%uint64(len(p.turns))] }

// next is the place of a cell that takes the place of an epoch's primary with a
// message of length bytes, if there is one.
func (p *places) next(epoch, length uint64) (place, bool) {
	i := epoch % uint64(len(p.turns))
	to := p.turns[i]
	to.at, to.room = to.at+p.last[i], to.room-p.last[i]
	if to.room < length {
		to = place{p.fresh, p.slot}
	}
	return to, to.at+to.room <= p.end
}

// unused is the number of bytes in slots that were never used.
func (p *places) unused() uint64 { return p.end - p.fresh }

// take notes the message of an epoch: in the primary, or in a cell that takes its
// place.
func (p *places) take(epoch, length uint64, moved bool) {
	i := epoch % uint64(len(p.turns))
	if moved {
		to, _ := p.next(epoch, length)
		if to.at == p.fresh {
			p.fresh += p.slot
		}
		p.turns[i] = to
	}
	p.last[i] = length
}
