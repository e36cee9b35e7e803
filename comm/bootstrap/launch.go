package bootstrap

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// A launch is what the environment says about the job.
type launch struct {
	source string // what Channel.Source will say
	rank   int
	size   int    // 0 when the launcher doesn't say
	mpi    bool   // started by a launcher that MPI_Init can talk to
	nodes  bool   // the ranks are known to be on several nodes
	one    bool   // the ranks are known to be on one node
	forced bool   // WEFT_SINGLE: look no further
	job    string // identity of the job, equal for its ranks on one node; "" when unknown
	token  string // secret shared by the ranks; "" when there is none
	root   string // host:port where rank 0 listens; "" for a Unix socket
	busy   bool   // root is known to be in use by the launcher
	seen   string // the variables that decided
}

const orSingle = "or set WEFT_SINGLE=1 to run one rank on its own"

// detect reads the job from the environment. It neither looks nor changes
// anything else. With an error it returns what is known of a job of several ranks
// all the same, so that they can be told: its size is then more than 1.
func detect(lookup func(string) (string, bool)) (launch, error) {
	e := environ(lookup)
	if v := e.get("WEFT_SINGLE"); v != "" {
		single, err := strconv.ParseBool(v)
		if err != nil {
			l, _ := detect(e.without("WEFT_SINGLE"))
			return l, &LaunchError{e.seen("WEFT_SINGLE"), "it is neither 1 nor 0", "set WEFT_SINGLE=1 to run one rank on its own, or don't set it"}
		}
		if single {
			return launch{source: "single", size: 1, forced: true, seen: e.seen("WEFT_SINGLE")}, nil
		}
	}
	l, err := e.innermost()
	if err != nil {
		return launch{}, err // of which rank is not known
	}
	l.token = e.get("WEFT_TOKEN")
	if l.size == 1 {
		return l, nil
	}
	if id := e.id("WEFT_JOB"); id != "" && l.source != "weft run" {
		l.job = strings.TrimPrefix(l.job+","+id, ",")
	}
	if e.get("WEFT_NODE") != "" {
		l.nodes, l.one = true, false
	}
	if root := e.get("WEFT_ROOT"); root != "" {
		if _, _, err := net.SplitHostPort(root); err != nil {
			return l, &LaunchError{e.seen("WEFT_ROOT"), "not an address", "give WEFT_ROOT as host:port of rank 0"}
		}
		l.root, l.nodes, l.one = root, true, false
	} else if addr, port := e.get("MASTER_ADDR"), e.get("MASTER_PORT"); l.nodes && addr != "" && port != "" {
		l.root = net.JoinHostPort(addr, port)
		l.busy = strings.EqualFold(e.get("TORCHELASTIC_USE_AGENT_STORE"), "true")
	}
	return l, nil
}

// innermost picks the launcher that started this process most directly.
func (e environ) innermost() (launch, error) {
	if e.any("WEFT_RANK", "WEFT_SIZE") {
		l, err := e.counted("weft run", "WEFT_RANK", "WEFT_SIZE", "start the ranks with weft run")
		if err == nil {
			l.job = e.id("WEFT_JOB")
			err = e.notBehind(l)
		}
		return l, err
	}
	if e.get("TORCHELASTIC_RUN_ID") != "" && e.any("RANK", "WORLD_SIZE") {
		l, err := e.torch()
		if err == nil {
			err = e.notBehind(l)
		}
		return l, err
	}
	return e.outer()
}

// outer looks for the launchers that start whole jobs.
func (e environ) outer() (launch, error) {
	switch {
	case e.any("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"):
		l, err := e.counted("env:OMPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "start the ranks with mpirun")
		l.mpi = true
		l.nodes, l.one = e.local("OMPI_COMM_WORLD_LOCAL_SIZE", l.size)
		l.job = e.id("OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE", "OMPI_MCA_orte_precondition_transports")
		return l, err
	case e.any("PMI_RANK", "PMI_SIZE"):
		l, err := e.counted("env:PMI", "PMI_RANK", "PMI_SIZE", "start the ranks with mpiexec")
		l.mpi = true
		if e.get("MPI_LOCALNRANKS") != "" {
			l.nodes, l.one = e.local("MPI_LOCALNRANKS", l.size)
		} else {
			l.nodes, l.one = e.slurmNodes()
		}
		l.job = e.id("PMI_JOBID", "PMI_KVSNAME", "PMI_PORT", "SLURM_JOB_ID", "SLURM_STEP_ID")
		if e.get("PMI_JOBID")+e.get("PMI_KVSNAME")+e.get("PMI_PORT") == "" && e.get("PMI_FD") != "" {
			l.job = "" // hydra: told apart by the proxy at the other end of PMI_FD
		}
		return l, err
	case e.any("SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS"):
		size := "SLURM_STEP_NUM_TASKS"
		if e.get(size) == "" {
			size = "SLURM_NTASKS"
		}
		l, err := e.counted("env:SLURM", "SLURM_PROCID", size, "start the ranks with srun")
		l.mpi = e.get("PMIX_RANK") != ""
		l.nodes, l.one = e.slurmNodes()
		l.job = e.id("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_HET_SIZE")
		return l, err
	case e.any("PMIX_RANK"):
		if e.get("SLURM_NTASKS") != "" {
			l, err := e.counted("env:SLURM", "PMIX_RANK", "SLURM_NTASKS", "start the ranks with srun")
			l.mpi, l.job = true, e.id("SLURM_JOB_ID", "PMIX_NAMESPACE")
			l.nodes, l.one = e.slurmNodes()
			return l, err
		}
		rank, err := e.number("PMIX_RANK", 0)
		return launch{source: "env:PMIX", rank: rank, mpi: true, job: e.id("PMIX_NAMESPACE"), seen: e.seen("PMIX_RANK")}, err
	case e.any("RANK") && e.any("WORLD_SIZE"), e.more("WORLD_SIZE"):
		return e.torch()
	}
	for _, name := range []string{"SLURM_NTASKS", "SLURM_NPROCS"} {
		if v := e.get(name); v != "" && v != "1" { // a number or not, it is not one rank
			return launch{}, &LaunchError{e.seen(name, "SLURM_JOB_ID"),
				"inside a Slurm allocation for several tasks, but not started by srun", "start the program with srun or mpirun, " + orSingle}
		}
	}
	return launch{source: "single", size: 1}, nil
}

// torch reads what torchrun, and launchers like it, set.
func (e environ) torch() (launch, error) {
	l, err := e.counted("env:torchrun", "RANK", "WORLD_SIZE", "start the ranks with torchrun")
	l.nodes, l.one = e.local("LOCAL_WORLD_SIZE", l.size)
	l.job = e.id("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")
	return l, err
}

// notBehind refuses a launch of one rank inside each rank of a larger one:
// stale variables of an outer launcher look just like that, and believing them
// would silently make n jobs of one.
func (e environ) notBehind(l launch) error {
	if l.size != 1 {
		return nil
	}
	for _, name := range []string{"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"} {
		if e.more(name) {
			return &LaunchError{l.seen + ", " + e.seen(name), "two launchers disagree on the size of the job",
				"unset the variables of the one that did not start this process, " + orSingle}
		}
	}
	return nil
}

// environ answers questions about environment variables. An empty variable
// counts as unset.
type environ func(string) (string, bool)

func (e environ) get(name string) string {
	v, _ := e(name)
	return strings.TrimSpace(v)
}

// without is an environment in which a variable is not set.
func (e environ) without(unset string) environ {
	return func(name string) (string, bool) {
		if name == unset {
			return "", false
		}
		return e(name)
	}
}

func (e environ) any(names ...string) bool {
	for _, name := range names {
		if e.get(name) != "" {
			return true
		}
	}
	return false
}

// more says whether a variable holds a number above one.
func (e environ) more(name string) bool {
	n, err := strconv.Atoi(e.get(name))
	return err == nil && n > 1
}

// local compares the number of ranks on this node with all: are they known to
// be on several nodes, or on one?
func (e environ) local(name string, size int) (nodes, one bool) {
	v, err := strconv.Atoi(e.get(name))
	return err == nil && v > 0 && v < size, err == nil && v == size
}

// slurmNodes answers the same for a Slurm step.
func (e environ) slurmNodes() (nodes, one bool) {
	for _, name := range []string{"SLURM_STEP_NUM_NODES", "SLURM_NNODES"} {
		if n, err := strconv.Atoi(e.get(name)); err == nil {
			return n > 1, n == 1
		}
	}
	return false, false
}

// id joins the variables that are set into one identity.
func (e environ) id(names ...string) string {
	var parts []string
	for _, name := range names {
		if v := e.get(name); v != "" {
			parts = append(parts, name+"="+v)
		}
	}
	return strings.Join(parts, ",")
}

// seen shows variables to people.
func (e environ) seen(names ...string) string {
	parts := make([]string, 0, len(names))
	for _, name := range names {
		if v := e.get(name); v != "" {
			parts = append(parts, name+"="+v)
		} else {
			parts = append(parts, name+" unset")
		}
	}
	return strings.Join(parts, ", ")
}

func (e environ) number(name string, least int) (int, error) {
	n, err := strconv.Atoi(e.get(name))
	if err != nil || n < least || n > maxRanks {
		return 0, &LaunchError{e.seen(name), fmt.Sprintf("%s is not a number from %d to %d", name, least, maxRanks), "correct it, " + orSingle}
	}
	return n, nil
}

// counted reads a rank and a size and checks that they fit together.
func (e environ) counted(source, rank, size, remedy string) (launch, error) {
	l := launch{source: source, seen: e.seen(rank, size)}
	for _, name := range []string{rank, size} {
		if e.get(name) == "" {
			return l, &LaunchError{l.seen, name + " is missing", remedy + ", " + orSingle}
		}
	}
	var err error
	if l.size, err = e.number(size, 1); err != nil {
		return l, err
	}
	if l.rank, err = e.number(rank, 0); err != nil {
		return l, err
	}
	if l.rank >= l.size {
		return l, &LaunchError{l.seen, "the rank is not below the size", remedy + ", " + orSingle}
	}
	return l, nil
}
