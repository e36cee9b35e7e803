package harness

import (
	"github.com/weft-go/weft/comm"
)

// algorithm names what carries a collective of that size out. The library has
// only the direct algorithms as long as it can't be asked.
func algorithm(*comm.Communicator, *collective, int64) string { return "direct" }

// counters are how often the transport reported an error, and what was done.
type counters struct{ reports, retries, reroutes uint64 }

// transportCounters returns this rank's. The pointer transport's reports are
// always clean, so that nothing is ever tried again.
func transportCounters(*comm.Communicator) counters { return counters{} }

// transportName is how this rank reaches the others; several ways are joined.
func transportName(c *comm.Communicator) string {
	name := ""
	for r := range c.Size() {
		route := c.Route(r).Transport
		switch {
		case r == c.Rank() || route == name:
		case name == "":
			name = route
		default:
			name = name + "+" + route
		}
	}
	if name == "" {
		return "self"
	}
	return name
}
