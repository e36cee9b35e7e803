package faults

import "github.com/weft-go/weft/transport"

const numOps = int(transport.OpAtom) + 1

// An OpSet is a set of kinds of operations: those of a phase, or those that a
// plan names.
type OpSet uint32

// AllOps holds every kind of operation.
const AllOps OpSet = 1<<numOps - 1

// Ops returns the set of the given kinds.
func Ops(kinds ...transport.OpKind) OpSet {
	var s OpSet
	for _, k := range kinds {
		s = s.With(k)
	}
	return s
}

// With returns the set with k in it.
func (s OpSet) With(k transport.OpKind) OpSet { return s | 1<<k&AllOps }

// Has says whether k is in the set.
func (s OpSet) Has(k transport.OpKind) bool { return s>>k&1 != 0 }

// opGroups are the names that the grammar has for operations. A plan's set is a
// union of groups.
var opGroups = [...]struct {
	name string
	set  OpSet
}{
	{"put", Ops(transport.OpPut, transport.OpPutMasked, transport.OpPutMultimem)},
	{"counted", Ops(transport.OpPutCounted, transport.OpPutCountedMultimem, transport.OpRedCounted)},
	{"get", Ops(transport.OpGet)},
	{"pullred", Ops(transport.OpPullRed)},
	{"red", Ops(transport.OpRed, transport.OpRedCounted, transport.OpRedMultimem)},
	{"atom", Ops(transport.OpAtom)},
}

// groups returns the names whose operations are all in the set, and whether
// the set is the union of these.
func (s OpSet) groups() ([]string, bool) {
	var names []string
	var union OpSet
	for _, g := range opGroups {
		if s&g.set == g.set {
			names = append(names, g.name)
			union |= g.set
		}
	}
	return names, union == s
}
