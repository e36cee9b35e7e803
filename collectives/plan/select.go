package plan

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// TableOptions limit what a table may choose from.
type TableOptions struct {
	Topology  Topology  // nil: all ranks are on one node
	Multicast Multicast // what the transport has
	Spec      Spec      // what the user allows
	// Allow, if not nil, says whether an algorithm may be used at all.
	Allow func(Algorithm) bool
}

// Multicast is the multicast memory of a transport.
type Multicast uint8

const (
	NoMulticast     Multicast = iota
	MappedMulticast           // replicas in memory that all map, and write and read one by one
	FabricMulticast           // a fabric's, which replicates and reduces on the way
)

// Among is the multicast memory that is worth something among n ranks, if nothing
// else is asked for: two of a fabric have nobody to multicast to.
func (m Multicast) Among(n int) Multicast {
	if m == FabricMulticast && n < 3 {
		return NoMulticast
	}
	return m
}

// A Table says which algorithm is the fastest for how many bytes. It has one
// for every number of bytes. It never changes.
type Table struct {
	shape Shape
	bands []Band
}

// A Band is where an algorithm is chosen: from FromBytes to the next band.
type Band struct {
	FromBytes int
	Algorithm string
}

// maxTableBytes is the largest size that a table looks at. What is cheapest
// there is taken for all larger ones: only the costs per byte count by then.
const maxTableBytes = 1 << 30

// How large a part of its time another algorithm must save to take over from
// the one that is chosen for smaller sizes. It keeps a table from going to and
// fro where two cost the same, and where segments are rounded up.
const takeOver = 0.03

// NewTable compares the algorithms of a collective for all sizes by the model.
// The shape's count plays no part, and its root hardly any on one node. It is an
// error if nothing is allowed.
//
// A table takes milliseconds for up to 16 ranks; callers make one when they
// first need it, and keep it. Equal arguments give equal tables, so that ranks
// that run the same program need not agree.
func NewTable(m *Model, s Shape, o TableOptions) (*Table, error) {
	names, err := o.candidates(s.Collective)
	if err != nil {
		return nil, err
	}
	return newTable(m, Build, names, s, o.Topology)
}

// candidates lists the algorithms that may be chosen.
func (o *TableOptions) candidates(c Collective) ([]string, error) {
	var usable []string
	for _, name := range Algorithms(c) {
		a, ok := Lookup(c, name)
		if ok && (o.Multicast != NoMulticast || !a.Multicast) && (o.Allow == nil || o.Allow(a)) {
			usable = append(usable, name)
		}
	}
	if len(usable) == 0 {
		return nil, fmt.Errorf("plan: no algorithm for %s can be used, of %s", c, strings.Join(Algorithms(c), ", "))
	}
	return o.Spec.choose(c, usable)
}

func newTable(m *Model, build buildFunc, names []string, s Shape, topology Topology) (*Table, error) {
	s.Count = 0
	t := &Table{shape: s}
	if names = affordable(build, names, s); len(names) == 1 {
		// Nothing to compare, but it must work.
		if _, err := build(names[0], s, 0); err != nil {
			return nil, err
		}
		t.bands = []Band{{0, names[0]}}
		return t, nil
	}
	c := &comparison{names: names}
	for _, name := range names {
		c.estimators = append(c.estimators, newEstimator(m, build, name, s, topology, stepBudget(s.Ranks)))
	}
	counts := tableCounts(s)
	before := 0 // the count before
	chosen := -1
	for _, count := range counts {
		best, err := c.best(count, chosen)
		if err != nil {
			return nil, err
		}
		switch {
		case chosen < 0:
			t.bands = append(t.bands, Band{0, names[best]})
		case best != chosen:
			from := c.refine(before, count, chosen, best)
			t.bands = append(t.bands, Band{from * s.ElemBytes, names[best]})
		}
		chosen, before = best, count
	}
	return t, nil
}

// affordable leaves out, among very many ranks, the algorithms that take so many
// steps for one message that simulating them takes seconds. They have a message
// for each two ranks and gain little by it. One always stays.
func affordable(build buildFunc, names []string, s Shape) []string {
	if s.Ranks <= manyRanks {
		return names
	}
	const mostSteps = 1 << 19 // of all ranks
	var kept []string
	least, leastSteps := "", math.MaxInt
	for _, name := range names {
		steps, err := newEstimator(nil, build, name, s, nil, 0).messageSteps()
		if err != nil {
			continue
		}
		if steps*s.Ranks <= mostSteps {
			kept = append(kept, name)
		}
		if steps < leastSteps {
			least, leastSteps = name, steps
		}
	}
	switch {
	case len(kept) > 0:
		return kept
	case least != "":
		return []string{least}
	}
	return names // their errors come up again
}

// stepBudget bounds the simulations of an estimate, so that they take
// milliseconds. It can't be less than some steps per pair of ranks.
func stepBudget(ranks int) int { return max(defaultStepBudget, 8*ranks*ranks) }

// tableCounts lists the counts that a table looks at: powers of two.
func tableCounts(s Shape) []int {
	if s.Collective == Barrier || s.ElemBytes <= 0 {
		return []int{0}
	}
	counts := []int{1}
	for count := 1; count*s.ElemBytes < maxTableBytes; {
		count *= 2
		counts = append(counts, count)
	}
	return counts
}

// A comparison has the estimators of all candidates.
type comparison struct {
	names      []string
	estimators []*estimator
}

// best returns the cheapest candidate for a count, or the one chosen so far
// where that is hardly slower. One that can't be built for this shape is none.
func (c *comparison) best(count, chosen int) (int, error) {
	best, bestNs := -1, math.Inf(1)
	var errs []error
	for i := range c.estimators {
		ns, err := c.ns(i, count)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if ns < bestNs {
			best, bestNs = i, ns
		}
	}
	if best < 0 {
		return 0, errors.Join(errs...)
	}
	if chosen >= 0 && chosen != best {
		if ns, err := c.ns(chosen, count); err == nil && !takesOver(bestNs, ns) {
			return chosen, nil
		}
	}
	return best, nil
}

func (c *comparison) ns(i, count int) (float64, error) { return c.estimators[i].at(count) }

func takesOver(ns, chosenNs float64) bool { return ns < chosenNs*(1-takeOver) }

// refine finds the count in (lo, hi] from which on candidate b takes over from
// a. It does at hi, and doesn't at lo.
func (c *comparison) refine(lo, hi, a, b int) int {
	for hi-lo > max(1, lo/8) {
		mid := lo + (hi-lo)/2
		aNs, errA := c.ns(a, mid)
		bNs, errB := c.ns(b, mid)
		if errB == nil && (errA != nil || takesOver(bNs, aNs)) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}

// Choose returns the algorithm for a size: the bytes of the shape's Count, that
// is, of what each rank gives or, where there are blocks, of each block.
func (t *Table) Choose(bytes int) string {
	i, found := slices.BinarySearchFunc(t.bands, bytes, func(b Band, bytes int) int { return b.FromBytes - bytes })
	if !found {
		i--
	}
	return t.bands[max(i, 0)].Algorithm
}

// Bands returns what the table consists of, the smallest sizes first. The first
// band begins at 0.
func (t *Table) Bands() []Band { return slices.Clone(t.bands) }

// String writes the table in one line, as "allreduce, 4 ranks: direct < 4 KiB
// <= ring".
func (t *Table) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d ranks: %s", t.shape.Collective, t.shape.Ranks, t.bands[0].Algorithm)
	for _, band := range t.bands[1:] {
		fmt.Fprintf(&b, " < %s <= %s", FormatBytes(band.FromBytes), band.Algorithm)
	}
	return b.String()
}

// FormatBytes writes a number of bytes, in the largest of B, KiB, MiB and GiB of
// which there is one.
func FormatBytes(n int) string {
	units := []struct {
		name string
		size int
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}
	for _, u := range units {
		if n >= u.size {
			return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/float64(u.size)), ".0") + " " + u.name
		}
	}
	return fmt.Sprintf("%d B", n)
}
