package fabric

import (
	"math"
	"slices"
)

// Address space of one rank's device between processes. Memory is used only for
// what is allocated.
const (
	defaultArena = 1<<26 + (1<<36-1<<26)*(math.MaxInt>>62)
	minArena     = 1 << 24
	leastDefault = min(1<<28, defaultArena) // if the system does not grant defaultArena
)

// An extent is a range of an arena.
type extent struct{ at, n uint64 }

// An arena hands ranges of address space out, first fit.
type arena struct {
	unused []extent // sorted, none next to another
}

func newArena(at, end uint64) arena { return arena{unused: []extent{{at, end - at}}} }

// take returns the start of n bytes.
func (a *arena) take(n uint64) (at uint64, ok bool) {
	for i := range a.unused {
		e := &a.unused[i]
		if e.n < n {
			continue
		}
		at = e.at
		e.at, e.n = e.at+n, e.n-n
		if e.n == 0 {
			a.unused = slices.Delete(a.unused, i, i+1)
		}
		return at, true
	}
	return 0, false
}

// give takes a range back that take handed out.
func (a *arena) give(at, n uint64) {
	i, _ := slices.BinarySearchFunc(a.unused, at, func(e extent, at uint64) int {
		if e.at < at {
			return -1
		}
		return 1
	})
	a.unused = slices.Insert(a.unused, i, extent{at, n})
	if i+1 < len(a.unused) && a.unused[i].at+a.unused[i].n == a.unused[i+1].at {
		a.unused[i].n += a.unused[i+1].n
		a.unused = slices.Delete(a.unused, i+1, i+2)
	}
	if i > 0 && a.unused[i-1].at+a.unused[i-1].n == a.unused[i].at {
		a.unused[i-1].n += a.unused[i].n
		a.unused = slices.Delete(a.unused, i, i+1)
	}
}
