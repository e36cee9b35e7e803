package collectives

import (
	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport/progress"
)

// allReduceOneShot is the direct one-shot algorithm: every rank sends all it
// has to every other, and reduces everything itself. One step; each rank sends
// and receives (n−1)·S bytes and reduces n·S.
func allReduceOneShot(e *progress.Engine, t kernels.Type, dst, src []byte, op kernels.Op) error {
	if len(src) == 0 {
		return nil
	}
	if err := sendAll(e, src); err != nil {
		return err
	}
	return reduceInOrder(e, t, dst, src, op)
}
