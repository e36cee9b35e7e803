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
			f, err := one(append(opts, fabric.WithRank(i), fabric.WithFaults(""))...)
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
