package lane

import (
	"errors"
	"fmt"
)

// ErrExhausted: a lane has no cell left that was never used.
var ErrExhausted = errors.New("no unused cell left in the lane")

// ErrCredit: a credit word holds more than was sent.
var ErrCredit = errors.New("credit above what was sent")

// Shape says how a lane's memory is divided. Both ends have the same.
type Shape struct {
	Primaries int // K, at least 1
	Cells     int // with those that take the place of dirty ones; K on a transport that never reports
}

// NoCell is where a message is that takes none.
const NoCell = -1

// A Path is how a phase brings a message to its receivers.
type Path uint8

const (
	None    Path = iota
	Counted      // the message, by counted put with the cell's counter
	Plain        // the message, by put
	Header       // the header, by red.max with the cell's header word
)

func (p Path) String() string { return [...]string{"none", "counted", "plain", "header"}[p] }

// Do is what the driver of a Sender has to do.
type Do uint8

const (
	// Nothing more: the message needs no further phase. See [Sender.Finished].
	Nothing Do = iota
	// Start the phase that the step names.
	Start
	// WaitCredit: until the receivers have released epoch Epoch.
	WaitCredit
	// WaitOwn: until this sender's phases have ended.
	WaitOwn
)

// A Step is what the driver of a Sender has to do next. It is small enough to stay
// in registers.
type Step struct {
	Do    Do
	Path  Path
	Cell  int
	Epoch uint64
}

// A Sender is the sending end of a lane.
type Sender struct {
	shape     Shape
	next      uint64   // epoch of the next message
	turn      int      // next mod K
	released  uint64   // epochs that all receivers have released
	fresh     int      // the first cell that was never used
	primaries []cell   // of epochs e mod K
	credits   []uint64 // per receiver: epochs released
	without   switchboard
}

// cell is what a sender knows of a primary. It is free when its message was
// released and no phase is under way; if it is also clean it can carry another.
type cell struct {
	number int
	since  uint64 // its first epoch
	end    uint64 // last epoch + 1; 0: never used
	length uint64
	path   Path // of the phase under way
	// open is the number of abandoned phases whose end is not known: they may
	// still read the message.
	open  int
	dirty bool // a phase may still have something to do
}

// NewSender returns the sending end of a lane to a number of receivers.
func NewSender(shape Shape, receivers int) *Sender {
	s := &Sender{shape: shape, fresh: shape.Primaries, primaries: make([]cell, shape.Primaries), credits: make([]uint64, receivers)}
	for i := range s.primaries {
		s.primaries[i].number = i
	}
	return s
}

// Next is the epoch of the next message.
func (s *Sender) Next() uint64 { return s.next }

// Released is the number of epochs that all receivers have released, as far as
// Credit was told.
func (s *Sender) Released() uint64 { return s.released }

// Replaced is the number of cells that took the place of dirty ones.
func (s *Sender) Replaced() int { return s.fresh - s.shape.Primaries }

// Credit takes the value of a receiver's credit word: the number of epochs that
// it has released.
func (s *Sender) Credit(receiver int, epochs uint64) error {
	if epochs > s.next {
		return fmt.Errorf("%w: released %d messages of the %d sent", ErrCredit, epochs, s.next)
	}
	s.credits[receiver] = max(s.credits[receiver], epochs)
	s.released = s.credits[0]
	for _, c := range s.credits[1:] {
		if s.without.on(awaitAll) {
			s.released = min(s.released, c)
		} else {
			s.released = max(s.released, c)
		}
	}
	return nil
}

// Begin begins the next message, of length bytes, at most [MaxLength]. Nothing
// has begun if the step says to wait, or with [ErrExhausted].
func (s *Sender) Begin(length uint64) (Step, error) {
	if step, ok := s.credited(); !ok {
		return step, nil
	}
	c := &s.primaries[s.turn]
	path := Counted
	switch {
	case c.dirty || stretch(c.since) != stretch(s.next):
		path = Plain
		if s.without.on(quarantineSlot) {
			if s.fresh == s.shape.Cells {
				return Step{}, ErrExhausted
			}
			*c = cell{number: s.fresh, since: s.next}
			if s.without.on(freshOffsets) {
				s.fresh++
			}
		}
	case c.path != None && s.without.on(awaitOwn):
		return Step{Do: WaitOwn}, nil
	}
	if length == 0 && s.without.on(emptyByHeader) || path == Plain && !s.without.on(headerLast) {
		path = Header
	}
	c.end, c.length, c.open = s.next+1, length, 0
	step := s.start(c, path)
	s.advance()
	return step, nil
}

// Grow says that the receivers have more cells, none of which was ever used.
func (s *Sender) Grow(cells int) { s.shape.Cells = max(s.shape.Cells, cells) }

// Retire has the next message take a cell that was never used.
func (s *Sender) Retire() { s.primaries[s.turn].dirty = true }

// Moves says whether the next message, if it begins, takes a cell that was never used,
// and which; [NoCell] if there is none.
func (s *Sender) Moves() (cell int, moves bool) {
	c := &s.primaries[s.turn]
	switch {
	case !c.dirty && stretch(c.since) == stretch(s.next):
		return c.number, false
	case s.fresh == s.shape.Cells:
		return NoCell, true
	}
	return s.fresh, true
}

func (s *Sender) advance() {
	s.next++
	if s.turn++; s.turn == len(s.primaries) {
		s.turn = 0
	}
}

// BeginElsewhere begins a message that goes another way from the start. It takes
// no cell, and is sent when it has begun.
func (s *Sender) BeginElsewhere() Step {
	step, ok := s.credited()
	if ok {
		step = Step{Do: Nothing, Cell: NoCell, Epoch: s.next}
		s.advance()
	}
	return step
}

// credited says whether there is credit for the next message, or to wait for it.
func (s *Sender) credited() (Step, bool) {
	k := uint64(s.shape.Primaries)
	if s.next >= s.released+k && s.without.on(awaitCredit) {
		return Step{Do: WaitCredit, Epoch: s.next - k}, false
	}
	return Step{}, true
}

// start has a phase of a cell's message begin.
func (s *Sender) start(c *cell, path Path) Step {
	c.path = path
	return Step{Do: Start, Path: path, Cell: c.number, Epoch: c.end - 1}
}

// Value is the header that a step's phase raises, if its path is [Header].
func (s *Sender) Value(of Step) uint64 {
	length := uint64(0)
	if c := s.at(of); c != nil {
		length = c.length
	}
	return headerOf(of.Epoch, length)
}

// Report takes the report of a phase.
func (s *Sender) Report(of Step, clean bool) Step {
	c := s.of(of)
	if c == nil {
		return Step{}
	}
	if clean {
		if c.path == Plain && s.without.on(headerLast) {
			return s.start(c, Header)
		}
		c.path = None
		return Step{}
	}
	if s.without.on(quarantine) {
		s.soil(c)
	}
	return s.again(c)
}

// Abandon gives a phase up although it has not ended. What it reads and writes is
// its own until [Sender.Ended]. The next step is as after a report.
func (s *Sender) Abandon(of Step) Step {
	c := s.of(of)
	if c == nil {
		return Step{}
	}
	s.leave(c)
	return s.again(c)
}

// Ended says that an abandoned phase has ended, however.
func (s *Sender) Ended(of Step) {
	if c := s.at(of); c != nil && of.Path != Header && c.open > 0 {
		c.open--
	}
}

// Skip gives a phase up whose message has been released or went another way.
// ended says that the phase is not under way any more.
func (s *Sender) Skip(of Step, ended bool) {
	c := s.of(of)
	if c == nil {
		return
	}
	if ended {
		s.soil(c)
	} else {
		s.leave(c)
	}
	c.path = None
}

func (s *Sender) leave(c *cell) {
	if c.path == Header {
		return // it reads nothing of the message
	}
	c.open++
	if s.without.on(quarantineLeft) {
		s.soil(c)
	}
}

// soil marks a cell whose phase under way may still have something to do. A
// header that is raised late changes nothing.
func (s *Sender) soil(c *cell) {
	if c.path != Header {
		c.dirty = true
	}
}

// again is the step after a phase that did not end well.
func (s *Sender) again(c *cell) Step {
	if c.end <= s.released {
		c.path = None
		return Step{}
	}
	path := c.path
	if path == Counted && s.without.on(repeatPlain) {
		path = Plain
	}
	if path == Plain && !s.without.on(headerLast) {
		path = Header
	}
	return s.start(c, path)
}

// Finished says whether the message of a step is sent, so that it may change: no
// phase reads it any more, or all receivers have released it.
func (s *Sender) Finished(of Step) bool {
	c := s.at(of)
	return c == nil || s.finished(c)
}

func (s *Sender) finished(c *cell) bool {
	switch {
	case c.path != None && s.without.on(finishFirst):
		return false
	case c.open > 0 && s.without.on(holdSource):
		return c.end <= s.released
	}
	return true
}

// at returns the cell of a step's message, nil if it carries another by now.
func (s *Sender) at(of Step) *cell {
	turn := uint64(of.Cell)
	if turn >= uint64(len(s.primaries)) || s.primaries[turn].number != of.Cell { // it took another's place
		turn = of.Epoch % uint64(len(s.primaries))
	}
	c := &s.primaries[turn]
	if c.number != of.Cell || c.end != of.Epoch+1 {
		return nil
	}
	return c
}

// of returns the cell of a step whose phase is under way.
func (s *Sender) of(of Step) *cell {
	if c := s.at(of); c != nil && c.path == of.Path {
		return c
	}
	return nil
}

// counterOf and headerCell are the cells whose counter and header go with a cell.
func counterOf(w switchboard, cell int) int {
	if w.on(ownCounter) {
		return cell
	}
	return 0
}

func headerCell(w switchboard, cell int) int {
	if w.on(ownHeader) {
		return cell
	}
	return 0
}
