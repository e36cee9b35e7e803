// Package plan has the algorithms of the collectives, each as a pure function
// from a [Shape] and a rank to a [Schedule]: a list of steps on ranges of named
// buffers, which one executor runs on any transport. It moves nothing itself.
//
// [Build] makes a schedule, [Algorithms] and [Lookup] say what there is, and
// [Verify] proves that the schedules of all ranks are right.
//
// # What an executor must know
//
// A schedule is one rank's steps, done one after the other. Two ranks meet by
// messages on lanes, one for each pair and direction, which keep their order; a
// lane holds Cells messages that are not released.
//
//   - The source of a Put may be written to when the step is done. An empty Put is
//     a message as any other: a signal.
//   - A Wait names the number of elements of the message that comes. There is one
//     Inbox per peer: it is released before the next Wait for that peer. Inboxes of
//     several peers are open at once, up to one for every other rank.
//   - Copy and Combine write to Recv, Scratch and Multi, and only Copy reads a Board. A
//     destination is one of the sources, exactly, or shares nothing with them.
//   - Combine has two sources or more, for one pass over all of them. With types
//     of 16 bits it rounds once.
//   - Complete is on the one step that makes a result of all contributions, on
//     whichever rank that is; copies of it go everywhere. An average divides there
//     by Ranks, which need not be the number of sources. Steps of a Scan or an
//     Exscan are never complete: their callers refuse averages.
//   - Recv is missing on ranks other than the root of a Reduce or Gather and on
//     rank 0 of an Exscan, Send on ranks other than the root of a Scatter and in a
//     Broadcast, both in a Barrier: no step names them there. Scratch is
//     ScratchElems elements with any content, aligned to 16 bytes.
//   - A range of Send or Recv is within one block of Count elements, where there are
//     blocks, unless Count is so small that a message holds two blocks.
//   - Multi is MultiElems elements and each cell of a Board is CellElems elements,
//     aligned to 16 bytes, the same on every rank. Their content is kept while a call
//     lasts; calls of any shapes may use the same memory one after the other with
//     nothing between them. Ranges that PullReduce reads and PutMulti writes begin at
//     multiples of 16 bytes, as do the ranges of Scratch that they work with; a
//     PutMulti from Recv may begin anywhere. They may do whole units of 16 bytes: what
//     is behind the end of the range of Multi, Board or Scratch in its last unit is
//     nobody's. A range of a Board is within one cell.
//   - A PutMulti only begins. It is over, and may be told of, with the next Put to
//     any rank. Which memory a cell is, is the executor's business: it may be another
//     one for each posting, of which the Puts that follow tell. In each call, whoever
//     posts tells all ranks after its last PutMulti.
//
// One rank has a Copy, or nothing; no elements are no steps. Barriers have steps
// for two ranks and more.
//
// # Segments
//
// Elements are cut into segments so small that no message exceeds MessageBytes,
// and the stages of an algorithm run on several segments at once, as a pipeline:
// see segment.go for how, and for why lanes stay in order and nobody deadlocks.
// A smaller MessageBytes than the transport's makes more and shorter segments.
//
// # Order
//
// Every algorithm that reduces documents its order ([Algorithm].Order). All ranks
// that get a result get the same bits, every time. The order depends on the shape
// alone: on Cells it does not, on MessageBytes it does for the rings of AllReduce
// and for double trees.
package plan
