package lane

import (
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/internal/model"
)

// small is set where all is slow: exploring is one goroutine's work, of which a race
// detector finds nothing.
var small bool

// deep explores larger bounds: minutes and some GiB of memory.
var deep = flag.Bool("deep", false, "explore larger bounds")

func twos(n int) []uint64 { return ofUnits(2, n) }

func ofUnits(units uint64, n int) []uint64 {
	l := make([]uint64, n)
	for i := range l {
		l[i] = units
	}
	return l
}

// worlds are the bounds within which nothing wrong is possible.
var worlds = []struct {
	name string
	deep bool
	bounds
}{
	{"two primaries", false, bounds{lengths: twos(3), shape: Shape{2, 4}, faults: 2}},
	{"one primary", false, bounds{lengths: twos(4), shape: Shape{1, 3}, faults: 2}},
	{"two members", false, bounds{lengths: ofUnits(1, 2), shape: Shape{1, 3}, receivers: 2, faults: 2}},
	{"two members, three messages", false, bounds{lengths: ofUnits(1, 3), shape: Shape{1, 2}, receivers: 2, faults: 1}},
	{"two members, two units", false, bounds{lengths: twos(2), shape: Shape{1, 2}, receivers: 2, faults: 1}},
	{"empty messages", false, bounds{lengths: []uint64{2, 0, 0, 2}, shape: Shape{2, 4}, faults: 2}},
	{"releases of two", false, bounds{lengths: twos(4), shape: Shape{2, 4}, faults: 2, batch: 2, flights: 1}},
	{"given up", false, bounds{lengths: twos(3), shape: Shape{1, 3}, faults: 2, giveUp: true, flights: 1}},
	{"repeats", false, bounds{lengths: twos(3), shape: Shape{1, 3}, faults: 1, repeat: true}},
	{"another way", false, bounds{lengths: twos(3), shape: Shape{1, 3}, faults: 2, detour: true}},
	{"another way, two primaries", false, bounds{lengths: twos(3), shape: Shape{2, 4}, faults: 2, detour: true, flights: 1}},

	{"places", false, bounds{lengths: []uint64{1, 1, 2, 1}, shape: Shape{1, 4}, faults: 2, slot: 3, slots: 3}},
	{"places, two primaries", false, bounds{lengths: []uint64{1, 1, 2, 1}, shape: Shape{2, 4}, faults: 2, slot: 2, slots: 4, flights: 1}},
	{"places, another way", false, bounds{lengths: []uint64{1, 1, 2}, shape: Shape{1, 4}, faults: 2, slot: 2, slots: 4, detour: true, giveUp: true, flights: 1}},

	{"places, moving", false, bounds{lengths: []uint64{2, 2, 1, 1}, shape: Shape{1, 4}, faults: 2, slot: 3, slots: 3, moves: true}},
	{"places, moving, two primaries", false, bounds{lengths: []uint64{2, 1, 2, 2}, shape: Shape{2, 4}, faults: 2, slot: 3, slots: 4, flights: 1, moves: true}},

	{"two primaries, four messages", false, bounds{lengths: twos(4), shape: Shape{2, 4}, faults: 2}},
	{"repeats, two faults", true, bounds{lengths: twos(3), shape: Shape{1, 3}, faults: 2, repeat: true}},
	{"three faults", false, bounds{lengths: twos(3), shape: Shape{2, 5}, faults: 3}},
	{"two members, two primaries", true, bounds{lengths: ofUnits(1, 3), shape: Shape{2, 4}, receivers: 2, faults: 2, most: 60e6}},
	{"three units", true, bounds{lengths: ofUnits(3, 3), shape: Shape{2, 4}, faults: 2}},
	{"everything", true, bounds{lengths: []uint64{2, 1, 0}, shape: Shape{2, 4}, faults: 2, giveUp: true, detour: true, repeat: true, most: 60e6}},
}

func TestLane(t *testing.T) {
	for _, w := range worlds {
		t.Run(w.name, func(t *testing.T) {
			if w.deep && !*deep || small && (w.faults > 1 || w.receivers > 1 && w.lengths[0] > 1) {
				return
			}
			begin := time.Now()
			r := w.system().Explore()
			t.Logf("%d states in %v", r.States, time.Since(begin).Round(time.Millisecond))
			require.Equal(t, model.OK, r.Outcome, r)
		})
	}
}
