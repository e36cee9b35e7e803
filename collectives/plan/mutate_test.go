package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// clone copies schedules, so that a test can break them.
func clone(schedules []*Schedule) []*Schedule {
	var out []*Schedule
	for _, s := range schedules {
		c := *s
		c.Steps = slices.Clone(s.Steps)
		for i := range c.Steps {
			c.Steps[i].Srcs = slices.Clone(c.Steps[i].Srcs)
		}
		out = append(out, &c)
	}
	return out
}

// mutations break one step of a schedule; false: they cannot.
var mutations = []struct {
	name string
	do   func(s *Schedule, i int, rng *rand.Rand) bool
}{
	{"delete", func(s *Schedule, i int, _ *rand.Rand) bool {
		s.Steps = slices.Delete(s.Steps, i, i+1)
		return true
	}},
	{"duplicate", func(s *Schedule, i int, _ *rand.Rand) bool {
		s.Steps = slices.Insert(s.Steps, i, s.Steps[i])
		return true
	}},
	{"swap", func(s *Schedule, i int, rng *rand.Rand) bool {
		j := rng.IntN(len(s.Steps))
		s.Steps[i], s.Steps[j] = s.Steps[j], s.Steps[i]
		return i != j
	}},
	{"swap with next", func(s *Schedule, i int, _ *rand.Rand) bool {
		if i+1 == len(s.Steps) {
			return false
		}
		s.Steps[i], s.Steps[i+1] = s.Steps[i+1], s.Steps[i]
		return true
	}},
	{"peer", func(s *Schedule, i int, rng *rand.Rand) bool {
		x := &s.Steps[i]
		if x.Kind != Put && x.Kind != Wait && x.Kind != Release {
			return false
		}
		before := x.Peer
		x.Peer = rng.IntN(s.Shape.Ranks)
		return x.Peer != before
	}},
	{"length", func(s *Schedule, i int, _ *rand.Rand) bool {
		x := &s.Steps[i]
		x.Elems++
		return x.Kind == Wait
	}},
	{"move source", func(s *Schedule, i int, rng *rand.Rand) bool {
		x := &s.Steps[i]
		if len(x.Srcs) == 0 {
			return false
		}
		r := &x.Srcs[rng.IntN(len(x.Srcs))]
		d := rng.IntN(2)*2 - 1
		r.From, r.To = r.From+d, r.To+d
		return r.Len() > 0
	}},
	{"move destination", func(s *Schedule, i int, rng *rand.Rand) bool {
		x := &s.Steps[i]
		d := rng.IntN(2)*2 - 1
		x.Dst.From, x.Dst.To = x.Dst.From+d, x.Dst.To+d
		return x.Dst.Buf != 0
	}},
	{"buffer", func(s *Schedule, i int, rng *rand.Rand) bool {
		x := &s.Steps[i]
		if len(x.Srcs) == 0 {
			return false
		}
		r := &x.Srcs[rng.IntN(len(x.Srcs))]
		before := r.Buf
		r.Buf = Buffer(rng.IntN(6) + 1)
		return r.Buf != before && r.Len() > 0
	}},
	{"owner", func(s *Schedule, i int, rng *rand.Rand) bool {
		x := &s.Steps[i]
		r := &x.Dst
		if x.Kind == Copy {
			r = &x.Srcs[0]
		}
		before := r.Peer
		r.Peer = rng.IntN(s.Shape.Ranks)
		return r.Buf == Board && r.Peer != before
	}},
	{"order", func(s *Schedule, i int, rng *rand.Rand) bool {
		x := &s.Steps[i]
		if x.Kind != Combine {
			return false
		}
		a, b := rng.IntN(len(x.Srcs)), rng.IntN(len(x.Srcs))
		x.Srcs[a], x.Srcs[b] = x.Srcs[b], x.Srcs[a]
		return a != b
	}},
	{"complete", func(s *Schedule, i int, _ *rand.Rand) bool {
		x := &s.Steps[i]
		x.Complete = !x.Complete
		return true
	}},
}

// TestRandomMutations breaks schedules at random. Verify refuses them, or they
// are no worse than before: then they give the right results in random
// interleavings, executed by something else.
func TestRandomMutations(t *testing.T) {
	perShape, ranks := 25, []int{2, 3, 4, 6}
	if raceDetector { // nothing happens at the same time
		perShape, ranks = 5, []int{3}
	}
	type tally struct{ tried, survived int }
	tallies := map[string]*tally{}
	kinds := map[string]int{}
	moved, caught := 0, 0 // the numbers see most of what is refused, too
	rng := rand.New(rand.NewPCG(3, 14))
	for _, c := range Collectives() {
		for _, name := range Algorithms(c) {
			for _, n := range ranks {
				s := Shape{Collective: c, Ranks: n, Count: 13, ElemBytes: 4, MessageBytes: 16, Cells: 2}
				if c == Barrier {
					s.Count = 0
				}
				if s.Collective.rooted() {
					s.Root = n - 1
				}
				good := all(t, name, s)
				for range perShape {
					for _, m := range mutations {
						broken := clone(good)
						x := broken[rng.IntN(n)]
						if len(x.Steps) == 0 {
							continue
						}
						i := rng.IntN(len(x.Steps))
						was := x.Steps[i].String()
						if !m.do(x, i, rng) {
							continue
						}
						count := tallies[m.name]
						if count == nil {
							count = &tally{}
							tallies[m.name] = count
						}
						count.tried++
						if err := VerifyCalls(2, broken); err != nil {
							require.ErrorAs(t, err, new(*VerifyError))
							if m.name == "move source" {
								moved++
								for seed := range uint64(20) {
									if newWorld(seed, broken, broken).run() != nil {
										caught++
										break
									}
								}
							}
							continue
						}
						count.survived++
						kinds[m.name+" "+good[x.Rank].Steps[i].Kind.String()]++
						for seed := range uint64(20) {
							require.NoError(t, newWorld(seed, broken, broken).run(), "%v %s n=%d: %s of step %d of rank %d (%s)", c, name, n, m.name, i, x.Rank, was)
						}
					}
				}
			}
		}
	}
	tried, survived := 0, 0
	for _, m := range mutations {
		count := tallies[m.name]
		t.Logf("%-16s %6d tried, %5d equivalent", m.name, count.tried, count.survived)
		tried, survived = tried+count.tried, survived+count.survived
	}
	t.Log(kinds)
	// What remains is order within a rank that does not matter, such as that of two
	// puts to different peers, doing twice what can be done twice, and putting from
	// Recv what was copied there from Send.
	for _, name := range []string{"peer", "length", "move source", "move destination", "owner", "order", "complete"} {
		require.Zero(t, tallies[name].survived, name)
	}
	require.Less(t, survived, tried/4)
	require.Greater(t, caught, moved*9/10, "of %d", moved)
}

// TestEveryReduction breaks each reduction in each way that counts: two sources
// exchanged, one left out, one twice, complete or not. All are refused.
func TestEveryReduction(t *testing.T) {
	tried := 0
	for _, c := range Collectives() {
		for _, name := range Algorithms(c) {
			for n := 2; n <= 6 && c.reduces(); n++ {
				if raceDetector && n != 3 {
					continue
				}
				s := Shape{Collective: c, Ranks: n, Count: 7, ElemBytes: 4, MessageBytes: 16, Cells: 2}
				good := all(t, name, s)
				refused := func(r, i int, spoil func(x *Step)) {
					t.Helper()
					broken := clone(good)
					spoil(&broken[r].Steps[i])
					err := Verify(broken)
					require.ErrorAs(t, err, new(*VerifyError), "%v by %s: rank %d: %v", s, name, r, broken[r].Steps[i])
					tried++
				}
				for r, x := range good {
					for i, step := range x.Steps {
						if step.Kind != Combine {
							continue
						}
						refused(r, i, func(x *Step) { x.Complete = !x.Complete })
						for k := range step.Srcs {
							refused(r, i, func(x *Step) { x.Srcs = slices.Delete(x.Srcs, k, k+1) })
							refused(r, i, func(x *Step) { x.Srcs = slices.Insert(x.Srcs, k, x.Srcs[k]) })
							if k > 0 {
								refused(r, i, func(x *Step) { x.Srcs[k-1], x.Srcs[k] = x.Srcs[k], x.Srcs[k-1] })
							}
						}
					}
				}
			}
		}
	}
	t.Logf("%d reductions were refused", tried)
}

// TestEveryPosting breaks each step on a board in each way that counts: left out, of
// another rank, in the other cell, overwritten while it is under way, read before the
// last message came. All are refused.
func TestEveryPosting(t *testing.T) {
	tried := map[Kind]int{}
	for _, c := range []Collective{AllReduce, Broadcast} {
		for n := 2; n <= 5; n++ {
			s := Shape{Collective: c, Ranks: n, Count: 90, ElemBytes: 4, MessageBytes: 32, Cells: 2}
			good := all(t, "multimem", s)
			cell := good[0].CellElems
			refused := func(r, i int, what string, spoil func(x *Schedule)) {
				t.Helper()
				broken := clone(good)
				spoil(broken[r])
				require.ErrorAs(t, Verify(broken), new(*VerifyError), "%v: rank %d: %v: %s", s, r, good[r].Steps[i], what)
				tried[good[r].Steps[i].Kind]++
			}
			for r, x := range good {
				for i, step := range x.Steps {
					board := func(x *Schedule) *Range { return &x.Steps[i].Dst }
					if step.Kind == Copy {
						board = func(x *Schedule) *Range { return &x.Steps[i].Srcs[0] }
					}
					if board(x).Buf != Board {
						continue
					}
					refused(r, i, "left out", func(x *Schedule) { x.Steps = slices.Delete(x.Steps, i, i+1) })
					refused(r, i, "another rank", func(x *Schedule) { board(x).Peer = (board(x).Peer + 1) % n })
					refused(r, i, "the other cell", func(x *Schedule) {
						b := board(x)
						d := cell
						if b.From >= cell {
							d = -cell
						}
						b.From, b.To = b.From+d, b.To+d
					})
					if owner := board(x).Peer; step.Kind == Copy && owner != r {
						told := slices.IndexFunc(x.Steps, func(w Step) bool {
							return w.Kind == Wait && w.Stage == step.Stage && w.Segment == step.Segment && w.Peer == owner
						})
						refused(r, i, "read too early", func(x *Schedule) { x.Steps = slices.Insert(x.Steps, told, step) })
					}
					if step.Kind == PutMulti && step.Srcs[0].Buf == Scratch {
						refused(r, i, "overwritten", func(x *Schedule) {
							over := Step{Kind: Copy, Dst: step.Srcs[0], Srcs: []Range{{Buf: Send, To: step.Srcs[0].Len()}}}
							x.Steps = slices.Insert(x.Steps, i+1, over)
						})
					}
				}
			}
		}
	}
	t.Logf("%v were refused", tried)
}

// TestConcrete executes schedules with numbers in random interleavings, some
// ranks in place and others not.
func TestConcrete(t *testing.T) {
	for _, c := range Collectives() {
		for _, name := range Algorithms(c) {
			for n := 1; n <= 9; n++ {
				if raceDetector && n != 3 { // nothing happens at the same time
					continue
				}
				for seed := range uint64(6) {
					s := Shape{Collective: c, Ranks: n, Count: 17 * int(seed), ElemBytes: 8, MessageBytes: 32, Cells: 1 + int(seed)%3}
					if c == Barrier {
						s.Count = 0
					}
					if s.Collective.rooted() {
						s.Root = int(seed) % n
					}
					x := all(t, name, s)
					require.NoError(t, newWorld(seed, x, x).run(), fmt.Sprint(s, name))
				}
			}
		}
	}
}

// TestSequences executes sequences of different collectives, algorithms, counts
// and roots, with nothing between them, in random interleavings.
func TestSequences(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 2))
		n := 2 + rng.IntN(5)
		cells := 1 + rng.IntN(4)
		var calls [][]*Schedule
		for range 6 {
			c := Collectives()[rng.IntN(len(Collectives()))]
			name := Algorithms(c)[rng.IntN(len(Algorithms(c)))]
			if rng.IntN(2) == 0 { // replicas are where calls can meet
				c, name = []Collective{AllReduce, Broadcast}[rng.IntN(2)], "multimem"
			}
			s := Shape{Collective: c, Ranks: n, Count: rng.IntN(50), ElemBytes: 8, MessageBytes: 32, Cells: cells}
			if c == Barrier {
				s.Count = 0
			}
			if s.Collective.rooted() {
				s.Root = rng.IntN(n)
			}
			calls = append(calls, all(t, name, s))
		}
		require.NoError(t, newWorld(seed, calls...).run())
	}
}
