package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/bench/internal/harness"
	"github.com/weft-go/weft/bench/internal/record"
	"github.com/weft-go/weft/internal/ranktest"
)

func TestMain(m *testing.M) {
	ranktest.Main(m, map[string]func() error{"ring": func() error {
		if status := harness.Main("ring", "ring", strings.Fields(os.Getenv("WEFT_TEST_ARGS"))); status != 0 {
			return fmt.Errorf("status %d", status)
		}
		return nil
	}})
}

// TestRuns is a short run with 1, 2 and 3 ranks, by weft run and by mpirun.
func TestRuns(t *testing.T) {
	for _, launcher := range []string{"weft run", "mpirun"} {
		for n := 1; n <= 3; n++ {
			t.Run(fmt.Sprintf("%s %d", launcher, n), func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "out.jsonl")
				args := "WEFT_TEST_ARGS=-warm -n 6 -b 8 -e 40K -f 70 -coll allreduce,reduce,broadcast -json " + file
				var j *ranktest.Job
				if launcher == "mpirun" {
					j = ranktest.Mpirun(t, n, "ring", nil, args)
				} else {
					j = ranktest.Start(t, n, "ring", args)
				}
				j.Succeed(t, 2*time.Minute)
				require.Contains(t, j.Ranks[0].Output(), "# Out of bounds values : 0 OK")
				lines, err := record.ReadFile(file)
				require.NoError(t, err)
				require.NotEmpty(t, lines)
				for _, l := range lines {
					require.Equal(t, n, l.Ranks)
					require.Positive(t, l.P50US)
					require.NotNil(t, l.Wrong)
					require.Zero(t, *l.Wrong)
					require.NotEmpty(t, l.Algo)
					require.Equal(t, n > 1 && l.Coll != "barrier", l.BusBW != nil, "busbw means nothing with one rank")
				}
			})
		}
	}
}
