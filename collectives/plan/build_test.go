package plan

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBuildRefuses(t *testing.T) {
	good := Shape{Collective: Reduce, Ranks: 4, Count: 8, ElemBytes: 4, MessageBytes: 64, Cells: 4, Root: 3}
	_, err := Build("direct", good, 3)
	require.NoError(t, err)
	for name, spoil := range map[string]func(*Shape){
		"no such collective":              func(s *Shape) { s.Collective = 0 },
		"ranks must be":                   func(s *Shape) { s.Ranks = 0 },
		"no root 4":                       func(s *Shape) { s.Root = 4 },
		"root 3 of a collective without":  func(s *Shape) { s.Collective = AllReduce },
		"negative count":                  func(s *Shape) { s.Count = -1 },
		"a barrier has no elements":       func(s *Shape) { s.Collective, s.Root = Barrier, 0 },
		"elements must have a byte":       func(s *Shape) { s.ElemBytes = 0 },
		"message of 3 bytes holds no":     func(s *Shape) { s.MessageBytes = 3 },
		"a lane needs a cell":             func(s *Shape) { s.Cells = 0 },
		"too many bytes":                  func(s *Shape) { s.Count = math.MaxInt },
		"no rank 3|ranks must be|no root": func(s *Shape) { s.Ranks = 3 },
	} {
		s := good
		spoil(&s)
		_, err := Build("direct", s, 3)
		var shape *ShapeError
		require.ErrorAs(t, err, &shape)
		require.Regexp(t, name, err.Error())
		require.Equal(t, s, shape.Shape)
	}
	_, err = Build("magic", good, 0)
	var unknown *AlgorithmError
	require.ErrorAs(t, err, &unknown)
	require.Equal(t, `plan: reduce has no algorithm "magic"`, err.Error())

	long := good
	long.Count, long.MessageBytes = 1<<28, 4
	_, err = Build("direct", long, 3)
	require.ErrorAs(t, err, new(*LengthError))
}

func TestLookup(t *testing.T) {
	require.Nil(t, Algorithms(0))
	require.Nil(t, Algorithms(200))
	for _, c := range Collectives() {
		names := Algorithms(c)
		require.Equal(t, names, Algorithms(c))
		sorted := slices.Sorted(slices.Values(names))
		require.Len(t, slices.Compact(sorted), len(names))
		for _, name := range names {
			a, ok := Lookup(c, name)
			require.True(t, ok)
			require.Equal(t, c, a.Collective)
			require.NotEmpty(t, a.Source)
			require.Equal(t, c.reduces(), a.Order != "", name)
		}
		_, ok := Lookup(c, "magic")
		require.False(t, ok)
	}
}

// TestPure: equal arguments give equal schedules, and the rank is all that
// differs.
func TestPure(t *testing.T) {
	for _, c := range Collectives() {
		for _, name := range Algorithms(c) {
			s := Shape{Collective: c, Ranks: 6, Count: 50, ElemBytes: 2, MessageBytes: 32, Cells: 3}
			if c == Barrier {
				s.Count = 0
			}
			require.Equal(t, all(t, name, s), all(t, name, s))
		}
	}
}

// TestMulticast: an algorithm says so if and only if it uses multicast memory.
func TestMulticast(t *testing.T) {
	for _, c := range Collectives() {
		for _, name := range Algorithms(c) {
			a, _ := Lookup(c, name)
			s := Shape{Collective: c, Ranks: 4, Count: 9, ElemBytes: 2, MessageBytes: 32, Cells: 3}
			if c == Barrier {
				s.Count = 0
			}
			for _, x := range all(t, name, s) {
				require.Equal(t, a.Multicast, x.CellElems > 0)
				require.Equal(t, a.Multicast, slices.ContainsFunc(x.Steps, func(s Step) bool {
					return s.Kind == PutMulti || s.Kind == PullReduce || s.Dst.Buf == Multi || len(s.Srcs) > 0 && (s.Srcs[0].Buf == Multi || s.Srcs[0].Buf == Board)
				}))
			}
		}
	}
}

// TestClaimsAreTight: where all shares are equal, bounds are reached.
func TestClaimsAreTight(t *testing.T) {
	for _, c := range Collectives() {
		for _, name := range Algorithms(c) {
			for n := 2; n <= 17; n++ {
				s := Shape{Collective: c, Ranks: n, Count: 16 * n, ElemBytes: 4, MessageBytes: 1 << 16, Cells: 4}
				if c == Barrier {
					s.Count = 0
				}
				a, _ := Lookup(c, name)
				claim, got := a.Claim(s), Measure(all(t, name, s))
				if f := foldOf(n); name == "doubling" && c == AllGather && f.rem > 0 || name == "halving" && f.rem > 0 || name == "doubletree" {
					// Bounds: not all that is largest is at one rank.
					require.LessOrEqual(t, got.RankElems, claim.RankElems)
					claim.RankElems = got.RankElems
				}
				require.Equal(t, claim, got, "%v %s on %d", c, name, n)
			}
		}
	}
}

// TestOrders: the orders are of the ranks that a result is of, each once, and
// where they are said to be in rank order they are.
func TestOrders(t *testing.T) {
	for _, c := range Collectives() {
		if !c.reduces() {
			continue
		}
		for _, name := range Algorithms(c) {
			a, _ := Lookup(c, name)
			most := 33
			if raceDetector { // nothing happens at the same time
				most = 9
			}
			for n := 2; n <= most; n++ {
				s := Shape{Collective: c, Ranks: n, Count: 5 * n, ElemBytes: 4, MessageBytes: 40, Cells: 2}
				if c.scans() || c == ReduceScatter {
					s.Count = 2
				}
				for root := range n {
					s.Root = root
					orders := a.order(s)
					for r := range n {
						for i := range s.Count {
							checkOrder(t, a, s, r, i, orders[s.result(r, i)])
						}
						if s.results() == s.Count {
							break // the same for all ranks
						}
					}
					if !c.rooted() {
						break
					}
				}
			}
		}
	}
}

// checkOrder checks the order of element i of a rank's result.
func checkOrder(t *testing.T, a Algorithm, s Shape, rank, i int, o *order) {
	t.Helper()
	n := s.Ranks
	if s.Collective == Scan {
		n = rank + 1
	} else if s.Collective == Exscan {
		if n = rank; n == 0 {
			require.Nil(t, o)
			return
		}
	}
	var ranks, rotated []int
	for i := range n {
		ranks = append(ranks, i)
		rotated = append(rotated, (s.Root+i)%n)
	}
	got := o.leaves()
	require.Equal(t, ranks, slices.Sorted(slices.Values(got)), "%s", o)
	if a.RankOrder {
		require.Equal(t, ranks, got)
		if n > 1 {
			require.Len(t, o.of, n, "at once: %s", o)
		}
	}
	switch a.Name {
	case "ring":
		require.Equal(t, 1, descents(append(got, got[0])))
		if s.Collective == ReduceScatter {
			require.Equal(t, rank, got[n-1])
		}
	case "multimem":
		require.Equal(t, ranks, got)
		require.Len(t, o.of, n)
	case "doubling", "chain":
		require.Equal(t, ranks, got)
	case "halving":
		if s.Collective == AllReduce {
			require.Equal(t, ranks, got)
		} else if n&(n-1) == 0 { // far ranks first
			require.Equal(t, 0, got[0])
			require.Equal(t, n/2, got[1])
			require.Equal(t, n-1, got[n-1])
		}
	case "tree":
		require.Equal(t, rotated, got)
	case "doubletree":
		if n%2 == 1 || i < 10 { // the first segment goes by the first tree
			require.Equal(t, rotated, got)
		}
	}
}

func descents(list []int) int {
	n := 0
	for i := 1; i < len(list); i++ {
		if list[i] < list[i-1] {
			n++
		}
	}
	return n
}

// TestBlocks: ranges of the caller's memory are within one block where a message
// does not hold two, so that a caller may divide a call.
func TestBlocks(t *testing.T) {
	for _, c := range Collectives() {
		if c == Barrier {
			continue
		}
		for _, name := range Algorithms(c) {
			for n := 2; n <= 17; n++ {
				if raceDetector && n != 3 { // nothing happens at the same time
					continue
				}
				for _, count := range []int{5, 8, 9, 20} {
					s := Shape{Collective: c, Ranks: n, Count: count, ElemBytes: 4, MessageBytes: 36, Cells: 3}
					if c.rooted() {
						s.Root = n / 2
					}
					for _, x := range all(t, name, s) {
						for _, step := range x.Steps {
							for _, r := range append(slices.Clone(step.Srcs), step.Dst) {
								if (r.Buf == Send || r.Buf == Recv) && r.Len() > 0 {
									require.Equal(t, r.From/count, (r.To-1)/count, "%v by %s: %v", s, name, step)
								}
							}
						}
					}
				}
			}
		}
	}
}

// TestTrees: places fit together, and a rank below the root of a double tree is
// an inner one once.
func TestTrees(t *testing.T) {
	for name, grow := range map[string]grower{"binomial": binomial, "chain": chain, "double": doubleTree} {
		for n := 2; n <= 70; n++ {
			for _, root := range []int{0, n / 2, n - 1} {
				inner := make([]int, n)
				for segment := range 2 {
					seen := 0
					for r := range n {
						x := grow(n, root, r, segment)
						require.Equal(t, r == root, x.parent < 0)
						inner[r] += min(len(x.children), 1)
						for _, c := range x.children {
							y := grow(n, root, c.rank, segment)
							require.Equal(t, r, y.parent, name)
							require.Equal(t, c.stage, y.up, name)
							require.Less(t, c.stage, x.stages)
							if x.parent >= 0 {
								require.Less(t, c.stage, x.up)
							}
							seen++
						}
					}
					require.Equal(t, n-1, seen)
				}
				for r := range n {
					if name == "double" && r != root {
						require.LessOrEqual(t, inner[r], 1)
					}
				}
			}
		}
	}
}

// TestPairs: everybody meets everybody once.
func TestPairs(t *testing.T) {
	for n := 1; n <= 40; n++ {
		for r := range n {
			met := make([]int, n)
			for round := range pairings(n) {
				o := opponent(n, r, round)
				require.Equal(t, r, opponent(n, o, round))
				met[o]++
			}
			for o := range met {
				if o != r || n%2 == 1 {
					require.Equal(t, 1, met[o])
				} else {
					require.Zero(t, met[o])
				}
			}
		}
	}
}

// FuzzBuild: any shape is built or refused, and what is built is right.
func FuzzBuild(f *testing.F) {
	f.Add(uint8(1), uint8(2), 5, 100, 4, 0, 64, 4)
	f.Add(uint8(5), uint8(2), 9, 10, 3, 0, 30, 1)
	f.Add(uint8(6), uint8(1), 11, 5, 4, 7, 64, 2)
	f.Add(uint8(7), uint8(1), 12, 9, 4, 5, 64, 2)
	f.Add(uint8(8), uint8(2), 7, 6, 2, 0, 20, 3)
	f.Add(uint8(10), uint8(2), 9, 20, 8, 0, 40, 2)
	f.Add(uint8(3), uint8(3), 1<<16, math.MaxInt>>20, 1<<10, 3, math.MaxInt>>10, math.MaxInt>>20)
	f.Fuzz(func(t *testing.T, collective, algorithm uint8, ranks, count, elem, root, message, cells int) {
		s := Shape{Collective(collective), ranks, count, elem, root, message, cells}
		names := Algorithms(s.Collective)
		if len(names) == 0 {
			names = []string{"none"}
		}
		name := names[int(algorithm)%len(names)]
		x, err := Build(name, s, ranks/2)
		if err != nil {
			return
		}
		if len(x.Steps) > MaxSteps {
			t.Fatalf("%d steps", len(x.Steps))
		}
		// Larger ones take long.
		if ranks <= 12 && count <= 200 && len(x.Steps) < 2000 && x.ScratchElems < 1<<16 && x.MultiElems < 1<<16 {
			if err := Verify(all(t, name, s)); err != nil {
				t.Fatal(err)
			}
		}
	})
}
