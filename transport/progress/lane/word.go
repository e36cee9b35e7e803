package lane

// A Word is a word at a peer that only grows, with one writer: a credit, or a
// rank's arrivals at barriers. Its writer raises it by red.max, so that a phase that
// is repeated or late changes nothing.
type Word struct {
	want    uint64 // what the peer shall see
	clean   uint64 // of the last clean phase
	flying  bool   // a phase is under way
	without switchboard
}

// Raise has the word raised to value, and says whether to start a phase now.
func (w *Word) Raise(value uint64) (start bool) {
	w.want = max(w.want, value)
	return w.begin()
}

func (w *Word) begin() bool {
	if w.flying || w.clean >= w.want {
		return false
	}
	w.flying = true
	return true
}

// Value is what a phase that starts now raises the word to.
func (w *Word) Value() uint64 { return w.want }

// Report takes the end of the phase under way, which raised the word to value,
// and says whether to start another. A phase that was given up has not ended clean.
func (w *Word) Report(value uint64, clean bool) (start bool) {
	w.flying = false
	if clean || !w.without.on(reissue) {
		w.clean = max(w.clean, value)
	}
	return w.begin()
}

// Settled says whether the peer's word is what was last asked for, for certain.
func (w *Word) Settled() bool {
	return w.clean >= w.want || !w.without.on(settle)
}

// Land is what a phase does to the word at the peer: red.max, or where that is
// switched off a put.
func (w *Word) Land(old, value uint64) uint64 {
	if w.without.on(growOnly) {
		return max(old, value)
	}
	return value
}
