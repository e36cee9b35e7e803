// Package collectives has the collective operations of a
// [comm.Communicator]: AllReduce, Reduce, Broadcast, AllGather, AllToAll and
// Barrier.
//
// # Calling
//
// Every rank of the communicator calls the same operation with matching
// arguments; the calls block. Counts are in elements. Element types are those of
// [kernels.Number], named types included. An operation that has returned nil has
// its result in dst, and has no use for src any more.
//
// dst may be src, exactly: the operation is then in place. A dst that overlaps
// src in any other way is [ErrOverlap]. Empty slices are legal everywhere.
//
// Calls on one communicator must not overlap in time
// ([comm.ErrConcurrent]); different communicators are independent.
//
// # Order of reduction
//
// Each element is reduced once, in the order of the ranks 0…n−1, as
// [kernels.Reduce] does it. The result is bit-identical to a loop over the ranks
// and the same on all ranks, whatever the transport. Algorithms with another order,
// also fixed and the same on all ranks, run only if [comm.WithAlgorithm] asks for
// them; package plan has them all.
//
// # Errors
//
// All errors are [comm.OpError] and name the rank, the call and its number.
// Arguments that are wrong on their own ([ErrCount], [ErrOverlap], [ErrRoot],
// [ErrOperator], [comm.ErrNil], [comm.ErrArgument]) and calls at the wrong time
// ([comm.ErrConcurrent]) are refused before anything happens, and the communicator
// stays usable. Any other error ends the communicator on all ranks: see
// [comm.AbortError]. src is then as it was unless it is dst; dst is undefined.
//
// A call ends with its context, also if that is done before, or after the communicator's timeout if the
// context has no deadline. Ranks that call different operations, or one with
// different counts, types, operators or roots, get [comm.ErrMismatch].
package collectives
