// Package fabric is a compute fabric in software: the transport over logical
// endpoints, with the life cycle, the limits and the failures of one whose
// hardware few people have on their desk. It implements [transport.Transport], so
// that what is written against the contract runs on it, and has what a fabric has
// beyond the contract.
//
// [NewLocal] is for ranks that are goroutines of one process, [NewShared] for
// processes of one node. Every rank has one of its own.
//
// # Modes
//
// In [ModeDefault] operations are asynchronous: an engine, a goroutine of each
// rank, executes what was submitted later, out of order and in pieces, each
// operation's counter growing with its pieces. With [WithSteps] nothing moves
// until [Transport.Step] moves one piece, so that a test sees every state in
// between. [ModeStrict] adds the sanitizer. In [ModeFast] bytes move when the
// operation starts, at the rate of a copy, without an allocation; what a call can
// check about its own arguments it checks, and phases are accounted for as in the
// other modes. Under a fault plan, those of phases that it may hit move when they are
// submitted.
//
// # Life of an endpoint
//
// As on the hardware, and by the same steps:
//
//  1. [Transport.Support] says what the device can do. [Transport.AgreeClique]
//     finds out, among all ranks, whether they can reach each other.
//  2. [Transport.ReserveIDs] reserves a range of ids. They are this rank's own.
//  3. [Transport.EndpointLimits] has the alignment and the largest size for
//     [Properties]; what is larger is split over several endpoints.
//  4. [Transport.CreateEndpoint] begins to make an endpoint under an id.
//  5. [Transport.ExportEndpoint] gives a handle to pass on; peers give it to
//     [Transport.ImportEndpoint] with an id of theirs. Nothing need be bound yet.
//  6. Of a multicast endpoint, each member adds its device ([Transport.AddDevice]),
//     and knows those of the others ([Transport.ImportDevice]).
//  7. [Transport.Query] until the endpoint is ready, on each rank.
//  8. [Transport.BindMemory] or [Transport.BindAddress] put memory of this rank
//     behind ranges of the endpoint, [MaxBindings] at most. Then the ranks
//     synchronize, by other means.
//  9. Use. With the users stopped, [Transport.UnbindRange] and other bindings
//     change what is behind the endpoint: imports stay as they are.
//  10. [Transport.DestroyEndpoint] for each id, [Transport.ReleaseIDs], Memory.Free.
//
// Several ids, of one rank and of others, may be aliases of one endpoint. It is
// freed with the last; what is bound to it goes with the id of its creation.
// Memory is bound under that id only; of a multicast endpoint, each member binds
// its own replica, under the id with which it added its device.
//
// Create, Import, JoinMulticast and the methods of [transport.Endpoint] do the
// same in the terms of the contract.
//
// # Who can use an endpoint
//
// A rank's device is its memory and what it has of endpoints: on the Go heap, or
// one anonymous file, sealed against resizing, whose descriptor goes with every
// handle. The file spans the address space of all that the rank may ever bind
// (see [WithArena]; 64 GiB by default, 64 MiB on 32-bit machines, less where a limit
// of the process wants it; pages are used for what is allocated only), so that an
// importer that has mapped it once finds whatever is bound later. A device has 4096 endpoints at a time between
// processes, 512 on 32-bit machines. Users find out that what is bound has
// changed by a generation number, and are counted while they are in the middle of
// a piece, so that memory is not used for something else under a piece: Unbind and
// Destroy wait for it, for a quarter of a second at most. If the rank that executes
// it is dead or stopped, the memory is kept out of use for good.
//
// A handle is 64 bytes, all of them authenticated (HMAC-SHA-256, 128 bits) with a
// secret of the device and, if there is one, the job's key ([WithJobKey]). The
// secret is in the file: the descriptor is the capability, and whoever got it over
// the control channel, which checks whom it talks to, may use the endpoint. Without
// it, a handle is worth nothing and can't be made up; ranks of a job with another
// key refuse it. Nothing that comes from a peer, handle or memory, is believed
// before it was checked.
//
// # Operations
//
// Those of the contract, with its operators and types; pullreds also on float8
// ([PullRedSupports]). They are limited as on the hardware: 2²⁰−1 transactions in
// a phase, of 16 bytes for puts, reds and atoms and of one byte for gets and
// pullreds; 511 arrivals. A [Completion] has more than the contract asks for:
// submitting only what fetches, waiting until sources were read, transactions that
// are expected explicitly, the plain layout, the decoded report. Left out are the
// .tensor forms, which have no public syntax and are for one family of devices
// only, and atoms on packed pairs of halves and on 128 bits.
//
// A write of 64 bytes or less moves as aligned words of 8 bytes; larger ones do in
// practice. 16 bytes may tear.
//
// An operation that finds nothing bound where it reaches when it is executed
// fails, by its report. Closing the fabric has everything fail that was not
// executed; no operation may run on other goroutines then.
//
// # The sanitizer
//
// Every use that the guide calls undefined or that a limit forbids is a [Rule]. A
// call that breaks one returns a [*RuleError] with the rule, its section in the
// guide, the operation and both sides; errors.Is finds the contract's error in it.
// What no call could return, because it shows only later, goes to
// [WithDiagnostics], [Transport.Diagnostics] and the error of Close. Rules that
// cost, and those by which the contract is kinder than the hardware, are for
// [ModeStrict]: [Rule.Strict] tells, and of a few rules a part is. For fences, the
// strict mode must see the owner's accesses: they go through a [View]. What it can't
// see is in docs/fabric.md.
//
// # Fault plans
//
// [WithFaults], or the variable [FaultsVariable] of the environment, has phases
// fail by a plan; the package faults has its grammar. The first Submit of a phase
// decides about what the phase does on each link. Reports say that a phase failed
// and not how. What is late is executed by the engine in its time, if at all: see
// [Transport.Late] and [Transport.Drain]. With a [faults.Recorder] as [WithDecider]
// every fault is logged, with a [faults.Replay] the log happens again. A rank that
// is not known ([WithRank]) counts as 0.
//
// Under a plan the race detector does not see bytes that the fabric moves: bytes
// of a phase that is tried again may rightly be written while they are read, being
// the same. It sees reds, atoms and counters, which are atomic.
package fabric
