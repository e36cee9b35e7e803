package lane

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/internal/model"
)

// agreement is a number of ranks that go through calls together. A rank's part of a
// call is done when it and its peers are in the call and nothing failed it. A rank
// may fail, die, or stop for a while or for good. Notices arrive in order; of those
// that a rank has sent when it dies the last ones may be lost, for each peer apart.
// A rank is found silent if it is stopped and nothing of it is under way: who looks for
// an answer takes what has come first.
type agreement struct {
	ranks  [agreeRanks]agreeRank
	wires  [agreeRanks][agreeRanks][]agreeNotice // [to][from]
	faults int                                   // that may still be
	stops  int                                   // of these
}

const agreeRanks = 3

type agreeRank struct {
	epoch   uint8 // of the call that it is in, from 1
	done    bool  // its part is, and voted for
	failed  bool  // it had a failure of its own
	dead    bool
	stopped bool // for now
	slept   bool // was stopped
	ended   bool // it has returned an error
	part    Agreement[agreeFailure]
}

// An agreeFailure is what a rank found in a call.
type agreeFailure struct{ rank, epoch uint8 }

// An agreeNotice is a notice, or the end of a connection.
type agreeNotice struct {
	Notice[agreeFailure]
	gone bool
}

func (a *Agreement[F]) clone() Agreement[F] {
	b := *a
	b.out, b.replied, b.votes, b.sends = a.out.clone(), a.replied.clone(), a.votes.clone(), nil
	return b
}

// edit returns a rank of a state for a move to change.
func (s *agreement) edit(i int) *agreeRank {
	s.ranks[i].part = s.ranks[i].part.clone()
	return &s.ranks[i]
}

// carry puts what rank i has to say on the wires.
func (s *agreement) carry(i int) {
	for _, m := range s.ranks[i].part.Take() {
		if !s.ranks[m.To].dead {
			q := &s.wires[m.To][i]
			*q = append(slices.Clone(*q), agreeNotice{Notice: m.Notice})
		}
	}
}

// judge looks whether something that must not be has come of a change of rank i.
func (s *agreement) judge(i int, before bool, m *model.Moves[agreement]) {
	f, final, isolated := s.ranks[i].part.Failure()
	if !final || before && s.ranks[i].part.without.on(firstWins) {
		return
	}
	if isolated {
		if !s.ranks[i].slept {
			m.Wrong("isolated for nothing")
		}
		return
	}
	for j := range s.ranks {
		p := &s.ranks[j]
		g, final, isolated := p.part.Failure()
		// A rank that was excluded can't know that if all who did are dead.
		unheard := p.dead && p.part.IsOut(i)
		if final && !isolated && !unheard && f != g {
			m.Wrong("two failures")
		}
	}
}

// leave has rank i return from its call if it may.
func (s *agreement) leave(i int, epochs uint8, m *model.Moves[agreement]) {
	r := &s.ranks[i]
	for !r.ended && r.epoch <= epochs {
		returns, failed := r.part.Outcome(uint64(r.epoch), r.done, true)
		switch {
		case !returns:
			return
		case failed:
			r.ended = true
		default:
			r.epoch++
			r.done = false
		}
		for j := range s.ranks {
			p := &s.ranks[j]
			a, b := r, p // the one that returned an error, the other
			if !r.ended {
				a, b = p, r
			}
			if a.ended && b.epoch > a.epoch && !a.part.isolated && !a.part.IsOut(j) && !a.part.IsOut(i) {
				m.Wrong("one call, two outcomes")
			}
		}
	}
}

// agreeBounds are those of a world: so many calls, with commit or without, and faults, of
// which some may be stops.
type agreeBounds struct {
	epochs        uint8
	faults, stops int
	commit        bool
}

func (w agreeBounds) system(without rule) *model.System[agreement] {
	epochs, commit, off := w.epochs, w.commit, switchboard(without)
	next := func(s *agreement, m *model.Moves[agreement]) {
		// change makes a move in which something happens to a rank's part.
		change := func(i int, late bool, f func(r *agreeRank), text string, args ...int) *agreement {
			n := m.To(late, text, args...)
			r := n.edit(i)
			_, before, _ := r.part.Failure()
			f(r)
			n.carry(i)
			n.judge(i, before, m)
			if commit {
				n.leave(i, epochs, m)
			}
			return n
		}
		for i := range s.ranks {
			r := &s.ranks[i]
			if r.dead {
				continue
			}
			if r.stopped {
				n := m.To(true, "rank %d continues", i)
				n.ranks[i].stopped = false
				continue
			}
			_, final, _ := r.part.Failure()
			for j := range s.ranks {
				wire := s.wires[i][j]
				if len(wire) == 0 {
					continue
				}
				msg := wire[0]
				var n *agreement
				if msg.gone {
					n = change(i, false, func(r *agreeRank) {
						r.part.Out(j)
						r.part.Fail(agreeFailure{uint8(i), r.epoch})
					}, "rank %d hears that %d is gone", i, j)
				} else {
					n = change(i, false, func(r *agreeRank) { r.part.Hear(j, msg.Notice) },
						"rank %d hears notice %d, ballot %d, of %d", i, int(msg.Kind), msg.Ballot, j)
				}
				n.wires[i][j] = slices.Clone(wire[1:])
			}
			waits, _ := r.part.Waits(nil)
			running := !r.ended && r.epoch <= epochs
			for j := range s.ranks {
				if !s.ranks[j].stopped || len(s.wires[i][j]) > 0 || r.part.IsOut(j) {
					continue
				}
				if slices.Contains(waits, j) {
					change(i, false, func(r *agreeRank) { r.part.Out(j) }, "rank %d finds %d silent", i, j)
				}
				if running && !final && !r.failed {
					change(i, false, func(r *agreeRank) {
						r.failed = true
						r.part.Out(j)
						r.part.Fail(agreeFailure{uint8(i), r.epoch})
					}, "rank %d gives up waiting for %d", i, j)
				}
			}
			if s.faults > 0 {
				if running && !r.failed && !final {
					n := change(i, false, func(r *agreeRank) {
						r.failed = true
						r.part.Fail(agreeFailure{uint8(i), r.epoch})
					}, "rank %d fails in %d", i, int(r.epoch))
					n.faults--
				}
				if s.stops > 0 {
					n := m.To(false, "rank %d stops", i)
					n.faults--
					n.stops--
					n.ranks[i].stopped, n.ranks[i].slept = true, true
				}
				s.dies(i, m)
			}
			if !running || !commit {
				continue // without commit calls play no part
			}
			together := true
			for _, p := range s.ranks {
				together = together && p.epoch >= r.epoch && !(p.epoch == r.epoch && (p.dead || p.failed || p.ended) && !p.done)
			}
			if !r.done && !r.failed && together {
				change(i, false, func(r *agreeRank) {
					r.done = true
					r.part.Vote(uint64(r.epoch))
				}, "rank %d is done with %d", i, int(r.epoch))
			}
		}
	}
	sys := &model.System[agreement]{
		Next: next,
		Final: func(s *agreement) bool {
			for i := range s.ranks {
				r := &s.ranks[i]
				calls := commit && !r.ended && r.epoch <= epochs
				if !r.dead && !r.stopped && (calls || r.part.known && !r.part.final) {
					return false
				}
			}
			return true
		},
		Append: func(b []byte, s *agreement) []byte {
			b = append(b, byte(s.faults), byte(s.stops))
			for i := range s.ranks {
				r := &s.ranks[i]
				b = append(b, r.epoch, bit(r.done, r.failed, r.dead, r.stopped, r.slept, r.ended))
				b = r.part.encode(b)
				for _, wire := range s.wires[i] {
					b = append(b, byte(len(wire)))
					for _, m := range wire {
						b = append(b, byte(m.Kind)|bit(m.gone, m.Holds)<<6, byte(m.Ballot)<<4|byte(m.By), m.Out.byte(), m.Failure.rank, m.Failure.epoch, byte(m.Committed))
					}
				}
			}
			return b
		},
	}
	sys.Parse = func(b []byte, s *agreement) {
		*s = agreement{faults: int(b[0]), stops: int(b[1])}
		b = b[2:]
		for i := range s.ranks {
			f := func(n int) bool { return b[1]>>n&1 != 0 }
			s.ranks[i] = agreeRank{epoch: b[0], done: f(0), failed: f(1), dead: f(2), stopped: f(3), slept: f(4), ended: f(5)}
			b = s.ranks[i].part.parse(b[2:])
			s.ranks[i].part.rank, s.ranks[i].part.ranks, s.ranks[i].part.without = i, agreeRanks, off
			for j := range s.wires[i] {
				n := int(b[0])
				for b = b[1:]; n > 0; n-- {
					s.wires[i][j] = append(s.wires[i][j], agreeNotice{gone: b[0]>>6&1 != 0, Notice: Notice[agreeFailure]{
						Kind: NoticeKind(b[0] & 31), Holds: b[0]>>7 != 0, Ballot: int(b[1] >> 4), By: int(b[1] & 15), Out: ranksOf(b[2]),
						Failure: agreeFailure{b[3], b[4]}, Committed: uint64(b[5]),
					}})
					b = b[6:]
				}
			}
		}
	}
	sys.Start = agreement{faults: w.faults, stops: w.stops}
	for i := range sys.Start.ranks {
		sys.Start.ranks[i].epoch = 1
		sys.Start.ranks[i].part = *NewAgreement[agreeFailure](i, agreeRanks)
		sys.Start.ranks[i].part.without = off
	}
	return sys
}

// dies adds the moves in which rank i dies: of what it has sent each peer gets the
// first part, and then hears that it is gone.
func (s *agreement) dies(i int, m *model.Moves[agreement]) {
	var die func(n agreement, j int)
	die = func(n agreement, j int) {
		if j == agreeRanks {
			to := m.To(false, "rank %d dies in %d", i, int(s.ranks[i].epoch))
			n.faults--
			n.ranks[i].dead = true
			n.wires[i] = [agreeRanks][]agreeNotice{} // nobody hears them
			*to = n
			return
		}
		if j == i || s.ranks[j].dead {
			die(n, j+1)
			return
		}
		wire := s.wires[j][i]
		for keep := 0; keep <= len(wire); keep++ {
			n.wires[j][i] = append(slices.Clone(wire[:keep]), agreeNotice{gone: true})
			die(n, j+1)
		}
	}
	die(*s, 0)
}

func (s Ranks) byte() byte {
	if len(s) == 0 {
		return 0
	}
	return byte(s[0])
}

func ranksOf(b byte) Ranks {
	if b == 0 {
		return nil
	}
	return Ranks{uint64(b)}
}

func (a *Agreement[F]) encode(b []byte) []byte {
	f := func(f F) []byte {
		g := any(f).(agreeFailure)
		return []byte{g.rank, g.epoch}
	}
	b = append(b, bit(a.known, a.held, a.final, a.isolated)|byte(a.phase)<<4, byte(a.asked+1)|byte(a.promised)<<4, byte(a.by),
		a.out.byte(), a.replied.byte(), a.votes.byte(), byte(a.voters), byte(a.committed)<<4|byte(a.after))
	return append(append(b, f(a.first)...), f(a.failure)...)
}

func (a *Agreement[F]) parse(b []byte) []byte {
	f := func(n int) bool { return b[0]>>n&1 != 0 }
	a.known, a.held, a.final, a.isolated, a.phase = f(0), f(1), f(2), f(3), agreePhase(b[0]>>4)
	a.asked, a.promised, a.by = int(b[1]&15)-1, int(b[1]>>4), int(b[2])
	a.out, a.replied, a.votes, a.voters, a.committed = ranksOf(b[3]), ranksOf(b[4]), ranksOf(b[5]), int(b[6]), uint64(b[7]>>4)
	a.after = uint64(b[7] & 15)
	a.first, a.failure = any(agreeFailure{b[8], b[9]}).(F), any(agreeFailure{b[10], b[11]}).(F)
	return b[12:]
}

// agreeWorlds are the bounds within which nothing wrong is possible.
var agreeWorlds = []struct {
	agreeBounds
	deep bool
}{
	{agreeBounds{epochs: 1, faults: 2, stops: 2}, false},
	{agreeBounds{faults: 2, commit: true, epochs: 1}, false},
	{agreeBounds{faults: 1, stops: 1, commit: true, epochs: 2}, false},
	{agreeBounds{epochs: 1, faults: 3, stops: 1}, true},
	{agreeBounds{faults: 2, stops: 1, commit: true, epochs: 1}, true},
	{agreeBounds{faults: 2, stops: 2, commit: true, epochs: 2}, true},
}

func TestAgreement(t *testing.T) {
	for _, w := range agreeWorlds {
		if w.deep && !*deep || small && w.faults > 1 {
			continue
		}
		begin := time.Now()
		r := w.system(0).Explore()
		t.Logf("%+v: %d states in %v", w.agreeBounds, r.States, time.Since(begin).Round(time.Millisecond))
		require.Equal(t, model.OK, r.Outcome, r)
	}
}

func TestAgreementWithout(t *testing.T) {
	calls, commits := agreeBounds{epochs: 1, faults: 2, stops: 2}, agreeBounds{faults: 2, commit: true, epochs: 1}
	for _, b := range []struct {
		rule rule
		agreeBounds
	}{
		{firstWins, calls},
		{awaitHeld, calls},
		{askFirst, calls},
		{promise, calls},
		{tellRefused, calls},
		{tellOut, calls},
		{stayOut, calls},
		{voteFirst, commits},
	} {
		t.Run(b.rule.String(), func(t *testing.T) {
			r := b.system(b.rule).Explore()
			t.Logf("without: %v", r)
			require.Contains(t, []model.Outcome{model.Wrong, model.Hang}, r.Outcome)
		})
	}
}
