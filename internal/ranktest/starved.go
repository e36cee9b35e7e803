package ranktest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Starved is for how long a rank must have got no processor for nothing to be proved by what
// it missed: it has 250 ms to answer.
const Starved = 100 * time.Millisecond

// Gauge begins to watch how long this process gets no processor. The function that it
// returns, to be called once, says for how long at most it did not.
func Gauge() func() time.Duration {
	const pause = 10 * time.Millisecond
	done, longest := make(chan struct{}), make(chan time.Duration)
	go func() {
		most := time.Duration(0)
		for last := time.Now(); ; {
			select {
			case <-done:
				longest <- max(most, time.Since(last))
				return
			case <-time.After(pause):
				most, last = max(most, time.Since(last)-pause), time.Now()
			}
		}
	}()
	return func() time.Duration {
		close(done)
		return <-longest
	}
}

// UnlessStarved tries what needs a machine that is not too busy: f returns for how long, as
// Gauge says, a rank was starved, and what went wrong. It tries again if that was long.
func UnlessStarved(t *testing.T, f func() (starved time.Duration, wrong error)) {
	t.Helper()
	for try := 1; ; try++ {
		starved, err := f()
		if err == nil {
			return
		}
		require.Greater(t, starved, Starved, "all had processors: %v", err)
		require.Less(t, try, 10, "too busy a machine: %v", err)
		t.Logf("starved for %v: %v", starved, err)
	}
}
