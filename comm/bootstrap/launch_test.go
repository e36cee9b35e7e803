package bootstrap

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
)

type env map[string]string

func (e env) lookup(name string) (string, bool) { v, ok := e[name]; return v, ok }

func (e env) with(more env) env {
	out := env{}
	maps.Copy(out, e)
	maps.Copy(out, more)
	return out
}

func TestDetect(t *testing.T) {
	ompi := env{"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "4", "PMIX_RANK": "1", "OMPI_MCA_ess_base_jobid": "77"}
	srun := env{"SLURM_JOB_ID": "9", "SLURM_STEP_ID": "0", "SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "3", "SLURM_NTASKS": "3", "SLURM_STEP_NUM_NODES": "1"}
	torch := env{"RANK": "3", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8", "MASTER_ADDR": "h", "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "r"}
	hydra := env{"PMI_RANK": "1", "PMI_SIZE": "2", "PMI_FD": "9", "MPI_LOCALNRANKS": "2"}
	weft := env{"WEFT_RANK": "0", "WEFT_SIZE": "2", "WEFT_JOB": "j", "WEFT_TOKEN": "t"}
	tests := []struct {
		name string
		env  env
		want launch // seen is not compared
	}{
		{"nothing", env{}, launch{source: "single", size: 1}},
		{"forced", ompi.with(env{"WEFT_SINGLE": "1"}), launch{source: "single", size: 1, forced: true}},
		{"not forced", ompi.with(env{"WEFT_SINGLE": "0"}), launch{source: "env:OMPI", rank: 1, size: 4, mpi: true, one: true, job: "OMPI_MCA_ess_base_jobid=77"}},
		{"weft run", weft, launch{source: "weft run", size: 2, job: "WEFT_JOB=j", token: "t"}},
		{"weft run inside mpirun", ompi.with(weft), launch{source: "weft run", size: 2, job: "WEFT_JOB=j", token: "t"}},
		{"weft run, two nodes", weft.with(env{"WEFT_ROOT": "h:1"}), launch{source: "weft run", size: 2, nodes: true, job: "WEFT_JOB=j", token: "t", root: "h:1"}},
		{"one rank of Open MPI", env{"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "1"}, launch{source: "env:OMPI", size: 1, mpi: true, one: true}},
		{"Open MPI on nodes", ompi.with(env{"OMPI_COMM_WORLD_LOCAL_SIZE": "2"}), launch{source: "env:OMPI", rank: 1, size: 4, mpi: true, nodes: true, job: "OMPI_MCA_ess_base_jobid=77"}},
		{"Open MPI inside Slurm", ompi.with(srun), launch{source: "env:OMPI", rank: 1, size: 4, mpi: true, one: true, job: "OMPI_MCA_ess_base_jobid=77"}},
		{"hydra", hydra, launch{source: "env:PMI", rank: 1, size: 2, mpi: true, one: true}},
		{"hydra with a job", hydra.with(env{"PMI_JOBID": "5"}), launch{source: "env:PMI", rank: 1, size: 2, mpi: true, one: true, job: "PMI_JOBID=5"}},
		{"hydra, told apart by the user", hydra.with(env{"WEFT_JOB": "j"}), launch{source: "env:PMI", rank: 1, size: 2, mpi: true, one: true, job: "WEFT_JOB=j"}},
		{"srun", srun, launch{source: "env:SLURM", rank: 2, size: 3, one: true, job: "SLURM_JOB_ID=9,SLURM_STEP_ID=0"}},
		{"srun with PMIx", srun.with(env{"PMIX_RANK": "2"}), launch{source: "env:SLURM", rank: 2, size: 3, one: true, mpi: true, job: "SLURM_JOB_ID=9,SLURM_STEP_ID=0"}},
		{"srun of one task", srun.with(env{"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}), launch{source: "env:SLURM", size: 1, one: true, job: "SLURM_JOB_ID=9,SLURM_STEP_ID=0"}},
		{"srun on nodes, master", srun.with(env{"SLURM_STEP_NUM_NODES": "2", "MASTER_ADDR": "h", "MASTER_PORT": "5"}), launch{source: "env:SLURM", rank: 2, size: 3, nodes: true, job: "SLURM_JOB_ID=9,SLURM_STEP_ID=0", root: "h:5"}},
		{"PMIx alone", env{"PMIX_RANK": "3", "PMIX_NAMESPACE": "n"}, launch{source: "env:PMIX", rank: 3, mpi: true, job: "PMIX_NAMESPACE=n"}},
		{"torchrun", torch, launch{source: "env:torchrun", rank: 3, size: 8, one: true, job: "MASTER_ADDR=h,MASTER_PORT=29500,TORCHELASTIC_RUN_ID=r"}},
		{"torchrun inside srun", srun.with(torch), launch{source: "env:torchrun", rank: 3, size: 8, one: true, job: "MASTER_ADDR=h,MASTER_PORT=29500,TORCHELASTIC_RUN_ID=r"}},
		{"torchrun on nodes", torch.with(env{"LOCAL_WORLD_SIZE": "4", "TORCHELASTIC_USE_AGENT_STORE": "True"}), launch{source: "env:torchrun", rank: 3, size: 8, nodes: true, busy: true, root: "h:29500", job: "MASTER_ADDR=h,MASTER_PORT=29500,TORCHELASTIC_RUN_ID=r"}},
		{"torchrun on nodes, own port", torch.with(env{"LOCAL_WORLD_SIZE": "4", "TORCHELASTIC_USE_AGENT_STORE": "True", "WEFT_ROOT": "h:7"}), launch{source: "env:torchrun", rank: 3, size: 8, nodes: true, root: "h:7", job: "MASTER_ADDR=h,MASTER_PORT=29500,TORCHELASTIC_RUN_ID=r"}},
		{"by hand", env{"RANK": "1", "WORLD_SIZE": "2"}, launch{source: "env:torchrun", rank: 1, size: 2}},
		{"stale variables by hand inside mpirun", ompi.with(env{"RANK": "0", "WORLD_SIZE": "1"}), launch{source: "env:OMPI", rank: 1, size: 4, mpi: true, one: true, job: "OMPI_MCA_ess_base_jobid=77"}},
		{"simulated node", ompi.with(env{"WEFT_NODE": "a"}), launch{source: "env:OMPI", rank: 1, size: 4, mpi: true, nodes: true, job: "OMPI_MCA_ess_base_jobid=77"}},
		{"unrelated RANK", env{"RANK": "corporal"}, launch{source: "single", size: 1}},
		{"shell in an allocation of one", env{"SLURM_JOB_ID": "1", "SLURM_NTASKS": "1"}, launch{source: "single", size: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := detect(tt.env.lookup)
			require.NoError(t, err)
			got.seen = ""
			require.Equal(t, tt.want, got)
		})
	}
}

func TestDetectRefuses(t *testing.T) {
	tests := []struct {
		name string
		env  env
		text string
	}{
		{"single or not", env{"WEFT_SINGLE": "2"}, "neither 1 nor 0"},
		{"no rank", env{"OMPI_COMM_WORLD_SIZE": "4"}, "OMPI_COMM_WORLD_RANK is missing"},
		{"no size", env{"WEFT_RANK": "1"}, "WEFT_SIZE is missing"},
		{"rank is no number", env{"PMI_RANK": "x", "PMI_SIZE": "4"}, "PMI_RANK is not a number"},
		{"rank too large", env{"PMI_RANK": "4", "PMI_SIZE": "4"}, "rank is not below the size"},
		{"negative rank", env{"PMI_RANK": "-1", "PMI_SIZE": "4"}, "PMI_RANK is not a number"},
		{"size zero", env{"WEFT_RANK": "0", "WEFT_SIZE": "0"}, "WEFT_SIZE is not a number"},
		{"size absurd", env{"WEFT_RANK": "0", "WEFT_SIZE": "99999999"}, "WEFT_SIZE is not a number"},
		{"batch script", env{"SLURM_JOB_ID": "1", "SLURM_NTASKS": "4", "SLURM_PROCID": "0"}, "not started by srun"},
		{"older batch script", env{"SLURM_JOB_ID": "1", "SLURM_NPROCS": "4"}, "not started by srun"},
		{"world without rank", env{"WORLD_SIZE": "4", "MASTER_ADDR": "h"}, "RANK is missing"},
		{"bad root", env{"WEFT_RANK": "0", "WEFT_SIZE": "2", "WEFT_ROOT": "nowhere"}, "not an address"},
		{"mpirun inside weft run", env{"WEFT_RANK": "0", "WEFT_SIZE": "1", "OMPI_COMM_WORLD_SIZE": "4"}, "two launchers disagree"},
		{"mpirun inside torchrun", env{"RANK": "0", "WORLD_SIZE": "1", "TORCHELASTIC_RUN_ID": "r", "PMI_SIZE": "4"}, "two launchers disagree"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := detect(tt.env.lookup)
			var le *LaunchError
			require.ErrorAs(t, err, &le)
			require.ErrorContains(t, err, tt.text)
			require.NotEmpty(t, le.Seen)
			require.NotEmpty(t, le.Remedy)
		})
	}
}

func TestConnectRefusesLaunch(t *testing.T) {
	two := env{"WEFT_RANK": "0", "WEFT_SIZE": "2"}
	tests := []struct {
		name string
		env  env
		text string
	}{
		{"no job", two, "set WEFT_JOB"},
		{"nodes without root", two.with(env{"WEFT_JOB": "j", "WEFT_NODE": "a"}), "set WEFT_ROOT"},
		{"TCP without token", two.with(env{"WEFT_ROOT": "127.0.0.1:1"}), "set WEFT_TOKEN"},
		{"torchrun's port", env{"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1",
			"TORCHELASTIC_RUN_ID": "r", "TORCHELASTIC_USE_AGENT_STORE": "True"}, "set WEFT_ROOT"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Connect(t.Context(), Config{LookupEnv: tt.env.lookup})
			var le *LaunchError
			require.ErrorAs(t, err, &le)
			require.ErrorContains(t, err, tt.text)
		})
	}
}
