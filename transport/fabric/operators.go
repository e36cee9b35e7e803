package fabric

import (
	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
)

// PullRedSupports says whether the fabric's PullRed has operator op for elements
// of type t: what [transport.PullRedSupports] says, and add, min and max on
// float8. Sums of halves and of float8 are accumulated in float32 and rounded
// once: what the instruction set writes add.acc.
func PullRedSupports(op transport.RedOp, t kernels.Type) bool {
	if t == kernels.TypeFloat8E4M3 || t == kernels.TypeFloat8E5M2 {
		return op == transport.RedAdd || op == transport.RedMin || op == transport.RedMax
	}
	return transport.PullRedSupports(op, t)
}
