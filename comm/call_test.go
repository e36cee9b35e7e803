package comm

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/kernels"
)

// TestPackedCalls: a call survives packing, and calls that differ in anything
// that ranks must agree on have different signatures, whatever their number.
func TestPackedCalls(t *testing.T) {
	seen := map[uint32]Call{}
	check := func(c Call) {
		p := c.pack(70_000)
		require.Equal(t, c, p.unpack())
		sig := c.signature(p)
		require.Equal(t, sig, c.signature(c.pack(3)))
		if other, taken := seen[sig]; taken {
			require.True(t, c.agrees(other), "%v and %v", c, other)
		}
		seen[sig] = c
	}
	for k := OpAllReduce; k <= OpAlloc; k++ {
		for _, typ := range []kernels.Type{kernels.TypeInvalid, kernels.TypeInt8, kernels.TypeFloat32, kernels.TypeFloat64} {
			for op := kernels.Sum; op <= kernels.Avg; op++ {
				for _, root := range []int{0, 1, 255, maxRanks - 1} {
					for _, count := range []int{0, 1, math.MaxInt32, math.MaxInt >> 16} {
						check(Call{Collective: k, Count: count, Type: typ, Op: op, Root: root})
					}
				}
			}
		}
		for _, bytes := range []int{0, 1, 12, math.MaxInt & (maxElemBytes - 1)} {
			for _, f := range []bool{false, true} {
				for _, d := range []uint32{0, 1, 1 << 31} {
					check(Call{Collective: k, Count: 7, ElemBytes: bytes, Func: f, Digest: d})
					check(Call{Collective: k, Count: 7, ElemBytes: bytes, Device: f, Digest: d})
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
		if seq%3 == 0 {
			c.ElemBytes, c.Digest, c.Device = int(seq), uint32(seq), seq%2 == 0
		}
		l.store(seq, c.pack(seq))
		got, ok := l.load(seq)
		require.True(t, ok)
		require.Equal(t, c, got)
		_, ok = l.load(seq + uint64(len(l))) // same place, another call
		require.False(t, ok)
	}
}

// TestAgrees: the count of some calls is each rank's own.
func TestAgrees(t *testing.T) {
	for k := OpAllReduce; k <= OpAlloc; k++ {
		own := k == OpGatherV || k == OpScatterV || k == OpAllToAllV
		a, b := Call{Collective: k, Count: 1, Type: kernels.TypeInt8}, Call{Collective: k, Count: 2, Type: kernels.TypeInt8}
		require.Equal(t, own, a.agrees(b), k)
		require.Equal(t, own, a.signature(a.pack(9)) == b.signature(b.pack(9)), k)
	}
}

// TestHistory: a call that differs is seen in all histories after it.
func TestHistory(t *testing.T) {
	a, b := uint32(0), uint32(0)
	require.NotEqual(t, extend(extend(0, 1), 2), extend(extend(0, 2), 1))
	for i := range uint32(100_000) {
		if i == 10 {
			a, b = extend(a, 77), extend(b, 78)
		}
		a, b = extend(a, i%5), extend(b, i%5)
		require.Equal(t, i < 10, a == b)
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
		{Call{Collective: OpGather, Count: 4, ElemBytes: 12, Root: 1}, 3, "Gather #3 root 1 count 4 of 12 bytes"},
		{Call{Collective: OpScan, Count: 4, ElemBytes: 12, Func: true}, 3, "Scan #3 count 4 of 12 bytes func"},
		{Call{Collective: OpReduceScatter, Count: 4, Type: kernels.TypeInt8, Op: kernels.Max, Digest: 0xab}, 3, "ReduceScatter #3 count 4 int8 counts 000000ab max"},
		{Call{Collective: OpSend, Count: 4, Type: kernels.TypeInt8, Root: 2, Tag: 9}, 3, "Send #3 to 2 tag 9 count 4 int8"},
		{Call{Collective: OpRecv, Count: 4, Type: kernels.TypeInt8, Root: -1, Tag: -1}, 3, "Recv #3 from any tag any count 4 int8"},
	} {
		require.Equal(t, tt.want, tt.call.numbered(tt.seq))
	}
}
