package progress

import (
	"math/bits"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestWaitStats: a wait counts what it does in its stages, and one for what is there
// counts nothing.
func TestWaitStats(t *testing.T) {
	for _, p := range []WaitPolicy{{}, {InProcess: true}, {Oversubscribed: true}} {
		es := open(t, tiny(2), func(c *Config) { c.Policy = p })
		for _, e := range es {
			e.Begin(t.Context(), time.Millisecond, 1, 1)
		}
		require.NoError(t, es[1].Send(0, []byte("here")))
		_, err := es[0].Recv(1, 4)
		require.NoError(t, err)
		require.Zero(t, es[0].Waits())
		before, begin := es[0].Waits(), time.Now()
		_, err = es[0].Recv(1, 4)
		require.Error(t, err)
		got := es[0].Waits().Sub(before)
		polls, pauses := es[0].wait.spins()
		require.Equal(t, pausesOf(polls, pauses), got.Pauses, "%+v", p)
		// All of them, or as many as fit into yieldMost on a busy machine.
		if got.Yields != uint64(es[0].wait.yields()) {
			require.Greater(t, time.Since(begin), yieldMost)
			require.Equal(t, 1, bits.OnesCount64(got.Yields), "%+v: %d yields", p, got.Yields)
		}
		require.Positive(t, got.Sleeps)
		require.Zero(t, es[0].Waits().Sub(es[0].Waits()))
	}
	require.EqualValues(t, eagerPolls, pausesOf(eagerPolls, 8))
	require.EqualValues(t, eagerPolls+16, pausesOf(eagerPolls+2, 8))
}

func TestWaitCosts(t *testing.T) {
	for _, p := range []WaitPolicy{{}, {InProcess: true}, {Oversubscribed: true}} {
		pause, yield := p.Costs()
		require.GreaterOrEqual(t, pause, 0.0)
		require.Positive(t, yield)
	}
}
