// Package lane holds the rules by which a message arrives exactly once although
// the fabric may fail, repeat and be late. It is state only: no I/O, no clock, no
// allocation after New. transport/progress drives it with a transport, and the
// model checker in this package's tests drives the same code through all
// interleavings of small worlds. docs/exactly-once.md explains the rules.
//
// # What is where
//
// A lane goes from one sender to one receiver, or to the members of a multicast
// group. Its memory, at each receiver, is a row of cells. A cell is a slot for one
// message, a counter of the bytes that counted puts brought into it, and a header
// word. All of it starts as zero, and only the sender writes it. K of the cells are
// the primaries; at first those numbered 0 … K−1.
//
// Message number e, its epoch, goes by counted put into primary e mod K. If that
// phase is reported, the whole message goes again, by plain puts into the same cell,
// and once they are clean a header {e, length} is raised in the cell. The cell is
// dirty from then on: what was reported may land at any later time. It never carries
// another message. The next epoch of that primary goes by plain put and header into
// the first cell that was never used, which is the primary from then on. The receiver
// follows without being told: messages are in order, so for each there are only two
// cells in which it can be.
//
// What a rank posts to all at once, in multicast memory, lies in cells too, without
// counters and headers: see [Board] and [Reader].
//
// # Who drives it
//
// A [Sender] says what phase to start next, and is told how phases ended. A
// [Receiver] says which words to look at, and is told what they hold. A [Word] is a
// word that only grows (credits, barriers), [Zones] are landing zones of pulls, [Releases] the releases
// of a source,
// an [Agreement] is how ranks agree on what failed. Each belongs to one goroutine.
package lane
