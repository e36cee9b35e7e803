package fabric_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/fabric"
	"github.com/weft-go/weft/transport/transporttest"
)

var modes = []fabric.Mode{fabric.ModeDefault, fabric.ModeStrict, fabric.ModeFast}

type maker func(opts ...fabric.Option) (*fabric.Transport, error)

func opener(one maker, opts ...fabric.Option) transporttest.New {
	return func(t testing.TB, n int) []transport.Transport {
		ts := make([]transport.Transport, n)
		for i := range ts {
			f, err := one(append([]fabric.Option{fabric.WithFaults(""), fabric.WithRank(i)}, opts...)...)
			require.NoError(t, err)
			ts[i] = f
		}
		return ts
	}
}

func TestContractLocal(t *testing.T) {
	for _, m := range modes {
		t.Run(m.String(), func(t *testing.T) {
			transporttest.Run(t, opener(fabric.NewLocal, fabric.WithMode(m)))
		})
	}
}

// TestContractUnderPlan: a fault plan that hits no phase changes nothing.
func TestContractUnderPlan(t *testing.T) {
	modes := modes
	if raceEnabled { // which has all of them without a plan
		modes = modes[:1]
	}
	for _, m := range modes {
		t.Run(m.String(), func(t *testing.T) {
			transporttest.Run(t, opener(fabric.NewLocal, fabric.WithMode(m), fabric.WithFaults("rate=1,from=1000000000")))
		})
	}
}

// TestContractSmall: the suite needs no more of a transport than it says.
func TestContractSmall(t *testing.T) {
	small := fabric.Limits{MaxEndpointBytes: transporttest.EndpointBytes, IDs: transporttest.IDs}
	transporttest.Run(t, opener(fabric.NewLocal, fabric.WithMode(fabric.ModeFast), fabric.WithLimits(small)))
}
