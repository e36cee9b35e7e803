package launch

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEnviron(t *testing.T) {
	for _, tc := range []struct {
		kv   string
		keep bool
	}{
		{"PATH=/bin", true},
		{"HOME=/root", true},
		{"WEFT_FAULTS=seed=7,rate=0.01", true},
		{"WEFT_LOG=debug", true},
		{"SLURM_JOB_ID=12", true},
		{"SLURM_CPUS_ON_NODE=8", true},
		{"RANKING=1", true},
		{"MY_RANK=1", true},
		{"MASTERPIECE=1", true},
		{"WEFT_RANK=3", false},
		{"WEFT_SIZE=4", false},
		{"WEFT_JOB=x", false},
		{"WEFT_TOKEN=x", false},
		{"WEFT_ROOT=localhost:1", false},
		{"WEFT_NODE=a", false},
		{"WEFT_SINGLE=1", false},
		{"OMPI_COMM_WORLD_RANK=1", false},
		{"OMPI_MCA_ess=x", false},
		{"PMI_RANK=1", false},
		{"PMIX_NAMESPACE=1", false},
		{"MPI_LOCALRANKID=1", false},
		{"MPI_LOCALNRANKS=1", false},
		{"SLURM_PROCID=0", false},
		{"SLURM_LOCALID=0", false},
		{"SLURM_NTASKS=4", false},
		{"SLURM_NTASKS_PER_NODE=4", false},
		{"SLURM_STEP_ID=0", false},
		{"SLURM_STEP_TASKS_PER_NODE=4", false},
		{"RANK=0", false},
		{"WORLD_SIZE=2", false},
		{"LOCAL_RANK=0", false},
		{"LOCAL_WORLD_SIZE=2", false},
		{"MASTER_ADDR=localhost", false},
		{"MASTER_PORT=1", false},
		{"TORCHELASTIC_RUN_ID=1", false},
	} {
		t.Run(tc.kv, func(t *testing.T) {
			in := []string{"A=1", tc.kv, "B=2"}
			want := []string{"A=1", "B=2"}
			if tc.keep {
				want = in
			}
			require.Equal(t, want, Environ(in))
			require.Equal(t, tc.kv, in[1], "the argument is left alone")
		})
	}
}

func TestIdentity(t *testing.T) {
	a, err := newIdentity()
	require.NoError(t, err)
	b, err := newIdentity()
	require.NoError(t, err)
	require.NotEqual(t, a.job, b.job)
	require.NotEqual(t, a.token, b.token)
	require.Regexp(t, regexp.MustCompile(`^[0-9a-f]{64}$`), a.token)
	require.Equal(t,
		[]string{"X=y", "WEFT_RANK=1", "WEFT_SIZE=4", "WEFT_JOB=" + a.job, "WEFT_TOKEN=" + a.token},
		a.environ([]string{"WEFT_RANK=0", "X=y"}, 1, 4))
}
