package lane

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/internal/model"
)

// pulls are an owner that writes one version of its source after the other, and
// readers that pull each into a landing zone. A packet of a pull reads the source at
// one moment and lands at a later one; a reported pull's packets do so at any time.
type pulls struct {
	version uint8
	readers [pullReaders]pullReader
	words   [pullReaders]uint64
	late    []pullPacket
	faults  int
}

const (
	pullReaders = 2
	pullZones   = 4
	pullUnits   = 2
)

type pullReader struct {
	epoch   uint8
	zone    uint8
	state   uint8 // idle, pending: pulls, landed: reads what it pulled
	packets [pullUnits]uint8
	read    uint8
	retired [pullZones]bool
	mem     [pullZones][pullUnits]uint8 // version + 1
}

// The state of a packet: to be served, or holding a version to land, or landed.
const (
	unserved uint8 = iota
	arrived
	holding // + version

	unreliable = 0xff // in memory: a zone that may change at any time
)

type pullPacket struct{ reader, zone, unit, state uint8 }

func pullSystem(epochs uint8, readers, zones, faults int, without rule) *model.System[pulls] {
	off := switchboard(without)
	releases := func(s *pulls) *Releases { return &Releases{words: s.words[:readers], without: off} }
	zonesOf := func(r *pullReader) *Zones { return &Zones{retired: r.retired[:zones], without: off} }
	order := func(a, b pullPacket) int {
		return slices.Compare([]uint8{a.reader, a.zone, a.unit, a.state}, []uint8{b.reader, b.zone, b.unit, b.state})
	}
	// step has a packet go on, in n, and returns its state.
	step := func(n *pulls, r int, zone, unit, state uint8) uint8 {
		if state == unserved {
			return holding + n.version
		}
		if m := &n.readers[r].mem[zone][unit]; *m != unreliable {
			*m = state - holding + 1
		}
		return arrived
	}
	next := func(s *pulls, m *model.Moves[pulls]) {
		if s.version+1 < epochs && releases(s).Free(uint64(s.version)) {
			m.To(false, "owner writes version %d", int(s.version)+1).version++
		}
		for i := range readers {
			r := &s.readers[i]
			switch r.state {
			case idle:
				if zone, ok := zonesOf(r).Take(); ok && r.epoch < epochs && s.version >= r.epoch {
					n := m.To(false, "reader %d pulls version %d into zone %d", i, int(r.epoch), zone)
					q := &n.readers[i]
					q.zone, q.state, q.packets = uint8(zone), pending, [pullUnits]uint8{}
				}
			case pending:
				all := true
				for u, p := range r.packets {
					if p != arrived {
						all = false
						n := m.To(false, "  reader %d: unit %d goes on from %d", i, u, int(p))
						n.readers[i].packets[u] = step(n, i, r.zone, uint8(u), p)
					}
				}
				if all {
					n := m.To(false, "clean: reader %d", i)
					n.readers[i].state, n.readers[i].read = landed, 0
				}
				if s.faults > 0 {
					n := m.To(false, "REPORT: reader %d", i)
					n.faults--
					n.late = slices.Clone(s.late)
					for u, p := range r.packets {
						if p != arrived {
							n.late = append(n.late, pullPacket{uint8(i), r.zone, uint8(u), p})
						}
					}
					slices.SortFunc(n.late, order)
					q := &n.readers[i]
					zonesOf(q).Retire(int(r.zone))
					q.state, q.packets = idle, [pullUnits]uint8{}
					if q.retired[r.zone] {
						// To keep the states few: whatever is late, what is there is nothing
						// that a reader could rely on, now or later.
						q.mem[r.zone] = [pullUnits]uint8{unreliable, unreliable}
						n.late = slices.DeleteFunc(n.late, func(p pullPacket) bool { return p.reader == uint8(i) && p.zone == r.zone })
					}
				}
			case landed:
				if r.read == pullUnits {
					n := m.To(false, "reader %d releases version %d", i, int(r.epoch))
					q := &n.readers[i]
					q.epoch++
					q.state, q.packets, q.read, q.zone = idle, [pullUnits]uint8{}, 0, 0
					releases(n).Release(i, uint64(q.epoch))
					break
				}
				got := int(r.mem[r.zone][r.read]) - 1
				m.To(false, "reader %d reads unit %d of version %d: %d", i, int(r.read), int(r.epoch), got).readers[i].read++
				if got != int(r.epoch) {
					m.Wrong("wrong bytes")
				}
			}
		}
		for i, p := range s.late {
			n := m.To(true, "  LATE: reader %d, zone %d, unit %d goes on from %d", int(p.reader), int(p.zone), int(p.unit), int(p.state))
			n.late = slices.Clone(s.late)
			if p.state = step(n, int(p.reader), p.zone, p.unit, p.state); p.state == arrived {
				n.late = slices.Delete(n.late, i, i+1)
			} else {
				n.late[i] = p
			}
			slices.SortFunc(n.late, order)
		}
	}
	return &model.System[pulls]{
		Start: pulls{faults: faults},
		Next:  next,
		Final: func(s *pulls) bool {
			for i := range readers {
				if s.readers[i].epoch < epochs {
					return false
				}
			}
			return true
		},
		Append: func(b []byte, s *pulls) []byte {
			b = append(b, s.version, byte(s.faults))
			for i := range readers {
				r := &s.readers[i]
				b = append(b, r.epoch, r.zone, r.state, r.read, byte(s.words[i]))
				b = append(b, r.packets[:]...)
				b = append(b, bit(r.retired[:]...))
				for z := range zones {
					b = append(b, r.mem[z][:]...)
				}
			}
			for _, p := range s.late {
				b = append(b, p.reader, p.zone, p.unit, p.state)
			}
			return b
		},
		Parse: func(b []byte, s *pulls) {
			*s = pulls{version: b[0], faults: int(b[1])}
			b = b[2:]
			for i := range readers {
				r := &s.readers[i]
				r.epoch, r.zone, r.state, r.read, s.words[i] = b[0], b[1], b[2], b[3], uint64(b[4])
				b = b[5+copy(r.packets[:], b[5:]):]
				for z := range r.retired {
					r.retired[z] = b[0]>>z&1 != 0
				}
				b = b[1:]
				for z := range zones {
					b = b[copy(r.mem[z][:], b):]
				}
			}
			for ; len(b) > 0; b = b[4:] {
				s.late = append(s.late, pullPacket{b[0], b[1], b[2], b[3]})
			}
		},
	}
}

func TestPull(t *testing.T) {
	sets := [][4]int{{3, 2, 3, 2}, {3, 1, 4, 3}} // epochs, readers, zones, faults
	if *deep {
		sets = append(sets, [4]int{4, 2, 4, 3})
	}
	for _, b := range sets {
		r := pullSystem(uint8(b[0]), b[1], b[2], b[3], 0).Explore()
		t.Logf("%v: %d states", b, r.States)
		require.Equal(t, model.OK, r.Outcome, r)
	}
}

func TestPullWithout(t *testing.T) {
	for rule, readers := range map[rule]int{retireZones: 1, releaseAll: 2} {
		t.Run(rule.String(), func(t *testing.T) {
			r := pullSystem(3, readers, 3, 2, rule).Explore()
			t.Logf("without: %v", r)
			require.Equal(t, model.Wrong, r.Outcome)
		})
	}
}
