// Package collectives has the operations of a [comm.Communicator]: AllReduce,
// Reduce, ReduceScatter, Scan, Exscan; Broadcast, Gather, Scatter, AllGather,
// AllToAll and their V forms with blocks of different length; Barrier; Send and Recv.
//
// # Calling
//
// Every rank of the communicator calls the same operation with matching
// arguments. Counts are in elements. What is reduced are [kernels.Number]s, named
// types included; what is only moved may be of any type without pointers, structs for
// one, and travels as it lies in memory. An operation that has returned nil has its
// result in dst, and has no use for src any more.
//
// dst may be src, exactly: the operation is then in place. Where dst and src
// differ in length, the shorter may be this rank's block of the longer. A dst that
// overlaps src in any other way is [ErrOverlap]. Empty slices are legal everywhere.
// In V forms blocks lie one after the other, in rank order.
//
// # Forms
//
// Every collective comes in these forms, which give the same bits; sends and receives
// have no persistent one:
//
//   - AllReduce blocks until it is done.
//   - StartAllReduce returns a [Request] at once. Calls that were started on one
//     communicator run in the order of their start, while the program computes. A
//     blocking call runs after those that were started before.
//   - NewAllReduce returns a [Persistent], to be run many times on the same slices.
//   - AddAllReduce adds the call to a [Group], which makes many small calls with few
//     messages. [AllReduceMany] is a group of AllReduces.
//
// Blocking and persistent calls allocate nothing once they have been made before,
// but for a Group that is not persistent, for calls with [comm.WithCommit], and for those
// on the software fabric in its default mode.
//
// Blocking collectives on one communicator must not overlap in time
// ([comm.ErrConcurrent]); different communicators are independent.
//
// # Messages
//
// Send, Recv and SendRecv, StartSend and StartRecv are between two ranks and have
// MPI's rules: a receive names a source and a tag, or any of either; messages that
// match the same receive are taken in the order in which they were sent. They may
// overlap with each other and with collectives in any way and from any number of
// goroutines: what was sent before a Barrier can be received after it. Messages for
// which there is no receive yet wait in the receiver's memory. A rank takes messages
// in while it waits in any call, and, from the start of a StartSend or StartRecv to
// its end, also while the program computes.
//
// Messages are not numbered like collectives. One that is longer than the receive
// that it matches, or of other elements, is [comm.ErrMismatch] on all ranks.
//
// # Order of reduction
//
// Each element is reduced once, in the order of the ranks 0…n−1, as
// [kernels.Reduce] does it. The result is bit-identical to a loop over the ranks
// and the same on all ranks, whatever the transport. Algorithms with another order,
// also fixed and the same on all ranks, run only if [comm.WithAlgorithm] asks for
// them; package plan has them all.
//
// # Operators of the program's
//
// AllReduceFunc and the other …Func forms take a function f(acc, x) for an
// operator, on elements of any type without pointers: it sets each acc[i] to
// acc[i] op x[i]. The operator must be associative. It need not commute: acc has the
// contributions of lower ranks than x. The slices have the same length, at least 1, and
// are f's only while it runs; x may be a part of src, and f must not write to it. f does the same on all ranks and makes no calls on the
// communicator and does not close it; for started calls it runs on another goroutine. An element must fit a
// message (see [comm.Communicator.Lanes]). When the communicator has ended, f is not called again:
// the call ends as soon as f returns.
//
// If f panics, the panic reaches the caller, after the communicator has ended for
// all ranks. The error of a call that was started is a [PanicError] then. Ranks that had
// their result by then return it, and learn of the end from their next call.
//
// # Devices
//
// AllReduceDevice and the other …Device functions are for elements in the memory of the
// ranks' GPUs, whichever library it is of ([DeviceSlice]). They put the call on a stream of this
// rank's device and return: what is on the stream before happens before, and what comes after
// finds the result. stream is a CUstream or cudaStream_t, 0 the default stream. Ranks of one
// process that share a GPU share its context: each has streams of its own, and none uses 0. The
// calls of a communicator that are not captured run one after another on each rank, in the order
// in which they were made, whatever their streams.
//
// A stream may be captured into a graph, which may run many times; the ranks then run it at the
// same place among their calls. Captured calls are ordered by the graph alone: they do not wait
// for the communicator's other calls, and those do not wait for them. But a communicator's calls
// must never overlap on a rank. So the program orders the branches of one graph, two graphs, and a
// graph and other calls of the same communicator, by one stream or by events. When the
// communicator is closed, no graph with its calls may be running, or run later.
//
// The first call loads the driver, opens the devices and waits for all ranks, unless
// [comm.Communicator.OpenDevice] has; no other waits. Wrong arguments are refused at once. What
// fails later ends the communicator: [comm.Communicator.AsyncErr] says so, and so does the next
// call, on slices too, or Close. Kernels wait for other ranks as long as the communicator's timeout at each step, and
// end at once when the communicator has ended.
//
// The reductions have the operators Sum, Prod, Min, Max and Avg, for float16, bfloat16, float32,
// float64, float8e4m3, float8e5m2, int32, int64 and uint8. Results have the same bits as those on
// slices, but for which NaN a Sum, Prod or Avg gives (see package kernels). A communicator with
// devices has at most 72 ranks.
//
// # Errors
//
// All errors are [comm.OpError] and name the rank, the call and its number.
// Arguments that are wrong on their own ([ErrCount], [ErrOverlap], [ErrAlign], [ErrRoot],
// [ErrOperator], [ErrType], [comm.ErrNil], [comm.ErrArgument]) and calls at the wrong
// time ([comm.ErrConcurrent]) are refused before anything happens, and the
// communicator stays usable. Any other error ends the communicator on all ranks: see
// [comm.AbortError]. src is then as it was unless it is dst; dst is undefined.
//
// A call ends with its context, also if that is done before, or after the communicator's timeout if the
// context has no deadline. Ranks that call different operations, or one with
// different counts, types, operators or roots, get [comm.ErrMismatch]: the check
// travels with the data. A rank that did not have to wait for the others (a root that
// sends, a call without elements) gets it from its next call, or from Close.
package collectives
