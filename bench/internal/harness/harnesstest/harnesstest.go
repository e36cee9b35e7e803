// Package harnesstest is what the tests of the benchmark programs have in common.
package harnesstest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/bench/internal/harness"
	"github.com/weft-go/weft/bench/internal/record"
	"github.com/weft-go/weft/internal/ranktest"
)

// Main is the TestMain of a program that fixes the algorithm, or none if it is
// "". Args gives it its arguments.
func Main(m *testing.M, name, algorithm string) {
	ranktest.Main(m, map[string]func() error{name: func() error {
		if status := harness.Main(name, algorithm, strings.Fields(os.Getenv("WEFT_TEST_ARGS"))); status != 0 {
			return fmt.Errorf("status %d", status)
		}
		return nil
	}})
}

// Args is what to give a rank's environment so that the program has arguments.
func Args(args string) string { return "WEFT_TEST_ARGS=" + args }

// Runs makes short runs with 1, 2 and 3 ranks, by weft run and by mpirun, and
// checks what they write. By weft run it is the program of the package that is
// tested; both are built, and are not for the race detector, which has 3 ranks by mpirun.
func Runs(t *testing.T, name, algorithm, args string) {
	dir := t.TempDir()
	weft, program := filepath.Join(dir, "weft"), filepath.Join(dir, name)
	launchers := []string{"weft run", "mpirun"}
	if ranktest.Race {
		launchers = launchers[1:]
	} else {
		for bin, pkg := range map[string]string{weft: "github.com/weft-go/weft/cmd/weft", program: "."} {
			out, err := exec.Command("go", "build", "-o", bin, pkg).CombinedOutput()
			require.NoError(t, err, "%s", out)
		}
	}
	for _, launcher := range launchers {
		for n := 1; n <= 3; n++ {
			if ranktest.Race && n < 3 {
				continue
			}
			t.Run(fmt.Sprintf("%s %d", launcher, n), func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "out.jsonl")
				args := "-warm -n 6 -b 8 -e 40K -f 70 " + args + " -json " + file
				var output string
				if launcher == "mpirun" {
					j := ranktest.Mpirun(t, n, name, nil, Args(args))
					j.Succeed(t, 2*time.Minute)
					output = j.Ranks[0].Output()
				} else {
					run := []string{"run", "-timeout", "2m", "-n", strconv.Itoa(n), "--", program}
					out, err := exec.Command(weft, append(run, strings.Fields(args)...)...).CombinedOutput()
					output = string(out)
					require.NoError(t, err, output)
				}
				require.Contains(t, output, "# Out of bounds values : 0 OK")
				require.Contains(t, output, "# weft "+name+" ")
				lines, err := record.ReadFile(file)
				require.NoError(t, err)
				require.NotEmpty(t, lines)
				for _, l := range lines {
					require.Equal(t, n, l.Ranks)
					require.Positive(t, l.P50US)
					require.NotNil(t, l.Wrong)
					require.Zero(t, *l.Wrong)
					require.NotEmpty(t, l.Algo)
					if algorithm != "" {
						require.Equal(t, algorithm, l.Algo)
					}
					require.Equal(t, n > 1 && l.Coll != "barrier" && l.Coll != "scan", l.BusBW != nil, "busbw means nothing with one rank")
				}
			})
		}
	}
}
