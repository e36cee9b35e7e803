package progress

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStay: whoever stayed in vain does not for a while, the longer the more often in turn,
// and whoever stayed with success does again.
func TestStay(t *testing.T) {
	var s stay
	skipped := func() (n int) {
		for !s.due() {
			n++
		}
		return n
	}
	require.Zero(t, skipped())
	s.paid()
	require.Zero(t, skipped())
	for _, want := range []int{1, 3, 7, 15, 31, 63, mostSkips, mostSkips, mostSkips} {
		s.failed()
		require.Equal(t, want, skipped())
	}
	s.paid()
	require.Zero(t, skipped())
	s.failed()
	require.Equal(t, 1, skipped(), "what was before that is forgotten")
}

// TestStays: shorts stay only where ranks of several processes share processors, and then learn
// by peer.
func TestStays(t *testing.T) {
	for _, c := range []struct {
		policy WaitPolicy
		stays  bool
	}{{WaitPolicy{InProcess: true}, false}, {WaitPolicy{InProcess: true, Oversubscribed: true}, false}, {WaitPolicy{}, false}, {WaitPolicy{Oversubscribed: true}, true}} {
		es := open(t, tiny(3), func(cfg *Config) { cfg.Policy = c.policy })
		e := es[0]
		require.Equal(t, c.stays, e.shorts.stays)
		e.Begin(t.Context(), 1, 1, 7)
		e.BeginShort()
		_, err := e.TakeShort(2, 8)
		require.Error(t, err)
		require.Equal(t, c.stays, e.shorts.peers[2].stay != stay{})
		require.Equal(t, stay{}, e.shorts.peers[1].stay)
	}
}
