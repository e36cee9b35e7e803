package harness

import (
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/weft-go/weft/bench/internal/record"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/internal/cpulist"
)

// environment tells what results depend on; c may be nil, if there is no job.
func environment(c *comm.Communicator, program string, args []string, mpi string) record.Env {
	model, cores := processors()
	return record.Env{
		Machine:  model,
		Cores:    cores,
		Affinity: affinity(c),
		Kernel:   kernel(),
		Go:       runtime.Version(),
		MPI:      mpi,
		Revision: revision(),
		Command:  commandLine(program, args),
	}
}

// Environment tells what the results of a program of ranks depend on.
func Environment(c *comm.Communicator, program string, args []string) record.Env {
	return environment(c, program, args, launcherMPI(c.Source()))
}

// commandLine is the command without what has no effect on results: the file
// that they go to.
func commandLine(program string, args []string) string {
	words := []string{program}
	for i := 0; i < len(args); i++ {
		switch name := strings.TrimLeft(args[i], "-"); {
		case name == "json":
			i++
		case !strings.HasPrefix(name, "json="):
			words = append(words, args[i])
		}
	}
	return strings.Join(words, " ")
}

// processors returns the model and the number of the machine's processors.
func processors() (model string, cores int) {
	b, _ := os.ReadFile("/proc/cpuinfo")
	for _, line := range strings.Split(string(b), "\n") {
		key, value, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(key) {
		case "processor":
			cores++
		case "model name":
			model = strings.TrimSpace(value)
		}
	}
	if cores == 0 {
		cores = runtime.NumCPU()
	}
	if model == "" {
		model = runtime.GOOS + "/" + runtime.GOARCH
	}
	return model, cores
}

// affinity tells the processors that each rank may run on: "0-1" if all the
// same, else "0;1", in rank order.
func affinity(c *comm.Communicator) string {
	if c == nil {
		return ""
	}
	var all []string
	same := true
	for r := range c.Size() {
		all = append(all, cpulist.Format(c.Describe(r).CPUs))
		same = same && all[r] == all[0]
	}
	if same {
		return all[0]
	}
	return strings.Join(all, ";")
}

func kernel() string {
	b, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return runtime.GOOS
	}
	return strings.TrimSpace(string(b))
}

// revision is that which the program was built from; with a + if there were
// changes besides.
func revision() string {
	rev, dirty := "", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				rev = s.Value[:min(12, len(s.Value))]
			case s.Key == "vcs.modified" && s.Value == "true":
				dirty = "+"
			}
		}
	}
	if rev == "" {
		return "unknown"
	}
	return rev + dirty
}

// launcherMPI tells the version of the mpirun that is installed, for a program
// that isn't linked with MPI but was started by it.
func launcherMPI(source string) string {
	if !strings.HasPrefix(source, "env:OMPI") {
		return "none (started by " + source + ")"
	}
	out, err := exec.Command("mpirun", "--version").Output()
	if err != nil {
		return "mpirun, not linked"
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(first) + ", not linked"
}
