package cpulist

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFormat(t *testing.T) {
	for want, n := range map[string][]int{"": nil, "3": {3}, "0-1": {0, 1}, "0-2,5,7-8": {0, 1, 2, 5, 7, 8}} {
		require.Equal(t, want, Format(n))
	}
}
