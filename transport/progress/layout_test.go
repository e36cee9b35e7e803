package progress

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/transport"
)

func TestDefaultLayout(t *testing.T) {
	for n := 1; n <= 1024; n++ {
		l := DefaultLayout(n)
		require.NoError(t, l.Validate(), "%d ranks", n)
		require.Equal(t, n, l.Ranks)
		require.GreaterOrEqual(t, l.SlotBytes, minSlot)
		require.LessOrEqual(t, l.SlotBytes, maxSlot)
		slots := (n - 1) * l.Cells * l.SlotBytes
		if l.SlotBytes > minSlot {
			require.LessOrEqual(t, slots, segmentBudget, "%d ranks", n)
		}
		require.EqualValues(t, n, l.Bytes()/l.laneBytes())
		// What the counters take beside, and the unused lane to itself.
		require.LessOrEqual(t, l.Bytes(), uint64(slots)+l.laneBytes()+uint64(n*(l.Cells+1)*transport.CounterAlign))
	}
	require.Equal(t, maxSlot, DefaultLayout(2).SlotBytes)
	require.Equal(t, minSlot, DefaultLayout(1024).SlotBytes)
}

func TestValidate(t *testing.T) {
	good := Layout{Ranks: 2, Cells: 2, SlotBytes: 256}
	require.NoError(t, good.Validate())
	largest := Layout{Ranks: maxRanks, Cells: maxCells, SlotBytes: transport.MaxPutBytes / 256 * 256}
	require.NoError(t, largest.Validate())
	require.Less(t, float64(largest.Ranks)*float64(largest.Cells)*float64(largest.SlotBytes), float64(math.MaxInt64))
	for _, change := range []func(*Layout){
		func(l *Layout) { l.Ranks = 0 }, func(l *Layout) { l.Ranks = -1 }, func(l *Layout) { l.Ranks = maxRanks + 1 },
		func(l *Layout) { l.Cells = 1 }, func(l *Layout) { l.Cells = -2 }, func(l *Layout) { l.Cells = math.MaxInt },
		func(l *Layout) { l.SlotBytes = 0 }, func(l *Layout) { l.SlotBytes = -256 }, func(l *Layout) { l.SlotBytes = 255 },
		func(l *Layout) { l.SlotBytes = 272 }, func(l *Layout) { l.SlotBytes = 16 << 20 },
	} {
		l := good
		change(&l)
		require.ErrorIs(t, l.Validate(), transport.ErrBounds, "%+v", l)
	}
}

// TestLayoutRanges wants every byte of an endpoint to belong to one thing at most.
func TestLayoutRanges(t *testing.T) {
	for ranks := 1; ranks <= 6; ranks++ {
		for cells := 2; cells <= 5; cells++ {
			for _, slot := range []int{256, 512, 1280} {
				l := Layout{Ranks: ranks, Cells: cells, SlotBytes: slot}
				used := make([]bool, l.Bytes())
				take := func(at uint64, n int, align uint64) {
					require.Zero(t, at%align)
					for i := range used[at : at+uint64(n)] {
						require.False(t, used[at+uint64(i)], "%+v: byte %d twice", l, at)
						used[at+uint64(i)] = true
					}
				}
				for r := range ranks {
					take(l.credit(r), transport.CounterAlign, transport.CounterAlign)
					for c := range cells {
						take(l.counter(r, c), transport.CounterAlign, transport.CounterAlign)
						take(l.slot(r, c), slot, transport.Granule)
					}
				}
				for i, u := range used {
					require.True(t, u, "%+v: byte %d unused", l, i)
				}
			}
		}
	}
}

func TestTag(t *testing.T) {
	b := make([]byte, tagBytes)
	want := Tag{Seq: 0x01020304, Signature: 0x05060708, Bytes: 0x090a0b0c, Part: 0x0d0e0f10}
	want.put(b)
	require.Equal(t, want, getTag(b))
	require.Equal(t, []byte{4, 3, 2, 1, 8, 7, 6, 5, 12, 11, 10, 9, 16, 15, 14, 13}, b)
}
