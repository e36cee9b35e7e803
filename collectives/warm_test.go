package collectives

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWarm: results that were written not long ago count as being in the cache.
func TestWarm(t *testing.T) {
	memory := make([]byte, 64<<20)
	part := func(mib, n int) []byte { return memory[mib<<20:][:n<<20] }
	for name, calls := range map[string][]struct {
		dst  []byte
		warm bool
	}{
		"one again and again": {{part(0, 1), false}, {part(0, 1), true}, {part(0, 1), true}},
		"a large one again":   {{part(0, 5), false}, {part(0, 5), false}},
		"two in turns":        {{part(0, 1), false}, {part(1, 1), false}, {part(0, 1), true}, {part(1, 1), true}},
		"much meanwhile":      {{part(0, 2), false}, {part(2, 5), false}, {part(0, 2), false}, {part(0, 2), true}},
		"many meanwhile":      {{part(0, 1), false}, {part(1, 1), false}, {part(2, 1), false}, {part(3, 1), false}, {part(4, 1), false}, {part(0, 1), false}},
		"another part":        {{part(0, 2), false}, {part(1, 1), false}},
		"the last of four":    {{part(0, 1), false}, {part(1, 1), false}, {part(2, 1), false}, {part(3, 1), false}, {part(0, 1), true}},
	} {
		var r recent
		for i, c := range calls {
			require.Equal(t, c.warm, r.warm(c.dst), "%s: call %d", name, i)
		}
	}
}
