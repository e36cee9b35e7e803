package progress

import (
	"runtime"
	"sync/atomic"
	"time"
)

// PeerStats are what an engine did with one peer since it was made. For this
// rank's own number they hold what concerned the whole group: puts to all and pulls.
type PeerStats struct {
	Messages uint64        // sent to the peer, or phases on multicast memory but for retries
	Bytes    uint64        // of their payloads
	Reports  uint64        // phases that were reported, or did not end in time
	Retries  uint64        // phases that were started again
	Reroutes Reroutes      // messages, credits, postings and pulls that went another way than the first
	Replaced uint64        // cells of the lanes to the peer, or of the board, that others took the place of
	Renewals uint64        // of the lanes from the peer: memory for more cells
	ByHeader uint64        // messages from the peer that came by plain put and header
	Lost     time.Duration // spent on messages, postings and pulls after their first report
}

// Reroutes count by which other way something went.
type Reroutes struct {
	Alias   uint64 // by a second id of the peer's endpoint
	Pointer uint64 // through a pointer to the peer's memory
	Channel uint64 // by detour
}

// All is their sum.
func (r Reroutes) All() uint64 { return r.Alias + r.Pointer + r.Channel }

// Add adds the figures of another.
func (r *Reroutes) Add(o Reroutes) {
	r.Alias += o.Alias
	r.Pointer += o.Pointer
	r.Channel += o.Channel
}

// Add adds the figures of another.
func (s *PeerStats) Add(o PeerStats) {
	s.Messages += o.Messages
	s.Bytes += o.Bytes
	s.Reports += o.Reports
	s.Retries += o.Retries
	s.Reroutes.Add(o.Reroutes)
	s.Replaced += o.Replaced
	s.Renewals += o.Renewals
	s.ByHeader += o.ByHeader
	s.Lost += o.Lost
}

// WaitStats are how the calls of an engine have waited: what they did between looks
// for what was not there yet.
type WaitStats struct {
	Pauses uint64 // of the processor
	Yields uint64 // times that the processor was given to whom may want it
	Sleeps uint64
}

// Sub returns what has come since an earlier time.
func (s WaitStats) Sub(earlier WaitStats) WaitStats {
	return WaitStats{s.Pauses - earlier.Pauses, s.Yields - earlier.Yields, s.Sleeps - earlier.Sleeps}
}

// costRounds is how often Costs does what it measures.
const costRounds = 1000

// Costs measures how many seconds of processor time a pause and a yield take of this
// rank, with what else the machine is doing now. The time that passes while
// others have the processor is not in it.
func (p WaitPolicy) Costs() (pause, yield float64) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var word atomic.Uint64
	begin := threadTime()
	for word.Load() < costRounds {
		spinPause(pauseLoops)
		word.Add(1)
	}
	between := threadTime()
	w := waiter{policy: p}
	for i := range costRounds {
		w.yield(i)
	}
	end := threadTime()
	return (between - begin).Seconds() / (costRounds * pauseLoops), (end - between).Seconds() / costRounds
}
