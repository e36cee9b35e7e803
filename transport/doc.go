// Package transport is the contract between the collectives and what carries
// their bytes. Collectives and plans are written once, against this package;
// transport/pointer implements it over mapped memory, transport/fabric over
// logical endpoints.
//
// The model is that of a compute fabric, because mapped memory can imitate a
// fabric and the reverse does not hold.
//
// # Endpoints
//
// An [Endpoint] is a bounded space of byte offsets. Its owner binds [Memory] to
// it and exports it; peers import the export under an id of their own, so an
// [EndpointID] means something only to the rank that holds it. A [Handle] names
// a place: an endpoint and an offset. A multicast endpoint has one replica per
// member of its group; an operation on it concerns all replicas.
//
// # Operations
//
// Operations name their remote side by a [Handle]: Put, PutMasked, PutCounted,
// PutMultimem, Get, Red, PullRed, Atom. They are tried: that a call returned nil
// says that the operation was well formed and has been started, and nothing of
// its end. Remote offsets and lengths are multiples of [Granule]; counters are
// aligned to [CounterAlign]. Local slices have no alignment to keep. What may be
// in flight on one completion is bounded by [Limits].
//
// # Completions and reports
//
// A [Completion] tracks a phase: the operations started on it until its
// arrivals are made. When the phase is done it carries one [Report]. A report
// that is not clean says that something in the phase failed. It does not say
// what, and it does not say that the bytes did not arrive: a reported operation
// may have been executed, in part or in full, or may still be executed later.
// A report may be read only after its phase is done. Sources must stay
// unchanged until then; destinations of Get and PullRed are valid only then.
//
// # Ordering
//
// Everything is explicit. That one byte arrived says nothing of another. That a
// counter has its expected value says that all bytes it counts are there. That a
// completion is done tells the sender, and tells the receiver nothing. Between
// accesses through an endpoint and accesses through a pointer to the same
// memory stands a [Fence].
//
// # Waiting
//
// A rank waits only for words in memory of its own that grow: counters, and
// words raised by Red with RedMax. Operations that change such words ring the
// owner's [Doorbell] if the owner sleeps. The waiting itself is in
// transport/progress, in one place.
package transport
