package lane

// A Failure is what ends a communicator for all of its ranks.
type Failure struct {
	Rank  int // who registered it
	Epoch uint64
}

// A Registrar is the one rank, or process, that puts failures in order. It is
// reached over the bootstrap channel, which is reliable, and tells all ranks what it
// decides in the order in which it decides it.
type Registrar struct {
	ranks   int
	failed  bool
	failure Failure
	epoch   uint64 // that is voted on
	votes   uint64 // a bit per rank, 64 ranks at most
	without switchboard
}

// NewRegistrar returns the registrar of a communicator of n ranks, 64 at most.
func NewRegistrar(n int) *Registrar { return &Registrar{ranks: n} }

// Fail registers a failure. It returns the one that holds, and whether it is news
// for the ranks: the first holds for ever.
func (r *Registrar) Fail(f Failure) (Failure, bool) {
	if r.failed && r.without.on(firstWins) {
		return r.failure, false
	}
	r.failed, r.failure = true, f
	return f, true
}

// Vote takes a rank's vote that its part of an epoch is done, and says whether all
// have voted so, and nothing failed before: then the epoch is committed.
func (r *Registrar) Vote(rank int, epoch uint64) (commit bool) {
	if r.failed || epoch != r.epoch {
		return false
	}
	r.votes |= 1 << rank
	if r.votes != 1<<r.ranks-1 && r.without.on(voteFirst) {
		return false
	}
	r.votes = 0
	r.epoch++
	return true
}

// A Verdict is what one rank knows of the end of its calls.
type Verdict struct {
	failed    bool
	failure   Failure
	committed uint64 // epochs
	without   switchboard
}

// Failed takes the failure that the registrar told.
func (v *Verdict) Failed(f Failure) {
	if v.failed && v.without.on(firstWins) {
		return
	}
	v.failed, v.failure = true, f
}

// Committed takes the registrar's word that an epoch is committed.
func (v *Verdict) Committed(epoch uint64) { v.committed = max(v.committed, epoch+1) }

// Outcome says whether the call of an epoch may return, and with what: exact if
// failure is nil. done says that this rank's part of it is finished; with commit the
// rank has voted then. A rank that failed waits for the failure that holds.
func (v *Verdict) Outcome(epoch uint64, done, commit bool) (returns bool, failure *Failure) {
	if v.failed && !(commit && v.committed > epoch) {
		return true, &v.failure
	}
	if !done {
		return false, nil
	}
	if commit && v.committed <= epoch && v.without.on(voteFirst) {
		return false, nil
	}
	return true, nil
}
