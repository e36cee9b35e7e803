package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/bench/internal/harness/harnesstest"
	"github.com/weft-go/weft/bench/internal/record"
	"github.com/weft-go/weft/internal/ranktest"
)

func TestMain(m *testing.M) { harnesstest.Main(m, "perf", "") }

func TestRuns(t *testing.T) {
	harnesstest.Runs(t, "perf", "", "-coll all -t float,half,int8 -o sum,avg")
}

// TestForms: every form, with buffers that rotate, says what it is.
func TestForms(t *testing.T) {
	forms := []string{"persistent", "started"}
	if ranktest.Race { // a goroutine makes started calls
		forms = forms[1:]
	}
	for _, form := range forms {
		t.Run(form, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "out.jsonl")
			args := harnesstest.Args("-n 10 -b 8 -e 40K -f 5000 -coll all -form " + form + " -json " + file)
			j := ranktest.Start(t, 3, "perf", args)
			j.Succeed(t, 2*time.Minute)
			require.Equal(t, 10, strings.Count(j.Ranks[0].Output(), "# form: "+form+", memory: slice"), j.Ranks[0].Output())
			lines, err := record.ReadFile(file)
			require.NoError(t, err)
			require.Len(t, lines, 8*2*2+2+1, "two sizes; Broadcast and Barrier in place only")
			for _, l := range lines {
				require.Equal(t, form, l.Form)
				require.NotNil(t, l.Wrong)
				require.Zero(t, *l.Wrong, "%+v", l)
			}
		})
	}
}

// TestMemory: symmetric memory, buffers that rotate, and a peer from a file.
func TestMemory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "first.jsonl")
	args := harnesstest.Args("-n 10 -b 8 -e 4K -f 64 -memory symmetric -coll allreduce,alltoall -json " + file)
	ranktest.Start(t, 2, "perf", args).Succeed(t, 2*time.Minute)
	second := filepath.Join(t.TempDir(), "second.jsonl")
	args = harnesstest.Args("-warm -C -n 10 -b 8 -e 4K -f 64 -coll allreduce -peer file:" + file + " -json " + second)
	j := ranktest.Start(t, 2, "perf", args)
	j.Succeed(t, 2*time.Minute)
	require.Contains(t, j.Ranks[0].Output(), "#   in place: a rank used ")
	require.Contains(t, j.Ranks[0].Output(), "# Avg CPU use per rank : ")
	lines, err := record.ReadFile(second)
	require.NoError(t, err)
	for _, l := range lines {
		require.Positive(t, *l.CPUPct, "%+v", l)
		require.GreaterOrEqual(t, *l.CPUPct, *l.WaitPct)
		require.GreaterOrEqual(t, *l.WaitPct, 0.0)
		require.NotNil(t, l.Yields)
		require.NotNil(t, l.Sleeps)
		require.Nil(t, l.PeerCPUPct, "the peer did not run")
		require.NotNil(t, l.Ratio, "%+v", l)
		require.InDelta(t, *l.PeerP50US/l.P50US, *l.Ratio, 1e-9)
	}
}
