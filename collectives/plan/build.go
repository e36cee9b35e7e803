package plan

// An Algorithm is one way to do a collective.
type Algorithm struct {
	Name       string
	Collective Collective
	// Source is where the algorithm is from.
	Source string
	// Order says in which order contributions are reduced; it is empty where
	// nothing is. In any case all ranks that have a result get the same bits, and so
	// does a repetition.
	Order string
	// RankOrder: each element is reduced once, in rank order, so that the result is
	// that of a loop over the ranks, to the bit, also for types of 16 bits.
	RankOrder bool
	// Multicast: the schedule has PullReduce or PutMulti.
	Multicast bool

	recipe func(w *writer) recipe
	claim  func(s Shape) Claim
	order  func(s Shape) []*order // per element, see Shape.result; nil where nothing is reduced
}

// families are all algorithms, per collective, the simplest first.
var families = [...][]func() Algorithm{
	AllReduce: {allReduceOneShot, allReduceTwoShot, allReduceRing, allReduceDoubling, allReduceHalving,
		allReduceTree, allReduceDoubleTree, allReduceMultimem},
	Reduce:        {reduceDirect, reduceTree, reduceDoubleTree},
	Broadcast:     {broadcastDirect, broadcastTree, broadcastChain, broadcastDoubleTree, broadcastMultimem},
	AllGather:     {allGatherDirect, allGatherRing, allGatherNeighbour, allGatherDoubling, allGatherBruck},
	AllToAll:      {allToAllDirect, allToAllPairwise, allToAllBruck},
	Gather:        {gatherDirect, gatherTree},
	Scatter:       {scatterDirect, scatterTree},
	ReduceScatter: {reduceScatterDirect, reduceScatterRing, reduceScatterHalving},
	Scan:          {scanDirect, scanChain, scanDoubling},
	Exscan:        {scanDirect, scanChain, scanDoubling},
	Barrier:       {barrierDirect, barrierDissemination},
}

// Algorithms returns the names of the algorithms of a collective, always in the
// same order.
func Algorithms(c Collective) []string {
	if int(c) >= len(families) {
		return nil
	}
	var names []string
	for _, f := range families[c] {
		names = append(names, f().Name)
	}
	return names
}

// Lookup returns an algorithm of a collective by its name.
func Lookup(c Collective, name string) (Algorithm, bool) {
	if int(c) < len(families) {
		for _, f := range families[c] {
			if a := f(); a.Name == name {
				a.Collective = c
				return a, true
			}
		}
	}
	return Algorithm{}, false
}

// Build returns one rank's schedule for a shape. Equal arguments give equal
// schedules, and schedules of all ranks fit together. Errors: [*ShapeError],
// [*AlgorithmError], [*LengthError].
func Build(algorithm string, s Shape, rank int) (*Schedule, error) {
	if err := s.check(rank); err != nil {
		return nil, err
	}
	a, ok := Lookup(s.Collective, algorithm)
	if !ok {
		return nil, &AlgorithmError{s.Collective, algorithm}
	}
	out := &Schedule{Algorithm: a.Name, Shape: s, Rank: rank}
	w := &writer{shape: s, rank: rank, out: out}
	switch {
	case s.idle():
		return out, nil
	case s.Ranks == 1:
		all := Range{Buf: Send, To: s.Count}
		w.prepare(Range{Buf: Recv, To: s.Count}, all)
		return out, nil
	}
	if err := w.run(a.recipe(w)); err != nil {
		return nil, err
	}
	return out, nil
}

// idle says whether there is nothing to do.
func (s Shape) idle() bool {
	return s.Count == 0 && s.Collective != Barrier ||
		s.Ranks == 1 && (s.Collective == Broadcast || s.Collective == Exscan || s.Collective == Barrier)
}

// Claim returns what the algorithm is said to take for a shape. [Verify] checks
// schedules against it.
func (a Algorithm) Claim(s Shape) Claim {
	if s.idle() || s.Ranks == 1 {
		return Claim{}
	}
	return a.claim(s)
}

// A Claim is what an algorithm takes for a shape.
type Claim struct {
	// Rounds is the number of stages of one segment in which messages travel.
	Rounds int
	// TotalElems is the sum over all ranks of the elements that they put;
	// RankElems is a bound on what one rank puts, reached if all shares are equal.
	TotalElems, RankElems int
	// MultiElems is the sum over all ranks of the elements that they post in
	// multicast memory.
	MultiElems int
}
