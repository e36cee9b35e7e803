package harness

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	engine "github.com/weft-go/weft/transport/progress"
)

// TestPrintFaults: what the fabric reported is printed if it did.
func TestPrintFaults(t *testing.T) {
	var b bytes.Buffer
	printFaults(&b, engine.PeerStats{Messages: 5, Bytes: 6})
	require.Empty(t, b.String())
	printFaults(&b, engine.PeerStats{
		Reports: 11, Retries: 22, Reroutes: engine.Reroutes{Alias: 1, Pointer: 2, Channel: 3}, Replaced: 66, Renewals: 77, Lost: 88 * time.Microsecond,
	})
	require.Equal(t, "# Reports of all ranks : 11, 22 retries, 6 reroutes (1 by alias, 2 by pointer), 66 cells replaced, 77 renewals, 88µs lost\n#\n", b.String())
}
