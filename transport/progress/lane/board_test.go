package lane

import (
	"cmp"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/internal/model"
)

// A billboard is the owner of a board, the replicas of its readers, the readers, and a
// fabric that may do anything a fabric may: see world. Postings are made in calls, some
// in each; before each call all decide whether to begin new memory, for which they must
// come together. The owner tells of a posting by messages that arrive in order, and the
// readers say when they have read it. What went another way arrives some time later, in
// order too. The owner writes garbage over what it posted as soon as that may change.
//
// It has bytes only, so that it is its own code.
type billboard struct {
	fresh, under, open uint8
	slots              [Slots]struct{ cell, place, dirty, diverted uint8 }

	call, next uint8 // the owner's; postings that were told of
	posted     bool  // the next is
	joined     uint8 // who came together for new memory, a bit each, the owner's first
	faults     uint8
	ended      bool
	posts      [billPosts]bill
	readers    [billReaders]billReader
	late       [billLate]billPackets
}

const (
	billPosts   = 5
	billReaders = 2
	billCells   = 5
	billUnits   = 2
	billLate    = 6
)

// bill is a posting.
type bill struct {
	flying  bool
	cell    uint8
	pending uint8 // of the phase under way
	number  uint8 // if it went another way
	places  [Slots]Place
	low     bool
}

type billReader struct {
	call, next uint8
	told       [Slots]Place
	low        bool
	reading    bool
	read       uint8
	heard      uint8                               // up to which posting came what went another way
	boxes      [Slots]struct{ number, post uint8 } // post + 1
	data       [billCells][billUnits]uint8         // post + 1; 0: nothing, billGarbage
}

const billGarbage = 0xff

type billPackets struct {
	on, open bool
	post     uint8
	cell     uint8
	pending  uint8
	garbage  bool
}

type billBounds struct {
	posts, perCall, slots uint8
	cells, reserve        int
	units, faults         uint8
	giveUp, detour        bool
	repeat                bool // what landed before a report may land again after it
	without               rule
}

func (l billBounds) system() *model.System[billboard] {
	s := &model.System[billboard]{
		Next: l.moves,
		Final: func(w *billboard) bool {
			return w.ended || w.readers[0].next == l.posts && w.readers[1].next == l.posts
		},
		Append: func(b []byte, w *billboard) []byte { return append(b, w.bytes()...) },
		Parse:  func(b []byte, w *billboard) { copy(w.bytes(), b) },
	}
	s.Start.faults = l.faults
	s.Start.keep(NewBoard(l.cells, l.reserve))
	for i := range s.Start.readers {
		s.Start.readers[i].told = FirstBulletin().Places
	}
	return s
}

func (w *billboard) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(w)), unsafe.Sizeof(*w))
}

// board is the owner's end, which keep puts back.
func (l *billBounds) board(w *billboard) *Board {
	b := &Board{cells: l.cells, reserve: l.reserve, fresh: int(w.fresh), under: int(w.under), open: int(w.open), without: switchboard(l.without)}
	for i, s := range w.slots {
		b.slots[i] = slot{cell: int(s.cell), place: Place(s.place), dirty: s.dirty != 0, diverted: uint64(s.diverted)}
	}
	return b
}

func (w *billboard) keep(b *Board) {
	w.fresh, w.under, w.open = uint8(b.fresh), uint8(b.under), uint8(b.open)
	for i, s := range b.slots {
		w.slots[i].cell, w.slots[i].place, w.slots[i].dirty, w.slots[i].diverted = uint8(s.cell), uint8(s.place), bit(s.dirty), uint8(s.diverted)
	}
}

// to is a move that changes the world and the owner's end.
func (l *billBounds) to(m *model.Moves[billboard], late bool, change func(n *billboard, b *Board), text string, args ...int) {
	n := m.To(late, text, args...)
	b := l.board(n)
	change(n, b)
	n.keep(b)
	n.tidy()
}

func (w *billboard) tidy() {
	for i := range w.late {
		if p := &w.late[i]; p.pending == 0 && !p.open {
			*p = billPackets{}
		}
	}
	slices.SortFunc(w.late[:], func(a, b billPackets) int {
		key := func(p billPackets) int {
			return int(bit(p.on, p.open, p.garbage))<<24 | int(p.post)<<16 | int(p.cell)<<8 | int(p.pending)
		}
		return cmp.Compare(key(b), key(a))
	})
}

func (l *billBounds) all() uint8 { return 1<<(billReaders*l.units) - 1 }

func (l *billBounds) moves(w *billboard, m *model.Moves[billboard]) {
	if w.ended {
		return
	}
	l.own(w, m)
	for i := range w.posts {
		if w.posts[i].flying {
			l.fly(w, m, uint8(i))
		}
	}
	for i := range w.readers {
		l.read(w, m, i)
	}
	for i, p := range w.late {
		for j := range 8 {
			if p.pending>>j&1 != 0 {
				l.to(m, true, func(n *billboard, _ *Board) {
					n.late[i].pending &^= 1 << j
					l.land(n, p.post, p.cell, uint8(j), p.garbage || p.open && w.next > p.post)
				}, "  LATE: %d in cell %d, packet %d", int(p.post), int(p.cell), j)
			}
		}
		if p.open {
			l.to(m, false, func(n *billboard, b *Board) {
				n.late[i].open, n.late[i].garbage = false, w.next > p.post
				b.Ended()
			}, "ended: %d, given up before", int(p.post))
		}
	}
}

// own is what the owner may do.
func (l *billBounds) own(w *billboard, m *model.Moves[billboard]) {
	e := w.next
	i := int(e % l.slots)
	switch {
	case e == l.posts || w.joined&1 != 0:
	case e == w.call*l.perCall:
		if l.board(w).Low() {
			l.join(m, 0)
		} else {
			l.to(m, false, func(n *billboard, _ *Board) { n.call++ }, "owner begins call %d", int(w.call))
		}
	case !w.posted:
		for _, r := range w.readers {
			if r.call < w.call || r.next+l.slots <= e {
				return
			}
		}
		if cell, err := l.board(w).Post(i); err == nil {
			l.to(m, false, func(n *billboard, b *Board) {
				b.Post(i)
				n.posted = true
				l.start(n, b, e, uint8(cell))
			}, "posts %d in cell %d", int(e), cell)
		} else if !l.detour {
			l.to(m, false, func(n *billboard, _ *Board) { n.ended = true }, "no cell is left")
			if l.without == 0 {
				m.Wrong("ended with an error")
			}
		}
		if l.detour && w.faults > 0 {
			l.to(m, false, func(n *billboard, b *Board) {
				n.faults--
				n.posted = true
				n.posts[e].number = uint8(b.Divert(i))
			}, "posts %d another way", int(e))
		}
	default:
		b := l.board(w)
		if bulletin, ok := b.Bulletin(); ok && (b.Finished() || !b.without.on(boardClean)) {
			l.to(m, false, func(n *billboard, _ *Board) {
				n.next, n.posted = e+1, false
				n.posts[e].places, n.posts[e].low = bulletin.Places, bulletin.Low
			}, "tells of %d", int(e))
		}
	}
}

// join has one come together with all others, to begin new memory.
func (l *billBounds) join(m *model.Moves[billboard], who int) {
	l.to(m, false, func(n *billboard, b *Board) {
		if n.joined |= 1 << who; n.joined != 1<<(billReaders+1)-1 {
			return
		}
		n.joined = 0
		n.call++
		b.Renew(l.cells, l.reserve)
		for i := range n.readers {
			r := &n.readers[i]
			r.call++
			r.told, r.low = FirstBulletin().Places, false
			r.data = [billCells][billUnits]uint8{}
		}
		for i := range n.late {
			n.late[i].pending = 0 // lands in memory that is gone
		}
	}, "%d waits for all to begin new memory", who)
}

func (l *billBounds) start(n *billboard, b *Board, e, cell uint8) {
	b.Start()
	n.posts[e].flying, n.posts[e].cell, n.posts[e].pending = true, cell, l.all()
}

// fly is what may become of a phase under way.
func (l *billBounds) fly(w *billboard, m *model.Moves[billboard], e uint8) {
	f := w.posts[e]
	i := int(e % l.slots)
	for j := range uint8(8) {
		if f.pending>>j&1 != 0 {
			l.to(m, false, func(n *billboard, _ *Board) {
				n.posts[e].pending &^= 1 << j
				l.land(n, e, f.cell, j, w.next > e)
			}, "  lands: %d in cell %d, packet %d", int(e), int(f.cell), int(j))
		}
	}
	if f.pending == 0 {
		l.to(m, false, func(n *billboard, b *Board) {
			n.posts[e].flying, n.posts[e].cell = false, 0
			b.Report(i, true)
		}, "clean: %d", int(e))
	}
	if w.faults == 0 {
		return
	}
	late := billPackets{on: true, post: e, cell: f.cell, pending: f.pending, garbage: w.next > e}
	if l.repeat {
		late.pending = l.all()
	}
	report := func(n *billboard, b *Board, open bool) {
		n.faults--
		late := late
		late.open = open
		n.late[billLate-1] = late
		if open {
			b.Abandon(i)
		} else {
			b.Report(i, false)
		}
	}
	l.to(m, false, func(n *billboard, b *Board) {
		report(n, b, false)
		l.start(n, b, e, f.cell)
	}, "REPORT: %d", int(e))
	if l.giveUp {
		l.to(m, false, func(n *billboard, b *Board) {
			report(n, b, true)
			l.start(n, b, e, f.cell)
		}, "given up: %d", int(e))
	}
	if l.detour {
		l.to(m, false, func(n *billboard, b *Board) {
			report(n, b, false)
			n.posts[e] = bill{number: uint8(b.Divert(i))}
		}, "REPORT: %d; goes another way", int(e))
	}
}

func (l *billBounds) land(n *billboard, post, cell, packet uint8, garbage bool) {
	v := post + 1
	if garbage {
		v = billGarbage
	}
	n.readers[packet/l.units].data[cell][packet%l.units] = v
}

// read is what a reader may do.
func (l *billBounds) read(w *billboard, m *model.Moves[billboard], i int) {
	r := w.readers[i]
	e := r.next
	for h := r.heard; h < l.posts && (h < w.next || h == w.next && w.posts[h].number != 0); h++ {
		if w.posts[h].number == 0 {
			continue
		}
		l.to(m, false, func(n *billboard, _ *Board) {
			n.readers[i].heard = h + 1
			b := &n.readers[i].boxes[h%l.slots]
			b.number, b.post = w.posts[h].number, h+1
		}, "  arrives at %d: %d, another way", i, int(h))
		break
	}
	switch {
	case e == l.posts || w.joined>>(i+1)&1 != 0:
	case e == r.call*l.perCall:
		if r.low {
			l.join(m, i+1)
		} else {
			l.to(m, false, func(n *billboard, _ *Board) { n.readers[i].call++ }, "reader %d begins call %d", i, int(r.call))
		}
	case !r.reading:
		if e < w.next {
			l.to(m, false, func(n *billboard, _ *Board) {
				q := &n.readers[i]
				q.reading, q.told, q.low = true, w.posts[e].places, w.posts[e].low
			}, "reader %d: is told of %d", i, int(e))
		}
	default:
		know := Reader{told: Bulletin{Places: r.told, Low: r.low}, without: switchboard(l.without)}
		slot := int(e % l.slots)
		done := func(n *billboard, _ *Board) {
			q := &n.readers[i]
			if q.read++; q.read == l.units {
				q.next, q.reading, q.read = e+1, false, 0
			}
		}
		if cell, ok := know.Place(slot).Cell(); ok {
			got := r.data[cell][r.read]
			l.to(m, false, done, "reader %d: reads unit %d of %d in cell %d: %d", i, int(r.read), int(e), cell, int(got)-1)
			if got != e+1 {
				m.Wrong("wrong bytes")
			}
		} else if b := r.boxes[slot]; b.post != 0 && know.Holds(slot, uint64(b.number)) {
			l.to(m, false, done, "reader %d: %d came another way", i, int(b.post)-1)
			if b.post != e+1 {
				m.Wrong("wrong bytes")
			}
		}
	}
}

func TestBoard(t *testing.T) {
	for _, w := range []struct {
		name string
		deep bool
		billBounds
	}{
		{"one slot", false, billBounds{posts: 3, perCall: 3, slots: 1, cells: 4, units: 1, faults: 2}},
		{"two slots", false, billBounds{posts: 4, perCall: 4, slots: 2, cells: 4, units: 1, faults: 2}},
		{"three faults", false, billBounds{posts: 4, perCall: 4, slots: 1, cells: 5, units: 1, faults: 3, giveUp: true, repeat: true}},
		{"two units", false, billBounds{posts: 2, perCall: 2, slots: 1, cells: 4, units: 2, faults: 2}},
		{"given up", false, billBounds{posts: 3, perCall: 3, slots: 1, cells: 4, units: 1, faults: 2, giveUp: true}},
		{"repeats", false, billBounds{posts: 3, perCall: 3, slots: 1, cells: 4, units: 1, faults: 2, repeat: true}},
		{"another way", false, billBounds{posts: 3, perCall: 3, slots: 1, cells: 4, units: 1, faults: 2, detour: true}},
		{"new memory", false, billBounds{posts: 4, perCall: 1, slots: 1, cells: 4, reserve: 2, units: 1, faults: 2}},
		{"new memory, another way", false, billBounds{posts: 3, perCall: 1, slots: 1, cells: 3, reserve: 1, units: 1, faults: 2, detour: true}},
		{"everything", true, billBounds{posts: 5, perCall: 2, slots: 2, cells: 4, reserve: 2, units: 1, faults: 3, detour: true, giveUp: true, repeat: true}},
	} {
		t.Run(w.name, func(t *testing.T) {
			if w.deep && !*deep || small && w.posts > 3 {
				return
			}
			begin := time.Now()
			r := w.system().Explore()
			t.Logf("%d states in %v", r.States, time.Since(begin).Round(time.Millisecond))
			require.Equal(t, model.OK, r.Outcome, r)
		})
	}
}

func TestBoardWithout(t *testing.T) {
	for _, b := range []billBounds{
		{without: boardQuarantine, posts: 2, perCall: 2, slots: 1, cells: 4, units: 1, faults: 1},
		{without: boardLeft, posts: 2, perCall: 2, slots: 1, cells: 4, units: 1, faults: 2, giveUp: true},
		{without: boardFresh, posts: 3, perCall: 3, slots: 1, cells: 4, units: 1, faults: 2},
		{without: boardClean, posts: 1, perCall: 1, slots: 1, cells: 4, units: 1},
		{without: boardSource, posts: 2, perCall: 2, slots: 1, cells: 4, units: 1, faults: 1, giveUp: true},
		{without: boardTold, posts: 2, perCall: 2, slots: 1, cells: 4, units: 1, faults: 1},
		{without: boardNumber, posts: 2, perCall: 2, slots: 1, cells: 4, units: 1, faults: 2, detour: true},
		{without: boardLow, posts: 3, perCall: 1, slots: 1, cells: 3, reserve: 1, units: 1, faults: 1},
	} {
		t.Run(b.without.String(), func(t *testing.T) {
			good := b
			good.without = 0
			r := good.system().Explore()
			require.Equal(t, model.OK, r.Outcome, "with the rule: %v", r)
			r = b.system().Explore()
			t.Logf("without: %v", r)
			require.Contains(t, []model.Outcome{model.Wrong, model.Hang}, r.Outcome)
		})
	}
}
