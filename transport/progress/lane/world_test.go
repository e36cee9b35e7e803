package lane

import (
	"slices"

	"github.com/weft-go/weft/internal/model"
)

// A world is one sender, the memory of its receivers, the receivers, and a fabric
// that may do anything a fabric may: packets land one by one in any order; a phase
// whose packets have all landed may be reported clean; as long as the budget of faults
// lasts, any phase may be reported at any moment, or given up without a report; what
// it had not landed then lands at any later time or never. The user writes garbage
// over a message as soon as it is sent.
type world struct {
	snd     Sender
	cells   [maxPrimaries]cell
	credits [maxReceivers]uint64
	flights [maxEpochs]flight
	boxes   [maxEpochs]box
	faults  int
	ended   bool // with an error, which all ranks would learn of

	places Places // where there are
	spans  [maxPrimaries]Span
	last   [maxPrimaries]uint64

	words [maxReceivers]uint64 // credit words, at the sender
	rx    [maxReceivers]rx

	late  [maxLate]packets
	lates int
}

const (
	maxEpochs    = 5
	maxReceivers = 2
	maxPrimaries = 2
	maxCells     = 8
	maxUnits     = 3
	maxLate      = 16
)

// flight is a message on its way.
type flight struct {
	begun, sent bool
	step        Step // the phase under way, if Path is not None
	at          int  // place of the message
	pending     uint8
}

// box is where a message that went another way lies ready for the receivers.
type box struct {
	full bool
	cell int
}

// rx is a receiver, its memory and its credit word's writer.
type rx struct {
	rcv     Receiver
	targets [maxPrimaries]uint64
	cells   [maxPrimaries]int
	reading bool
	by      Path // how it found what it reads; None: in a box
	cell    int
	at      int // place of what it reads
	read    int

	places Places
	spans  [maxPrimaries]Span
	last   [maxPrimaries]uint64

	data     [maxCells][maxUnits]int8 // epoch + 1; 0: nothing, garbage: what the user wrote since
	counters [maxCells]uint64
	headers  [maxCells]uint64

	credit  Word
	value   uint64 // of the phase under way
	pending bool
}

const garbage = -1

// packets are those of a phase that are late.
type packets struct {
	credit  bool // a receiver's credit word, and not of the lane
	rank    int
	value   uint64
	step    Step
	at      int
	pending uint8
	again   uint8 // had landed before, and is not counted again
	open    bool  // the phase has not ended: it reads the message when it lands
	garbage bool  // what it read was garbage
}

// bounds are those of a world.
type bounds struct {
	lengths   []uint64 // of the messages, in units
	shape     Shape
	receivers int
	faults    int
	batch     int    // messages that a receiver takes before it releases them
	flights   int    // messages under way at once; 0: any number
	giveUp    bool   // phases may be given up before they end
	detour    bool   // messages may go another way instead of again
	repeat    bool   // what landed before a report may land again after it
	slot      uint64 // units of a slot; 0: each cell has a slot for itself, and no places
	slots     uint64
	moves     bool // messages of more than a unit lie elsewhere each time, but for their first unit
	without   rule
	most      int
}

type lanes struct{ bounds }

func (l *lanes) units(e int) int { return int(l.lengths[e]) }

// sender and receiver return the machines, whose slices lie in this world.
func (l *lanes) sender(w *world) *Sender {
	w.snd.primaries, w.snd.credits = w.cells[:l.shape.Primaries], w.credits[:l.receivers]
	return &w.snd
}

func (l *lanes) receiver(w *world, r int) *Receiver {
	x := &w.rx[r]
	x.rcv.targets, x.rcv.primaries = x.targets[:l.shape.Primaries], x.cells[:l.shape.Primaries]
	return &x.rcv
}

// placesOf returns the places as the sender has them, or a receiver.
func (l *lanes) placesOf(w *world, receiver int) *Places {
	p, spans, last := &w.places, &w.spans, &w.last
	if receiver >= 0 {
		x := &w.rx[receiver]
		p, spans, last = &x.places, &x.spans, &x.last
	}
	p.turns, p.last = spans[:l.shape.Primaries], last[:l.shape.Primaries]
	return p
}

const ofSender = -1

// lies is where a message lies at a place: where its first unit does, and behind that, from
// bit shiftAt on, how much further away the others are.
func (l *lanes) lies(p *Places, at Span, epoch, length uint64) int {
	return int(at.At | p.Shift(at, epoch, length)<<shiftAt)
}

const shiftAt = 5

// unit is the i-th unit of a message in a cell, or where it lies if there are places.
func (l *lanes) unit(x *rx, cell, at, i int) *int8 {
	if l.slot == 0 {
		return &x.data[cell][i]
	}
	shift := at >> shiftAt
	at = at&(1<<shiftAt-1) + i
	if i > 0 {
		at += shift
	}
	return &x.data[at/maxUnits][at%maxUnits]
}

func (b bounds) system() *model.System[world] {
	l := &lanes{b}
	if l.receivers == 0 {
		l.receivers = 1
	}
	if l.batch == 0 {
		l.batch = 1
	}
	sys := &model.System[world]{Next: l.next, Final: l.final, Append: l.append, Parse: l.parse, Most: b.most}
	l.start(&sys.Start)
	return sys
}

func (l *lanes) start(w *world) {
	off := switchboard(l.without)
	w.snd = Sender{shape: l.shape, without: off, fresh: l.shape.Primaries}
	for i := range l.shape.Primaries {
		w.cells[i].number = i
	}
	for r := range l.receivers {
		x := &w.rx[r]
		x.rcv = Receiver{shape: l.shape, without: off, fresh: l.shape.Primaries}
		x.credit.without = off
		for i := range l.shape.Primaries {
			x.cells[i] = i
		}
	}
	w.faults = l.faults
	if l.slot == 0 {
		return
	}
	for r := ofSender; r < l.receivers; r++ {
		p := l.placesOf(w, r)
		p.slot, p.without = l.slot, off
		if l.moves {
			p.head, p.whole, p.line = 1, 1, 1
		}
		p.start(l.slots * l.slot)
	}
}

func (l *lanes) final(w *world) bool {
	if w.ended {
		return true
	}
	for e := range l.lengths {
		if !w.flights[e].sent {
			return false
		}
	}
	for r := range l.receivers {
		if int(w.rx[r].rcv.next) < len(l.lengths) {
			return false
		}
	}
	return true
}

func (l *lanes) next(w *world, m *model.Moves[world]) {
	if w.ended {
		return
	}
	l.begin(w, m)
	for e := range l.lengths {
		if w.flights[e].step.Path != None {
			l.fly(w, m, e)
		}
	}
	for r := range l.receivers {
		l.receive(w, m, r)
		l.release(w, m, r)
	}
	l.lateness(w, m)
}

// to is a move, after which what has become true is noted.
func (l *lanes) to(m *model.Moves[world], late bool, change func(n *world), text string, args ...int) {
	n := m.To(late, text, args...)
	change(n)
	for e := range l.lengths {
		if f := &n.flights[e]; f.begun && !f.sent {
			f.sent = l.sender(n).Finished(f.step)
		}
	}
	l.tidy(n)
}

func (l *lanes) begin(w *world, m *model.Moves[world]) {
	e := int(w.snd.next)
	if e == len(l.lengths) {
		return
	}
	under := 0
	for i := range e {
		if !w.flights[i].sent {
			under++
		}
	}
	if l.flights > 0 && under >= l.flights {
		return
	}
	try := *w
	step, err := l.open(&try, e)
	switch {
	case err != nil:
		l.to(m, false, func(n *world) { n.ended = true }, "sender has no offsets left")
		l.mustNotEnd(m)
	case step.Do == Start:
		try.flights[e].begun = true
		l.fly1(&try, e, step)
		l.to(m, false, func(n *world) { *n = try }, "send %d: path %d in cell %d", e, int(step.Path), step.Cell)
	}
	if l.detour && w.faults > 0 {
		try := *w
		if step := l.sender(&try).BeginElsewhere(); step.Do == Nothing {
			try.faults--
			try.flights[e] = flight{begun: true, sent: true}
			try.boxes[e] = box{true, NoCell}
			l.to(m, false, func(n *world) { *n = try }, "send %d another way", e)
		}
	}
}

// open begins a message as a port does.
func (l *lanes) open(w *world, e int) (Step, error) {
	s, length := l.sender(w), l.lengths[e]
	if l.slot == 0 {
		return s.Begin(length)
	}
	p := l.placesOf(w, ofSender)
	if p.Of(s.next).Room < length {
		s.Retire()
	}
	if _, moves := s.Moves(); moves {
		if _, ok := p.Next(s.next, length); !ok {
			return Step{}, ErrExhausted
		}
	}
	moved := s.Replaced()
	step, err := s.Begin(length)
	if err == nil && step.Do == Start {
		p.Take(step.Epoch, length, s.Replaced() != moved)
		w.flights[e].at = l.lies(p, p.Of(step.Epoch), step.Epoch, length)
	}
	return step, err
}

// mustNotEnd says that an error is wrong, where all rules are followed: these
// faults are not that many.
func (l *lanes) mustNotEnd(m *model.Moves[world]) {
	if l.without == 0 {
		m.Wrong("ended with an error")
	}
}

// fly1 has the phase of a step under way. The step of a message that needs no
// further phase keeps its place.
func (l *lanes) fly1(w *world, e int, s Step) {
	f := &w.flights[e]
	if s.Do != Start {
		f.step.Path, f.pending = None, 0
		return
	}
	f.step, f.pending = s, l.all(s)
}

// all are the packets of a phase.
func (l *lanes) all(s Step) uint8 {
	if s.Path == Header {
		return 1<<l.receivers - 1
	}
	return 1<<(l.receivers*l.units(int(s.Epoch))) - 1
}

// fly is what may become of the phase under way of a message.
func (l *lanes) fly(w *world, m *model.Moves[world], e int) {
	f := &w.flights[e]
	for i := range 8 {
		if f.pending>>i&1 != 0 {
			l.to(m, false, func(n *world) {
				n.flights[e].pending &^= 1 << i
				l.land(n, f.step, f.at, i, f.sent, true)
			}, "  lands: %d, path %d, packet %d", e, int(f.step.Path), i)
		}
	}
	if f.pending == 0 {
		l.to(m, false, func(n *world) { l.fly1(n, e, l.sender(n).Report(f.step, true)) }, "clean: %d, path %d", e, int(f.step.Path))
	}
	rest := packets{step: f.step, at: f.at, pending: f.pending, garbage: f.sent}
	if l.repeat {
		rest.again = l.all(f.step) &^ f.pending
	}
	open := rest
	open.open = f.step.Path != Header
	if w.faults > 0 {
		l.to(m, false, func(n *world) {
			n.faults--
			n.postpone(rest)
			l.fly1(n, e, l.sender(n).Report(f.step, false))
		}, "REPORT: %d, path %d", e, int(f.step.Path))
		if l.giveUp {
			l.to(m, false, func(n *world) {
				n.faults--
				n.postpone(open)
				l.fly1(n, e, l.sender(n).Abandon(f.step))
			}, "given up: %d, path %d", e, int(f.step.Path))
		}
		if l.detour {
			l.to(m, false, func(n *world) {
				n.faults--
				n.postpone(rest)
				n.boxes[e] = box{true, f.step.Cell}
				l.sender(n).Skip(f.step, true)
				l.fly1(n, e, Step{})
			}, "REPORT: %d, path %d; goes another way", e, int(f.step.Path))
		}
	}
	if f.step.Path != Counted && w.snd.released > uint64(e) {
		l.to(m, false, func(n *world) {
			n.postpone(open)
			l.sender(n).Skip(f.step, false)
			l.fly1(n, e, Step{})
		}, "left: %d, path %d, was released", e, int(f.step.Path))
	}
}

// land is a packet's arrival.
func (l *lanes) land(w *world, s Step, to, packet int, spoilt, counts bool) {
	at := s.Cell
	if s.Path == Header {
		h := &w.rx[packet].headers[headerCell(switchboard(l.without), at)]
		*h = l.raise(*h, l.header(s))
		return
	}
	n := l.units(int(s.Epoch))
	x := &w.rx[packet/n]
	u := l.unit(x, at, to, packet%n)
	*u = int8(s.Epoch + 1)
	if spoilt {
		*u = garbage
	}
	if s.Path == Counted && counts {
		x.counters[counterOf(switchboard(l.without), at)]++
	}
}

func (l *lanes) header(s Step) uint64 { return headerOf(s.Epoch, l.lengths[s.Epoch]) }

func (l *lanes) raise(old, value uint64) uint64 {
	word := Word{without: switchboard(l.without)}
	return word.Land(old, value)
}

// receive is what a receiver may do.
func (l *lanes) receive(w *world, m *model.Moves[world], r int) {
	x := &w.rx[r]
	rcv := l.receiver(w, r)
	e := int(rcv.next)
	if e == len(l.lengths) {
		return
	}
	if x.reading {
		l.read(w, m, r, e)
		return
	}
	primary := rcv.Primary()
	counter := x.counters[counterOf(rcv.without, primary)]
	found, err := rcv.Counted(counter, l.lengths[e])
	if err != nil {
		l.to(m, false, func(n *world) { n.ended = true }, "receiver %d: counter %d for %d", r, int(counter), e)
		l.mustNotEnd(m)
		return
	}
	start := func(cell int, by Path) func(n *world) {
		return func(n *world) {
			x := &n.rx[r]
			x.reading, x.by, x.cell, x.read = true, by, cell, 0
			if p := l.placesOf(n, r); l.slot > 0 && cell == primary {
				x.at = l.lies(p, p.Turn(rcv.Turn()), rcv.next, l.lengths[e])
			} else if l.slot > 0 && cell != NoCell {
				to, ok := p.Next(rcv.next, l.lengths[e])
				x.at, n.ended = l.lies(p, to, rcv.next, l.lengths[e]), !ok
			}
		}
	}
	if found {
		l.to(m, false, start(primary, Counted), "receiver %d: %d by counter of cell %d", r, e, primary)
	}
	for i := range rcv.Headers() {
		p := rcv.Header(i)
		if length, ok := rcv.Named(x.headers[headerCell(rcv.without, p)]); ok {
			l.to(m, false, start(p, Header), "receiver %d: %d by header of cell %d", r, e, p)
			if length != l.lengths[e] {
				m.Wrong("length")
			}
		}
	}
	if w.boxes[e].full {
		l.to(m, false, start(w.boxes[e].cell, None), "receiver %d: %d came another way", r, e)
	}
}

func (l *lanes) read(w *world, m *model.Moves[world], r, e int) {
	x := &w.rx[r]
	if x.read < l.units(e) && x.by != None {
		v := *l.unit(x, x.cell, x.at, x.read)
		l.to(m, false, func(n *world) { n.rx[r].read++ }, "receiver %d: reads unit %d of %d: %d", r, x.read, e, int(v)-1)
		if int(v) != e+1 {
			m.Wrong("wrong bytes")
		}
		return
	}
	release := (e+1)%l.batch == 0 || e+1 == len(l.lengths)
	if release && x.credit.flying {
		return // until that is clean
	}
	l.to(m, false, func(n *world) {
		x := &n.rx[r]
		rcv := l.receiver(n, r)
		if l.slot > 0 && x.cell != NoCell {
			l.placesOf(n, r).Take(rcv.next, l.lengths[e], x.cell != rcv.Primary())
		}
		rcv.Take(x.cell, x.by, l.lengths[e])
		x.reading, x.by, x.cell, x.at, x.read = false, None, 0, 0, 0
		if release {
			l.credit(n, r, x.credit.Raise(uint64(e)+1))
		}
	}, "receiver %d: has %d", r, e)
	if !w.flights[e].begun {
		m.Wrong("received before it was sent")
	}
}

// credit has the phase of a credit under way, if start says so.
func (l *lanes) credit(w *world, r int, start bool) {
	x := &w.rx[r]
	x.pending, x.value = start, 0
	if start {
		x.value = x.credit.Value()
	}
}

// release is what may become of a receiver's credit.
func (l *lanes) release(w *world, m *model.Moves[world], r int) {
	x := &w.rx[r]
	if x.pending {
		l.to(m, false, func(n *world) {
			n.words[r] = l.raise(n.words[r], x.value)
			n.rx[r].pending = false
		}, "  lands: credit %d of %d", int(x.value), r)
	}
	if x.credit.flying && !x.pending {
		l.to(m, false, func(n *world) { l.credit(n, r, n.rx[r].credit.Report(x.value, true)) }, "clean: credit %d of %d", int(x.value), r)
	}
	if x.credit.flying && w.faults > 0 {
		l.to(m, false, func(n *world) {
			n.faults--
			if x.pending {
				n.postpone(packets{credit: true, rank: r, value: x.value, pending: 1})
			}
			l.credit(n, r, n.rx[r].credit.Report(x.value, false))
		}, "REPORT: credit %d of %d", int(x.value), r)
	}
	if w.words[r] > w.credits[r] {
		try := *w
		if err := l.sender(&try).Credit(r, w.words[r]); err != nil {
			l.to(m, false, func(n *world) { n.ended = true }, "sender: credit %d of %d", int(w.words[r]), r)
			l.mustNotEnd(m)
			return
		}
		l.to(m, false, func(n *world) { *n = try }, "sender: has credit %d of %d", int(w.words[r]), r)
	}
}

func (w *world) postpone(p packets) {
	if p.pending|p.again != 0 || p.open {
		w.late[w.lates] = p
		w.lates++
	}
}

// lateness is what becomes of phases that were reported or given up.
func (l *lanes) lateness(w *world, m *model.Moves[world]) {
	for i := range w.lates {
		p := &w.late[i]
		if i > 0 && w.late[i-1] == *p {
			continue
		}
		for j := range 8 {
			if (p.pending|p.again)>>j&1 != 0 {
				l.to(m, true, func(n *world) {
					n.late[i].pending &^= 1 << j
					n.late[i].again &^= 1 << j
					if p.credit {
						n.words[p.rank] = l.raise(n.words[p.rank], p.value)
						return
					}
					l.land(n, p.step, p.at, j, p.garbage || p.open && w.flights[p.step.Epoch].sent, p.pending>>j&1 != 0)
				}, "  LATE: %d, path %d, packet %d", int(p.step.Epoch), int(p.step.Path), j)
			}
		}
		if p.open {
			l.to(m, false, func(n *world) {
				q := &n.late[i]
				q.open, q.garbage = false, w.flights[p.step.Epoch].sent
				l.sender(n).Ended(p.step)
			}, "ended: %d, path %d, given up before", int(p.step.Epoch), int(p.step.Path))
		}
	}
}

// tidy forgets what is late and can't change anything any more, and puts the
// rest in order.
func (l *lanes) tidy(w *world) {
	late := w.late[:0]
	for _, p := range w.late[:w.lates] {
		if switchboard(l.without).on(growOnly) {
			if p.credit && p.value <= w.words[p.rank] {
				continue
			}
			if !p.credit && p.step.Path == Header {
				for r := range l.receivers {
					h := w.rx[r].headers[headerCell(switchboard(l.without), p.step.Cell)]
					if h >= l.header(p.step) {
						p.pending &^= 1 << r
						p.again &^= 1 << r
					}
				}
			}
		}
		if p.pending|p.again != 0 || p.open {
			late = append(late, p)
		}
	}
	for i := len(late); i < w.lates; i++ {
		w.late[i] = packets{}
	}
	w.lates = len(late)
	slices.SortFunc(late, func(a, b packets) int { return slices.Compare(packed(a), packed(b)) })
}

func packed(p packets) []byte {
	return appendPackets(nil, &p)
}

// The code of a world: a byte for everything, all numbers being small.

func bit(b ...bool) (x byte) {
	for i, b := range b {
		if b {
			x |= 1 << i
		}
	}
	return x
}

func appendStep(b []byte, s *Step) []byte {
	return append(b, byte(s.Path)|byte(s.Do)<<2|byte(s.Epoch)<<4, byte(s.Cell))
}

func parseStep(b []byte, s *Step) []byte {
	*s = Step{Path: Path(b[0] & 3), Do: Do(b[0] >> 2 & 3), Epoch: uint64(b[0] >> 4), Cell: int(b[1])}
	return b[2:]
}

func appendPackets(b []byte, p *packets) []byte {
	b = append(b, bit(p.credit, p.open, p.garbage)|byte(p.rank)<<3, byte(p.value), p.pending, p.again, byte(p.at))
	return appendStep(b, &p.step)
}

func parsePackets(b []byte, p *packets) []byte {
	*p = packets{credit: b[0]&1 != 0, open: b[0]&2 != 0, garbage: b[0]&4 != 0, rank: int(b[0] >> 3), value: uint64(b[1]), pending: b[2], again: b[3], at: int(b[4])}
	return parseStep(b[5:], &p.step)
}

func (l *lanes) append(b []byte, w *world) []byte {
	b = append(b, bit(w.ended), byte(w.faults), byte(w.snd.next), byte(w.snd.released), byte(w.snd.fresh))
	for i := range l.shape.Primaries {
		c := &w.cells[i]
		b = append(b, byte(c.number)<<4|byte(c.since), byte(c.end)|byte(c.length)<<4, byte(c.path)|bit(c.dirty)<<2|byte(c.open)<<3)
	}
	if l.slot > 0 {
		for r := ofSender; r < l.receivers; r++ {
			p := l.placesOf(w, r)
			b = append(b, byte(p.fresh))
			for i, s := range p.turns {
				b = append(b, byte(s.At), byte(s.Room), byte(p.last[i]))
			}
		}
	}
	for e := range l.lengths {
		f, x := &w.flights[e], &w.boxes[e]
		b = append(b, bit(f.begun, f.sent, x.full), byte(x.cell), f.pending, byte(f.at))
		b = appendStep(b, &f.step)
	}
	for r := range l.receivers {
		x := &w.rx[r]
		b = append(b, byte(w.credits[r]), byte(w.words[r]), byte(x.rcv.next), byte(x.rcv.fresh),
			bit(x.reading, x.credit.flying, x.pending)|byte(x.by)<<3|byte(x.read)<<5, byte(x.cell),
			byte(x.credit.want), byte(x.credit.clean), byte(x.value), byte(x.at))
		for i := range l.shape.Primaries {
			b = append(b, byte(x.targets[i]), byte(x.cells[i]))
		}
		for p := range l.shape.Cells {
			for u := range maxUnits {
				b = append(b, byte(x.data[p][u]))
			}
			b = append(b, byte(x.counters[p]), byte(x.headers[p]>>lengthBits)<<4|byte(x.headers[p]))
		}
	}
	for i := range w.lates {
		b = appendPackets(b, &w.late[i])
	}
	return b
}

func (l *lanes) parse(b []byte, w *world) {
	*w = world{}
	l.start(w)
	w.ended, w.faults = b[0] != 0, int(b[1])
	w.snd.next, w.snd.released, w.snd.fresh = uint64(b[2]), uint64(b[3]), int(b[4])
	w.snd.turn = int(b[2]) % l.shape.Primaries
	b = b[5:]
	for i := range l.shape.Primaries {
		w.cells[i] = cell{
			number: int(b[0] >> 4), since: uint64(b[0] & 15), end: uint64(b[1] & 15), length: uint64(b[1] >> 4),
			path: Path(b[2] & 3), dirty: b[2]&4 != 0, open: int(b[2] >> 3),
		}
		b = b[3:]
	}
	if l.slot > 0 {
		for r := ofSender; r < l.receivers; r++ {
			p := l.placesOf(w, r)
			p.fresh, b = uint64(b[0]), b[1:]
			for i := range p.turns {
				p.turns[i], p.last[i] = Span{uint64(b[0]), uint64(b[1])}, uint64(b[2])
				b = b[3:]
			}
		}
	}
	for e := range l.lengths {
		f, x := &w.flights[e], &w.boxes[e]
		f.begun, f.sent, x.full = b[0]&1 != 0, b[0]&2 != 0, b[0]&4 != 0
		x.cell = int(int8(b[1]))
		f.pending, f.at = b[2], int(b[3])
		b = parseStep(b[4:], &f.step)
	}
	for r := range l.receivers {
		x := &w.rx[r]
		w.credits[r], w.words[r] = uint64(b[0]), uint64(b[1])
		x.rcv.next, x.rcv.turn, x.rcv.fresh = uint64(b[2]), int(b[2])%l.shape.Primaries, int(b[3])
		x.reading, x.credit.flying, x.pending, x.by, x.read = b[4]&1 != 0, b[4]&2 != 0, b[4]&4 != 0, Path(b[4]>>3&3), int(b[4]>>5)
		x.cell = int(int8(b[5]))
		x.credit.want, x.credit.clean, x.value = uint64(b[6]), uint64(b[7]), uint64(b[8])
		x.at = int(b[9])
		b = b[10:]
		for i := range l.shape.Primaries {
			x.targets[i], x.cells[i] = uint64(b[2*i]), int(b[2*i+1])
		}
		b = b[2*l.shape.Primaries:]
		for p := range l.shape.Cells {
			for u := range maxUnits {
				x.data[p][u] = int8(b[u])
			}
			x.counters[p] = uint64(b[maxUnits])
			x.headers[p] = uint64(b[maxUnits+1]>>4)<<lengthBits | uint64(b[maxUnits+1]&15)
			b = b[maxUnits+2:]
		}
	}
	for ; len(b) > 0; w.lates++ {
		b = parsePackets(b, &w.late[w.lates])
	}
}
