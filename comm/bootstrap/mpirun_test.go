//go:build linux

package bootstrap

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/internal/ranktest"
)

// mpirun runs a program of the test binary exe under n ranks and returns its
// lines. It fails unless the exit status is as expected and stderr is empty.
func mpirun(t *testing.T, exe string, n int, program string, more env, ok bool) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "mpirun", "--allow-run-as-root", "--oversubscribe", "-np", fmt.Sprint(n), exe)
	cmd.Env = cleanEnv(more.with(env{agentVar: program}))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if ok {
		require.NoError(t, err, "%s%s", &out, &errs)
		require.Empty(t, errs.String())
	} else {
		require.Error(t, err, "%s%s", &out, &errs)
	}
	return strings.Split(strings.TrimSpace(out.String()), "\n")
}

// exchanged is what a program says when all went well.
func exchanged(source string, n, times int) (lines []string) {
	for r := range n {
		for range times {
			lines = append(lines, fmt.Sprintf("exchanged: %s %d/%d", source, r, n))
		}
	}
	return lines
}

// TestMPIRun runs a binary without MPI under mpirun: its variables are enough.
func TestMPIRun(t *testing.T) {
	exe := buildTest(t, "")
	for _, n := range []int{1, 2, 4, 8} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			require.ElementsMatch(t, exchanged("env:OMPI", n, 1), mpirun(t, exe, n, "exchange", nil, true))
		})
	}
	t.Run("cycles", func(t *testing.T) {
		require.ElementsMatch(t, exchanged("env:OMPI", 3, 20), mpirun(t, exe, 3, "cycles", nil, true))
	})
	t.Run("single", func(t *testing.T) {
		require.ElementsMatch(t, []string{"exchanged: single 0/1", "exchanged: single 0/1"},
			mpirun(t, exe, 2, "exchange", env{"WEFT_SINGLE": "1"}, true))
	})
	t.Run("nodes without root", func(t *testing.T) {
		for _, line := range mpirun(t, exe, 2, "exchange", env{"WEFT_NODE": "a"}, false) {
			if line != "" && strings.HasPrefix(line, "failed") {
				require.Contains(t, line, "set WEFT_ROOT")
			}
		}
	})
}

// TestMPI runs a binary with MPI under mpirun.
func TestMPI(t *testing.T) {
	exe := buildTest(t, "mpi")
	for _, n := range []int{1, 2, 4, 8} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			require.ElementsMatch(t, exchanged("mpi", n, 1), mpirun(t, exe, n, "exchange", nil, true))
		})
	}
	t.Run("again after MPI has ended", func(t *testing.T) {
		want := append(exchanged("mpi", 3, 1), exchanged("env:OMPI", 3, 19)...)
		require.ElementsMatch(t, want, mpirun(t, exe, 3, "cycles", nil, true))
	})
	t.Run("nodes", func(t *testing.T) {
		lines := mpirun(t, exe, 4, "nodes", env{"WEFT_ROOT": freePort(t)}, true)
		require.ElementsMatch(t, exchanged("mpi", 4, 1), lines)
	})
	t.Run("initialised by the program", func(t *testing.T) {
		require.ElementsMatch(t, exchanged("mpi", 3, 2), mpirun(t, exe, 3, "own-init", nil, true))
	})
	t.Run("finalised by the program", func(t *testing.T) {
		require.ElementsMatch(t, exchanged("env:OMPI", 2, 1), mpirun(t, exe, 2, "own-finalize", nil, true))
	})
	t.Run("two channels", func(t *testing.T) {
		require.ElementsMatch(t, exchanged("mpi", 2, 2), mpirun(t, exe, 2, "two", nil, true))
	})
	t.Run("closed in different orders", func(t *testing.T) {
		start := time.Now()
		mpirun(t, exe, 3, "crossed", nil, true)
		require.Less(t, time.Since(start), 9*time.Second)
	})
	t.Run("another size", func(t *testing.T) {
		for _, line := range mpirun(t, exe, 2, "other-size", nil, false) {
			if strings.HasPrefix(line, "failed") {
				require.Contains(t, line, "MPI says rank")
			}
		}
	})
	t.Run("a rank dies", func(t *testing.T) {
		start := time.Now()
		mpirun(t, exe, 3, "die", nil, false)
		require.Less(t, time.Since(start), 20*time.Second)
	})
	t.Run("outside mpirun", func(t *testing.T) {
		cmd := exec.CommandContext(t.Context(), exe)
		cmd.Env = cleanEnv(env{agentVar: "exchange"})
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Equal(t, "exchanged: single 0/1\n", string(out))
	})
}

// buildTest builds this package's test binary, without the race detector,
// which MPI's own memory would confuse.
func buildTest(t *testing.T, tags string) string {
	t.Helper()
	if ranktest.Race {
		t.Skip("the run without the race detector has the same")
	}
	exe := filepath.Join(t.TempDir(), "ranks.test")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-tags", tags, "-o", exe, ".")
	cmd.Env = os.Environ()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return exe
}
