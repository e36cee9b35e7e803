package plan

import "slices"

// Names says whether the spec asks for algorithms of a collective by name, be it
// by a list for it or by one for all.
func (s Spec) Names(c Collective) bool {
	l, ok := s.lists[c]
	if !ok {
		l, ok = s.lists[0]
	}
	return ok && !l.except && slices.ContainsFunc(l.names, func(name string) bool {
		return slices.Contains(Algorithms(c), name)
	})
}
