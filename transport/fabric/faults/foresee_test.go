package faults

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSuspects: the phases that may fail are those that do when they hold every
// operation, for whatever plan; and a replay of what a recorder saw says the same.
func TestSuspects(t *testing.T) {
	for _, plan := range []string{
		"", "rate=1", "seed=3,rate=0.2", "seed=4,rate=0.1,burst=7,from=20,to=300",
		"seed=5,rate=0.3,links=0>1;2>*,dead=3>*@77", "rate=0.5,kinds=late,ops=red", "dead=*>m@0",
	} {
		in := injector(t, plan)
		var records []Record
		r := NewRecorder(in, func(rec Record) { records = append(records, rec) })
		links := []Link{{0, 1}, {1, 0}, {2, Multicast}, {3, 1}}
		const blocks = 12
		want := map[Link][blocks]uint32{}
		for _, l := range links {
			var sets [blocks]uint32
			for k := range uint64(blocks * Block) {
				if r.Decide(l, 0, k, AllOps).Reported() {
					sets[k/Block] |= 1 << (k % Block)
				}
			}
			want[l] = sets
		}
		replay, err := NewReplay(records)
		require.NoError(t, err)
		for _, l := range links {
			for b := range uint64(blocks) {
				for _, f := range []Foreseer{in, r, replay} {
					require.Equal(t, want[l][b], f.Suspects(l, b), "%q %v block %d %T", plan, l, b, f)
				}
			}
		}
		require.Equal(t, ^uint32(0), NewRecorder(unforeseen{in}, nil).Suspects(links[0], 0))
	}
}

type unforeseen struct{ Decider }

func TestSuspectsAllocates(t *testing.T) {
	in := NewRecorder(injector(t, "seed=1,rate=0.01"), nil)
	require.Zero(t, testing.AllocsPerRun(100, func() { in.Suspects(Link{0, 1}, 9) }))
}

func BenchmarkSuspects(b *testing.B) {
	in := injector(b, "seed=1,rate=0.01")
	var block uint64
	for b.Loop() {
		in.Suspects(Link{0, 1}, block)
		block++
	}
}
