package fabric

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/transport/internal/mapped"
)

// TestSlowOwner has an owner stop for a while in the middle of publishing its bindings, as one
// does that loses its processor: what others start meanwhile waits for it.
func TestSlowOwner(t *testing.T) {
	b := block(mapped.Heap(blockBytes, userBytes))
	b.publish([]bindingEntry{{offset: 16, size: 32}})
	b.word(blockGen).Add(1)
	time.AfterFunc(50*time.Millisecond, func() { b.word(blockGen).Add(1) })
	gen, entries, ok := b.entries()
	require.True(t, ok)
	require.Equal(t, uint64(4), gen)
	require.Equal(t, []bindingEntry{{offset: 16, size: 32}}, entries)
}
