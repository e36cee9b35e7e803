package transport

import "github.com/weft-go/weft/kernels"

// OpKind is the kind of an operation, for records and retry rules.
type OpKind uint8

const (
	OpPut OpKind = iota
	OpPutMasked
	OpPutCounted
	OpPutMultimem
	OpPutCountedMultimem
	OpGet
	OpRed
	OpRedCounted
	OpRedMultimem
	OpPullRed
	OpAtom
)

var opNames = [...]string{"put", "put masked", "counted put", "put-multimem", "counted put-multimem",
	"get", "red", "counted red", "red-multimem", "pullred", "atom"}

func (k OpKind) String() string {
	if int(k) < len(opNames) {
		return opNames[k]
	}
	return "unknown operation"
}

// RetryClass says whether an operation may be issued again after a report.
type RetryClass uint8

const (
	// Idempotent operations may be repeated from an unchanged source.
	Idempotent RetryClass = iota
	// Counted operations would count their bytes again.
	Counted
	// NonRepeatable operations would change the result again.
	NonRepeatable
)

// Class returns the retry class of an operation; op is the operator of reds,
// pullreds and atoms and ignored for the others.
func (k OpKind) Class(op RedOp) RetryClass {
	switch k {
	case OpPutCounted, OpPutCountedMultimem, OpRedCounted:
		return Counted
	case OpAtom:
		return NonRepeatable
	case OpRed, OpRedMultimem:
		if op == RedAdd || op == RedXor {
			return NonRepeatable
		}
	}
	return Idempotent
}

// RedOp is the operator of a remote reduction or of an atom.
type RedOp uint8

const (
	RedAdd RedOp = iota
	RedMin
	RedMax
	RedAnd
	RedOr
	RedXor
	// AtomExch and AtomCAS are for Atom only.
	AtomExch
	AtomCAS
)

var redNames = [...]string{"add", "min", "max", "and", "or", "xor", "exch", "cas"}

func (o RedOp) String() string {
	if int(o) < len(redNames) {
		return redNames[o]
	}
	return "unknown operator"
}

// RedSupports says whether Red has operator op for elements of type t: and, or,
// xor on 4- and 8-byte words; min, max on uint32, int32, uint64, int64, float16,
// bfloat16; add on uint32, uint64, float16, bfloat16, float32, float64. Signed
// sums are unsigned sums (two's complement).
func RedSupports(op RedOp, t kernels.Type) bool {
	switch op {
	case RedAnd, RedOr, RedXor:
		return t == kernels.TypeUint32 || t == kernels.TypeUint64
	case RedMin, RedMax:
		switch t {
		case kernels.TypeUint32, kernels.TypeInt32, kernels.TypeUint64, kernels.TypeInt64, kernels.TypeFloat16, kernels.TypeBFloat16:
			return true
		}
	case RedAdd:
		switch t {
		case kernels.TypeUint32, kernels.TypeUint64, kernels.TypeFloat16, kernels.TypeBFloat16, kernels.TypeFloat32, kernels.TypeFloat64:
			return true
		}
	}
	return false
}

// PullRedSupports says whether PullRed has operator op for elements of type t:
// as [RedSupports] without add on float64.
func PullRedSupports(op RedOp, t kernels.Type) bool {
	return RedSupports(op, t) && !(op == RedAdd && t == kernels.TypeFloat64)
}

// AtomSupports says whether Atom has operator op for elements of type t: add on
// uint32, uint64, float32, float64; min, max, and, or, xor, exch and cas on
// uint32, uint64.
func AtomSupports(op RedOp, t kernels.Type) bool {
	switch t {
	case kernels.TypeUint32, kernels.TypeUint64:
		return op <= AtomCAS
	case kernels.TypeFloat32, kernels.TypeFloat64:
		return op == RedAdd
	}
	return false
}
