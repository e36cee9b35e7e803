package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestInfo runs the real command under itself: the ranks of one node, and of two.
func TestInfo(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "weft")
	out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	run := func(env []string, args ...string) (string, error) {
		cmd := exec.Command(bin, args...)
		cmd.Env = append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	text, err := run(nil, "run", "-n", "3", "--", bin, "info")
	require.NoError(t, err, text)
	require.Contains(t, text, "ranks: 3, nodes: 1, started by: weft run")
	require.Contains(t, text, "pointer (same node: anonymous shared memory)")
	require.Contains(t, text, "ranks 0-1 0-2 1-2")

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
