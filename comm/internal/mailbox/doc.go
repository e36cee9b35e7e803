// Package mailbox is the state machine of point-to-point messages: which
// message goes into which buffer, and what travels between two ranks to get it
// there. It knows no transport, no goroutine and no clock: it is moved by
// [Mailbox.Step], over a [Network], and never blocks.
//
// # Matching
//
// The rules are MPI's. A receive names a source and a tag, or any of either. An
// arriving message goes to the receive that was posted first of those that it
// matches; a receive takes the message that arrived first of those that match it.
// Two messages from one rank arrive in the order in which their sends were started,
// so that of two that match the same receive the first is received first. Messages
// for which there is no receive yet wait in the receiver's memory, without bound.
//
// # Protocol
//
// A message that fits in one of the network's is sent eagerly, as it is. Of a
// longer one only the envelope goes ahead. When a receive matches it, the receiver
// answers with a number of its own, and the data follows in segments that carry
// that number, straight into the receive's buffer. Segments of several transfers to
// one rank take turns, and with the envelopes of later messages.
//
//	sender                          receiver
//	envelope{tag, length, n}  →     matches a receive
//	                          ←     clear{n, m}
//	data{m} … data{m}         →     into its buffer
//
// What is received never waits for what is to be sent, so ranks that only send to
// each other go on as long as each makes steps.
package mailbox
