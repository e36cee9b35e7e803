package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/internal/cuda/cudatest"
	"github.com/weft-go/weft/internal/ranktest"
)

// TestInfo runs the real command under itself: the ranks of one node, and of two.
func TestInfo(t *testing.T) {
	if ranktest.Race {
		t.Skip("the program is built without the race detector")
	}
	bin := filepath.Join(t.TempDir(), "weft")
	out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	run := func(env []string, args ...string) (string, error) {
		cmd := exec.Command(bin, args...)
		cmd.Env = append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	text, err := run([]string{"WEFT_CUDA_DRIVER=/nonexistent/libcuda.so"}, "run", "-n", "3", "--", bin, "info")
	require.NoError(t, err, text)
	require.Regexp(t, `no devices: rank 0: no CUDA device: .* looked for /nonexistent/libcuda.so`, text)
	require.Contains(t, text, "ranks: 3, nodes: 1, started by: weft run")
	require.Contains(t, text, "pointer (same node: anonymous shared memory)")
	require.Contains(t, text, "ranks 0-1 0-2 1-2")

	library, err := cudatest.Library()
	require.NoError(t, err)
	devices, err := run([]string{"WEFT_CUDA_DRIVER=" + library}, "run", "-n", "3", "--", bin, "info")
	require.NoError(t, err, devices)
	require.Regexp(t, `(?s)devices \(CUDA 13.*rank 0: Double 0 GPU-.*rank 1: Double 1 GPU-.*rank 2: Double 0 GPU-`, devices)
	memory := func(text, where string) (kib int) {
		t.Helper()
		m := regexp.MustCompile(`memory of a communicator of this size: (\d+) KiB per rank` + where).FindStringSubmatch(text)
		require.NotNil(t, m, text)
		kib, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		return kib
	}
	require.Less(t, memory(devices, ` on its device, for \d+ lanes`), 64<<10)
	require.Less(t, memory(text, "\n"), 4<<10)

	for name, n := range traffic(t, text, 3*2) {
		require.Equal(t, name == "messages" || name == "bytes", n > 0, "%s\n%s", name, text)
	}
	for _, transport := range []string{"fabric", "fabric:fast"} {
		text, err = run([]string{"WEFT_TRANSPORT=" + transport, "WEFT_FAULTS=seed=1,rate=0.05"}, "run", "-n", "3", "--", bin, "info")
		require.NoError(t, err, text)
		require.Greater(t, memory(text, "\n"), 60<<10, "with spares")
		for name, n := range traffic(t, text, 3*2) {
			seldom := name == "alias" || name == "pointer" || name == "channel" || name == "renewals"
			require.Equal(t, !seldom, n > 0, "%s\n%s", name, text)
		}
	}
	for ways, by := range map[string]string{"1": "pointer", "channel": "channel"} {
		text, err = run([]string{"WEFT_FAULTS=dead=0>1@20", "WEFT_REROUTE=" + ways}, "run", "-n", "2", "--", bin, "info")
		require.NoError(t, err, text)
		require.NotZero(t, traffic(t, text, 2)[by], text)
	}
	text, err = run([]string{"WEFT_FAULTS=dead=0>1/0@20"}, "run", "-n", "2", "--", bin, "info")
	require.NoError(t, err, text)
	require.NotZero(t, traffic(t, text, 2)["alias"], text)
	text, err = run([]string{"WEFT_TRANSPORT=fabric:fast", "WEFT_FAULTS=rate=0.05"}, "run", "-n", "9", "--", bin, "info")
	require.NoError(t, err, text)
	require.NotZero(t, traffic(t, text, 9)["retries"], text)

	text, err = run(nil, "run", "-n", "2", "--", "sh", "-c", "WEFT_NODE=n$WEFT_RANK WEFT_ROOT=127.0.0.1:23457 exec "+bin+" info")
	require.Error(t, err)
	require.Regexp(t, `\[0\] 1 +1 +0 `, text, "the map of the nodes")
	require.Contains(t, text, "rank 1 is on another node")

	text, err = run(nil, "info")
	require.NoError(t, err, text)
	require.Contains(t, text, "started by: single")

	var stdout, stderr bytes.Buffer
	require.Equal(t, statusUsage, infoCommand([]string{"what"}, nil, &stdout, &stderr))
	require.Contains(t, stderr.String(), "usage")
}

// traffic returns the sums of the columns of what passed between ranks, which has so
// many lines.
func traffic(t *testing.T, text string, lines int) map[string]float64 {
	t.Helper()
	var names []string
	sums, found := map[string]float64{}, 0
	for _, line := range strings.Split(text, "\n") {
		line = strings.TrimPrefix(line, "[0] ")
		fields := regexp.MustCompile(`  +`).Split(strings.TrimSpace(line), -1)
		switch {
		case strings.HasPrefix(line, "from"):
			names = fields
		case names != nil && len(fields) == len(names) && fields[1] != "all":
			found++
			for i, f := range fields[2:] {
				name := names[i+2]
				n, err := strconv.ParseFloat(f, 64)
				if name == "time lost" {
					var d time.Duration
					d, err = time.ParseDuration(f)
					n = d.Seconds()
				}
				require.NoError(t, err, line)
				sums[name] += n
			}
		}
	}
	require.Len(t, sums, 11, text)
	require.Equal(t, lines, found, text)
	return sums
}
