package plan

// A clock is a vector clock: for each rank the epoch up to which what it did is
// known to be done. A rank's own epoch grows with each message that it puts.
// Messages are all that orders ranks: that a Put found a free cell proves nothing
// about the peer, so that it holds for transports that have spare cells.
type clock []uint32

func (c clock) join(other clock) {
	for i, e := range other {
		c[i] = max(c[i], e)
	}
}

// knows says whether everything that a rank did in an epoch is done.
func (c clock) knows(rank int, epoch uint32) bool { return c[rank] >= epoch }

// A shadow is what is known of one element of multicast memory.
type shadow struct {
	wrote   access
	readers []access // since
}

// An access is by a step of a rank in an epoch; epoch 0: none.
type access struct {
	rank  int
	epoch uint32
	step  int
	call  int
}

// read notes a read, and returns an access that it is not ordered with.
func (s *shadow) read(c clock, a access) (access, bool) {
	if !c.knows(s.wrote.rank, s.wrote.epoch) {
		return s.wrote, false
	}
	for i := range s.readers {
		if s.readers[i].rank == a.rank {
			s.readers[i] = a
			return access{}, true
		}
	}
	s.readers = append(s.readers, a)
	return access{}, true
}

func (s *shadow) write(c clock, a access) (access, bool) {
	if !c.knows(s.wrote.rank, s.wrote.epoch) {
		return s.wrote, false
	}
	for _, r := range s.readers {
		if !c.knows(r.rank, r.epoch) {
			return r, false
		}
	}
	s.wrote, s.readers = a, s.readers[:0]
	return access{}, true
}
