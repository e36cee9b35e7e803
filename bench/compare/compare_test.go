package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/bench/internal/record"
)

func TestAgrees(t *testing.T) {
	for _, tt := range []struct {
		a, b interval
		want bool
	}{
		{interval{10, 0}, interval{10, 0}, true},
		{interval{10, 0}, interval{10.1, 0}, false},
		{interval{10, 10}, interval{12, 0}, false},
		{interval{10, 20}, interval{12, 0}, true},
		{interval{10, 0}, interval{12.5, 20}, true},
		{interval{8, 25}, interval{16, 37.5}, true}, // they touch
		{interval{8, 25}, interval{16, 37}, false},
		{interval{1, 1}, interval{2, 500}, true}, // one within the other
	} {
		require.Equal(t, tt.want, tt.a.agrees(tt.b), "%+v", tt)
		require.Equal(t, tt.want, tt.b.agrees(tt.a), "%+v", tt)
	}
}

func ref(x float64) *float64 { return &x }

// line is one of weft's AllReduce.
func line(bytes int64, us, spread float64, ratio, ratioSpread *float64) record.Line {
	return record.Line{Library: "weft", Coll: "allreduce", Memory: "slice", Form: "blocking", Device: "cpu", Type: "float", Op: "sum", Ranks: 2, Root: -1,
		Bytes: bytes, P50US: us, SpreadPct: spread, Ratio: ratio, RatioSpreadPct: ratioSpread}
}

func write(t *testing.T, name string, lines ...record.Line) string {
	name = filepath.Join(t.TempDir(), name)
	f, err := os.Create(name)
	require.NoError(t, err)
	w := record.NewWriter(f)
	for _, l := range lines {
		require.NoError(t, w.Write(l))
	}
	require.NoError(t, w.Write(record.Failure{Error: "left out"}))
	require.NoError(t, f.Close())
	return name
}

func TestCompare(t *testing.T) {
	inPlace := line(8, 1.5, 10, nil, nil)
	inPlace.InPlace = true
	warm := line(8, 0.5, 1, ref(2), ref(1))
	warm.Warm = true
	a := write(t, "a.jsonl",
		line(8, 99, 0, nil, nil), // a later line counts
		line(8, 1, 5, ref(2), ref(10)), inPlace, warm,
		line(16, 2, 1, ref(0.5), ref(1)), // times agree, ratios don't
		line(32, 3, 1, ref(1), nil),      // a ratio without a spread
		line(64, 4, 1, nil, nil))
	inPlace.P50US = 2
	b := write(t, "b.jsonl",
		line(16, 2.03, 1, ref(0.6), ref(1)), inPlace, warm,
		line(8, 1.2, 20, ref(2.5), ref(15)),
		line(32, 300, 1, ref(1), ref(1)),
		line(128, 5, 1, nil, nil), line(256, 5, 1, nil, nil))
	var out bytes.Buffer
	require.NoError(t, run(&out, a, b, false))
	require.Equal(t, "# A: "+a+"\n# B: "+b+`
#                                                                  time (us)                                 peer's time by ours
#        coll ranks         size      type     op place          A      (%)          B      (%) agree         A     (%)         B     (%) agree
    allreduce     2            8     float    sum   out       1.00     ±5.0       1.20    ±20.0   yes      2.00   ±10.0     2.50   ±15.0   yes
    allreduce     2            8     float    sum    in       1.50    ±10.0       2.00    ±10.0    NO
    allreduce     2            8     float    sum   out       0.50     ±1.0       0.50     ±1.0   yes      2.00    ±1.0     2.00    ±1.0   yes  warm
    allreduce     2           16     float    sum   out       2.00     ±1.0       2.03     ±1.0   yes      0.50    ±1.0     0.60    ±1.0    NO
    allreduce     2           32     float    sum   out       3.00     ±1.0     300.00     ±1.0    NO
# 1 rows are only in A, 2 only in B
# times: 3 of 5 rows agree (half of the spreads are below ±1.0 %, half of the rows differ by less than 18.2 %)
# ratios: 2 of 3 rows agree (half of the spreads are below ±1.0 %, half of the rows differ by less than 18.2 %)
`, out.String())
}

func TestTurns(t *testing.T) {
	cycles := func(bytes int64, us ...float64) record.Line {
		l := line(bytes, us[0], 1, nil, nil)
		l.CycleUS, l.MeanUS = us, 2*us[0]
		return l
	}
	a := write(t, "a.jsonl", cycles(8, 1, 2, 10), cycles(16, 1, 1), line(32, 1, 1, nil, nil))
	b := write(t, "b.jsonl", cycles(8, 3, 3, 11), cycles(16, 1, 1, 1), line(32, 1, 1, nil, nil))
	var out bytes.Buffer
	require.NoError(t, run(&out, a, b, true))
	require.Equal(t, "# A: "+a+"\n# B: "+b+`
#                                                   time (us)             B by A in the same cycle      mean (us)
#        coll ranks         size place          A            B     median    least     most         A            B
    allreduce     2            8   out       1.00         3.00       1.50     1.10     3.00       2.00         6.00
`, out.String(), "rows with as many cycles in both")
}

func TestNothingToCompare(t *testing.T) {
	a, b := write(t, "a.jsonl", line(8, 1, 1, nil, nil)), write(t, "b.jsonl", line(16, 1, 1, nil, nil))
	var out bytes.Buffer
	require.ErrorContains(t, run(&out, a, b, false), "no row in common")
	require.ErrorIs(t, run(&out, a, "nothing.jsonl", false), os.ErrNotExist)
	require.NoError(t, run(&out, a, a, false))
	require.Contains(t, out.String(), "# times: 1 of 1 rows agree")
	require.Contains(t, out.String(), "# ratios: none")
}
