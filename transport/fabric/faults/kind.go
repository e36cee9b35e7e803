package faults

// Kind is what a fault does to its phase.
type Kind uint8

const (
	// None: no fault. The phase is executed and its report is clean.
	None Kind = iota
	// Drop: reported, nothing executed.
	Drop
	// Ack: reported, everything executed.
	Ack
	// Part: reported, some pieces executed, the others never.
	Part
	// Late: reported, some pieces executed, the others later.
	Late
	// Dead: reported, nothing executed, because the link is dead.
	Dead

	numKinds = int(Dead) + 1
)

var kindNames = [numKinds]string{"none", "drop", "ack", "part", "late", "dead"}

func (k Kind) String() string {
	if int(k) < numKinds {
		return kindNames[k]
	}
	return "unknown fault"
}

// A KindSet is a set of the kinds that a plan draws from: Drop, Ack, Part, Late.
type KindSet uint8

// AllKinds holds every kind that a plan draws from.
const AllKinds KindSet = 1<<Drop | 1<<Ack | 1<<Part | 1<<Late

// Kinds returns the set of the given kinds.
func Kinds(kinds ...Kind) KindSet {
	var s KindSet
	for _, k := range kinds {
		s |= 1 << k
	}
	return s
}

// Has says whether k is in the set.
func (s KindSet) Has(k Kind) bool { return s>>k&1 != 0 }
