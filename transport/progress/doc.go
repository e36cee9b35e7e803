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
// A message starts with a [Tag] of 16 bytes that says which call it belongs to.
// A tag that is not the expected one is a mismatch between the calls of two
// ranks: [MismatchError]. So is a message of another length; one that is shorter
// than expected is noticed when the wait for the rest has lasted [StallAfter].
//
// # Waiting
//
// [Engine] waits only for words of its own memory, and in one place, wait.go:
// first by a loop with pauses, then by giving the processor away, then asleep on
// the memory's doorbell. Each stage watches the communicator's [Stop] and, once
// the wait is no longer short, the call's context and deadline.
//
// An Engine belongs to one goroutine at a time, between Begin and End of a call.
package progress
