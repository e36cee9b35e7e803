package comm

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/kernels"
)

// TestPackedCalls: a call survives packing, and calls that differ in anything
// have different signatures, whatever their number.
func TestPackedCalls(t *testing.T) {
	seen := map[uint32]Call{}
	for k := OpAllReduce; k <= OpAlloc; k++ {
		for _, typ := range []kernels.Type{kernels.TypeInvalid, kernels.TypeInt8, kernels.TypeFloat32, kernels.TypeFloat64} {
			for op := kernels.Sum; op <= kernels.Avg; op++ {
				for _, root := range []int{0, 1, 255, maxRanks - 1} {
					for _, count := range []int{0, 1, math.MaxInt32, math.MaxInt >> 16} {
						c := Call{k, count, typ, op, root}
						a, b := c.pack(70_000)
						require.Equal(t, c, unpackCall(a, b))
						sig := signature(a, b)
						require.Equal(t, sig, signature(c.pack(3)))
						other, taken := seen[sig]
						require.False(t, taken, "%v and %v", c, other)
						seen[sig] = c
					}
				}
			}
		}
	}
}

func TestCallLog(t *testing.T) {
	var l callLog
	_, ok := l.load(5)
	require.False(t, ok)
	for seq := uint64(1); seq < 200_000; seq += 7 {
		c := Call{Collective: OpReduce, Count: int(seq), Root: int(seq % 9)}
		a, b := c.pack(seq)
		l.store(seq, a, b)
		got, ok := l.load(seq)
		require.True(t, ok)
		require.Equal(t, c, got)
		_, ok = l.load(seq + uint64(len(l))) // same place, another call
		require.False(t, ok)
	}
}

func TestCallText(t *testing.T) {
	for _, tt := range []struct {
		call Call
		seq  uint64
		want string
	}{
		{Call{Collective: OpAllReduce, Count: 10, Type: kernels.TypeFloat32}, 41, "AllReduce #41 count 10 float32 sum"},
		{Call{Collective: OpBroadcast, Count: 3, Type: kernels.TypeInt8, Root: 2}, 0, "Broadcast root 2 count 3 int8"},
		{Call{Collective: OpBarrier}, 7, "Barrier #7"},
		{Call{Collective: 99}, 0, "collective 99"},
	} {
		require.Equal(t, tt.want, tt.call.numbered(tt.seq))
	}
}
