package progress

// A stay says whether a rank that shares its processor with others, and lacks a message from a
// peer, had better keep the processor for a moment. If the peer needs that very processor, to
// keep it is a loss. If it runs on another one its message comes soon, while to give the
// processor away and to have it back takes two switches at least. Nobody knows which it is, as
// ranks are moved about; but for some time it is as it was. So when a rank has stayed in vain it
// does not for some waits, more and more of them.
type stay struct {
	skips uint8 // waits that are still to be without
	after uint8 // how many they were after it last failed
}

const (
	stayPolls = 40  // with a pause each: about a µs, less than two switches
	mostSkips = 127 // so that trying in vain takes no more than some ns of a wait
)

// due says whether to stay in this wait.
func (s *stay) due() bool {
	if s.skips == 0 {
		return true
	}
	s.skips--
	return false
}

// paid: the message came meanwhile.
func (s *stay) paid() { s.after = 0 }

// failed: it did not.
func (s *stay) failed() {
	s.after = min(2*s.after+1, mostSkips)
	s.skips = s.after
}
