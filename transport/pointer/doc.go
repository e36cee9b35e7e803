// Package pointer is the transport over mapped memory: every endpoint's memory
// is mapped by every rank that imported it, and an operation is a copy or an
// atomic instruction that has ended when the call returns.
//
// There are two kinds. [NewLocal] is for ranks that are goroutines of one
// process; its memory is on the Go heap, so that the race detector sees the
// protocol. [NewShared] is for processes of one node; its memory is anonymous
// (memfd), sealed against resizing, handed over by descriptor, and gone with the
// last process that maps it.
//
// An operation either works or the process dies, so reports are always clean.
// The limits of the contract are kept all the same, so that what runs here runs
// on a fabric. What differs is in [transport.Limits]: an endpoint takes exactly
// one Bind, of its whole size, before it is exported, and can't be rebound. A
// transport implements [transport.Mapper].
//
// Offsets and lengths that come from a peer are checked before use. Whoever
// holds a descriptor can write to the memory behind it: descriptors are given
// only to ranks of the job, over a channel that has checked who they are.
package pointer
