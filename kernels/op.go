package kernels

import (
	"fmt"
	"strconv"
)

// Op is a reduction operator. What each does to each element type is written
// down in the package documentation.
type Op uint8

// The operators. The zero Op is Sum. Not every operator is defined for every
// element type: see [Op.Supports].
const (
	Sum        Op = iota // sum of the sources
	Prod                 // product of the sources
	Min                  // least of the sources
	Max                  // greatest of the sources
	Avg                  // sum of the sources divided by their number
	BitAnd               // bits that are set in all sources
	BitOr                // bits that are set in any source
	BitXor               // bits that are set in an odd number of sources
	LogicalAnd           // 1 if all sources are true, that is not zero; else 0
	LogicalOr            // 1 if any source is true, that is not zero; else 0
	MinLoc               // the pair with the least value, of several that with the lowest index
	MaxLoc               // the pair with the greatest value, of several that with the lowest index
	numOps
)

var ops = [numOps]struct {
	name  string
	alias string // a second name that ParseOp takes
	on    class  // the types that it is defined for
}{
	Sum:        {"sum", "", integers | floats | complexes},
	Prod:       {"prod", "", integers | floats | complexes},
	Min:        {"min", "", integers | floats},
	Max:        {"max", "", integers | floats},
	Avg:        {"avg", "", integers | floats | complexes},
	BitAnd:     {"bitand", "band", integers},
	BitOr:      {"bitor", "bor", integers},
	BitXor:     {"bitxor", "bxor", integers},
	LogicalAnd: {"logicaland", "land", integers | floats},
	LogicalOr:  {"logicalor", "lor", integers | floats},
	MinLoc:     {"minloc", "", pairs},
	MaxLoc:     {"maxloc", "", pairs},
}

// String returns the lower-case name of the operator: "sum", "prod", "min",
// "max", "avg", "bitand", "bitor", "bitxor", "logicaland", "logicalor",
// "minloc" or "maxloc", and "Op(n)" for an invalid one.
func (o Op) String() string {
	if !o.Valid() {
		return "Op(" + strconv.Itoa(int(o)) + ")"
	}
	return ops[o].name
}

// Valid reports whether o is one of the operators declared here.
func (o Op) Valid() bool { return o < numOps }

// Supports reports whether o is defined for elements of type t:
//   - Sum, Prod and Avg for all but pairs of a value and an index,
//   - Min and Max for integers and floats,
//   - BitAnd, BitOr and BitXor for integers,
//   - LogicalAnd and LogicalOr for integers and floats,
//   - MinLoc and MaxLoc for pairs of a value and an index.
//
// Floats are those of 64, 32, 16 and 8 bits. Supports is false for an invalid
// operator or type.
func (o Op) Supports(t Type) bool {
	return o.Valid() && t.Valid() && ops[o].on&types[t].class != 0
}

// ParseOp returns the operator whose String is exactly s; "band", "bor",
// "bxor", "land" and "lor", the names of MPI, are taken too. The error for any
// other s wraps [ErrOp].
func ParseOp(s string) (Op, error) {
	for o := Sum; o < numOps; o++ {
		if s != "" && (s == ops[o].name || s == ops[o].alias) {
			return o, nil
		}
	}
	return 0, fmt.Errorf("%w: %q", ErrOp, s)
}
