package kernels

import (
	"fmt"
	"strconv"
)

// Op is a reduction operator. What each does to each element type is written
// down in the package documentation.
type Op uint8

// The operators. The zero Op is Sum.
const (
	Sum  Op = iota // sum of the sources
	Prod           // product of the sources
	Min            // least of the sources
	Max            // greatest of the sources
	Avg            // sum of the sources divided by their number
	numOps
)

var opNames = [numOps]string{Sum: "sum", Prod: "prod", Min: "min", Max: "max", Avg: "avg"}

// String returns the lower-case name of the operator: "sum", "prod", "min",
// "max" or "avg", and "Op(n)" for an invalid one.
func (o Op) String() string {
	if !o.Valid() {
		return "Op(" + strconv.Itoa(int(o)) + ")"
	}
	return opNames[o]
}

// Valid reports whether o is one of the operators declared here.
func (o Op) Valid() bool { return o < numOps }

// ParseOp returns the operator whose String is exactly s. The error for any
// other s wraps [ErrOp].
func ParseOp(s string) (Op, error) {
	for o, name := range opNames {
		if s == name {
			return Op(o), nil
		}
	}
	return 0, fmt.Errorf("%w: %q", ErrOp, s)
}
