package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/bench/internal/record"
)

func TestMerge(t *testing.T) {
	dir := t.TempDir()
	line := func(bytes int64, us float64) record.Line {
		return record.Line{Library: "Some MPI", Coll: "reduce", Type: "float", Ranks: 2, Bytes: bytes, P50US: us, Batches: 3}
	}
	var files []string
	for _, cycle := range [][]record.Line{{line(8, 1), line(16, 4)}, {line(8, 3), line(16, 5)}, {line(8, 2)}} {
		f, err := os.CreateTemp(dir, "")
		require.NoError(t, err)
		for _, l := range cycle {
			require.NoError(t, record.NewWriter(f).Write(l))
		}
		require.NoError(t, record.NewWriter(f).Write(record.Failure{Error: "left out"}))
		require.NoError(t, f.Close())
		files = append(files, f.Name())
	}
	out := filepath.Join(dir, "out.jsonl")
	require.NoError(t, run(out, files))
	got, err := record.ReadFile(out)
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.Equal(t, []float64{1, 3, 2}, got[0].CycleUS)
	require.Equal(t, []any{int64(8), 2.0, 9, 3}, []any{got[0].Bytes, got[0].P50US, got[0].Batches, got[0].Cycles})
	require.Equal(t, []any{int64(16), 4.5, 6, 2}, []any{got[1].Bytes, got[1].P50US, got[1].Batches, got[1].Cycles})
	require.ErrorIs(t, run(out, []string{filepath.Join(dir, "none")}), os.ErrNotExist)
	require.NoError(t, run(files[0], files), "the output may be one of the files")
	again, err := record.ReadFile(files[0])
	require.NoError(t, err)
	require.Equal(t, got, again)
}
