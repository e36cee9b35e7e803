package collectives

import (
	"context"
	"fmt"
	"testing"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

// TestExactSymmetric has the slices in symmetric memory, on all ranks or not, with
// counts around those at which calls are done in another way.
func TestExactSymmetric(t *testing.T) {
	seed := testSeed(t)
	for n := 2; n <= 4; n++ {
		if raceEnabled && n > 3 {
			break
		}
		t.Run(fmt.Sprintf("ranks=%d", n), func(t *testing.T) {
			runRanks(t, n, func(c *comm.Communicator) error { return exactSymmetric(c, seed) })
		})
	}
}

func exactSymmetric(c *comm.Communicator, seed uint64) error {
	r, err := extension(c)
	if err != nil {
		return err
	}
	for i, k := range exactCases() {
		if raceEnabled && i >= 6 && i%3 != 0 { // see exactAll
			continue
		}
		for j, count := range []int{0, 1, 7, 8, 13, 14, 15, 139, 140, 141, 255, 256, 257, 1025, 8191, 65537} {
			some := (i+j+c.Size())%9 == 0 // all take a minute
			if !some && !testLong || k.large && count > 2000 || raceEnabled && count > 2000 {
				continue
			}
			r.limits.direct, r.limits.warm = defaultStagedLimits.direct, true
			if (i+j)%2 == 0 {
				r.limits.direct, r.limits.warm = 1500, false
			}
			if err := k.run(context.Background(), c, count, seed+uint64(100*i+j), blocking|persistent|symmetric); err != nil {
				return fmt.Errorf("%s: %w", k.name, err)
			}
		}
	}
	return nil
}

// TestSymmetricFreed has ranks that freed different buffers.
func TestSymmetricFreed(t *testing.T) {
	const n, count = 3, 5000
	runRanks(t, n, func(c *comm.Communicator) error {
		ctx := context.Background()
		var bs []*comm.Buffer[int32]
		for range n + 1 {
			b, err := comm.Alloc[int32](ctx, c, count)
			if err != nil {
				return err
			}
			bs = append(bs, b)
		}
		if err := bs[c.Rank()].Free(); err != nil {
			return err
		}
		// Each rank uses the next one, in which it has the others; then all the last.
		for _, b := range []*comm.Buffer[int32]{bs[(c.Rank()+1)%n], bs[n]} {
			s := b.Slice()
			for i := range s {
				s[i] = int32(i * (c.Rank() + 1))
			}
			if err := AllReduce(ctx, c, s, s, kernels.Sum); err != nil {
				return err
			}
			for i := range s {
				if s[i] != int32(i*6) {
					return fmt.Errorf("element %d is %d", i, s[i])
				}
			}
		}
		return nil
	})
}

// TestSymmetricHuge has elements that are larger than what is reduced at a time.
func TestSymmetricHuge(t *testing.T) {
	type huge [5000]int64
	runRanks(t, 3, func(c *comm.Communicator) error {
		b, err := comm.Alloc[int64](context.Background(), c, 4*5000)
		if err != nil {
			return err
		}
		x := sliceOf[huge](bytesOf(b.Slice()))
		for i := range x {
			x[i][4999] = int64(i + c.Rank())
		}
		err = AllReduceFunc(context.Background(), c, x, x, func(acc, y []huge) {
			for i := range acc {
				acc[i][4999] += y[i][4999]
			}
		})
		for i := range x {
			if err == nil && x[i][4999] != int64(3*i+3) {
				err = fmt.Errorf("element %d is %d", i, x[i][4999])
			}
		}
		return err
	})
}
