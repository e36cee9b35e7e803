package lane

// A board is what a rank posts to all members of a group on, by puts to all replicas
// of multicast memory: a row of cells that it alone writes, at the same place in each
// replica. Slots of the cells are in use at a time; one posting after the other goes
// into the same slot. What is in a slot is told by the messages that the owner sends
// to the members one by one, each of which says where the latest postings are: a
// [Bulletin]. So nobody needs to find them.
//
// A cell whose put was reported or given up may be written again at any time, with
// what that put brought. It is dirty: the posting stays there, as it is the same, and
// the slot's next one goes into the first cell that was never used. When few of these
// are left the bulletins say so, and all members begin new memory together.

// Slots is the number of slots of a board.
const Slots = 2

// A Place is where a posting is: in a cell, or elsewhere, where it went by a number.
type Place uint8

const (
	elsewhere Place = 0x80

	// MaxBoardCells is the largest number of cells of a board.
	MaxBoardCells = int(elsewhere)
)

// Cell returns the posting's cell, if it is in one.
func (p Place) Cell() (cell int, ok bool) { return int(p), p&elsewhere == 0 }

// Names says whether the posting is the number-th of its slot that went another way.
// The low bits of the number tell it from the one before.
func (p Place) Names(number uint64) bool { return p == elsewhere|Place(number) }

// A Bulletin is what a message says of its sender's board.
type Bulletin struct {
	Places [Slots]Place
	Low    bool // few cells are left that were never used
}

// FirstBulletin is what holds before the first message.
func FirstBulletin() (n Bulletin) {
	for i := range n.Places {
		n.Places[i] = Place(i)
	}
	return n
}

// A Board is the owner's end of a board.
type Board struct {
	cells, reserve int
	fresh          int // the first cell that was never used
	slots          [Slots]slot
	under          int // phases under way
	open           int // abandoned phases whose end is not known
	without        switchboard
}

type slot struct {
	cell     int
	place    Place
	dirty    bool   // a phase may still have something to do in the cell
	diverted uint64 // its postings that went another way
}

// NewBoard returns the owner's end of a board of at most [MaxBoardCells] cells, of
// which it is low when fewer than reserve were never used. It has as many as Slots on
// a transport that never reports, and no reserve.
func NewBoard(cells, reserve int) *Board {
	b := &Board{}
	b.Renew(cells, reserve)
	return b
}

// Renew begins new memory, of which the same holds. No phase may be under way.
func (b *Board) Renew(cells, reserve int) {
	b.cells, b.reserve, b.fresh = cells, reserve, Slots
	for i, p := range FirstBulletin().Places {
		b.slots[i] = slot{cell: i, place: p, diverted: b.slots[i].diverted}
	}
}

// Replaced is the number of cells of this memory that took the place of dirty ones.
func (b *Board) Replaced() int { return b.fresh - Slots }

// Post begins the next posting of a slot and returns its cell. All members have
// released the one before. With [ErrExhausted] nothing has begun.
func (b *Board) Post(i int) (cell int, err error) {
	s := &b.slots[i]
	if s.dirty && b.without.on(boardQuarantine) {
		if b.fresh >= b.cells {
			return NoCell, ErrExhausted
		}
		s.cell, s.dirty = b.fresh, false
		if b.without.on(boardFresh) {
			b.fresh++
		}
	}
	s.place = Place(s.cell)
	return s.cell, nil
}

// Divert has the latest posting of a slot go another way, or begins one that goes
// another way from the start, and returns the number it goes by.
func (b *Board) Divert(i int) (number uint64) {
	s := &b.slots[i]
	s.diverted++
	s.place = elsewhere | Place(s.diverted)
	return s.diverted
}

// Start says that a phase of a slot's posting is started.
func (b *Board) Start() { b.under++ }

// Report takes the report of a phase of a slot's posting, which may be started again.
func (b *Board) Report(i int, clean bool) {
	b.under--
	if !clean {
		b.slots[i].dirty = true
	}
}

// Abandon gives a phase up although it has not ended: what it reads must not change
// until [Board.Ended].
func (b *Board) Abandon(i int) {
	b.under--
	b.open++
	if b.without.on(boardLeft) {
		b.slots[i].dirty = true
	}
}

// Ended says that an abandoned phase has ended, however.
func (b *Board) Ended() { b.open-- }

// Finished says whether what was posted may change.
func (b *Board) Finished() bool { return b.under == 0 && (b.open == 0 || !b.without.on(boardSource)) }

// Bulletin returns what the next messages say. There must be none while a posting is under
// way: then ok is false.
func (b *Board) Bulletin() (n Bulletin, ok bool) {
	for i := range b.slots {
		n.Places[i] = b.slots[i].place
	}
	// Nothing else than Post changes it: what ends late does not, so that all members
	// know the same.
	n.Low = b.Low() && b.without.on(boardLow)
	return n, b.under == 0 || !b.without.on(boardClean)
}

// Low says whether few cells are left that were never used. All members begin new
// memory before the next posting if it is so on any board: each knows its own, and was
// told of the others. Whoever posts tells all members afterwards, so that they all know
// the same.
func (b *Board) Low() bool { return b.cells-b.fresh < b.reserve }

// A Reader is what a member knows of the board of another.
type Reader struct {
	told    Bulletin
	without switchboard
}

// NewReader returns what is known before the first message.
func NewReader() Reader { return Reader{told: FirstBulletin()} }

// Told takes the bulletin of the owner's latest message.
func (r *Reader) Told(n Bulletin) { r.told = n }

// Place is where the latest posting of a slot is that was told of.
func (r *Reader) Place(i int) Place {
	if !r.without.on(boardTold) {
		return Place(i)
	}
	return r.told.Places[i]
}

// Holds says whether the posting of a slot that came another way as number is the one
// that was told of.
func (r *Reader) Holds(i int, number uint64) bool {
	return r.told.Places[i].Names(number) || number > 0 && !r.without.on(boardNumber)
}

// Low says whether the owner told that few cells are left.
func (r *Reader) Low() bool { return r.told.Low }
