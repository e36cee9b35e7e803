package plan

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// buildFunc is Build, or something in its place in tests.
type buildFunc func(algorithm string, s Shape, rank int) (*Schedule, error)

// defaultStepBudget is how many steps of all ranks an estimate simulates at
// once, at most, as far as it has a choice.
const defaultStepBudget = 30000

// Estimate returns how long an algorithm takes, as Time does, but simulates only
// a few segments where there are many: from there on time grows linearly with
// the count, see estimator.
func (m *Model) Estimate(algorithm string, s Shape, t Topology) (ns float64, err error) {
	return newEstimator(m, Build, algorithm, s, t, defaultStepBudget).closely(s.Count)
}

// An estimator knows how long an algorithm takes for any count.
//
// A large count is cut into segments, all treated alike. Once the pipeline of
// segments is full, each further one takes as long as the one before. So the
// estimator simulates 1, 2, 4, … units of segments until the last two foretell
// the next within linearWithin, and extrapolates from there. Between the counts
// that it has simulated it interpolates where one in the middle is as foretold
// within middleWithin, and simulates more where not.
//
// A last message that isn't full costs as many steps as a full one. The lines
// ignore that: right after a full message they are low by a few steps.
type estimator struct {
	m         *Model
	build     buildFunc
	algorithm string
	shape     Shape // any count
	topology  Topology
	budget    int // steps of one simulation

	simulated int     // steps so far
	points    []point // in the order of the counts; nil until prepared
	perElemNs float64 // beyond the last point
	err       error
}

// A point is a count that was simulated. straight: times up to the next point
// are on a straight line.
type point struct {
	count    int
	ns       float64
	straight bool
}

const (
	linearWithin = 0.01
	middleWithin = 0.02
	maxDoublings = 10
	maxGroup     = 16
	wide         = 16
	// maxPoints bounds what an estimator of few ranks simulates: a schedule may be
	// crooked everywhere.
	maxPoints = 48
	// manyRanks is where simulations get so long that an estimator makes do with
	// the fewest, and that a table leaves out algorithms whose steps are too many.
	manyRanks = 32
)

func newEstimator(m *Model, build buildFunc, algorithm string, s Shape, t Topology, budget int) *estimator {
	return &estimator{m: m, build: build, algorithm: algorithm, shape: s, topology: t, budget: budget}
}

// at returns the time for a count.
func (e *estimator) at(count int) (float64, error) {
	if count < 0 {
		return e.simulate(count) // an error
	}
	if e.points == nil && e.err == nil {
		e.err = e.prepare()
	}
	if e.err != nil {
		return 0, e.err
	}
	for {
		i, found := slices.BinarySearchFunc(e.points, count, func(p point, count int) int { return p.count - count })
		if found {
			return e.points[i].ns, nil
		}
		if i == len(e.points) {
			last := e.points[i-1]
			return last.ns + float64(count-last.count)*e.perElemNs, nil
		}
		lo, hi := e.points[i-1], e.points[i]
		if lo.straight || len(e.points) >= maxPoints {
			return between(lo, hi, count), nil
		}
		if err := e.divide(i - 1); err != nil {
			return 0, err
		}
	}
}

// closely is at for one count only: it simulates a smaller one that leaves as
// many elements in its last message.
func (e *estimator) closely(count int) (float64, error) {
	if count <= e.messageElems() {
		return e.simulate(count)
	}
	if err := e.prepare(); err != nil {
		return 0, err
	}
	last := e.points[len(e.points)-1].count
	less := 0
	if count > last {
		half := last / 2 // whole messages, and units
		less = (count - last + half - 1) / half * half
	}
	ns, err := e.simulate(count - less)
	return ns + float64(less)*e.perElemNs, err
}

// between interpolates.
func between(lo, hi point, count int) float64 {
	return lo.ns + (hi.ns-lo.ns)*float64(count-lo.count)/float64(hi.count-lo.count)
}

// divide simulates a count between point i and the next.
func (e *estimator) divide(i int) error {
	lo, hi := e.points[i], e.points[i+1]
	// The geometric mean: small counts matter as much as large ones.
	middle := int(math.Sqrt(float64(max(1, lo.count)) * float64(hi.count)))
	middle = min(max(middle, lo.count+1), hi.count-1)
	ns, err := e.simulate(middle)
	if err != nil {
		return err
	}
	p := point{count: middle, ns: ns}
	if math.Abs(between(lo, hi, middle)-ns) <= middleWithin*ns {
		// The upper half, if wide, may have a bend yet, from where on bytes count
		// more than steps.
		e.points[i].straight, p.straight = true, hi.count <= wide*lo.count
	}
	e.points = slices.Insert(e.points, i+1, p)
	e.markNeighbours()
	return nil
}

// markNeighbours marks points that have no count between them.
func (e *estimator) markNeighbours() {
	for i := range len(e.points) - 1 {
		if e.points[i+1].count-e.points[i].count <= 1 {
			e.points[i].straight = true
		}
	}
}

func (e *estimator) messageElems() int {
	return max(1, e.shape.MessageBytes/max(1, e.shape.ElemBytes))
}

// simulate builds and simulates one count.
func (e *estimator) simulate(count int) (float64, error) {
	s := e.shape
	s.Count = count
	schedules, err := buildRanks(e.build, e.algorithm, s)
	if err != nil {
		return 0, err
	}
	for _, sc := range schedules {
		e.simulated += len(sc.Steps)
	}
	_, ns, err := e.m.Time(schedules, e.topology)
	if err != nil {
		return 0, fmt.Errorf("%s of %d elements: %w", e.algorithm, count, err)
	}
	return ns, nil
}

// prepare simulates the first points: none, one and as many elements as there
// are ranks, then units of segments until time is linear or the budget is spent.
func (e *estimator) prepare() error {
	unit, steps := 0, 0
	counts := []int{0}
	if e.shape.Collective != Barrier {
		var err error
		if unit, steps, err = e.unit(); err != nil {
			return err
		}
		counts = append(counts, 1, e.shape.Ranks, e.messageElems(), unit, 2*unit)
		slices.Sort(counts)
		counts = slices.Compact(counts)
	}
	var points []point
	for _, count := range counts {
		ns, err := e.simulate(count)
		if err != nil {
			return err
		}
		points = append(points, point{count: count, ns: ns})
	}
	for i := range maxDoublings {
		// 4 units cost about 4 times the steps of one.
		if units := 4 << i; unit == 0 || units*steps > e.budget {
			break
		}
		a, b := points[len(points)-2], points[len(points)-1]
		c := point{count: 2 * b.count}
		var err error
		if c.ns, err = e.simulate(c.count); err != nil {
			return err
		}
		foretold := b.ns + (b.ns-a.ns)*float64(c.count-b.count)/float64(b.count-a.count)
		points = append(points, c)
		if math.Abs(foretold-c.ns) <= linearWithin*c.ns {
			break
		}
	}
	if k := len(points); k > 1 {
		a, b := points[k-2], points[k-1]
		// A model may be odd, but time never falls.
		e.perElemNs = max(0, (b.ns-a.ns)/float64(b.count-a.count))
	}
	// With many ranks each simulation is long: these must do.
	for i := range points {
		points[i].straight = e.shape.Ranks > manyRanks
	}
	e.points = points
	e.markNeighbours()
	return nil
}

// unit returns a count that fills whole messages: what one message holds, or
// that for each rank where ranks have shares of the count. As many segments as a
// lane has cells may follow each other more closely than such groups do, so that
// doubling the unit must lead to whole groups. It also returns the steps that all
// ranks together take for it, about.
func (e *estimator) unit() (count, steps int, err error) {
	one := e.messageElems()
	all := one * e.shape.Ranks
	oneSteps, err := e.steps(one)
	if err != nil {
		return 0, 0, err
	}
	allSteps, err := e.steps(all)
	if err != nil {
		return 0, 0, err
	}
	if count, steps = all, allSteps; allSteps >= 2*oneSteps {
		count, steps = one, oneSteps
	}
	group := 1
	if cells := e.shape.Cells; cells > 0 && cells <= maxGroup {
		group = cells >> bits.TrailingZeros(uint(cells))
	}
	return group * count, group * steps * e.shape.Ranks, nil
}

// messageSteps is how many steps one rank takes for the data of one message.
func (e *estimator) messageSteps() (int, error) {
	if e.shape.Collective == Barrier {
		return e.steps(0)
	}
	return e.steps(e.messageElems())
}

// steps is how many steps one rank takes.
func (e *estimator) steps(count int) (int, error) {
	s := e.shape
	s.Count = count
	sc, err := e.build(e.algorithm, s, s.Ranks-1)
	if err != nil {
		return 0, err
	}
	return len(sc.Steps), nil
}

func buildRanks(build buildFunc, algorithm string, s Shape) ([]*Schedule, error) {
	schedules := make([]*Schedule, s.Ranks)
	for r := range schedules {
		sc, err := build(algorithm, s, r)
		if err != nil {
			return nil, err
		}
		schedules[r] = sc
	}
	return schedules, nil
}
