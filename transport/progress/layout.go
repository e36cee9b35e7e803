package progress

import (
	"fmt"

	"github.com/weft-go/weft/transport"
)

// A Layout divides each rank's endpoint among its peers. All ranks of a
// communicator have the same. For each peer there is, in this order: K counters
// of the lane from the peer, the credit word of the lane to the peer, and K
// slots of the lane from the peer.
type Layout struct {
	Ranks     int
	Cells     int // K, cells of a lane
	SlotBytes int // bytes of a cell's slot, tag included; a multiple of CounterAlign
}

const (
	// tagBytes is the length of a message's tag.
	tagBytes = transport.Granule

	defaultCells = 4
	maxSlot      = 64 << 10
	minSlot      = 1 << 10
	// maxRanks and maxCells keep the size of an endpoint far from overflow.
	maxRanks = 1 << 20
	maxCells = 1 << 10

	// segmentBudget bounds what the lanes of one rank take, as far as minSlot allows.
	segmentBudget = 1 << 20
)

// DefaultLayout returns a layout for a communicator of n ranks: slots as large
// as stay in cache, smaller when there are many peers. The slots of a rank's
// peers take 1 MiB at most up to 257 ranks, and 4 KiB per rank beyond; counters
// take 1.25 KiB per rank.
func DefaultLayout(n int) Layout {
	l := Layout{Ranks: n, Cells: defaultCells, SlotBytes: minSlot}
	if n > 1 {
		l.SlotBytes = min(maxSlot, max(minSlot, segmentBudget/((n-1)*l.Cells)))
		l.SlotBytes -= l.SlotBytes % transport.CounterAlign
	}
	return l
}

// Validate says what is wrong with a layout.
func (l Layout) Validate() error {
	if l.Ranks < 1 || l.Ranks > maxRanks || l.Cells < 2 || l.Cells > maxCells ||
		l.SlotBytes <= 0 || l.SlotBytes%transport.CounterAlign != 0 || l.SlotBytes > transport.MaxPutBytes {
		return fmt.Errorf("progress: layout %+v: 1 to %d ranks, 2 to %d cells, slots in multiples of %d bytes up to %d: %w",
			l, maxRanks, maxCells, transport.CounterAlign, transport.MaxPutBytes, transport.ErrBounds)
	}
	return nil
}

// MessageBytes is the largest payload of one message.
func (l Layout) MessageBytes() int { return l.SlotBytes - tagBytes }

func (l Layout) laneBytes() uint64 {
	return uint64(l.Cells+1)*transport.CounterAlign + uint64(l.Cells)*uint64(l.SlotBytes)
}

// Bytes is the size of a rank's endpoint.
func (l Layout) Bytes() uint64 { return uint64(l.Ranks) * l.laneBytes() }

// counter is the offset, in the receiver's endpoint, of the counter of a cell
// of the lane from rank from.
func (l Layout) counter(from, cell int) uint64 {
	return uint64(from)*l.laneBytes() + uint64(cell)*transport.CounterAlign
}

// credit is the offset, in the sender's endpoint, of the credit of the lane to
// rank to.
func (l Layout) credit(to int) uint64 {
	return uint64(to)*l.laneBytes() + uint64(l.Cells)*transport.CounterAlign
}

func (l Layout) slot(from, cell int) uint64 {
	return uint64(from)*l.laneBytes() + uint64(l.Cells+1)*transport.CounterAlign + uint64(cell)*uint64(l.SlotBytes)
}
