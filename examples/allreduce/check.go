package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"

	"github.com/weft-go/weft/collectives"
	"github.com/weft-go/weft/comm"
)

// tolerance bounds the difference between training on several ranks and on
// one: float32 sums depend on how they are put together. It is more than five
// times what was seen with 2 to 16 ranks and several seeds.
const tolerance = 1e-5

// checkIdentical fails on all ranks unless all of them hold the same bits.
func checkIdentical(ctx context.Context, c *comm.Communicator, p params) error {
	all := make([]uint64, c.Size())
	if err := collectives.AllGather(ctx, c, all, []uint64{p.hash()}); err != nil {
		return err
	}
	for r, h := range all {
		if h != all[0] {
			return fmt.Errorf("the parameters of rank %d are not those of rank 0", r)
		}
	}
	return nil
}

// hash returns a hash of the bits of p.
func (p params) hash() uint64 {
	h := fnv.New64a()
	_ = binary.Write(h, binary.LittleEndian, []float32(p)) // can't fail
	return h.Sum64()
}

// checkAlone trains again on rank 0 only, which returns how far the parameters
// are from p. All ranks fail if that is too far.
func checkAlone(ctx context.Context, c *comm.Communicator, p params, images, tests []image, opt options) (float64, error) {
	verdict := []float64{0}
	var failed error
	if c.Rank() == 0 {
		var ref params
		if ref, failed = train(ctx, alone{}, images, tests, opt, func(epoch) {}); failed != nil {
			return 0, failed
		}
		verdict[0] = maxDifference(p, ref)
	}
	if err := collectives.Broadcast(ctx, c, verdict, 0); err != nil {
		return 0, err
	}
	if !(verdict[0] <= tolerance) { // NaN fails
		failed = fmt.Errorf("the parameters differ by %.3g from those of one rank alone, more than %g", verdict[0], tolerance)
	}
	return verdict[0], failed
}

// maxDifference returns the largest distance of two parameters; NaN if there
// is one.
func maxDifference(a, b params) float64 {
	var d float64
	for i := range a {
		d = max(d, math.Abs(float64(a[i])-float64(b[i])))
	}
	return d
}

// checkAccuracy fails if the network has not learnt enough.
func checkAccuracy(accuracy, want float64) error {
	if !(accuracy >= want) {
		return fmt.Errorf("the network has not learnt enough: accuracy %.4f is below %.4f", accuracy, want)
	}
	return nil
}
