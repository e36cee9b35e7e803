package lane

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/internal/model"
)

// barriers are two ranks that go through a number of barriers: each raises a word at
// the other and waits for its own. Nobody looks after a rank's phases while it is in
// no barrier; after the last it is gone.
type barriers struct {
	ranks  [2]barrierRank
	late   [2][]uint8 // values on their way to each rank's word, late
	faults int
}

type barrierRank struct {
	epoch uint8 // of the barrier that it is in, or enters next
	in    bool
	out   Word
	phase uint8 // of what raises the peer's word
	value uint8
	word  uint8 // raised by the peer
}

const (
	idle uint8 = iota
	pending
	landed
	failed // reported; nobody has looked yet
)

func barrierSystem(epochs uint8, faults int, without rule) *model.System[barriers] {
	off := switchboard(without)
	raise := func(old, value uint8) uint8 {
		w := Word{without: off}
		return uint8(w.Land(uint64(old), uint64(value)))
	}
	start := func(r *barrierRank, start bool) {
		if r.phase = idle; start {
			r.phase, r.value = pending, uint8(r.out.Value())
		}
	}
	postpone := func(s *barriers, to int, v uint8) {
		s.late[to] = append(slices.Clone(s.late[to]), v)
		slices.Sort(s.late[to])
	}
	next := func(s *barriers, m *model.Moves[barriers]) {
		for i := range s.ranks {
			r := &s.ranks[i]
			peer := 1 - i
			switch {
			case !r.in && r.epoch < epochs:
				n := m.To(false, "rank %d enters %d", i, int(r.epoch))
				q := &n.ranks[i]
				q.in = true
				if q.out.Raise(uint64(q.epoch) + 1) {
					start(q, true)
				}
			case r.in && r.word > r.epoch && r.out.Settled():
				n := m.To(false, "rank %d leaves %d", i, int(r.epoch))
				n.ranks[i].epoch++
				n.ranks[i].in = false
			}
			if r.phase == pending {
				n := m.To(false, "  lands: %d of rank %d", int(r.value), i)
				n.ranks[i].phase = landed
				n.ranks[peer].word = raise(n.ranks[peer].word, r.value)
			}
			if r.phase == landed && r.in {
				n := m.To(false, "clean: %d of rank %d", int(r.value), i)
				q := &n.ranks[i]
				start(q, q.out.Report(uint64(q.value), true))
			}
			if (r.phase == pending || r.phase == landed) && s.faults > 0 {
				n := m.To(false, "REPORT: %d of rank %d", int(r.value), i)
				n.faults--
				n.ranks[i].phase = failed
				if r.phase == pending {
					postpone(n, peer, r.value)
				}
			}
			if r.phase == failed && r.in {
				n := m.To(false, "rank %d sees the report of %d", i, int(r.value))
				q := &n.ranks[i]
				start(q, q.out.Report(uint64(q.value), false))
			}
		}
		for to := range s.late {
			for i, v := range s.late[to] {
				n := m.To(true, "  LATE: %d to rank %d", int(v), to)
				n.late[to] = slices.Delete(slices.Clone(s.late[to]), i, i+1)
				n.ranks[to].word = raise(s.ranks[to].word, v)
			}
		}
	}
	return &model.System[barriers]{
		Start: barriers{ranks: [2]barrierRank{{out: Word{without: off}}, {out: Word{without: off}}}, faults: faults},
		Next:  next,
		Final: func(s *barriers) bool { return s.ranks[0].epoch == epochs && s.ranks[1].epoch == epochs },
		Append: func(b []byte, s *barriers) []byte {
			b = append(b, byte(s.faults))
			for i := range s.ranks {
				r := &s.ranks[i]
				b = append(b, r.epoch, bit(r.in, r.out.flying), byte(r.out.want), byte(r.out.clean), r.phase, r.value, r.word, byte(len(s.late[i])))
				b = append(b, s.late[i]...)
			}
			return b
		},
		Parse: func(b []byte, s *barriers) {
			*s = barriers{faults: int(b[0])}
			b = b[1:]
			for i := range s.ranks {
				s.ranks[i] = barrierRank{
					epoch: b[0], in: b[1]&1 != 0, phase: b[4], value: b[5], word: b[6],
					out: Word{want: uint64(b[2]), clean: uint64(b[3]), flying: b[1]&2 != 0, without: off},
				}
				n := int(b[7])
				s.late[i] = slices.Clone(b[8 : 8+n])
				b = b[8+n:]
			}
		},
	}
}

func TestBarrier(t *testing.T) {
	epochs, faults := uint8(4), 4
	if *deep {
		epochs, faults = 6, 6
	}
	r := barrierSystem(epochs, faults, 0).Explore()
	t.Logf("%d states", r.States)
	require.Equal(t, model.OK, r.Outcome, r)
}

func TestBarrierWithout(t *testing.T) {
	for _, rule := range []rule{growOnly, reissue, settle} {
		t.Run(rule.String(), func(t *testing.T) {
			r := barrierSystem(3, 2, rule).Explore()
			t.Logf("without: %v", r)
			require.Equal(t, model.Hang, r.Outcome)
		})
	}
}
