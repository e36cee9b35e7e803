package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/bench/internal/record"
	"github.com/weft-go/weft/internal/ranktest"
)

func TestPictures(t *testing.T) {
	if ranktest.Race {
		t.Skip("one goroutine can't race")
	}
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "r.jsonl"))
	require.NoError(t, err)
	w := json.NewEncoder(f)
	peer := 3.0
	for i, coll := range order[:5] {
		for size := int64(8); size <= 1<<20; size *= 8 {
			us := float64(size)/1000 + float64(i+1)
			l := record.Line{Library: "weft", Coll: coll, Ranks: 2, Bytes: size, Type: "float", P50US: us, InPlace: coll == "broadcast",
				Peer: "Some MPI", PeerP50US: &peer}
			require.NoError(t, w.Encode(l))
			l.Library, l.P50US, l.PeerP50US, l.Peer = "Another", 2*us, nil, ""
			require.NoError(t, w.Encode(l))
		}
	}
	require.NoError(t, w.Encode(record.Line{Library: "weft", Coll: "barrier", Ranks: 2, Type: "float", P50US: 1, InPlace: true}))
	require.NoError(t, w.Encode(record.Failure{Error: "left out"}))
	require.NoError(t, f.Close())

	require.NoError(t, run(dir, []string{f.Name()}))
	for _, name := range []string{"allreduce-2ranks", "broadcast-2ranks", "alltoall-2ranks", "overview-2ranks"} {
		png, err := os.ReadFile(filepath.Join(dir, name+".png"))
		require.NoError(t, err)
		require.Equal(t, "\x89PNG", string(png[:4]))
		svg, err := os.ReadFile(filepath.Join(dir, name+".svg"))
		require.NoError(t, err)
		require.Contains(t, string(svg), "Some MPI, same process")
	}
	table, err := os.ReadFile(filepath.Join(dir, "table.md"))
	require.NoError(t, err)
	require.Contains(t, string(table), "| size | weft | Another | Some MPI, same process |")
	require.Contains(t, string(table), "| 8 B | 1.01 ± 0 % | 2.02 ± 0 % (2.00) | 3.00 ± 0 % (2.98) |")
	require.Error(t, run(dir, []string{filepath.Join(dir, "none")}))
}

// TestRatios: that of a run is told, which is not that of the two medians, but
// only of the series which it was found with.
func TestRatios(t *testing.T) {
	peer, ratio := 30.0, 2.5
	l := record.Line{Library: "weft", Coll: "allreduce", Form: "blocking", Ranks: 2, Bytes: 8, Type: "float", P50US: 10, Peer: "Some MPI", PeerP50US: &peer, Ratio: &ratio}
	lines := []record.Line{l}
	require.Contains(t, markdown(group(lines), lines), "| 10.0 ± 0 % | 30.0 ± 0 % (2.50) |")
	lines[0].Memory = "symmetric"
	require.Contains(t, markdown(group(lines), lines), "| 10.0 ± 0 % | 30.0 ± 0 % (2.50) |")
	plain := l
	plain.PeerP50US, plain.Ratio = nil, nil
	lines = append(lines, plain)
	require.Contains(t, markdown(group(lines), lines), "| 10.0 ± 0 % | 10.0 ± 0 % (1.00) | 30.0 ± 0 % (3.00) |")
}

func TestLeastSpreadCounts(t *testing.T) {
	l := record.Line{Library: "weft", Coll: "allreduce", Form: "blocking", Ranks: 2, Bytes: 8, Type: "float", P50US: 5, SpreadPct: 90}
	quiet := l
	quiet.P50US, quiet.SpreadPct = 1, 2
	charts := group([]record.Line{l, quiet, l})
	require.Len(t, charts, 1)
	require.Equal(t, []point{{bytes: 8, us: 1, spreadPct: 2}}, charts[0].series[0].points)
}
