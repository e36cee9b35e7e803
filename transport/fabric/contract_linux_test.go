package fabric_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/fabric"
	"github.com/weft-go/weft/transport/transporttest"
)

func TestContractShared(t *testing.T) {
	modes := modes
	if raceEnabled { // which does not see mapped memory, and has all modes on the heap
		modes = modes[:1]
	}
	for _, m := range modes {
		t.Run(m.String(), func(t *testing.T) {
			transporttest.Run(t, opener(fabric.NewShared, fabric.WithMode(m)))
		})
	}
}

// TestOwnExport: what a rank gets back of its own in an exchange has no file, as
// between processes.
func TestOwnExport(t *testing.T) {
	const n = 3
	ts := opener(fabric.NewShared)(t, n)
	ends := transporttest.Exchanges(n)
	parallel(t, n, func(r int) error {
		mem, err := ts[r].Alloc(4096)
		if err != nil {
			return err
		}
		e, err := ts[r].JoinMulticast(t.Context(), transport.EndpointConfig{Size: 4096}, r, n, mem, func(ctx context.Context, mine transport.Exported) ([]transport.Exported, error) {
			all, err := ends[r](ctx, mine)
			if err == nil {
				all[r].Close()
				all[r].File = nil
			}
			return all, err
		})
		if err != nil {
			return err
		}
		return e.Ready(t.Context())
	})
	for _, f := range ts {
		require.NoError(t, f.Close())
	}
}
