package record

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// cycle is a line as one cycle has it.
func cycle(us, spread, peerUS, peerSpread float64, wrong int64) *Line {
	return &Line{Library: "weft", Coll: "allreduce", Bytes: 6000, TimeUS: us, P50US: us, P99US: 2 * us, MeanUS: us + 1, SpreadPct: spread,
		AlgBW: 6000 / us / 1e3, BusBW: ref(3000 / us / 1e3), Wrong: &wrong, Batch: int(us), Batches: 5, Reports: 1, Retries: 2, Reroutes: 3, ByAlias: 1, ByPointer: 2,
		PeerP50US: &peerUS, PeerSpreadPct: &peerSpread, Ratio: ref(peerUS / us),
		CPUPct: ref(us), WaitPct: ref(us / 2), Yields: ref(us / 4), Sleeps: ref(us / 8), PeerCPUPct: ref(peerUS)}
}

// TestMerge: the machine is twice as slow in the third cycle, which changes
// times but not ratios.
func TestMerge(t *testing.T) {
	cycles := []*Line{cycle(10, 1, 20, 3, 0), cycle(12, 2, 24.6, 3, 1), cycle(22, 40, 41.8, 3, 4)}
	before, err := json.Marshal(cycles)
	require.NoError(t, err)
	l := Merge(cycles)
	require.Equal(t, []any{3, 12.0, 12.0, 24.0, 15}, []any{l.Cycles, l.P50US, l.TimeUS, l.P99US, l.Batches})
	require.Equal(t, []float64{10, 12, 22}, l.CycleUS)
	require.Equal(t, []float64{20, 24.6, 41.8}, l.PeerCycleUS)
	require.InDelta(t, (11+13+23)/3.0, l.MeanUS, 1e-12)
	require.InDelta(t, 100*10/12.0, l.SpreadPct, 1e-12, "as far as the farthest cycle")
	require.InDelta(t, 0.5, l.AlgBW, 1e-12)
	require.InDelta(t, 0.25, *l.BusBW, 1e-12)
	require.EqualValues(t, 5, *l.Wrong, "in whatever cycle")
	require.Equal(t, []uint64{3, 6, 9, 3, 6}, []uint64{l.Reports, l.Retries, l.Reroutes, l.ByAlias, l.ByPointer})
	require.Equal(t, 24.6, *l.PeerP50US)
	require.InDelta(t, 100*17.2/24.6, *l.PeerSpreadPct, 1e-12)
	require.InDelta(t, 2.0, *l.Ratio, 1e-12, "the median of 2, 2.05, 1.9: not 24.6 by 12")
	require.InDelta(t, 5, *l.RatioSpreadPct, 1e-9)
	require.InDeltaSlice(t, []float64{44 / 3.0, 22 / 3.0, 11 / 3.0, 5.5 / 3.0, 86.4 / 3},
		[]float64{*l.CPUPct, *l.WaitPct, *l.Yields, *l.Sleeps, *l.PeerCPUPct}, 1e-9)
	after, err := json.Marshal(cycles)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after), "the cycles are left as they are")
}

// TestMergeSpreads: what is seen within cycles counts where that is more.
func TestMergeSpreads(t *testing.T) {
	l := Merge([]*Line{cycle(10, 5, 30, 7, 0), cycle(10.1, 30, 30, 6, 0), cycle(10.2, 6, 30, 50, 0)})
	require.Equal(t, 6.0, l.SpreadPct)
	require.Equal(t, 7.0, *l.PeerSpreadPct)
}

func TestMergeFew(t *testing.T) {
	require.Nil(t, Merge(nil))
	one := cycle(10, 5, 20, 7, 0)
	l := Merge([]*Line{one})
	require.Equal(t, []any{1, 10.0, 5.0, 2.0, 7.0}, []any{l.Cycles, l.P50US, l.SpreadPct, *l.Ratio, *l.PeerSpreadPct})
	require.Nil(t, l.RatioSpreadPct, "nothing is known of it")

	alone := *one
	alone.Wrong, alone.BusBW, alone.PeerP50US, alone.PeerSpreadPct, alone.Ratio = nil, nil, nil, nil, nil
	for _, cycles := range [][]*Line{{&alone, &alone}, {&alone, one}, {one, &alone}} {
		l = Merge(cycles)
		require.Nil(t, l.PeerCycleUS)
		require.Nil(t, l.PeerP50US, "a peer that some cycles have")
		require.Nil(t, l.Ratio)
	}
	require.Nil(t, Merge([]*Line{&alone, one}).Wrong)
	require.Zero(t, Merge([]*Line{{}, {}}).SpreadPct, "no time at all")
}

// TestReplace: the file has what was written last, and what follows is appended.
func TestReplace(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "out.jsonl"))
	require.NoError(t, err)
	defer f.Close()
	w := NewWriter(f)
	lines := []*Line{{Coll: "allreduce", Bytes: 123456, Form: "blocking"}, {Coll: "reduce", Form: "started"}}
	require.NoError(t, w.Replace(lines, false))
	require.NoError(t, w.Replace(lines[:1], false), "fewer than before")
	require.NoError(t, w.Replace(lines, false))
	lines[0].Bytes = 1 // shorter
	require.NoError(t, w.Replace(lines, true))
	require.NoError(t, w.Write(&Line{Coll: "barrier"})) // as before there were forms
	got, err := ReadFile(f.Name())
	require.NoError(t, err)
	require.Equal(t, []Line{{Coll: "allreduce", Bytes: 1, Form: "blocking"}, {Coll: "reduce", Form: "started"}, {Coll: "barrier", Form: "blocking"}}, got)
	require.NoError(t, NewWriter(nil).Replace(lines, true))

	// A pipe gets them once.
	r, p, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, NewWriter(p).Replace(lines, false))
	require.NoError(t, NewWriter(p).Replace(slices.Clone(lines), true))
	require.NoError(t, p.Close())
	got, err = Read(r)
	require.NoError(t, err)
	require.Len(t, got, 2)
	_, err = io.ReadAll(r)
	require.NoError(t, err)
}
