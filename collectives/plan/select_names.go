package plan

import "slices"

// Options returns what may be chosen for a collective: what the spec allows and
// the transport can do. Of reductions only those that keep rank order, so that
// results don't depend on the choice, and those by a fabric's multicast memory, which
// keeps it in software; unless the spec names an algorithm that can be used, or
// excludes all that keep it.
func (s Spec) Options(c Collective, multicast Multicast) TableOptions {
	o := TableOptions{Multicast: multicast, Spec: s}
	if !c.reduces() || s.Names(c, multicast) || s.excludesRankOrder(c) {
		return o
	}
	// Neither holds anything, so that this allocates nothing.
	o.Allow = func(a Algorithm) bool { return a.RankOrder }
	if multicast == FabricMulticast {
		o.Allow = func(a Algorithm) bool { return a.RankOrder || a.Multicast }
	}
	return o
}

// Names says whether the spec asks by name for an algorithm of a collective
// that can be used, be it by a list for it or by one for all.
func (s Spec) Names(c Collective, multicast Multicast) bool {
	l, ok := s.list(c)
	return ok && !l.except && slices.ContainsFunc(l.names, func(name string) bool {
		a, known := Lookup(c, name)
		return known && (multicast != NoMulticast || !a.Multicast)
	})
}

// Restricts says whether the spec has a list for a collective, be it one for all.
func (s Spec) Restricts(c Collective) bool {
	_, ok := s.list(c)
	return ok
}

// excludesRankOrder says whether the spec leaves none that keeps rank order.
func (s Spec) excludesRankOrder(c Collective) bool {
	l, ok := s.list(c)
	if !ok || !l.except {
		return false
	}
	for _, name := range l.filter(Algorithms(c)) {
		if a, _ := Lookup(c, name); a.RankOrder {
			return false
		}
	}
	return true
}

// list is what the spec says of a collective.
func (s Spec) list(c Collective) (specList, bool) {
	l, ok := s.lists[c]
	if !ok {
		l, ok = s.lists[0]
	}
	return l, ok
}
