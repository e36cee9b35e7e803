package progress

import "time"

// PeerStats are what an engine did with one peer since it was made. For this
// rank's own number they hold what concerned the whole group: puts to all and pulls.
type PeerStats struct {
	Messages uint64        // sent to the peer, or phases on multicast memory but for retries
	Bytes    uint64        // of their payloads
	Reports  uint64        // phases that were reported, or did not end in time
	Retries  uint64        // phases that were started again
	Reroutes uint64        // messages, credits, postings and pulls that went by detour
	Replaced uint64        // cells of the lanes to the peer, or of the board, that others took the place of
	ByHeader uint64        // messages from the peer that came by plain put and header
	Lost     time.Duration // spent on messages, postings and pulls after their first report
}

// Add adds the figures of another.
func (s *PeerStats) Add(o PeerStats) {
	s.Messages += o.Messages
	s.Bytes += o.Bytes
	s.Reports += o.Reports
	s.Retries += o.Retries
	s.Reroutes += o.Reroutes
	s.Replaced += o.Replaced
	s.ByHeader += o.ByHeader
	s.Lost += o.Lost
}
