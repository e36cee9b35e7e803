package harness

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/bench/internal/record"
	engine "github.com/weft-go/weft/transport/progress"
)

func TestUsage(t *testing.T) {
	u := processorUse{wall: 2, cpu: 1, waits: engine.WaitStats{Pauses: 1000, Yields: 500, Sleeps: 50}, calls: 100}
	sums := u.sums(waitCosts{pause: 1e-4, yield: 1e-3})
	var b bytes.Buffer
	l := &record.Line{Peer: "Some MPI"}
	explainUsage(&b, l)
	require.Empty(t, b.String(), "nothing is known")
	setUsage(l, sums)
	setPeerUsage(l, []float64{4, 3, 0, 0, 0, 10})
	require.Equal(t, []float64{50, 30, 5, 0.5, 75}, []float64{*l.CPUPct, *l.WaitPct, *l.Yields, *l.Sleeps, *l.PeerCPUPct})
	explainUsage(&b, l)
	require.Equal(t, "#   out of place: a rank used 50 % of a processor, 30 % for waiting, by 5.0 yields and 0.50 sleeps per call; with Some MPI 75 %\n", b.String())

	setUsage(l, u.sums(waitCosts{yield: 1}))
	require.Equal(t, *l.CPUPct, *l.WaitPct, "no more than was used")
	none := &record.Line{}
	setUsage(none, new(processorUse).sums(waitCosts{}))
	setPeerUsage(none, make([]float64, 6))
	require.Equal(t, &record.Line{}, none)

	var tally usageTally
	b.Reset()
	tally.print(&b, "")
	require.Empty(t, b.String())
	alone := *l
	alone.PeerCPUPct, alone.CPUPct = nil, &sums[5] // 100
	for _, l := range []*record.Line{nil, none, l, &alone} {
		tally.add(l)
	}
	tally.print(&b, "Some MPI")
	require.Equal(t, "# Avg CPU use per rank : 75 %, 50 % for waiting; with Some MPI 75 %\n#\n", b.String())
}
