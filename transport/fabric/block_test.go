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
	gen, entries, ok := b.entries(0)
	require.True(t, ok)
	require.Equal(t, uint64(4), gen)
	require.Equal(t, []bindingEntry{{offset: 16, size: 32}}, entries)
}

// TestStuckOwner has an owner that never ends to publish: it is waited for once, and not by
// every operation, and again when it has gone on.
func TestStuckOwner(t *testing.T) {
	b := block(mapped.Heap(blockBytes, userBytes))
	b.publish(nil)
	b.word(blockGen).Add(1)
	p := newPart(nil, b, b.word(blockNonce).Load(), 0)
	done := make(chan bool)
	go func() {
		defer close(done)
		for range 1000 {
			if p.view() != nil {
				return
			}
		}
		done <- true
	}()
	select {
	case failed := <-done:
		require.True(t, failed, "a view of what is being changed")
	case <-time.After(time.Minute):
		t.Fatal("each waits")
	}
	b.word(blockGen).Add(1)
	require.NotNil(t, p.view())
}
