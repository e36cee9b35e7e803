package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/bench/internal/record"
	"github.com/weft-go/weft/internal/ranktest"
)

// script runs one of the scripts of peers, with no wheels installed, and returns what it
// prints.
func script(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", args...)
	cmd.Dir = "../peers"
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestScripts: each says how it is called, and refuses what it does not know.
func TestScripts(t *testing.T) {
	for _, name := range []string{"openmpi", "openmpi5", "mpich", "mpich5", "gloo"} {
		out, err := script(t, name, "-h")
		require.NoError(t, err, out)
		require.Contains(t, out, "\t"+name+" [")
		for _, wrong := range []string{"-x", "-n0", "-nx"} {
			out, err = script(t, name, wrong)
			require.Error(t, err, "%s %s: %s", name, wrong, out)
			require.Contains(t, out, name+": ")
		}
	}
}

// TestCUDA: bench/cuda says how it is called, and refuses what it does not know before it builds.
func TestCUDA(t *testing.T) {
	for _, help := range []string{"-h", "--help"} {
		out, err := script(t, "../cuda", help)
		require.NoError(t, err, out)
		require.Contains(t, out, "\tbench/cuda [-o RESULTS] [-n RANKS]")
	}
	for wrong, want := range map[string]string{
		"-x": "unknown: -x", "-n": "-n: a value is missing", "-n 0": "-n 0: a number", "-n x": "-n x: a number", "-n -1": "-n -1: a number", "-build": "usage:",
	} {
		out, err := script(t, append([]string{"../cuda"}, strings.Fields(wrong)...)...)
		require.Error(t, err, "%s: %s", wrong, out)
		require.Contains(t, out, "cuda: "+want)
	}
}

// TestWheels: nothing is fetched unless asked for.
func TestWheels(t *testing.T) {
	for _, name := range []string{"openmpi5", "mpich5"} {
		out, err := script(t, name)
		require.Error(t, err)
		require.Contains(t, out, "is missing: -i installs it")
	}
}

// TestNames: bench/run's names lead to scripts.
func TestNames(t *testing.T) {
	out, err := script(t, "-c", `. ./names.sh; for p in $peer_names; do run_peer $p -h || exit; done`)
	require.NoError(t, err, out)
	require.Equal(t, 6, strings.Count(out, "by the rules of bench/perf"), out)
	out, err = script(t, "-c", `. ./names.sh; run_peer nobody`)
	require.Error(t, err)
	require.Contains(t, out, "no peer nobody: there are openmpi ")
	out, err = script(t, "-c", `. ./names.sh; run_peer openmpi6-xhc`)
	require.Error(t, err)
	require.Contains(t, out, "OPENMPI6")
}

// TestOpenMPI: openmpi5 measures the Open MPI that is there, whichever it is.
func TestOpenMPI(t *testing.T) {
	mpicc, err := exec.LookPath("mpicc.openmpi")
	if err != nil {
		t.Skip("no Open MPI here")
	}
	if ranktest.Race {
		t.Skip("it is a program in C")
	}
	prefix := filepath.Dir(filepath.Dir(mpicc))
	file := filepath.Join(t.TempDir(), "out.jsonl")
	out, err := script(t, "openmpi5", "-p", prefix, "-m", "tuned", "-o", file, "--",
		"-coll", "barrier,allreduce,barrier", "-b", "8", "-e", "64", "-f", "8", "-w", "1", "-blocks", "2", "-budget", "1ms")
	require.NoError(t, err, out)
	require.Regexp(t, `(?m)^Open MPI [0-9.]+, coll: .*\btuned\b.*, smsc: `, out)
	lines, err := record.ReadFile(file)
	require.NoError(t, err)
	require.Len(t, lines, 1+2*2, "collectives in the order in which they are named, each once")
	for i, l := range lines {
		require.Equal(t, []string{"barrier", "allreduce", "allreduce", "allreduce", "allreduce"}[i], l.Coll)
		require.Regexp(t, `^Open MPI [0-9.]+, tuned$`, l.Library)
		require.Equal(t, 2, l.Ranks)
		require.Positive(t, l.P50US)
		require.Contains(t, l.Env.Command, "coll_tuned_priority")
	}

	out, err = script(t, "openmpi5", "-p", prefix, "-m", "nothing")
	require.Error(t, err)
	require.Contains(t, out, "has no component nothing in coll, but ")
	out, err = script(t, "openmpi5", "-p", t.TempDir())
	require.Error(t, err)
	require.Contains(t, out, "bin/mpicc is missing")
}
