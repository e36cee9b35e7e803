package harness

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/bench/internal/record"
	"github.com/weft-go/weft/internal/ranktest"
)

// TestCycles: a row is of all cycles, and there is one for each size however
// many there are; with a single cycle nothing of them is said.
func TestCycles(t *testing.T) {
	const args = " -warm -n 4 -b 8 -e 4K -f 32 -coll allreduce,broadcast,barrier -o sum,max -t float,int8"
	one := filepath.Join(t.TempDir(), "one.jsonl")
	j := ranktest.Start(t, 2, "planted", "WEFT_TEST_RANK=-1", "WEFT_TEST_ARGS=-N 1 -json "+one+args)
	j.Succeed(t, time.Minute)
	b, err := os.ReadFile(one)
	require.NoError(t, err)
	require.NotContains(t, string(b), "cycle")
	require.NotContains(t, string(b), "ratio_spread")
	require.NotContains(t, j.Ranks[0].Output(), "cycle")

	three := filepath.Join(t.TempDir(), "three.jsonl")
	j = ranktest.Start(t, 2, "planted", "WEFT_TEST_RANK=-1", "WEFT_TEST_ARGS=-N 3 -peer file:"+one+" -json "+three+args)
	j.Succeed(t, time.Minute)
	single, failures := readAll(t, one)
	require.Empty(t, failures)
	lines, failures := readAll(t, three)
	require.Empty(t, failures)
	require.Len(t, lines, len(single))
	for i, l := range lines {
		require.Equal(t, single[i].Key(), l.Key(), "in the same order")
		require.Equal(t, 3, l.Cycles)
		require.Len(t, l.CycleUS, 3)
		require.Equal(t, slices.Sorted(slices.Values(l.CycleUS))[1], l.P50US)
		require.Zero(t, *l.Wrong)
		require.Equal(t, 3*single[i].Batches, l.Batches, "%+v", l)
		require.Equal(t, single[i].P50US, *l.PeerP50US)
		require.InDelta(t, single[i].P50US/l.P50US, *l.Ratio, 1e-9)
		require.Nil(t, l.RatioSpreadPct, "the peer's cycles are not ours")
		require.Empty(t, l.PeerCycleUS)
	}
	output := j.Ranks[0].Output()
	require.Equal(t, 3, strings.Count(output, "# run cycles: 3"), "in every heading")
	require.Equal(t, 3, strings.Count(output, "# Out of bounds values : 0 OK"))
}

// TestCyclesCountErrors: those of every cycle.
func TestCyclesCountErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out.jsonl")
	j := ranktest.Start(t, 2, "planted", "WEFT_TEST_RANK=1", "WEFT_TEST_ARGS=-N 4 -warm -n 2 -b 64 -e 64 -json "+file)
	for _, r := range j.Ranks {
		require.Error(t, r.Wait(time.Minute))
	}
	require.Contains(t, j.Ranks[0].Output(), "FAILED")
	lines, failures := readAll(t, file)
	require.Len(t, failures, 1)
	require.Len(t, lines, 2)
	for _, l := range lines { // one call checked before, and out of place one that was timed
		want := int64(4)
		if !l.InPlace {
			want = 8
		}
		require.Equal(t, want, *l.Wrong, "%+v", l)
	}
}

// TestStoppedCycles: the file is valid, and has the cycles that were finished,
// even if nobody could write when the end came.
func TestStoppedCycles(t *testing.T) {
	for _, tt := range []struct {
		name   string
		signal syscall.Signal
	}{{"terminated", syscall.SIGTERM}, {"interrupted", syscall.SIGINT}, {"killed", syscall.SIGKILL}} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "out.jsonl")
			j := ranktest.Start(t, 2, "planted", "WEFT_TEST_RANK=-1",
				"WEFT_TEST_ARGS=-N 1000000 -warm -n 200 -b 8 -e 4K -f 32 -coll allreduce,broadcast -json "+file)
			cyclesOf := func() int {
				lines, err := record.ReadFile(file) // may be read while it is written
				if err != nil || len(lines) == 0 {
					return 0
				}
				return lines[len(lines)-1].Cycles
			}
			require.Eventually(t, func() bool { return cyclesOf() >= 2 }, 2*time.Minute, time.Millisecond, j.Ranks[0].Output())
			for _, r := range j.Ranks {
				require.NoError(t, r.Signal(tt.signal))
			}
			for _, r := range j.Ranks {
				err := r.Wait(time.Minute)
				require.NotErrorIs(t, err, ranktest.ErrRunning)
				require.Error(t, err)
			}
			lines, failures := readAll(t, file)
			require.Len(t, lines, 2*2+2, "two sizes out of place and in place, and in place only")
			for _, l := range lines {
				require.GreaterOrEqual(t, l.Cycles, 2)
				require.Len(t, l.CycleUS, l.Cycles)
			}
			output := j.Ranks[0].Output()
			if tt.signal == syscall.SIGKILL {
				require.Empty(t, failures)
				return
			}
			require.Len(t, failures, 1)
			require.Equal(t, 1, strings.Count(output, "# The run was stopped"), output)
			require.Equal(t, 2, strings.Count(output, "# Out of bounds values : 0 OK"), output)
		})
	}
}

// TestStoppedInLastCycle: rows that the last cycle has and those that it lacks
// are told once each.
func TestStoppedInLastCycle(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "out.jsonl"))
	require.NoError(t, err)
	defer file.Close()
	var out strings.Builder
	cfg, err := parseFlags("perf", "", strings.Fields("-N 2 -coll barrier,reduce -b 8 -e 64 -f 8"), &out)
	require.NoError(t, err)
	s := &job{program: &program{name: "perf"}, cfg: &cfg, ranks: 2, print: &out, out: record.NewWriter(file), sheets: newSheets(&cfg, 2)}
	entries := slices.Concat(s.sheets[0].entries, s.sheets[1].entries)
	require.Len(t, entries, 3)
	for i, e := range entries {
		l := record.Line{Coll: s.sheets[min(i, 1)].coll.name, Bytes: int64(i), P50US: float64(10 + i), InPlace: true}
		e.cycles = append(e.cycles, result{in: &l})
		if i < 2 {
			again := l
			again.P50US *= 3
			e.cycles = append(e.cycles, result{in: &again})
		}
	}
	for i := range 2 {
		s.sheets[i].headed = true
		require.NoError(t, s.report(s.sheets[i], entries[i]))
	}
	require.NoError(t, s.rest())
	require.NoError(t, s.rest(), "nothing is left")
	lines, failures := readAll(t, file.Name())
	require.Empty(t, failures)
	require.Len(t, lines, 3)
	require.Equal(t, []float64{20, 22, 12}, []float64{lines[0].P50US, lines[1].P50US, lines[2].P50US})
	require.Equal(t, []int{2, 2, 1}, []int{lines[0].Cycles, lines[1].Cycles, lines[2].Cycles})
	rows := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, rows, 3+1+3, out.String()) // rows, the remark, what concludes the sheet
	require.Contains(t, rows[2], "# The run was stopped")
}
