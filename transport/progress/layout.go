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

	MailCells     int // of a mail lane; 0 if there are none
	MailSlotBytes int // as SlotBytes, tag and header included

	// Spares are the cells of each lane beyond those; 0 for what suits the transport.
	Spares int
}

const (
	// tagBytes is the length of a message's tag.
	tagBytes = transport.Granule

	defaultCells = 4
	maxSlot      = 64 << 10
	minSlot      = 1 << 10
	maxMailSlot  = 8 << 10
	minMailSlot  = 512
	// maxRanks and maxCells keep the size of an endpoint far from overflow.
	maxRanks = 1 << 20
	maxCells = 1 << 10

	// segmentBudget bounds what the lanes of one rank take, as far as minSlot
	// allows, and mailBudget what the mail lanes take.
	segmentBudget = 1 << 20
	mailBudget    = 256 << 10

	// On a transport that may fail each lane has as many spares as there is room for
	// in reserveBudget: each takes the place of one cell for ever.
	reserveBudget = 16<<20 + 48<<20*(math.MaxInt>>62) // less where addresses have 32 bits
	minSpares     = 16
	maxSpares     = 4 << 10
)

// on completes a layout for a transport.
func (l Layout) on(limits transport.Limits) Layout {
	switch {
	case !limits.LateWrites:
		l.Spares = 0
	case l.Spares == 0:
		const words = 2 * (transport.CounterAlign + transport.Granule)
		l.Spares = min(maxSpares, max(minSpares, reserveBudget/(l.Ranks*(l.SlotBytes+l.MailSlotBytes+words))))
	}
	return l
}

// DefaultLayout returns a layout for a communicator of n ranks: slots as large
// as stay in cache, smaller when there are many peers. The slots of a rank's
// peers take 1 MiB at most up to 257 ranks, and 4 KiB per rank beyond; those of
// mail lanes 256 KiB up to 129 ranks, and 2 KiB per rank beyond. Counters take
// 2.5 KiB per rank.
func DefaultLayout(n int) Layout {
	slot := func(budget, least, most int) int {
		if n < 2 {
			return least
		}
		s := min(most, max(least, budget/((n-1)*defaultCells)))
		return s - s%transport.CounterAlign
	}
	return Layout{
		Ranks: n, Cells: defaultCells, SlotBytes: slot(segmentBudget, minSlot, maxSlot),
		MailCells: defaultCells, MailSlotBytes: slot(mailBudget, minMailSlot, maxMailSlot),
	}
}

// Validate says what is wrong with a layout.
func (l Layout) Validate() error {
	good := func(cells, slot int) bool {
		return cells >= 2 && cells <= maxCells && slot > 0 && slot%transport.CounterAlign == 0 && slot <= transport.MaxPutBytes
	}
	noMail := l.MailCells == 0 && l.MailSlotBytes == 0
	if l.Ranks < 1 || l.Ranks > maxRanks || l.Spares < 0 || l.Spares > maxSpares || !good(l.Cells, l.SlotBytes) || !noMail && !good(l.MailCells, l.MailSlotBytes) {
		return fmt.Errorf("progress: layout %+v: 1 to %d ranks, 2 to %d cells, slots in multiples of %d bytes up to %d: %w",
			l, maxRanks, maxCells, transport.CounterAlign, transport.MaxPutBytes, transport.ErrBounds)
	}
	return nil
}

// MessageBytes is the largest payload of one message.
func (l Layout) MessageBytes() int { return l.SlotBytes - tagBytes }

// MailBytes is the largest body of one message of a mail lane.
func (l Layout) MailBytes() int { return max(0, l.MailSlotBytes-mailPrefix) }

// Bytes is the size of a rank's endpoint.
func (l Layout) Bytes() uint64 {
	return l.shorts() + uint64(l.Ranks)*shortRow
}

// shorts is where the shorts of all peers begin, see [Engine.GiveShort].
func (l Layout) shorts() uint64 { return uint64(l.Ranks) * (l.lanes().bytes + l.mail().bytes) }

// lanes is where the lanes of collectives lie, mail where the mail lanes do.
func (l Layout) lanes() lanes { return newLanes(0, l.Cells, l.Spares, l.SlotBytes) }

func (l Layout) mail() lanes {
	if l.MailCells == 0 {
		return lanes{}
	}
	return newLanes(uint64(l.Ranks)*l.lanes().bytes, l.MailCells, l.Spares, l.MailSlotBytes)
}

// lanes is where one lane with each peer lies in an endpoint, from base on. The
// zero value is none.
type lanes struct {
	base                        uint64
	primaries, cells, slotBytes int

	bytes          uint64 // of a lane
	headers, slots uint64 // where they begin in a lane
}

func newLanes(base uint64, primaries, spares, slotBytes int) lanes {
	l := lanes{base: base, primaries: primaries, cells: primaries + spares, slotBytes: slotBytes}
	l.headers = uint64(l.cells+1) * transport.CounterAlign
	l.slots = l.headers
	if spares > 0 { // a unit each
		n := uint64(l.cells) * transport.Granule
		l.slots += (n + transport.CounterAlign - 1) / transport.CounterAlign * transport.CounterAlign
	}
	l.bytes = l.slots + uint64(l.cells)*uint64(slotBytes)
	return l
}

// shape is the lanes' shape to the package lane.
func (l *lanes) shape() lane.Shape { return lane.Shape{Primaries: l.primaries, Cells: l.cells} }

// counter is the offset, in the receiver's endpoint, of the counter of a cell
// of the lane from rank from.
func (l *lanes) counter(from, cell int) uint64 {
	return l.base + uint64(from)*l.bytes + uint64(cell)*transport.CounterAlign
}

// credit is the offset, in the sender's endpoint, of the credit of the lane to
// rank to.
func (l *lanes) credit(to int) uint64 { return l.counter(to, l.cells) }

func (l *lanes) header(from, cell int) uint64 {
	return l.base + uint64(from)*l.bytes + l.headers + uint64(cell)*transport.Granule
}

func (l *lanes) slot(from, cell int) uint64 {
	return l.base + uint64(from)*l.bytes + l.slots + uint64(cell)*uint64(l.slotBytes)
}
