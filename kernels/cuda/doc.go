// Package cuda has the kernels that carry out collectives on NVIDIA GPUs, in compiled
// form, and the layout of what they share with their hosts and among ranks.
//
// The sources lie beside: op.cuh has the operations by which bytes move between ranks
// (put, counted put, put to all, get, pull-reduce, packets, signal, wait), and is the
// only file that knows how; arith.cuh the arithmetic; small.cuh, large.cuh and mail.cuh
// the algorithms; layout.cuh what layout.go says in Go. 'make kernels' compiles them, with
// a compiler from a package registry, and 'make lint' checks that the compiled form is theirs.
//
// # Arithmetic
//
// Results have the bits of package kernels, contributions being combined in rank order.
// The types are those of [Types], the operators Sum, Prod, Min, Max and Avg.
//
// # How ranks work together
//
// Every rank has a [Segment] in its device's memory, zeroed once, which all ranks map. A
// collective is one kernel on each rank, with the same number of blocks everywhere. Block
// b works with block b of the others, in a lane of its own: a lane counts its calls and
// steps in the segment, so that a kernel may be captured in a graph and run again.
//
//   - Few bytes go in packets of 8 bytes with flags ("small"), one step in all.
//   - More bytes are read from and written to the others' buffers, where these are
//     registered on all ranks ([Args].DstBuffer, SrcBuffer), else fetched in chunks
//     from the others' segments ("large").
//   - A message goes in chunks through slots in its receiver's segment ("mail").
//
// Kernels of one communicator run one after another on each rank, in the same order on
// all. All blocks of a collective have to be on their devices at once, so that grids are
// bounded: see [Lanes].
//
// # Failures
//
// Every wait is bounded ([Args].TimeoutNs), and ends early if the host sets [Page].Abort or
// a peer's kernel has failed. The first failure of a rank leaves a [Record] on the page,
// poisons the peers' segments, and makes all later kernels of the rank end at once. Calls
// that differ between ranks have different hashes, which travel with the packets.
package cuda
