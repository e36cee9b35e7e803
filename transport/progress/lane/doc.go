// Package lane holds the rules by which a message arrives exactly once although
// the fabric may fail, repeat and be late. It is state only: no I/O, no clock, no
// allocation after New. transport/progress drives it with a transport, and the
// model checker in this package's tests drives the same code through all
// interleavings of small worlds. docs/exactly-once.md explains the rules.
//
// # What is where
//
// A lane goes from one sender to one receiver, or to the members of a multicast
// group. Its memory, at each receiver, is a row of generations; a generation is K
// primary cells and S spare cells. A cell is a slot for one message, a counter of
// the bytes that counted puts brought into it (primaries only use it), and a header
// word. All of it starts as zero, and only the sender writes it.
//
//	generation g:  primary 0 … K−1 | spare K … K+S−1
//	cell:          slot | counter | header
//
// Message number e, its epoch, goes by counted put into primary e mod K. If that
// phase is reported, the whole message goes again, by plain puts into the same cell,
// and once they are clean a header {e, length} is raised in the cell. The cell is
// dirty from then on: what was reported may land at any later time. It never carries
// another message; epochs whose primary is dirty go by plain put and header into a
// spare. When no spare is left the lane goes on in the next generation, whose
// offsets were never used. Its first message tells the receiver so: it goes by plain
// put and header into the first spare there, which the receiver watches.
//
// # Who drives it
//
// A [Sender] says what phase to start next, and is told how phases ended. A
// [Receiver] says which words to look at, and is told what they hold. A [Word] is a
// word that only grows (credits, barriers), [Zones] are landing zones of pulls, [Releases] the releases
// of a source,
// [Registrar] and [Verdict] are what ranks agree on. Each belongs to one goroutine.
package lane
