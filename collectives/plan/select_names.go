package plan

import "slices"

// Names says whether the spec asks by name for an algorithm of a collective
// that can be used, be it by a list for it or by one for all.
func (s Spec) Names(c Collective, multicast bool) bool {
	l, ok := s.lists[c]
	if !ok {
		l, ok = s.lists[0]
	}
	return ok && !l.except && slices.ContainsFunc(l.names, func(name string) bool {
		a, known := Lookup(c, name)
		return known && (multicast || !a.Multicast)
	})
}
