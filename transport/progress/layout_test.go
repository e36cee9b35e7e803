package progress

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/progress/lane"
)

func TestDefaultLayout(t *testing.T) {
	for n := 1; n <= 1024; n++ {
		l := DefaultLayout(n)
		require.NoError(t, l.Validate(), "%d ranks", n)
		require.Equal(t, n, l.Ranks)
		require.GreaterOrEqual(t, l.SlotBytes, minSlot)
		require.LessOrEqual(t, l.SlotBytes, maxSlot)
		require.GreaterOrEqual(t, l.MailSlotBytes, minMailSlot)
		require.LessOrEqual(t, l.MailSlotBytes, maxMailSlot)
		slots, mail := (n-1)*l.Cells*l.SlotBytes, (n-1)*l.MailCells*l.MailSlotBytes
		if l.SlotBytes > minSlot {
			require.LessOrEqual(t, slots, segmentBudget, "%d ranks", n)
		}
		if l.MailSlotBytes > minMailSlot {
			require.LessOrEqual(t, mail, mailBudget, "%d ranks", n)
		}
		lane, shorts := l.lanes().bytes+l.mail().bytes, l.stages()-l.shorts()
		require.EqualValues(t, n, l.shorts()/lane)
		require.LessOrEqual(t, shorts, uint64(ShortRanks)*shortBytes+l.placeBytes())
		stage := l.Bytes() - l.stages()
		if n > 1 && n <= stageRanks {
			require.EqualValues(t, 1<<20+18*stageHead, stage)
		} else {
			require.Zero(t, stage)
		}
		crowded := l.Crowded()
		require.NoError(t, crowded.Validate())
		require.Equal(t, 2*l.StageBytes, crowded.StageBytes)
		require.LessOrEqual(t, crowded.Bytes(), l.Bytes(), "no more memory")
		// What the counters take beside, and the unused lanes to itself.
		require.LessOrEqual(t, l.shorts(), uint64(slots+mail)+lane+uint64(n*(l.Cells+l.MailCells+6)*transport.CounterAlign))
	}
	require.Equal(t, maxSlot, DefaultLayout(2).SlotBytes)
	require.Equal(t, minSlot, DefaultLayout(1024).SlotBytes)
	require.Equal(t, maxMailSlot, DefaultLayout(9).MailSlotBytes)
	require.Equal(t, minMailSlot, DefaultLayout(1024).MailSlotBytes)
}

func TestValidate(t *testing.T) {
	good := Layout{Ranks: 2, Cells: 2, SlotBytes: 256}
	require.NoError(t, good.Validate())
	good.MailCells, good.MailSlotBytes = 2, 256
	require.NoError(t, good.Validate())
	good.StageSlots, good.StageBytes = 2, 256
	require.NoError(t, good.Validate())
	const slot = transport.MaxPutBytes / 256 * 256
	largest := Layout{Ranks: maxRanks, Cells: maxCells, SlotBytes: slot, MailCells: maxCells, MailSlotBytes: slot}
	require.NoError(t, largest.Validate())
	require.Less(t, 2*float64(largest.Ranks)*float64(largest.Cells)*float64(largest.SlotBytes), float64(math.MaxInt64/4))
	for _, change := range []func(*Layout){
		func(l *Layout) { l.Ranks = 0 }, func(l *Layout) { l.Ranks = -1 }, func(l *Layout) { l.Ranks = maxRanks + 1 },
		func(l *Layout) { l.Cells = 1 }, func(l *Layout) { l.Cells = -2 }, func(l *Layout) { l.Cells = math.MaxInt },
		func(l *Layout) { l.SlotBytes = 0 }, func(l *Layout) { l.SlotBytes = -256 }, func(l *Layout) { l.SlotBytes = 255 },
		func(l *Layout) { l.SlotBytes = 272 }, func(l *Layout) { l.SlotBytes = 16 << 20 },
		func(l *Layout) { l.StageSlots = 0 }, func(l *Layout) { l.StageSlots = 1 }, func(l *Layout) { l.StageBytes = 0 }, func(l *Layout) { l.StageBytes = 64 },
		func(l *Layout) { l.MailCells = 0 }, func(l *Layout) { l.MailCells = 1 }, func(l *Layout) { l.MailCells = math.MaxInt },
		func(l *Layout) { l.MailSlotBytes = 0 }, func(l *Layout) { l.MailSlotBytes = 272 }, func(l *Layout) { l.MailSlotBytes = 16 << 20 },
	} {
		l := good
		change(&l)
		require.ErrorIs(t, l.Validate(), transport.ErrBounds, "%+v", l)
	}
}

// TestLayoutOn wants room for spares on transports that may fail, and none on
// others.
func TestLayoutOn(t *testing.T) {
	for n := 1; n <= 300; n++ {
		l := DefaultLayout(n)
		require.Equal(t, l, l.On(transport.Limits{}))
		l.StageSlots, l.StageBytes = 0, 0 // none on those that may fail
		failing := l.On(transport.Limits{LateWrites: true})
		require.NoError(t, failing.Validate())
		require.GreaterOrEqual(t, failing.Spares, minSpares)
		if failing.Spares > minSpares {
			require.LessOrEqual(t, failing.Bytes()-l.Bytes(), uint64(reserveBudget*17/16+n*2*17*transport.CounterAlign))
		}
		l.Spares = 3
		require.Equal(t, 3, l.On(transport.Limits{LateWrites: true}).Spares)
	}
	for _, bad := range []int{-1, maxSpares + 1} {
		require.ErrorIs(t, Layout{Ranks: 2, Cells: 2, SlotBytes: 256, Spares: bad}.Validate(), transport.ErrBounds)
	}
}

// TestLayoutRanges wants every byte of an endpoint to belong to one thing.
func TestLayoutRanges(t *testing.T) {
	for ranks := 1; ranks <= 6; ranks++ {
		for cells := 2; cells <= 5; cells++ {
			for _, slot := range []int{256, 512, 1280} {
				for _, mail := range []struct{ cells, slot, spares int }{{0, 0, 0}, {2, 256, 0}, {cells + 1, 768, 0}, {2, 256, 1}, {0, 0, 14}} {
					l := Layout{Ranks: ranks, Cells: cells, SlotBytes: slot, MailCells: mail.cells, MailSlotBytes: mail.slot, Spares: mail.spares, SpareSlots: (mail.spares + 1) / 2}
					if mail.spares > 0 {
						l.Renewals = 2
					}
					if cells == 3 {
						l.StageSlots, l.StageBytes = 3, 512
					}
					used := make([]bool, l.Space())
					take := func(at uint64, n int, align uint64) {
						require.Zero(t, at%align)
						for i := range used[at : at+uint64(n)] {
							if used[at+uint64(i)] { // a call of require for each byte takes most of a minute
								require.FailNow(t, "twice", "%+v: byte %d", l, at+uint64(i))
							}
							used[at+uint64(i)] = true
						}
					}
					takeAround := func(slots, n uint64) { // what is before and behind the slots of a lane
						take(slots-lead, lead, transport.CounterAlign)
						take(slots+n, int(-(slots+n)%transport.CounterAlign), transport.Granule)
					}
					first, second := l.complete()
					take(l.shorts(), l.shortRows()*int(shortBytes), shortLine)
					take(l.shortPlaces(), int(l.placeBytes()), shortLine)
					if l.StageSlots > 0 {
						take(l.stages(), int(l.stageArea()), stageHead)
					}
					for _, lanes := range []lanes{first, second} {
						for r := range ranks {
							if lanes.cells > 0 {
								take(lanes.credit(r), transport.CounterAlign, transport.CounterAlign)
								take(lanes.granted(r), transport.CounterAlign, transport.CounterAlign)
							}
							for i := range lanes.renewals * lanes.more.cells {
								c := lanes.cells + i
								take(lanes.counter(r, c), transport.CounterAlign, transport.CounterAlign)
								take(lanes.header(r, c), transport.Granule, transport.Granule)
								if i%lanes.more.cells == 0 {
									for h := mail.spares * transport.Granule; h%transport.CounterAlign != 0; h += transport.Granule {
										take(lanes.header(r, c)+uint64(h), transport.Granule, transport.Granule)
									}
								}
							}
							for s := range l.SpareSlots * lanes.renewals {
								at := lanes.slotsBytes + uint64(s*lanes.slotBytes)
								take(lanes.slot(r, lane.Span{At: at}), lanes.slotBytes, transport.Granule)
							}
							if mail.spares > 0 && lanes.cells > 0 {
								headers := (lanes.cells + 15) / 16 * 16
								for h := range headers { // whole lines of them
									take(lanes.header(r, 0)+uint64(h*transport.Granule), transport.Granule, transport.Granule)
								}
							}
							if lanes.cells > 0 {
								end := lanes.slotsBytes
								if lanes.renewals > 0 {
									for i := range lanes.renewals {
										at := lanes.slot(r, lane.Span{At: end + uint64(i)*lanes.more.slotsBytes})
										takeAround(at, lanes.more.slotsBytes)
									}
								}
								takeAround(lanes.slot(r, lane.Span{}), end)
							}
							for c := range lanes.cells {
								take(lanes.counter(r, c), transport.CounterAlign, transport.CounterAlign)
							}
							for s := 0; lanes.cells > 0 && s < lanes.primaries+l.SpareSlots; s++ {
								take(lanes.slot(r, lane.Span{At: uint64(s * lanes.slotBytes)}), lanes.slotBytes, transport.Granule)
							}
						}
					}
					if i := slices.Index(used, false); i >= 0 {
						require.FailNow(t, "unused", "%+v: byte %d", l, i)
					}
				}
			}
		}
	}
}

func TestTag(t *testing.T) {
	b := make([]byte, tagBytes)
	want := Tag{Seq: 0x01020304, Signature: 0x05060708, Bytes: 0x090a0b0c, Part: 0x0d0e}
	want.put(b)
	require.Equal(t, want, getTag(b))
	require.Equal(t, []byte{4, 3, 2, 1, 8, 7, 6, 5, 12, 11, 10, 9, 14, 13, 0, 0}, b)
}
