//go:build linux && !android && (amd64 || arm64) && !nocuda && !mpi

// With the build tag mpi all of this would be the same.

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/bench/internal/harness/harnesstest"
	"github.com/weft-go/weft/bench/internal/record"
	"github.com/weft-go/weft/bench/peers/nccl/nccltest"
	"github.com/weft-go/weft/internal/cuda/cudatest"
	"github.com/weft-go/weft/internal/ranktest"
)

// doubles has the ranks find stand-ins for the driver and for NCCL.
func doubles(t *testing.T, flags ...string) {
	t.Helper()
	driver, err := cudatest.Library()
	require.NoError(t, err)
	nccl, err := nccltest.Library(flags...)
	require.NoError(t, err)
	t.Setenv("WEFT_CUDA_DRIVER", driver)
	t.Setenv("WEFT_DOUBLE_QUIET", "1")
	t.Setenv("GORACE", "atexit_sleep_ms=0") // under the race detector ranks would wait for a second at their end
	t.Setenv("WEFT_DOUBLE_MS", "10")        // so that the first trial is long enough
	t.Setenv("WEFT_NCCL", nccl)
}

// TestGPUChecks: with one rank the doubles do what is asked for, so that results are checked:
// ours and NCCL's, by graphs and one by one, in all kinds of memory.
func TestGPUChecks(t *testing.T) {
	doubles(t)
	t.Setenv("NCCL_TEST_SETTING", "7")
	for _, test := range []struct{ form, memory, peer string }{
		{"graph", "symmetric", "nccl"},
		{"stream", "plain", "nccl"},
		{"graph", "symmetric", "nccl-symmetric"},
	} {
		t.Run(strings.Join([]string{test.form, test.memory, test.peer}, " "), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "out.jsonl")
			args := "-device cuda -n 40 -blocks 2 -b 8 -e 64K -f 90 -c 3 -coll all -json " + file +
				" -form " + test.form + " -memory " + test.memory + " -peer " + test.peer
			j := ranktest.Start(t, 1, "perf", harnesstest.Args(args))
			j.Succeed(t, time.Minute)
			output := j.Ranks[0].Output()
			require.Contains(t, output, "nGpus 1")
			require.Contains(t, output, "Double 0 GPU-00010203-")
			require.Contains(t, output, "memory: "+test.memory+", buffers rotate, 160 at most")
			lines, err := record.ReadFile(file)
			require.NoError(t, err)
			require.Len(t, lines, 5*3*2+3+1, "three sizes of five collectives; Broadcast and Barrier in place only")
			for _, l := range lines {
				require.Equal(t, "cuda", l.Device)
				require.Equal(t, test.form, l.Form)
				require.Equal(t, test.memory, l.Memory)
				require.Equal(t, "Double 0", l.Env.GPU)
				require.Contains(t, l.Env.Driver, "CUDA 13.")
				require.Equal(t, "2.28.9 NCCL_TEST_SETTING=7", l.Env.NCCL)
				require.Positive(t, l.P50US)
				require.NotNil(t, l.Wrong)
				require.Zero(t, *l.Wrong, "%+v", l)
				require.Equal(t, l.Coll != "barrier" && (l.Coll != "alltoall" || !l.InPlace), l.Ratio != nil, "%+v", l)
				if test.form == "graph" {
					require.Zero(t, l.Batch%20)
				}
			}
		})
	}
}

// TestGPUCalls: with two ranks NCCL is asked for what we are asked for.
func TestGPUCalls(t *testing.T) {
	for _, version := range []string{"new", "old"} {
		t.Run(version, func(t *testing.T) {
			// 1024 bytes of floats are 256 in all, and 128 for each rank's block; types and
			// operators by NCCL's numbers.
			want := []string{
				"ncclAllGather count=128 type=7 stream=1",
				"ncclAllReduce count=256 type=7 op=2 stream=1",
				"ncclBroadcast count=256 type=7 root=0 stream=1",
				"ncclBroadcast count=256 type=7 root=1 stream=1",
				"ncclReduce count=256 type=7 op=2 root=0 stream=1",
				"ncclReduce count=256 type=7 op=2 root=1 stream=1",
				"ncclReduceScatter count=128 type=7 op=2 stream=1",
			}
			ends := []string{"ncclCommDestroy", "ncclCommInitRank ranks=2 rank=1"}
			if version == "old" {
				doubles(t, "-DOLD")
				want = append(want, "ncclSend count=128 type=7 peer=0 stream=1", "ncclSend count=128 type=7 peer=1 stream=1",
					"ncclRecv count=128 type=7 peer=0 stream=1", "ncclRecv count=128 type=7 peer=1 stream=1")
			} else {
				doubles(t)
				want = append(want, "ncclAlltoAll count=128 type=7 stream=1")
				// A region is two of the largest slot: 2 KiB.
				ends = append(ends, "ncclCommWindowRegister size=2048 flags=1", "ncclCommWindowDeregister window=1")
			}
			log := filepath.Join(t.TempDir(), "log")
			t.Setenv("WEFT_NCCL_DOUBLE_LOG", log)
			peer := map[string]string{"new": "nccl-symmetric", "old": "nccl"}[version]
			// Kernels don't run on the double, so that results can't be checked.
			args := "-device cuda -c 0 -n 40 -blocks 2 -b 1K -e 1K -o max -coll all -peer " + peer
			ranktest.Start(t, 2, "perf", harnesstest.Args(args)).Succeed(t, time.Minute)
			wrote, err := os.ReadFile(log + ".1")
			require.NoError(t, err)
			got := strings.Split(strings.TrimSpace(string(wrote)), "\n")
			require.Equal(t, "ncclCommDestroy", got[len(got)-1])
			slices.Sort(got)
			want = append(want, ends...)
			slices.Sort(want)
			require.Equal(t, want, slices.Compact(got))
		})
	}
}

// TestGPUErrors: what is missing is named.
func TestGPUErrors(t *testing.T) {
	for _, test := range []struct{ name, driver, nccl, args, want string }{
		{"driver", "/nonexistent/libcuda.so", "", "-device cuda", "no CUDA device"},
		{"nccl", "", "/nonexistent/libnccl.so.2", "-device cuda -peer nccl", "-peer nccl: no NCCL: /nonexistent/libnccl.so.2"},
		{"old", "", "old", "-device cuda -peer nccl-symmetric", "ncclMemAlloc: not in this NCCL (2.18.3)"},
		{"windows", "", "", "-device cuda -peer nccl-symmetric", "NCCL has no symmetric memory on these devices"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.nccl == "old" {
				doubles(t, "-DOLD")
			} else {
				doubles(t)
			}
			if test.driver != "" {
				t.Setenv("WEFT_CUDA_DRIVER", test.driver)
			}
			if strings.HasPrefix(test.nccl, "/") {
				t.Setenv("WEFT_NCCL", test.nccl)
			}
			if test.name == "windows" {
				t.Setenv("WEFT_NCCL_DOUBLE_FLAT", "1")
			}
			j := ranktest.Start(t, 2, "perf", harnesstest.Args("-n 4 -e 8 "+test.args))
			for _, r := range j.Ranks {
				require.Error(t, r.Wait(time.Minute))
			}
			require.Contains(t, j.Ranks[0].Output(), test.want)
		})
	}
}

// TestScript runs bench/cuda away from the sources, with this program for perf, one rank for all, and a
// path without Go.
func TestScript(t *testing.T) {
	if ranktest.Race {
		t.Skip("TestGPUChecks and TestGPUCalls run the program")
	}
	doubles(t)
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "results")
	script, err := os.ReadFile("../cuda")
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	for name, text := range map[string]string{
		"cuda":      string(script),
		"weft":      "#!/bin/sh\n[ \"$1 $2\" = 'run -n' ] && shift 4\n[ \"$1\" != info ] || exit 0\nexec \"$@\"\n",
		"perf":      "#!/bin/sh\n[ -z \"$NOTHING\" ] || exit 1\nWEFT_TEST_PROGRAM=perf WEFT_TEST_ARGS=\"$*\" exec " + self + "\n",
		"allreduce": "#!/bin/sh\n[ -z \"$NOTHING\" ] || exit 1\ncase $2 in cpu) d=1 ;; *) d=2 ;; esac\necho digest=${DIGEST:-$d}\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700))
	}
	run := func(env string) (string, error) {
		cmd := exec.Command(filepath.Join(dir, "cuda"), "-o", out, "-n", "1", "--", "-e", "64", "-n", "20")
		cmd.Dir = t.TempDir()
		cmd.Env = append(os.Environ(), "PATH=/usr/bin:/bin", env)
		text, err := cmd.CombinedOutput()
		return string(text), err
	}
	text, err := run("DIGEST=abc")
	require.NoError(t, err, text)
	for _, name := range []string{"nccl-graph", "nccl-stream", "nccl-symmetric-graph", "nccl-symmetric-stream", "barrier"} {
		lines, err := record.ReadFile(filepath.Join(out, name+".jsonl"))
		require.NoError(t, err)
		require.NotEmpty(t, lines)
		require.Contains(t, lines[0].Env.Command, "-device cuda")
	}
	text, err = run("DIGEST=") // the stand-in prints where it was asked to train
	require.Error(t, err)
	require.Contains(t, text, "digests of train-cpu and train-cuda are not the same: digest=1 and digest=2")
	text, err = run("NOTHING=1")
	require.Error(t, err)
	for _, failed := range []string{"nccl-graph", "barrier", "train-cuda", "the digests of train-cpu and train-cuda: printed were '' and ''"} {
		require.Contains(t, text, "cuda: failed: "+failed+"\n")
	}
}
