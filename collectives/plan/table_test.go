package plan

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// all builds the schedules of all ranks.
func all(t testing.TB, algorithm string, s Shape) []*Schedule {
	t.Helper()
	schedules := make([]*Schedule, s.Ranks)
	for r := range schedules {
		var err error
		schedules[r], err = Build(algorithm, s, r)
		require.NoError(t, err)
	}
	return schedules
}

// sizes are the rank counts of the table.
func sizes() []int {
	var list []int
	for n := 1; n <= 17; n++ {
		list = append(list, n)
	}
	if raceDetector { // nothing happens at the same time
		return []int{1, 3, 4}
	}
	if testing.Short() {
		return append(slices.DeleteFunc(list, func(n int) bool { return n > 5 && n != 8 && n != 13 }), 17)
	}
	return append(list, 32)
}

// shapes are those of a collective on n ranks.
func shapes(c Collective, n int) []Shape {
	base := Shape{Collective: c, Ranks: n, ElemBytes: 4, MessageBytes: 64, Cells: 4}
	if c == Barrier {
		base2 := base
		base2.Cells = 1
		return []Shape{base, base2}
	}
	roots := []int{0}
	if base.Collective.rooted() {
		for r := 1; r < n; r++ {
			if n <= 5 || r == n/2 || r == n-1 {
				roots = append(roots, r)
			}
		}
	}
	var list []Shape
	add := func(count, elem, message, cells int) {
		for i, root := range roots {
			if i > 0 && n > 8 && count > 30 {
				continue
			}
			s := base
			s.Count, s.ElemBytes, s.MessageBytes, s.Cells, s.Root = count, elem, message, cells, root
			list = append(list, s)
		}
	}
	counts := []int{0, 1, n - 1, n, n + 1, 7, 13, 97}
	slices.Sort(counts)
	for _, count := range slices.Compact(counts) {
		add(count, 4, 64, 4)
		if n <= 9 || count > 90 {
			add(count, 4, 1<<20, 2) // one segment
		}
		if count < 20 || n <= 9 {
			add(count, 4, 12, 2) // messages of three elements
		}
		if count < 8 || n <= 5 {
			add(count, 2, 2, 3) // of one
			add(count, 8, 72, 1)
		}
	}
	if n <= 9 {
		add(40*n+3, 1, 17, 4)
		add(97, 3, 48, 8)
	}
	return list
}

// TestTable verifies all algorithms for all rank counts.
func TestTable(t *testing.T) {
	rows := map[string]string{}
	var mu sync.Mutex
	var names []string
	for _, c := range Collectives() {
		for _, name := range Algorithms(c) {
			key := fmt.Sprint(c, "/", name)
			names = append(names, key)
			t.Run(key, func(t *testing.T) {
				t.Parallel()
				verified, steps, segments := 0, 0, 0
				for _, n := range sizes() {
					for _, s := range shapes(c, n) {
						schedules := all(t, name, s)
						require.NoError(t, Verify(schedules))
						if schedules[0].CellElems > 0 {
							require.NoError(t, VerifyCalls(3, schedules))
						}
						verified++
						for _, x := range schedules {
							steps += len(x.Steps)
							for _, step := range x.Steps {
								segments = max(segments, step.Segment+1)
							}
						}
					}
				}
				mu.Lock()
				defer mu.Unlock()
				rows[key] = fmt.Sprintf("%-24s %6d %9d %9d", key, verified, steps, segments)
			})
		}
	}
	t.Cleanup(func() {
		t.Logf("%-24s %6s %9s %9s", "verified for all ranks", "shapes", "steps", "segments")
		for _, key := range names {
			t.Log(rows[key])
		}
	})
}
