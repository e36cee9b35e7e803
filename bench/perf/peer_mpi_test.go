//go:build mpi

package main

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/bench/internal/record"
	"github.com/weft-go/weft/internal/ranktest"
)

// TestPeers: MPI itself and through empi, measured along and checked as ours is.
func TestPeers(t *testing.T) {
	for _, peer := range []string{"mpi", "empi"} {
		t.Run(peer, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "out.jsonl")
			j := ranktest.Mpirun(t, 2, "perf", nil, "WEFT_TEST_ARGS=-warm -N 3 -n 10 -b 8 -e 64K -f 128 -coll all -peer "+peer+" -json "+file)
			j.Succeed(t, 2*time.Minute)
			require.NotContains(t, j.Ranks[0].Output(), "The peer got")
			lines, err := record.ReadFile(file)
			require.NoError(t, err)
			compared := 0
			for _, l := range lines {
				if l.Ratio != nil {
					compared++
					require.NotEmpty(t, l.Peer)
					// A ratio is of times from one cycle.
					ratios := make([]float64, 3)
					for i := range ratios {
						ratios[i] = l.PeerCycleUS[i] / l.CycleUS[i]
					}
					slices.Sort(ratios)
					require.InDelta(t, ratios[1], *l.Ratio, 1e-9)
					require.InDelta(t, 100*max(ratios[2]/ratios[1]-1, 1-ratios[0]/ratios[1]), *l.RatioSpreadPct, 1e-6)
				}
			}
			want := len(lines)
			if peer == "empi" {
				// No AllToAll, ReduceScatter, Scan; in place AllReduce, Broadcast and Barrier only.
				want -= 3*2*2 + 4*2
			}
			require.Equal(t, want, compared, j.Ranks[0].Output())
		})
	}
	j := ranktest.Start(t, 2, "perf", "WEFT_TEST_ARGS=-peer mpi -n 1 -e 8")
	for _, r := range j.Ranks {
		err := r.Wait(time.Minute)
		require.NotErrorIs(t, err, ranktest.ErrRunning)
		require.Error(t, err, "ranks that MPI did not start")
	}
}
