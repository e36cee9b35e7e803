package faults

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWhenExact has the pieces that another program computed from the package's page.
func TestWhenExact(t *testing.T) {
	const seed = 8717895732742165505
	for _, c := range []struct {
		kind Kind
		want []Delay
	}{
		{Part, []Delay{Never}},
		{Part, []Delay{Now, Never}},
		{Part, []Delay{Now, Never, Now, Now, Now, Never, Never}},
		{Late, []Delay{5}},
		{Late, []Delay{5, 15}},
		{Late, []Delay{5, 15, Now, Now, Now, 4, 225}},
	} {
		for i, want := range c.want {
			require.Equal(t, want, Fault{c.kind, seed}.When(i, len(c.want)), "%v piece %d of %d", c.kind, i, len(c.want))
		}
	}
}

// TestWhen: what each kind promises holds for every number of pieces.
func TestWhen(t *testing.T) {
	for pieces := 1; pieces <= 40; pieces++ {
		for seed := range uint64(200) {
			for kind := None; kind <= Dead; kind++ {
				f := Fault{kind, splitMix(seed, 0)}
				require.Equal(t, kind != None, f.Reported())
				now, later, never := 0, 0, 0
				for i := range pieces {
					switch f.When(i, pieces) {
					case Now:
						now++
					case Never:
						never++
					default:
						later++
					}
				}
				require.Equal(t, pieces, now+later+never)
				where := []any{"%v seed %d pieces %d", kind, seed, pieces}
				switch kind {
				case None, Ack:
					require.Equal(t, pieces, now, where...)
				case Drop, Dead:
					require.Equal(t, pieces, never, where...)
				case Part:
					require.Zero(t, later, where...)
					if pieces > 1 {
						require.NotZero(t, now, where...)
						require.NotZero(t, never, where...)
					}
				case Late:
					require.Zero(t, never, where...)
					require.NotZero(t, later, where...)
				}
			}
		}
	}
}

// TestWhenReachesAll: with few pieces, every outcome that a kind allows comes up.
func TestWhenReachesAll(t *testing.T) {
	for pieces := 1; pieces <= 5; pieces++ {
		part, late := map[int]bool{}, map[int]bool{} // masks of the pieces executed before the report
		for seed := range uint64(20000) {
			p, l := 0, 0
			for i := range pieces {
				p |= count(Fault{Part, splitMix(seed, 0)}.When(i, pieces) == Now) << i
				l |= count(Fault{Late, splitMix(seed, 0)}.When(i, pieces) == Now) << i
			}
			part[p], late[l] = true, true
		}
		if pieces == 1 {
			require.Len(t, part, 2, "one piece, executed or not")
		} else {
			require.Len(t, part, 1<<pieces-2, "all but none and all of %d", pieces)
		}
		require.Len(t, late, 1<<pieces-1, "all but all of %d", pieces)
	}
}

// TestShares: of many pieces sometimes few are lost, sometimes most.
func TestShares(t *testing.T) {
	const pieces, n = 200, 1000
	few, most := 0, 0
	for seed := range uint64(n) {
		lost := 0
		for i := range pieces {
			lost += count(Fault{Part, splitMix(seed, 0)}.When(i, pieces) == Never)
		}
		few += count(lost < pieces/10)
		most += count(lost > pieces*9/10)
	}
	near(t, few, n, 0.1, "few lost")
	near(t, most, n, 0.1, "most lost")
}

// TestLateness: x steps or more with probability 1/√x, at every scale.
func TestLateness(t *testing.T) {
	const n = 400_000
	for _, steps := range []Delay{1, 2, 3, 4, 10, 100, 10_000, 1_000_000, 100_000_000} {
		beyond := 0
		for seed := range uint64(n) {
			beyond += count(Fault{Late, splitMix(seed, 0)}.When(0, 1) >= steps)
		}
		near(t, beyond, n, 1/math.Sqrt(float64(steps)), "%d steps or more", steps)
	}
}

// TestLatest takes the fault whose first piece draws the smallest word, 0: late
// beyond all numbers is the largest number, and not never.
func TestLatest(t *testing.T) {
	var five uint64 = 5
	f := Fault{Late, -(five * 0x9e3779b97f4a7c15)} // wraps
	require.Zero(t, splitMix(f.Seed, 4))
	require.Equal(t, Never-1, f.When(0, 1))
}
