package progress

import (
	"fmt"
	"math"

	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/progress/lane"
)

// A Layout divides each rank's endpoint among its peers. All ranks of a
// communicator have the same. For each peer there is, in this order: K counters
// of the lane from the peer, the credit word of the lane to the peer, and K
// slots of the lane from the peer. The mail lanes follow, in the same way.
//
// On a transport that may fail a lane has more cells, to take the place of dirty
// ones, and their headers before the slots. See the package lane.
type Layout struct {
	Ranks     int
	Cells     int // K, cells of a lane
	SlotBytes int // bytes of a cell's slot, tag included; a multiple of CounterAlign

	// StageSlots and StageBytes are the slots of a rank's stage and their payload, a multiple
	// of CounterAlign; 0 if there is none. See stages.
	StageSlots, StageBytes int

	// ManyShorts: ranks may be ahead by more messages of few bytes, see shorts.
	ManyShorts bool

	MailCells     int // of a mail lane; 0 if there are none
	MailSlotBytes int // as SlotBytes, tag and header included

	// Spares are the cells of each lane beyond those, SpareSlots the slots that they
	// share; 0 for what suits the transport. See [lane.Places].
	Spares, SpareSlots int
	// Renewals are how often each lane gets as many spares and slots once more when
	// most are used, at most.
	Renewals int
}

const (
	// tagBytes is the length of a message's tag.
	tagBytes = transport.Granule
	// lead is what lies before the slots of a lane, so that payloads begin with a line of
	// the processor's.
	lead = 64 - tagBytes

	defaultCells = 4
	mostCells    = 16                              // by default, where there are few peers
	maxSlot      = 64<<10 + transport.CounterAlign // 64 KiB and a tag
	minSlot      = 1 << 10
	maxMailSlot  = 8 << 10
	minMailSlot  = 512
	// maxRanks and maxCells keep the size of an endpoint far from overflow.
	maxRanks = 1 << 20
	maxCells = 1 << 10

	// segmentBudget bounds what the lanes of one rank take, as far as minSlot
	// allows, and mailBudget what the mail lanes take.
	segmentBudget = mostCells * maxSlot
	mailBudget    = 256 << 10

	// On a transport that may fail each lane has as many spares, and slots for them, as
	// there is room for in reserveBudget: a quarter for the spares' words. Each takes
	// the place of one cell for ever.
	reserveBudget = 16<<20 + 48<<20*(math.MaxInt>>62) // less where addresses have 32 bits
	minSpares     = 16
	maxSpares     = 32 << 10
	maxRenewals   = 64
	// defaultRenewals are for all lanes: a fabric binds memory to an endpoint only so
	// many times. Where it refuses, a lane is not renewed any more.
	defaultRenewals = 16 * (math.MaxInt >> 62)
)

// On completes a layout for a transport.
func (l Layout) On(limits transport.Limits) Layout {
	if limits.LateWrites {
		l.StageSlots, l.StageBytes = 0, 0 // they are for mapped memory
	}
	switch {
	case !limits.LateWrites:
		l.Spares, l.SpareSlots, l.Renewals = 0, 0, 0
	case l.Spares == 0:
		const words = 2 * (transport.CounterAlign + transport.Granule)
		l.SpareSlots = min(maxSpares, max(minSpares, reserveBudget*3/4/(l.Ranks*(l.SlotBytes+l.MailSlotBytes))))
		l.Spares = min(maxSpares, max(l.SpareSlots, reserveBudget/4/(l.Ranks*words)))
		l.Renewals = defaultRenewals
	case l.SpareSlots == 0:
		l.SpareSlots = l.Spares
	}
	return l
}

// DefaultLayout returns a layout for a communicator of n ranks: slots as large
// as stay in cache, smaller when there are many peers. With few there are more cells, so
// that a line is in no other cache any more when it is written again, see stages. The
// slots of a rank's peers take 1 MiB and 4 KiB at most up to 257 ranks, and 4 KiB per rank
// beyond; those of mail lanes 256 KiB up to 129 ranks, and 2 KiB per rank beyond. Counters
// take 3 KiB per rank, 6 with 16 cells.
func DefaultLayout(n int) Layout {
	slot := func(budget, least, most int) int {
		if n < 2 {
			return least
		}
		s := min(most, max(least, budget/((n-1)*defaultCells)))
		return s - s%transport.CounterAlign
	}
	l := Layout{
		Ranks: n, Cells: defaultCells, SlotBytes: slot(segmentBudget, minSlot, maxSlot),
		MailCells: defaultCells, MailSlotBytes: slot(mailBudget, minMailSlot, maxMailSlot),
	}
	if n > 1 {
		l.Cells = min(mostCells, max(l.Cells, segmentBudget/((n-1)*l.SlotBytes)))
	}
	if n > 1 && n <= stageRanks {
		l.StageSlots, l.StageBytes = defaultStageSlots, defaultStageBytes
	}
	return l
}

// Crowded returns the layout for ranks that share processors: fewer and larger slots of
// stages, and longer rings of shorts. Each round of a call costs switches from one rank to
// the next, so that more is to be done in one.
func (l Layout) Crowded() Layout {
	l.ManyShorts = true
	if l.StageSlots > 0 {
		l.StageSlots, l.StageBytes = l.StageSlots/2, l.StageBytes*2
	}
	return l
}

// Validate says what is wrong with a layout.
func (l Layout) Validate() error {
	good := func(cells, slot int) bool {
		return cells >= 2 && cells <= maxCells && slot > 0 && slot%transport.CounterAlign == 0 && slot <= transport.MaxPutBytes
	}
	noStage := l.StageSlots == 0 && l.StageBytes == 0
	noMail := l.MailCells == 0 && l.MailSlotBytes == 0
	if l.Ranks < 1 || l.Ranks > maxRanks || l.Spares < 0 || l.Spares > maxSpares || l.SpareSlots < 0 || l.SpareSlots > l.Spares || l.Renewals < 0 || l.Renewals > maxRenewals || !good(l.Cells, l.SlotBytes) || !noMail && !good(l.MailCells, l.MailSlotBytes) || !noStage && !good(l.StageSlots, l.StageBytes) {
		return fmt.Errorf("progress: layout %+v: 1 to %d ranks, 2 to %d cells, slots in multiples of %d bytes up to %d: %w",
			l, maxRanks, maxCells, transport.CounterAlign, transport.MaxPutBytes, transport.ErrBounds)
	}
	return nil
}

// MessageBytes is the largest payload of one message.
func (l Layout) MessageBytes() int { return l.SlotBytes - tagBytes }

// MailBytes is the largest body of one message of a mail lane.
func (l Layout) MailBytes() int { return max(0, l.MailSlotBytes-mailPrefix) }

// Bytes is the memory of a rank's endpoint to begin with.
func (l Layout) Bytes() uint64 {
	return roundUpTo(l.stages()+l.stageArea(), transport.CounterAlign)
}

// Space is the size of a rank's endpoint: what follows its first memory is for
// renewals.
func (l Layout) Space() uint64 {
	return l.Bytes() + uint64(l.Ranks)*uint64(l.Renewals)*(l.lanes().more.bytes+l.mail().more.bytes)
}

// shorts is where the shorts of all peers begin, see [Engine.GiveShort].
func (l Layout) shorts() uint64 { return uint64(l.Ranks) * (l.lanes().bytes + l.mail().bytes) }

// stages is where a rank's stage begins.
func (l Layout) stages() uint64 { return l.shortPlaces() + l.placeBytes() }

// shortPlaces is where the places for longer shorts begin, which two ranks have.
func (l Layout) shortPlaces() uint64 { return l.shorts() + uint64(l.shortRows())*shortBytes }

func (l Layout) placeBytes() uint64 {
	if l.Ranks == 2 {
		return placeBytes
	}
	return 0
}

// shortRows is for how many ranks there are shorts.
func (l Layout) shortRows() int {
	if l.Ranks > ShortRanks {
		return 0
	}
	return l.Ranks
}

// lanes is where the lanes of collectives lie, mail where the mail lanes do.
func (l Layout) lanes() lanes {
	lanes := newLanes(0, l.Cells, l.Spares, l.SpareSlots, l.SlotBytes, l.Renewals)
	lanes.head = tagBytes
	return lanes
}

func (l Layout) mail() lanes {
	if l.MailCells == 0 {
		return lanes{}
	}
	return newLanes(uint64(l.Ranks)*l.lanes().bytes, l.MailCells, l.Spares, l.SpareSlots, l.MailSlotBytes, l.Renewals)
}

// complete returns both, with the places of their renewals.
func (l Layout) complete() (lanes, mail lanes) {
	lanes, mail = l.lanes(), l.mail()
	lanes.more.base = l.Bytes()
	mail.more.base = l.Bytes() + uint64(l.Ranks)*uint64(l.Renewals)*lanes.more.bytes
	return lanes, mail
}

// lanes is where one lane with each peer lies in an endpoint, from base on. The
// zero value is none.
type lanes struct {
	base                        uint64
	primaries, cells, slotBytes int
	head                        uint64 // see [lane.NewPlaces]

	bytes          uint64 // of a lane
	headers, slots uint64 // where they begin in a lane
	slotsBytes     uint64

	// more is what a lane gets each time that it is renewed.
	more     renewal
	renewals int
}

// renewal is memory of one lane's, once more: counters, headers and slots.
type renewal struct {
	base           uint64 // of the first renewal of the lane from rank 0
	cells          int
	bytes          uint64
	headers, slots uint64
	slotsBytes     uint64
}

func newLanes(base uint64, primaries, spares, spareSlots, slotBytes, renewals int) lanes {
	l := lanes{base: base, primaries: primaries, cells: primaries + spares, slotBytes: slotBytes, renewals: renewals}
	l.headers = uint64(l.cells+2) * transport.CounterAlign
	l.slots = l.headers
	if spares > 0 { // a unit each
		l.slots += roundUpTo(uint64(l.cells)*transport.Granule, transport.CounterAlign)
	}
	l.slots += lead
	l.slotsBytes = uint64(primaries+spareSlots) * uint64(slotBytes)
	l.bytes = roundUpTo(l.slots+l.slotsBytes, transport.CounterAlign)
	if renewals > 0 {
		m := &l.more
		m.cells = spares
		m.headers = uint64(spares) * transport.CounterAlign
		m.slots = m.headers + roundUpTo(uint64(spares)*transport.Granule, transport.CounterAlign) + lead
		m.slotsBytes = uint64(spareSlots) * uint64(slotBytes)
		m.bytes = roundUpTo(m.slots+m.slotsBytes, transport.CounterAlign)
	}
	return l
}

func roundUpTo(n, to uint64) uint64 { return (n + to - 1) / to * to }

// shape is the lanes' shape to the package lane.
func (l *lanes) shape() lane.Shape { return lane.Shape{Primaries: l.primaries, Cells: l.cells} }

// most is how many cells a lane may ever have.
func (l *lanes) most() int { return l.cells + l.renewals*l.more.cells }

// renewed is where the i-th renewal of the lane from rank from is.
func (l *lanes) renewed(from, i int) uint64 {
	return l.more.base + (uint64(from)*uint64(l.renewals)+uint64(i))*l.more.bytes
}

// counter is the offset, in the receiver's endpoint, of the counter of a cell
// of the lane from rank from.
func (l *lanes) counter(from, cell int) uint64 {
	if cell >= l.cells && l.renewals > 0 {
		cell -= l.cells
		return l.renewed(from, cell/l.more.cells) + uint64(cell%l.more.cells)*transport.CounterAlign
	}
	return l.word(from, cell)
}

func (l *lanes) word(with, i int) uint64 {
	return l.base + uint64(with)*l.bytes + uint64(i)*transport.CounterAlign
}

// credit is the offset, in the sender's endpoint, of the credit of the lane to
// rank to, and granted of the word with the number of its renewals.
func (l *lanes) credit(to int) uint64  { return l.word(to, l.cells) }
func (l *lanes) granted(to int) uint64 { return l.word(to, l.cells+1) }

func (l *lanes) header(from, cell int) uint64 {
	if cell >= l.cells && l.renewals > 0 {
		cell -= l.cells
		return l.renewed(from, cell/l.more.cells) + l.more.headers + uint64(cell%l.more.cells)*transport.Granule
	}
	return l.base + uint64(from)*l.bytes + l.headers + uint64(cell)*transport.Granule
}

// places are those of a lane's primaries to begin with.
func (l *lanes) places() lane.Places {
	return lane.NewPlaces(l.primaries, uint64(l.slotBytes), l.slotsBytes, l.head)
}

// slot is the offset of a place in the lane's slots.
func (l *lanes) slot(from int, p lane.Span) uint64 {
	if own := l.slotsBytes; p.At >= own && l.renewals > 0 {
		at := p.At - own
		return l.renewed(from, int(at/l.more.slotsBytes)) + l.more.slots + at%l.more.slotsBytes
	}
	return l.base + uint64(from)*l.bytes + l.slots + p.At
}
