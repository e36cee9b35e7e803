// Package progress is the engine that moves messages between the ranks of one
// communicator over a [transport.Transport].
//
// # Lanes and cells
//
// Between every two ranks run two lanes, one each way. A lane has K cells, at
// fixed offsets in the receiver's endpoint and written by its one sender. A
// cell is a slot for one message and a counter of the bytes that ever arrived
// in it. Message number e of a lane, its epoch, goes by counted put into cell
// e mod K; the receiver waits until the cell's counter reaches the summed length
// of all messages that used the cell. Counters only grow and the receiver never
// writes them.
//
// The receiver returns cells by a credit word in the sender's endpoint: the
// number of epochs it has finished, raised by red.max, so that a repeated or
// late credit changes nothing. A sender uses a cell again when the credit says
// that its last epoch is finished.
//
// # Faults
//
// On a transport whose phases may be reported, and executed later all the same
// ([transport.Limits].LateWrites), lanes follow the rules of the package lane, so that
// each message still arrives once: a reported message goes again by plain put and is
// announced by a header; its cell is not used again, and a spare takes its place.
// Phases are tried again after a pause that grows ([Retry]), and when that has no end by
// another way: by an alias of the peer's endpoint, by pointer ([Ways]), by
// [Config].Detour; or the call fails with a [transport.FabricError]. A
// message may change when Send returns, whatever was reported.
//
// Other transports have no spares, no headers, and one phase per message.
//
// # Multicast memory
//
// A replica of it is at each rank: what the rank contributes, for [Engine.PullReduce],
// and for each rank a board on which that rank posts to all, by [Engine.PutMulti]. Both
// may have several phases under way. A message tells where its sender's latest
// postings are ([Engine.Board]), and so waits for those under way. Boards have cells as
// lanes do, by the rules of [lane.Board]: there is no agreement on anything until few
// are left, and then all make new memory together. What multicast memory can't do goes
// by pointer to each replica, or by Detour as well.
//
// # Tags
//
// A message starts with a [Tag] of 16 bytes that says which call it belongs to, and
// takes along the bulletin of where its sender's postings are.
// A tag that is not the expected one is a mismatch between the calls of two
// ranks: [MismatchError]. So is a message of another length; one that is shorter
// than expected is noticed when the wait for the rest has lasted [StallAfter].
//
// # Shorts
//
// Where peers' memory is mapped there is a faster way for a few bytes that every rank
// gives to every other: lines that the sender stores in the peer's memory, each with a
// word that says which message it is. See [Engine.GiveShort].
//
// # Mail
//
// A second set of lanes, [Mail], lies in the same memory, for messages of which
// the receiver knows neither when they come nor how long they are. It is used
// without blocking, by another goroutine than the engine at the same time.
//
// A mail message begins with a word of 8 bytes, its epoch and its length, and is
// there exactly if that word has the expected epoch and the cell's counter has
// grown by the length that it says. Pieces of a message land in any order: the
// counter alone does not say which bytes it counts, and the word alone does not say
// that others landed. But a counter never exceeds the distinct bytes that landed,
// and 8 aligned bytes are never seen in part.
//
// # Waiting
//
// All waits are for words of the rank's own memory, and in one place, wait.go:
// first by a loop with pauses, then by giving the processor away, then asleep on
// the memory's doorbell. Each stage watches the communicator's [Stop] and, once
// the wait is no longer short, the call's context and deadline.
//
// An Engine belongs to one goroutine at a time, between Begin and End of a call;
// see [Mail] for its own rules.
package progress
