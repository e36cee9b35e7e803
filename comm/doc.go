// Package comm has communicators: groups of ranks that call collectives
// together.
//
// A rank is one of the n processes (or, with [Local], goroutines) of a job,
// numbered from 0. [Init] joins the job that the process was started in.
// [Communicator.Split] and [Communicator.Dup] make further communicators of some
// or all ranks. The collectives themselves are in package collectives.
//
// A communicator ends as a whole: when a rank of it dies, gives up waiting,
// calls something else than the others or [Communicator.Abort], every pending and
// later call on every rank returns an error that says which rank and why
// ([AbortError]). A rank that is slower may get it for a call that the others had made and that
// was right. The ranks agree on it first: it is the same on all that are alive and
// answer, for good. One that does not answer is excluded, and told so when it comes back
// ([ErrIsolated]). With [WithCommit] ranks also agree on which calls went well. Nothing
// recovers a communicator; communicators that do not contain the rank at fault go on.
// [Communicator.Close] returns in any case.
//
// The library prints nothing and has no global state but that of MPI; see
// [WithLogger].
package comm
