package device

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSanitize: scripts/cuda-sanitize refuses what it can't do, and believes no run that found
// something or checked nothing. The sanitizer is a stand-in, which prints what $SAYS says.
func TestSanitize(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash here")
	}
	dir := t.TempDir()
	fake, tests := filepath.Join(dir, "sanitizer"), filepath.Join(dir, "tests")
	require.NoError(t, os.WriteFile(fake, []byte("#!/bin/sh\nprintf \"$SAYS\"\necho \"$@\" >>\"$0.log\"\nshift 4\n\"$@\"\nexit ${STATUS:-0}\n"), 0o700))
	require.NoError(t, os.WriteFile(tests, []byte("#!/bin/sh\nfor t in $PASS; do echo \"    --- PASS: $t/2 (0.10s)\"; done\n"), 0o700))
	const all = "PASS=TestMoves TestAllToAllV TestMessages TestReductions"
	const clean = "SAYS========== ERROR SUMMARY: 0 errors\n"
	run := func(env []string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "bash", append([]string{"../../../scripts/cuda-sanitize"}, args...)...)
		cmd.Env = append(append(os.Environ(), "COMPUTE_SANITIZER="+fake), env...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := run(nil, "-h")
	require.NoError(t, err, out)
	require.Contains(t, out, "\tscripts/cuda-sanitize [-o DIR]")
	for _, wrong := range []struct {
		args []string
		want string
	}{
		{[]string{"-x"}, "see cuda-sanitize -h"},
		{[]string{"-o"}, "see cuda-sanitize -h"},
		{[]string{"-o", "", tests}, "-o: a folder is wanted"},
		{[]string{"-t", " ", tests}, "-t: a tool is wanted"},
		{[]string{"-t", "memcheck leakcheck", tests}, "-t leakcheck: no such tool"},
		{[]string{tests, tests}, "one TEST at most"},
		{[]string{filepath.Join(dir, "nothing")}, "nothing is no program"},
		{[]string{dir}, "is no program"},
	} {
		out, err := run(nil, wrong.args...)
		require.Error(t, err, "%v: %s", wrong.args, out)
		require.Contains(t, out, "cuda-sanitize: ", "%v", wrong.args)
		require.Contains(t, out, wrong.want)
	}
	out, err = run([]string{"COMPUTE_SANITIZER=" + filepath.Join(dir, "none")}, tests)
	require.Error(t, err)
	require.Contains(t, out, "none is no program")
	require.NoFileExists(t, fake+".log", "nothing was run")

	results := filepath.Join(dir, "results")
	out, err = run([]string{all, clean}, "-o", results, tests)
	require.NoError(t, err, out)
	for _, tool := range []string{"memcheck", "synccheck", "racecheck"} {
		require.Contains(t, out, tool+": ========= ERROR SUMMARY: 0 errors\n")
		require.FileExists(t, filepath.Join(results, tool+".txt"))
	}
	log, err := os.ReadFile(fake + ".log")
	require.NoError(t, err)
	require.Contains(t, string(log), "--tool racecheck --error-exitcode 99 "+tests+" -test.v -test.count 1 -test.run ^(TestMoves|TestAllToAllV|TestMessages|TestReductions)$/^2$\n")
	for name, test := range map[string]struct {
		env  []string
		want string
	}{
		"hazards":  {[]string{all, "SAYS========== RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)\n"}, "status 0; see"},
		"errors":   {[]string{all, "SAYS========== ERROR SUMMARY: 10 errors\n"}, "status 0; see"},
		"status":   {[]string{all, clean, "STATUS=99"}, "status 99; see"},
		"nothing":  {[]string{all, "SAYS="}, "memcheck: no summary"},
		"not run":  {[]string{"PASS=TestMoves TestAllToAllV TestReductions", clean}, "not passed: TestMessages; see"},
		"no tests": {[]string{"PASS=", clean}, "not passed: TestMoves TestAllToAllV TestMessages TestReductions; see"},
	} {
		out, err := run(test.env, "-o", results, "-t", "memcheck", tests)
		require.Error(t, err, "%s: %s", name, out)
		require.Contains(t, out, test.want, name)
	}
	out, err = run([]string{all, "SAYS========== RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n"}, "-o", results, "-t", "racecheck", tests)
	require.NoError(t, err, out)
}
