package progress

import (
	"fmt"

	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/progress/lane"
)

// A Layout divides each rank's endpoint among its peers. All ranks of a
// communicator have the same. For each peer there is, in this order: K counters
// of the lane from the peer, the credit word of the lane to the peer, and K
// slots of the lane from the peer. The mail lanes follow, in the same way.
//
// On a transport that may fail there are headers before the slots, and spare slots
// behind them; and further generations of counters, headers and slots follow, to be
// used when spares run out. See the package lane.
type Layout struct {
	Ranks     int
	Cells     int // K, cells of a lane
	SlotBytes int // bytes of a cell's slot, tag included; a multiple of CounterAlign

	MailCells     int // of a mail lane; 0 if there are none
	MailSlotBytes int // as SlotBytes, tag and header included

	// Spares of each lane, and its generations; 0 for what suits the transport.
	Spares      int
	Generations int
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

	// What a transport that may fail needs beside: spares for as many messages as
	// can be under way, and as many generations as reserveBudget has room for.
	reserveBudget  = 16 << 20
	minGenerations = 4
	maxGenerations = 1 << 10
	maxSpares      = 1 << 10
)

// on completes a layout for a transport.
func (l Layout) on(limits transport.Limits) Layout {
	if !limits.LateWrites {
		l.Spares, l.Generations = 0, 1
		return l
	}
	if l.Spares == 0 {
		l.Spares = max(l.Cells, l.MailCells)
	}
	if l.Generations == 0 {
		l.Generations = 1
		one := l.Bytes()
		l.Generations = int(min(maxGenerations, max(minGenerations, reserveBudget/one)))
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
	if l.Ranks < 1 || l.Ranks > maxRanks || l.Spares < 0 || l.Spares > maxSpares || l.Generations < 0 || l.Generations > maxGenerations || !good(l.Cells, l.SlotBytes) || !noMail && !good(l.MailCells, l.MailSlotBytes) {
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
	return uint64(l.Ranks) * (l.lanes().laneBytes() + l.mail().laneBytes())
}

// lanes is where the lanes of collectives lie, mail where the mail lanes do.
func (l Layout) lanes() lanes {
	return lanes{cells: l.Cells, slotBytes: l.SlotBytes, spares: l.Spares, generations: max(1, l.Generations)}
}

func (l Layout) mail() lanes {
	if l.MailCells == 0 {
		return lanes{}
	}
	return lanes{
		base: uint64(l.Ranks) * l.lanes().laneBytes(), cells: l.MailCells, slotBytes: l.MailSlotBytes,
		spares: l.Spares, generations: max(1, l.Generations),
	}
}

// lanes is where one lane with each peer lies in an endpoint, from base on. The
// zero value is none.
type lanes struct {
	base                uint64
	cells, slotBytes    int
	spares, generations int
}

// shape is the lanes' shape to the package lane.
func (l lanes) shape() lane.Shape {
	return lane.Shape{Primaries: l.cells, Spares: l.spares, Generations: l.generations}
}

func (l lanes) laneBytes() uint64 {
	if l.cells == 0 {
		return 0
	}
	return transport.CounterAlign + uint64(l.generations)*l.generationBytes()
}

// headerBytes is what the headers of a generation take, a unit each.
func (l lanes) headerBytes() uint64 {
	if l.spares == 0 {
		return 0
	}
	n := (l.cells + l.spares) * transport.Granule
	return uint64(n+transport.CounterAlign-1) / transport.CounterAlign * transport.CounterAlign
}

func (l lanes) generationBytes() uint64 {
	return uint64(l.cells)*transport.CounterAlign + l.headerBytes() + uint64(l.cells+l.spares)*uint64(l.slotBytes)
}

// generation is the offset of a generation of the lane from rank from. The first
// has the credit word behind its counters.
func (l lanes) generation(from, g int) uint64 {
	at := l.base + uint64(from)*l.laneBytes()
	if g > 0 {
		at += transport.CounterAlign + uint64(g)*l.generationBytes()
	}
	return at
}

func (l lanes) headers(from, g int) uint64 {
	at := l.generation(from, g) + uint64(l.cells)*transport.CounterAlign
	if g == 0 {
		at += transport.CounterAlign
	}
	return at
}

// counter is the offset, in the receiver's endpoint, of the counter of a primary
// of the lane from rank from, in the first generation; counterAt in any.
func (l lanes) counter(from, cell int) uint64 { return l.counterAt(from, lane.Place{Cell: cell}) }

func (l lanes) counterAt(from int, p lane.Place) uint64 {
	return l.generation(from, p.Generation) + uint64(p.Cell)*transport.CounterAlign
}

// credit is the offset, in the sender's endpoint, of the credit of the lane to
// rank to.
func (l lanes) credit(to int) uint64 { return l.counter(to, l.cells) }

// slot and slotAt are those of the slots.
func (l lanes) slot(from, cell int) uint64 { return l.slotAt(from, lane.Place{Cell: cell}) }

func (l lanes) slotAt(from int, p lane.Place) uint64 {
	return l.headers(from, p.Generation) + l.headerBytes() + uint64(p.Cell)*uint64(l.slotBytes)
}

func (l lanes) headerAt(from int, p lane.Place) uint64 {
	return l.headers(from, p.Generation) + uint64(p.Cell)*transport.Granule
}
