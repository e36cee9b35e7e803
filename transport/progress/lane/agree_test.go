package lane

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/internal/model"
)

// agreement is a number of ranks that go through calls together and the registrar.
// A rank's part of a call is done when it and its peers are in the call and nothing
// failed it; a rank may fail or die. Messages to and from the registrar are not
// lost, and arrive in order.
type agreement struct {
	reg    Registrar
	ranks  [agreeRanks]agreeRank
	faults int
}

const agreeRanks = 3

type agreeRank struct {
	epoch   uint8 // of the call that it is in
	done    bool  // its part is
	voted   bool
	failed  bool // it registered a failure
	dead    bool
	ended   bool    // it has returned an error
	error   Failure // that
	verdict Verdict
	up      []agreeMessage // to the registrar
	down    []agreeMessage // to it
}

type agreeMessage struct {
	kind  uint8 // vote, fail, commit
	rank  uint8
	epoch uint8
}

const (
	agreeVote uint8 = iota
	agreeFail
	agreeCommit
)

func agreeSystem(epochs uint8, faults int, commit bool, without rule) *model.System[agreement] {
	off := switchboard(without)
	send := func(q *[]agreeMessage, m agreeMessage) { *q = append(slices.Clone(*q), m) }
	tell := func(n *agreement, m agreeMessage) {
		for i := range n.ranks {
			send(&n.ranks[i].down, m)
		}
	}
	next := func(s *agreement, m *model.Moves[agreement]) {
		for i := range s.ranks {
			r := &s.ranks[i]
			if len(r.up) > 0 {
				n := m.To(false, "registrar hears kind %d, epoch %d of rank %d", int(r.up[0].kind), int(r.up[0].epoch), i)
				msg := r.up[0]
				n.ranks[i].up = slices.Clone(r.up[1:])
				if msg.kind == agreeVote {
					if n.reg.Vote(i, uint64(msg.epoch)) {
						tell(n, agreeMessage{kind: agreeCommit, epoch: msg.epoch})
					}
				} else if f, news := n.reg.Fail(Failure{int(msg.rank), uint64(msg.epoch)}); news {
					tell(n, agreeMessage{agreeFail, uint8(f.Rank), uint8(f.Epoch)})
				}
			}
			if r.dead || r.ended || r.epoch == epochs {
				continue
			}
			if len(r.down) > 0 {
				n := m.To(false, "rank %d hears kind %d, epoch %d of rank %d", i, int(r.down[0].kind), int(r.down[0].epoch), int(r.down[0].rank))
				q := &n.ranks[i]
				msg := r.down[0]
				q.down = slices.Clone(r.down[1:])
				if msg.kind == agreeCommit {
					q.verdict.Committed(uint64(msg.epoch))
				} else {
					q.verdict.Failed(Failure{int(msg.rank), uint64(msg.epoch)})
				}
			}
			together := true
			for _, p := range s.ranks {
				together = together && p.epoch >= r.epoch && !(p.epoch == r.epoch && (p.dead || p.failed || p.ended) && !p.done)
			}
			if !r.done && !r.failed && together {
				n := m.To(false, "rank %d is done with %d", i, int(r.epoch))
				q := &n.ranks[i]
				q.done = true
				if commit {
					q.voted = true
					send(&q.up, agreeMessage{kind: agreeVote, epoch: q.epoch})
				}
			}
			if s.faults > 0 && !r.failed {
				n := m.To(false, "rank %d fails in %d", i, int(r.epoch))
				n.faults--
				q := &n.ranks[i]
				q.failed = true
				send(&q.up, agreeMessage{agreeFail, uint8(i), q.epoch})
				n = m.To(false, "rank %d dies in %d", i, int(r.epoch))
				n.faults--
				q = &n.ranks[i]
				q.dead = true
				send(&q.up, agreeMessage{agreeFail, uint8(i), q.epoch}) // its connection ends
			}
			v := r.verdict
			returns, failure := v.Outcome(uint64(r.epoch), r.done && (!r.failed || commit), commit)
			if !returns {
				continue
			}
			if failure == nil {
				n := m.To(false, "rank %d returns from %d", i, int(r.epoch))
				q := &n.ranks[i]
				q.epoch++
				q.done, q.voted = false, false
				if commit && slices.ContainsFunc(s.ranks[:], func(p agreeRank) bool { return p.ended && p.epoch <= r.epoch }) {
					m.Wrong("one call, two outcomes")
				}
				continue
			}
			n := m.To(false, "rank %d returns the failure of rank %d in %d from %d", i, failure.Rank, int(failure.Epoch), int(r.epoch))
			q := &n.ranks[i]
			q.ended, q.error = true, *failure
			for _, p := range s.ranks {
				switch {
				case p.ended && p.error != *failure:
					m.Wrong("two failures")
				case commit && p.epoch > r.epoch:
					m.Wrong("one call, two outcomes")
				}
			}
		}
	}
	sys := &model.System[agreement]{
		Next: next,
		Final: func(s *agreement) bool {
			for _, r := range s.ranks {
				if !r.dead && !r.ended && r.epoch < epochs {
					return false
				}
			}
			return true
		},
		Append: func(b []byte, s *agreement) []byte {
			b = append(b, bit(s.reg.failed), byte(s.reg.failure.Rank), byte(s.reg.failure.Epoch), byte(s.reg.epoch), byte(s.reg.votes), byte(s.faults))
			for i := range s.ranks {
				r := &s.ranks[i]
				v := &r.verdict
				b = append(b, r.epoch, bit(r.done, r.voted, r.failed, r.dead, r.ended, v.failed), byte(r.error.Rank), byte(r.error.Epoch),
					byte(v.failure.Rank), byte(v.failure.Epoch), byte(v.committed))
				for _, q := range [][]agreeMessage{r.up, r.down} {
					b = append(b, byte(len(q)))
					for _, m := range q {
						b = append(b, m.kind, m.rank, m.epoch)
					}
				}
			}
			return b
		},
	}
	sys.Parse = func(b []byte, s *agreement) {
		*s = agreement{faults: int(b[5]), reg: Registrar{ranks: agreeRanks, failed: b[0] != 0, failure: Failure{int(b[1]), uint64(b[2])}, epoch: uint64(b[3]), votes: uint64(b[4]), without: off}}
		b = b[6:]
		for i := range s.ranks {
			f := func(n int) bool { return b[1]>>n&1 != 0 }
			r := &s.ranks[i]
			*r = agreeRank{epoch: b[0], done: f(0), voted: f(1), failed: f(2), dead: f(3), ended: f(4), error: Failure{int(b[2]), uint64(b[3])}}
			r.verdict = Verdict{failed: f(5), failure: Failure{int(b[4]), uint64(b[5])}, committed: uint64(b[6]), without: off}
			b = b[7:]
			for _, q := range []*[]agreeMessage{&r.up, &r.down} {
				n := int(b[0])
				for b = b[1:]; n > 0; n-- {
					*q = append(*q, agreeMessage{b[0], b[1], b[2]})
					b = b[3:]
				}
			}
		}
	}
	sys.Start = agreement{faults: faults, reg: Registrar{ranks: agreeRanks, without: off}}
	for i := range sys.Start.ranks {
		sys.Start.ranks[i].verdict.without = off
	}
	return sys
}

func TestAgreement(t *testing.T) {
	epochs := uint8(2)
	if *deep {
		epochs = 3
	}
	for _, commit := range []bool{false, true} {
		r := agreeSystem(epochs, 2, commit, 0).Explore()
		t.Logf("commit %v: %d states", commit, r.States)
		require.Equal(t, model.OK, r.Outcome, r)
	}
}

func TestAgreementWithout(t *testing.T) {
	for rule, commit := range map[rule]bool{firstWins: false, voteFirst: true} {
		t.Run(rule.String(), func(t *testing.T) {
			r := agreeSystem(2, 2, commit, rule).Explore()
			t.Logf("without: %v", r)
			require.Contains(t, []model.Outcome{model.Wrong, model.Hang}, r.Outcome)
		})
	}
}
