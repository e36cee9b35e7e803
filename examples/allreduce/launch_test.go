package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// beExample makes the test binary act as the program.
const beExample = "TEST_BE_ALLREDUCE"

func TestMain(m *testing.M) {
	if os.Getenv(beExample) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// result is what is left of a program that has ended.
type result struct {
	stdout, stderr string
	status         int
}

// program runs this program, under a launcher if one is given.
func program(t *testing.T, launcher []string, args ...string) result {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	argv := append(append([]string{}, launcher...), append([]string{self}, args...)...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	// Under the race detector a program waits for a second before it exits.
	cmd.Env = append(os.Environ(), beExample+"=1", "GORACE=atexit_sleep_ms=0")
	cmd.WaitDelay = 10 * time.Second
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, ctx.Err(), "%s%s", out, stderr.String())
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return result{string(out), stderr.String(), cmd.ProcessState.ExitCode()}
}

// A launcher returns the start of a command line with n ranks.
type launcher func(n int) []string

// mpirun returns the launcher of Open MPI.
func mpirun(t *testing.T) launcher {
	t.Helper()
	path, err := exec.LookPath("mpirun")
	if err != nil && os.Getenv("CI") == "" { // there it must be
		t.Skip("mpirun is not installed")
	}
	require.NoError(t, err)
	args := []string{path, "--oversubscribe"}
	if os.Getuid() == 0 {
		args = append(args, "--allow-run-as-root")
	}
	return func(n int) []string { return append(slices.Clone(args), "-np", fmt.Sprint(n)) }
}

// weftRun returns ours.
func weftRun(t *testing.T) launcher {
	t.Helper()
	weft := filepath.Join(t.TempDir(), "weft")
	out, err := exec.Command("go", "build", "-o", weft, "../../cmd/weft").CombinedOutput()
	require.NoError(t, err, string(out))
	return func(n int) []string { return []string{weft, "run", "-prefix=false", "-n", fmt.Sprint(n)} }
}

func TestMpirun(t *testing.T)  { testLauncher(t, mpirun(t)) }
func TestWeftRun(t *testing.T) { testLauncher(t, weftRun(t)) }

// trainArgs are the arguments for [trainOptions].
func trainArgs() []string {
	if raceEnabled {
		return []string{"-epochs", "2", "-accuracy", "0.8"}
	}
	return nil // the defaults
}

func testLauncher(t *testing.T, launcher launcher) {
	for _, n := range []int{1, 2, 3, 4} {
		if raceEnabled && n != 3 { // ranks are alike
			continue
		}
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			requireResult(t, program(t, launcher(n), trainArgs()...), n)
		})
	}
	t.Run("failing", func(t *testing.T) {
		r := program(t, launcher(3), "-epochs", "1")
		require.Equal(t, 1, r.status, r.stderr)
		require.Contains(t, r.stderr, "not learnt enough")
		require.NotContains(t, r.stdout, "result")
	})
}

func TestNoLauncher(t *testing.T) {
	requireResult(t, program(t, nil, trainArgs()...), 4)
	requireResult(t, program(t, nil, append(trainArgs(), "-ranks", "5", "-seed", "3")...), 5)
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"-ranks", "0"}, {"-epochs", "-1"}, {"-nonsense"}, {"argument"}, {"-device", "tpu"}} {
		r := program(t, nil, args...)
		require.Equal(t, 2, r.status, "%v", args)
		require.Regexp(t, "^(allreduce: |[^\n]*flag)[^\n]+\n(.*\n)*Usage", r.stderr, "why, and how")
		require.Empty(t, r.stdout)
		require.Contains(t, r.stderr, "-epochs")
	}
}

// requireResult checks that n ranks have succeeded and said so.
func requireResult(t *testing.T, r result, n int) {
	t.Helper()
	require.Equal(t, 0, r.status, r.stderr)
	require.Equal(t, 1, strings.Count(r.stdout, "result"), "only rank 0 prints")
	lines := strings.Split(strings.TrimSuffix(r.stdout, "\n"), "\n")
	require.Regexp(t,
		fmt.Sprintf(`^result accuracy=0\.\d{4} loss=\d\.\d{4} ranks=%d comm_seconds=\d+\.\d{3} digest=[0-9a-f]{16}$`, n),
		lines[len(lines)-1])
}
