// Package bootstrap brings the ranks of a job together and keeps an
// out-of-band control channel open between them. [Connect] finds the ranks of
// a job of several processes; [Local] makes ranks inside one process. Neither
// is a way to move data.
//
// # Where rank and size come from
//
// The first of these that applies decides:
//
//  1. WEFT_SINGLE=1: one rank, whatever else is set.
//  2. WEFT_RANK and WEFT_SIZE, set by weft run.
//  3. RANK and WORLD_SIZE with TORCHELASTIC_RUN_ID, set by torchrun.
//  4. MPI, in a program built with -tags mpi, when a launcher of MPI has started
//     it or the program itself has initialised MPI.
//  5. The variables of other launchers: OMPI_COMM_WORLD_RANK and _SIZE, PMI_RANK
//     and PMI_SIZE (MPICH, Intel MPI), SLURM_PROCID and SLURM_STEP_NUM_TASKS,
//     RANK and WORLD_SIZE. They suffice under mpirun too: a program built
//     without cgo and without MPI works there.
//  6. One rank.
//
// An environment that speaks of several ranks and can't be honoured is a
// [*LaunchError] that says what was seen and what to do. It is never answered
// by several jobs of one rank. If the rank knows all the same where the
// others wait, as with a WEFT_SINGLE that is neither 1 nor 0, or on one node a
// WEFT_ROOT that is no address, they get an [ErrRefused] with what is wrong; else
// they wait for the rank until they give up, unless the launcher ends the job, as
// weft run and mpirun do.
//
// # Environment
//
//	WEFT_SINGLE                     1: run one rank on its own
//	WEFT_RANK, WEFT_SIZE            rank and size (weft run)
//	WEFT_JOB                        identity of the job; tells apart jobs of one user on one node
//	WEFT_TOKEN                      secret shared by the ranks; needed where they meet over TCP without MPI
//	WEFT_ROOT                       host:port where rank 0 listens; needed on several nodes without MPI
//	WEFT_NODE                       splits a node in several, to try out what happens between nodes
//	OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_SIZE, OMPI_MCA_ess_base_jobid,
//	OMPI_MCA_orte_precondition_transports, PMIX_NAMESPACE, PMIX_RANK
//	                                Open MPI's mpirun, prterun
//	PMI_RANK, PMI_SIZE, PMI_JOBID, PMI_KVSNAME, PMI_PORT, PMI_FD, MPI_LOCALNRANKS
//	                                MPICH's and Intel MPI's mpiexec
//	SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_NTASKS, SLURM_NPROCS, SLURM_JOB_ID,
//	SLURM_STEP_ID, SLURM_STEP_NUM_NODES, SLURM_NNODES
//	                                srun
//	RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, TORCHELASTIC_RUN_ID,
//	TORCHELASTIC_RESTART_COUNT, TORCHELASTIC_USE_AGENT_STORE
//	                                torchrun; MASTER_ADDR:MASTER_PORT stands in for WEFT_ROOT on several nodes
//
// # How ranks meet
//
// Rank 0 listens, the others dial and introduce themselves, rank 0 sends all of
// them the table of ranks, each dials those below it, and when all have all
// their connections, rank 0 lets them go. Until then a failure of one rank is a
// failure of all: each gets a [*JoinError] that names the ranks concerned.
//
// On one node they meet at an abstract Unix socket whose name follows from the
// user, the job and the number of times it has connected before. On several
// nodes they meet over TCP. With MPI, rank 0 broadcasts both addresses and a
// random token; after that MPI is idle until the last channel closes.
//
// Ranks of one node (same kernel, same network namespace) talk over Unix
// packet sockets, which carry descriptors too; others over TCP.
//
// # Who may join
//
// On Unix sockets the kernel tells both ends whose process is at the other;
// other users' are refused. Everywhere both ends prove that they know the job's
// token, if it has one, without showing it; over TCP it must have one. Who fails
// is refused, and the job goes on waiting for the right one. Processes of the
// same user that know, or can read, the job's environment belong to the job.
// Traffic over TCP is neither encrypted nor authenticated after that: nodes
// are expected to be on a network of their own.
//
// # When a rank ends
//
// A process that ends without [Channel].Close, however it does, is reported to
// the others by the kernel closing its sockets; in a process whose threads are
// all busy the report takes up to two time slices of Go's scheduler (20 ms). A
// node that vanishes from the network is reported once TCP notices. A stopped
// process is not gone: what is sent to it waits, up to 16 MiB.
//
// Nothing is left behind, also after kill -9: there are no files, and abstract
// sockets end with their processes.
//
// # MPI
//
// Connect initialises MPI unless the program has, and then the last Close
// finalises it, if all ranks have closed: under MPI, Close waits for the other
// ranks to close as well, within its context. After that further channels come
// from the launcher's variables. A program that has initialised MPI itself finalises
// it itself. Connect broadcasts on MPI_COMM_WORLD, so it must be called in the
// same order as other collectives there. MPI calls can't be interrupted: when a
// context ends during one, its thread stays behind, and MPI isn't used again.
//
// Processes of several ranks need Linux; elsewhere there are Local and single
// ranks.
package bootstrap
