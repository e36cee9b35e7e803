package launch

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
)

// What a rank finds in its environment.
const (
	EnvRank  = "WEFT_RANK"
	EnvSize  = "WEFT_SIZE"
	EnvJob   = "WEFT_JOB"   // names this launch, unique on the machine
	EnvToken = "WEFT_TOKEN" // secret of this launch
)

// An identity tells the ranks of one launch from all other processes.
type identity struct{ job, token string }

func newIdentity() (identity, error) {
	var b [40]byte
	if _, err := rand.Read(b[:]); err != nil {
		return identity{}, fmt.Errorf("random token: %w", err)
	}
	return identity{
		job:   fmt.Sprintf("%d-%s", os.Getpid(), hex.EncodeToString(b[:8])),
		token: hex.EncodeToString(b[8:]),
	}, nil
}

// environ returns the environment of one rank.
func (id identity) environ(base []string, rank, size int) []string {
	return append(Environ(base),
		fmt.Sprintf("%s=%d", EnvRank, rank),
		fmt.Sprintf("%s=%d", EnvSize, size),
		EnvJob+"="+id.job,
		EnvToken+"="+id.token,
	)
}

// Variables by which launchers tell a process which rank it is. Inherited ones
// would make a rank believe that it belongs to the job around this one.
var (
	launcherPrefixes = []string{
		"OMPI_", "PMI_", "PMIX_", "MPI_LOCAL", "SLURM_STEP_", "TORCHELASTIC_", "MASTER_",
	}
	launcherNames = []string{
		EnvRank, EnvSize, EnvJob, EnvToken, "WEFT_ROOT", "WEFT_NODE", "WEFT_SINGLE",
		"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_NPROCS",
		"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
		"GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE", "ROLE_NAME",
	}
)

// Environ returns env without the variables of other launchers.
func Environ(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		if slices.Contains(launcherNames, name) {
			return true
		}
		if strings.HasPrefix(name, "SLURM_") && strings.Contains(name, "TASK") {
			return true
		}
		return slices.ContainsFunc(launcherPrefixes, func(p string) bool {
			return strings.HasPrefix(name, p)
		})
	})
}
