package lane

import (
	"errors"
	"fmt"
)

// ErrExhausted: a lane has no generation left to be renewed on.
var ErrExhausted = errors.New("no unused offsets left in the lane")

// ErrCredit: a credit word holds more than was sent.
var ErrCredit = errors.New("credit above what was sent")

// Shape says how a lane's memory is divided. Both ends have the same.
type Shape struct {
	Primaries   int // K, at least 1
	Spares      int // S of a generation; 0 on a transport that never reports
	Generations int // at least 1
}

// Cells is the number of cells of a generation.
func (s Shape) Cells() int { return s.Primaries + s.Spares }

// A Place is a cell of a lane.
type Place struct {
	Generation int
	Cell       int // primaries first
}

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

// A Step is what the driver of a Sender has to do next.
type Step struct {
	Do    Do
	Path  Path
	At    Place
	Epoch uint64
	Value uint64 // of the header, if Path is Header
}

// A Sender is the sending end of a lane.
type Sender struct {
	shape      Shape
	next       uint64 // epoch of the next message
	released   uint64 // epochs that all receivers have released
	generation int
	first      uint64   // epoch with which the generation began
	cells      []cell   // of the generation
	credits    []uint64 // per receiver: epochs released
	without    switchboard
}

// cell is what a sender knows of a cell. It is free when its message was
// released and no phase is under way; if it is also clean it can carry another.
type cell struct {
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
	return &Sender{shape: shape, cells: make([]cell, shape.Cells()), credits: make([]uint64, receivers)}
}

// Next is the epoch of the next message.
func (s *Sender) Next() uint64 { return s.next }

// Released is the number of epochs that all receivers have released, as far as
// Credit was told.
func (s *Sender) Released() uint64 { return s.released }

// Generation is the one that messages go into.
func (s *Sender) Generation() int { return s.generation }

// Credit takes the value of a receiver's credit word: the number of epochs that
// it has released.
func (s *Sender) Credit(receiver int, epochs uint64) error {
	if epochs > s.next {
		return fmt.Errorf("%w: released %d messages of the %d sent", ErrCredit, epochs, s.next)
	}
	s.credits[receiver] = max(s.credits[receiver], epochs)
	if len(s.credits) == 1 {
		s.released = s.credits[0]
		return nil
	}
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
	k := uint64(s.shape.Primaries)
	if s.next >= s.released+k && s.without.on(awaitCredit) {
		return Step{Do: WaitCredit, Epoch: s.next - k}, nil
	}
	primary := int(s.next % k)
	c := &s.cells[primary]
	path := Counted
	if length == 0 && s.without.on(emptyByHeader) {
		path = Header
	}
	at := primary
	switch {
	case stretch(s.next) != stretch(s.first):
		at = -1
	case !c.dirty:
		if c.path != None && s.without.on(awaitOwn) {
			return Step{Do: WaitOwn}, nil
		}
	default:
		if path == Counted {
			path = Plain
		}
		if s.without.on(quarantineSlot) {
			at = s.spare()
		}
	}
	if at < 0 {
		// A message for which there is credit does not wait for a spare: its receiver
		// may want it before it releases what the spares hold.
		if s.underWay() {
			return Step{Do: WaitOwn}, nil
		}
		if !s.without.on(renewAtOnce) && s.anySpare() {
			return Step{Do: WaitCredit, Epoch: s.next - 1}, nil
		}
		if s.generation+1 >= s.shape.Generations {
			return Step{}, ErrExhausted
		}
		s.renew()
		at = s.shape.Primaries
		if path == Counted {
			path = Plain
		}
	}
	c = &s.cells[at]
	c.end, c.length, c.open = s.next+1, length, 0
	s.next++
	step := s.start(at, path)
	if path == Plain && !s.without.on(headerLast) {
		step = s.start(at, Header)
	}
	return step, nil
}

// spare returns a clean and free spare, or −1.
func (s *Sender) spare() int {
	for i := s.shape.Primaries; i < len(s.cells); i++ {
		c := &s.cells[i]
		if !c.dirty && (c.path == None || !s.without.on(awaitOwn)) && (c.end <= s.released || !s.without.on(awaitCredit)) {
			return i
		}
	}
	return -1
}

// anySpare says whether some spare will be free one day.
func (s *Sender) anySpare() bool {
	for _, c := range s.cells[s.shape.Primaries:] {
		if !c.dirty {
			return true
		}
	}
	return false
}

// underWay says whether some message of the generation is not finished.
func (s *Sender) underWay() bool {
	for i := range s.cells {
		if !s.finished(&s.cells[i]) {
			return true
		}
	}
	return false
}

func (s *Sender) renew() {
	if s.without.on(freshOffsets) {
		s.generation++
	}
	s.first = s.next
	clear(s.cells)
}

// start has a phase of a cell's message begin.
func (s *Sender) start(at int, path Path) Step {
	c := &s.cells[at]
	c.path = path
	step := Step{Do: Start, Path: path, At: Place{s.generation, at}, Epoch: c.end - 1}
	if path == Header {
		step.Value = headerOf(step.Epoch, c.length)
	}
	return step
}

// Report takes the report of a phase.
func (s *Sender) Report(of Step, clean bool) Step {
	c := s.of(of)
	if c == nil {
		return Step{}
	}
	if clean {
		if c.path == Plain && s.without.on(headerLast) {
			return s.start(of.At.Cell, Header)
		}
		c.path = None
		return Step{}
	}
	if s.without.on(quarantine) {
		s.soil(c)
	}
	return s.again(of, c)
}

// Abandon gives a phase up although it has not ended. What it reads and writes is
// its own until [Sender.Ended]. The next step is as after a report.
func (s *Sender) Abandon(of Step) Step {
	c := s.of(of)
	if c == nil {
		return Step{}
	}
	s.leave(c)
	return s.again(of, c)
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
func (s *Sender) again(of Step, c *cell) Step {
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
	return s.start(of.At.Cell, path)
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
	if of.At.Generation != s.generation || s.cells[of.At.Cell].end != of.Epoch+1 {
		return nil
	}
	return &s.cells[of.At.Cell]
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
