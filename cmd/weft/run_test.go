//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/internal/ranktest"
)

// patience bounds every wait of these tests; only a failing one gets there.
const patience = 60 * time.Second

// process is a running weft command.
type process struct {
	*exec.Cmd
	stdout, stderr bytes.Buffer
	dir            string // working directory, empty at first
}

// start starts weft with args, in a temporary directory.
func start(t *testing.T, stdin string, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	p := &process{Cmd: exec.Command(self, args...), dir: t.TempDir()}
	// Under the race detector a program waits for a second before it exits.
	p.Env = append(os.Environ(), beWeft+"=1", "GORACE=atexit_sleep_ms=0")
	p.Dir = p.dir
	p.Stdin = strings.NewReader(stdin)
	p.Cmd.Stdout, p.Cmd.Stderr = &p.stdout, &p.stderr
	require.NoError(t, p.Start())
	t.Cleanup(func() { _ = p.Process.Kill() })
	return p
}

// end waits for the command and returns its exit status.
func (p *process) end(t *testing.T) int {
	t.Helper()
	timer := time.AfterFunc(patience, func() { _ = p.Process.Kill() })
	defer timer.Stop()
	_ = p.Wait()
	return p.ProcessState.ExitCode()
}

// pids waits until n files whose names match pattern hold process ids.
func (p *process) pids(t *testing.T, pattern string, n int) []int {
	t.Helper()
	var pids []int
	require.Eventually(t, func() bool {
		pids = pids[:0]
		files, _ := filepath.Glob(filepath.Join(p.dir, pattern))
		for _, f := range files {
			b, _ := os.ReadFile(f)
			if pid, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
				pids = append(pids, pid)
			}
		}
		return len(pids) == n
	}, patience, 5*time.Millisecond, "%d files %s", n, pattern)
	return pids
}

// requireGone waits until none of the processes runs. Some may have been left
// to a process 1 that does not reap: those count as gone.
func requireGone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		require.Eventually(t, func() bool {
			if syscall.Kill(pid, 0) != nil {
				return true
			}
			out, _ := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
			return strings.HasPrefix(string(out), "Z")
		}, patience, 5*time.Millisecond, "process %d", pid)
	}
}

// sorted returns the lines of s in order.
func sorted(s string) []string {
	lines := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	slices.Sort(lines)
	return lines
}

func TestRun(t *testing.T) {
	for _, tc := range []struct {
		name   string
		flags  string
		script string // run by each rank
		stdin  string
		status int
		stdout string // lines in sorted order
		stderr string
	}{
		{
			name: "output", flags: "-n 3",
			script: `echo out $WEFT_RANK of $WEFT_SIZE; echo err $WEFT_RANK >&2`,
			stdout: "[0] out 0 of 3\n[1] out 1 of 3\n[2] out 2 of 3",
			stderr: "[0] err 0\n[1] err 1\n[2] err 2",
		},
		{
			name: "no prefix", flags: "-n 2 -prefix=false", script: `echo $WEFT_RANK`,
			stdout: "0\n1",
		},
		{
			name: "no final newline", flags: "-n 2", script: `printf $WEFT_RANK`,
			stdout: "[0] 0\n[1] 1",
		},
		{
			name: "no stdin", flags: "-n 2", script: `cat; echo $WEFT_RANK`, stdin: "hello\n",
			stdout: "[0] 0\n[1] 1",
		},
		{
			name: "stdin", flags: "-n 2 -stdin", script: `cat; echo $WEFT_RANK`, stdin: "hello\n",
			stdout: "[0] 0\n[0] hello\n[1] 1",
		},
		{
			name: "one fails", flags: "-n 3", script: `[ $WEFT_RANK != 1 ] || exit 7; sleep 600`, status: 7,
			stderr: "weft run: rank 1 exited with status 7, ending the others",
		},
		{
			name: "one is killed", flags: "-n 3", script: `[ $WEFT_RANK != 2 ] || kill -9 $$; sleep 600`, status: 137,
			stderr: "weft run: rank 2 was killed by SIGKILL, ending the others",
		},
		{
			name: "the last one fails", flags: "-n 1", script: `exit 3`, status: 3,
			stderr: "weft run: rank 0 exited with status 3",
		},
		{
			name: "others end by themselves", flags: "-n 2",
			script: `exec 2>/dev/null; trap 'echo bye; exit 0' TERM; [ $WEFT_RANK = 1 ] || { until [ -e trapped ]; do sleep 0.01; done; exit 4; }
				: >trapped; while :; do sleep 0.05; done`,
			status: 4, stdout: "[1] bye",
			stderr: "weft run: rank 0 exited with status 4, ending the others",
		},
		{
			name: "others do not end by themselves", flags: "-n 2 -grace 200ms",
			script: `trap '' TERM; [ $WEFT_RANK = 1 ] || { until [ -e trapped ]; do sleep 0.01; done; exit 4; }; : >trapped; while :; do sleep 0.05; done`,
			status: 4, stderr: "weft run: rank 0 exited with status 4, ending the others",
		},
		{
			name: "stopped ranks end too", flags: "-n 2",
			script: `[ $WEFT_RANK = 1 ] || { until [ -e up ]; do sleep 0.01; done; sleep 0.1; exit 4; }; : >up; kill -STOP $$; sleep 600`,
			status: 4, stderr: "weft run: rank 0 exited with status 4, ending the others",
		},
		{
			name: "keep going", flags: "-n 3 -keep-going",
			// Each waits until the one before it has been seen to end.
			script: `echo $$ >pid.$WEFT_RANK.tmp; mv pid.$WEFT_RANK.tmp pid.$WEFT_RANK
				[ $WEFT_RANK = 0 ] || { b=pid.$((WEFT_RANK - 1)); until [ -e $b ]; do sleep 0.01; done; while kill -0 $(cat $b); do sleep 0.01; done 2>/dev/null; sleep 0.05; }
				echo $WEFT_RANK; [ $WEFT_RANK = 0 ] || exit $((10 + WEFT_RANK))`, status: 11,
			stdout: "[0] 0\n[1] 1\n[2] 2",
			stderr: "weft run: rank 1 exited with status 11\nweft run: rank 2 exited with status 12",
		},
		{
			name: "timeout", flags: "-n 2 -timeout 200ms", script: `sleep 600`, status: 124,
			stderr: "weft run: still running after 200ms, ending all ranks",
		},
		{
			name: "in time", flags: "-n 2 -timeout 60s", script: `true`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"run"}, strings.Fields(tc.flags)...)
			p := start(t, tc.stdin, append(args, "--", "sh", "-c", tc.script)...)
			require.Equal(t, tc.status, p.end(t), p.stderr.String())
			require.Equal(t, tc.stdout, strings.Join(sorted(p.stdout.String()), "\n"))
			require.Equal(t, tc.stderr, strings.Join(sorted(p.stderr.String()), "\n"))
		})
	}
}

// TestRunEndsInit: a rank that dies before it joins keeps nobody waiting.
func TestRunEndsInit(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	script := fmt.Sprintf(`[ $WEFT_RANK != 1 ] || kill -9 $$; %s=1 exec "$0" info`, beWeft)
	p := start(t, "", "run", "-n", "3", "--", "sh", "-c", script, self)
	begin := time.Now()
	require.Equal(t, 137, p.end(t), p.stderr.String())
	require.Less(t, time.Since(begin), 30*time.Second) // Init alone would wait for a minute
	require.Contains(t, p.stderr.String(), "weft run: rank 1 was killed by SIGKILL, ending the others")
}

func TestRunArguments(t *testing.T) {
	p := start(t, "", "run", "-n", "1", "sh", "-c", `printf '%s\n' "$@"`, "sh", "-n", "a b", "")
	require.Equal(t, 0, p.end(t), p.stderr.String())
	require.Equal(t, "[0] -n\n[0] a b\n[0] \n", p.stdout.String())
}

func TestRunLargeOutput(t *testing.T) {
	lines := 20000
	if ranktest.Race {
		lines = 4000
	}
	script := fmt.Sprintf(`i=0; while [ $i -lt %d ]; do echo "$WEFT_RANK line $i"; i=$((i+1)); done
		head -c 3000000 /dev/zero | tr '\0' "$WEFT_RANK"`, lines)
	p := start(t, "", "run", "-n", "4", "--", "sh", "-c", script)
	require.Equal(t, 0, p.end(t), p.stderr.String())
	next := make([]int, 4)
	for line := range strings.Lines(p.stdout.String()) {
		var prefix, r, i int
		if n, _ := fmt.Sscanf(line, "[%d] %d line %d\n", &prefix, &r, &i); n == 3 {
			require.Equal(t, prefix, r)
			require.Equal(t, next[r], i)
			next[r]++
			continue
		}
		rank, err := strconv.Atoi(line[1:2])
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("[%d] %s\n", rank, strings.Repeat(strconv.Itoa(rank), 3000000)), line)
		require.Equal(t, lines, next[rank])
		next[rank]++
	}
	require.Equal(t, []int{lines + 1, lines + 1, lines + 1, lines + 1}, next)
}

func TestRunBrokenPipe(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command("sh", "-c", `{ "$0" run -n 2 -- sh -c 'while :; do echo y; done'; echo status $? >&2; } | head -n 1`, self)
	cmd.Env = append(os.Environ(), beWeft+"=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Regexp(t, `^\[[01]\] y\n$`, string(out))
	require.Contains(t, stderr.String(), "SIGPIPE")
	require.Contains(t, stderr.String(), "status 141")
}

func TestRunEnvironment(t *testing.T) {
	t.Setenv("OMPI_COMM_WORLD_RANK", "5")
	t.Setenv("SLURM_NTASKS", "5")
	t.Setenv("WEFT_RANK", "5")
	t.Setenv("WEFT_JOB", "outer")
	t.Setenv("WEFT_FAULTS", "seed=1")
	p := start(t, "", "run", "-n", "2", "--", "env")
	require.Equal(t, 0, p.end(t), p.stderr.String())
	var jobs []string
	for _, line := range sorted(p.stdout.String()) {
		require.NotContains(t, line, "OMPI_")
		require.NotContains(t, line, "SLURM_")
		require.NotContains(t, line, "outer")
		if _, job, ok := strings.Cut(line, "WEFT_JOB="); ok {
			jobs = append(jobs, job)
		}
	}
	require.Len(t, jobs, 2)
	require.Equal(t, jobs[0], jobs[1])
	require.Contains(t, p.stdout.String(), "[0] WEFT_RANK=0\n")
	require.Contains(t, p.stdout.String(), "[1] WEFT_RANK=1\n")
	require.Contains(t, p.stdout.String(), "[1] WEFT_FAULTS=seed=1\n")
}

// family is a rank with a child in the background, both noting their ids when their traps
// are set.
const family = `sh -c '%s; echo $$ >child.$WEFT_RANK.tmp; mv child.$WEFT_RANK.tmp child.$WEFT_RANK; while :; do sleep 0.05; done' >/dev/null 2>&1 &
	%s; echo $$ >rank.$WEFT_RANK
	%s`

func TestRunLeavesNothingBehind(t *testing.T) {
	const wait = "while :; do sleep 0.05; done"
	for _, tc := range []struct {
		name              string
		child, trap, rank string
		signals           []os.Signal
		status            int
	}{
		{"interrupt", "true", "true", wait, []os.Signal{os.Interrupt}, 130},
		{"terminate", "true", "true", wait, []os.Signal{syscall.SIGTERM}, 143},
		{"hang up", "true", "true", wait, []os.Signal{syscall.SIGHUP}, 129},
		{"children that ignore signals", `trap "" TERM INT`, "true", wait, []os.Signal{os.Interrupt}, 130},
		{"ranks that handle it", "true", `trap 'exit 0' INT`, wait, []os.Signal{os.Interrupt}, 0},
		{"second signal kills", `trap "" TERM INT`, `trap 'echo $$ >heard.$WEFT_RANK' TERM INT`, wait, []os.Signal{os.Interrupt, os.Interrupt}, 137},
		{"other signals pass", `trap "" USR1`, `trap 'exit 9' USR1`, wait, []os.Signal{syscall.SIGUSR1}, 9},
		{"ranks end before their children", "true", "true", "while [ ! -e child.$WEFT_RANK ]; do sleep 0.01; done", nil, 0},
		{"ranks end before stubborn children", `trap "" TERM`, "true", "while [ ! -e child.$WEFT_RANK ]; do sleep 0.01; done", nil, 0},
		{"rank fails before its children", `trap "" TERM`, "true", "while [ ! -e child.$WEFT_RANK ]; do sleep 0.01; done; exit 5", nil, 5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			// What is ignored here, as under nohup, would be ignored there.
			for _, s := range tc.signals {
				signal.Notify(make(chan os.Signal, 1), s)
			}
			script := fmt.Sprintf(family, tc.child, tc.trap, tc.rank)
			p := start(t, "", "run", "-n", "3", "-keep-going", "-grace", "300ms", "--", "sh", "-c", script)
			pids := append(p.pids(t, "rank.?", 3), p.pids(t, "child.?", 3)...)
			for i, s := range tc.signals {
				if i > 0 { // equal signals are merged if the first is not taken yet
					p.pids(t, "heard.?", 3)
				}
				require.NoError(t, p.Process.Signal(s))
			}
			require.Equal(t, tc.status, p.end(t), p.stderr.String())
			requireGone(t, pids)
		})
	}
}

func TestRunKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs parent-death signals")
	}
	p := start(t, "", "run", "-n", "4", "--", "sh", "-c", `echo $$ >rank.$WEFT_RANK; exec sleep 600`)
	pids := p.pids(t, "rank.?", 4)
	require.NoError(t, p.Process.Kill())
	p.end(t)
	requireGone(t, pids)
}

// TestRunKilledWithChildren: what ranks have started ends as well, however deaf it is.
func TestRunKilledWithChildren(t *testing.T) {
	script := fmt.Sprintf(family, `trap "" TERM INT HUP`, "true", "while :; do sleep 0.05; done")
	p := start(t, "", "run", "-n", "2", "--", "sh", "-c", script)
	pids := append(p.pids(t, "rank.?", 2), p.pids(t, "child.?", 2)...)
	t.Cleanup(func() {
		for i := 0; t.Failed() && i < len(pids); i++ {
			_ = syscall.Kill(pids[i], syscall.SIGKILL)
		}
	})
	require.NoError(t, p.Process.Kill())
	p.end(t)
	requireGone(t, pids)
}

func TestRunManyJobs(t *testing.T) {
	// The spawning thread must stay: if it went, ranks would die by SIGKILL.
	jobs := 20
	if ranktest.Race {
		jobs = 5
	}
	for range jobs {
		p := start(t, "", "run", "-n", "8", "--", "sh", "-c", "sleep 0.1")
		require.Equal(t, 0, p.end(t), p.stderr.String())
	}
}
