// Package harness is what the benchmark programs have in common: flags in the
// manner of nccl-tests, timing, checking, the table and the JSON lines.
//
// # What is timed
//
// A call is one collective on every rank. Calls are timed in batches: after a
// barrier, each rank makes the calls of a batch and notes how long they took.
// The time of a batch is the longest of all ranks, and that divided by the
// number of calls is one sample. A row shows the median of the samples.
//
// The length of a batch follows from a trial: long enough to last about 100 µs,
// so that neither clock nor barrier count; 1 for large sizes. Batches come in
// blocks. A block of ours out of place is followed by one in place, then by the
// peer's, and the next round goes the other way, so that whatever changes in
// the machine meanwhile meets all alike. The peer has the same barrier, ours,
// the same buffers (those of the Go heap if ours are symmetric memory), and the
// same rules for the length and number of batches.
//
// Buffers rotate: each call takes the next slot of a pool that is larger than
// the last-level cache, whichever library the call is of. Slots have different
// contents, so data change with every call as well. With -warm there is one
// slot. In rooted collectives the root moves on with every call, so that no
// rank can run ahead of the others, unless -r fixes it.
//
// Ours are called as -form says. A persistent call is on its slot's slices and its
// root, and all are set up before anything is timed; so that they do not take more
// memory than the data, there are few slots, the same for the peer. A started call
// is waited for before the next is started.
//
// What is printed as spread is half the range of the middle half of the samples,
// or of the blocks' medians if that is more, as a part of the median.
//
// On GPUs (-device cuda) the time of a batch is that between two events on the rank's
// stream, behind a barrier of all ranks' GPUs, and a batch lasts about 1 ms. Calls are
// captured in graphs of 20 and those launched, or enqueued one by one; the peer, NCCL, is
// called likewise, on the same stream and buffers. Up to 160 slots rotate. Inputs are made
// and results checked in a mirror of the buffers on the host. docs/cuda.md has the rest.
//
// All that takes a second or so for a row, and a virtual machine may be faster a
// minute later. Therefore -N repeats the whole sweep, and a row is then made of
// all cycles, as [record.Merge] says: medians of medians, ratios of times from
// the same cycle, and spreads that reach to every cycle.
package harness
