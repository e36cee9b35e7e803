package collectives

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

// TestPrefixAndRooted: Scan, Exscan, Gather and Scatter in each of the ways that need no
// schedule, with few elements of every number and some around what goes in a round.
func TestPrefixAndRooted(t *testing.T) {
	seed := testSeed(t)
	for n := 2; n <= 9; n++ {
		if raceEnabled && n > 4 {
			break
		}
		for _, way := range []string{"lines", "chain of lines", "stages"} {
			t.Run(fmt.Sprintf("ranks=%d/%s", n, way), func(t *testing.T) {
				runRanks(t, n, func(c *comm.Communicator) error {
					r, err := extension(c)
					if err != nil {
						return err
					}
					r.limits, r.relays = smallStages, way == "chain of lines"
					r.limits.chunk = max(r.limits.chunk, (n-1)*symmetricLine)
					counts := []int{139, 140} // the most that lines are for
					for count := 1; count <= 17; count++ {
						counts = append(counts, count)
					}
					if way == "stages" {
						for k := range r.shortBytes {
							r.shortBytes[k] = -1
						}
						// Around a link, a chunk for each peer, a chunk, and what goes around the cache.
						counts = append(counts, 31, 32, 33, 63, 64, 65, 127, 128, 129, 624, 625, 626, 1100)
					}
					for _, count := range counts {
						before := r.e.StageRound()
						if err := first(
							prefixed(c, count, seed, genFloat[float32], kernels.Sum),
							prefixed(c, count, seed, genBits[kernels.BFloat16], kernels.Sum),
							prefixed(c, count, seed, genBits[int32], kernels.LogicalAnd),
							prefixedBy(c, count, seed),
							moved(c, count, seed)); err != nil {
							return fmt.Errorf("%d elements: %w", count, err)
						}
						if used := r.e.StageRound() != before; used != (way == "stages") || len(r.schedules) > 0 {
							return fmt.Errorf("%d elements: over stages is %t, and there are %d schedules", count, used, len(r.schedules))
						}
					}
					return nil
				})
			})
		}
	}
}

// inputs are count elements for each of n ranks.
func inputs[T any](n, count int, seed uint64, gen func(*rand.Rand) T) [][]T {
	in := make([][]T, n)
	for p := range in {
		rng := rand.New(rand.NewPCG(seed+uint64(count), uint64(p)))
		in[p] = make([]T, count)
		for i := range in[p] {
			in[p][i] = gen(rng)
		}
	}
	return in
}

func prefixed[T kernels.Number](c *comm.Communicator, count int, seed uint64, gen func(*rand.Rand) T, op kernels.Op) error {
	ctx, me := context.Background(), c.Rank()
	in := inputs(c.Size(), count, seed, gen)
	want := func(ranks int) []T {
		if ranks == 0 {
			return in[me]
		}
		return refOp(in[:ranks], count, op)
	}
	apart, same := append([]T{}, in[me]...), append([]T{}, in[me]...)
	apartX, sameX := append([]T{}, in[me]...), append([]T{}, in[me]...) // on rank 0 they stay
	return first(
		Scan(ctx, c, apart, in[me], op), allSame("Scan", apart, want(me+1), sameNumber[T]),
		Scan(ctx, c, same, same, op), allSame("Scan in place", same, want(me+1), sameNumber[T]),
		Exscan(ctx, c, apartX, in[me], op), allSame("Exscan", apartX, want(me), sameNumber[T]),
		Exscan(ctx, c, sameX, sameX, op), allSame("Exscan in place", sameX, want(me), sameNumber[T]))
}

// prefixedBy does so with a function that does not commute.
func prefixedBy(c *comm.Communicator, count int, seed uint64) error {
	ctx, me := context.Background(), c.Rank()
	in := inputs(c.Size(), count, seed, genBits[affine])
	f := func(acc, x []affine) {
		for i := range acc {
			acc[i] = acc[i].then(x[i])
		}
	}
	scan, exscan := append([]affine{}, in[me]...), append([]affine{}, in[me]...)
	want := in[me]
	if me > 0 {
		want = refFold(in[:me], count, affine.then)
	}
	return first(
		ScanFunc(ctx, c, scan, scan, f), allSame("ScanFunc", scan, refFold(in[:me+1], count, affine.then), sameValue[affine]),
		ExscanFunc(ctx, c, exscan, in[me], f), allSame("ExscanFunc", exscan, want, sameValue[affine]))
}

// moved is Gather and Scatter with every root, in place every second time.
func moved(c *comm.Communicator, count int, seed uint64) error {
	ctx, me, n := context.Background(), c.Rank(), c.Size()
	in := inputs(n, n*count, seed, genBits[int32])
	counts := filled(n, count, 0, count)
	for root := range n {
		all, own := make([]int32, n*count), in[me][:count]
		if root%2 == 1 && me == root {
			own = all[me*count:][:count]
			copy(own, in[me])
		}
		part, from := make([]int32, count), append([]int32{}, in[me]...)
		if root%2 == 1 && me == root {
			part = from[me*count:][:count]
		}
		if err := first(Gather(ctx, c, all, own, root), Scatter(ctx, c, part, from, root)); err != nil {
			return err
		}
		want := make([]int32, n*count)
		if me == root {
			want = refGather(in, counts)
		}
		if err := first(
			allSame("Gather", all, want, sameValue[int32]),
			allSame("Scatter", part, refScatter(in[root], counts, me), sameValue[int32])); err != nil {
			return fmt.Errorf("root %d: %w", root, err)
		}
	}
	return nil
}

func allSame[T any](name string, got, want []T, same func(a, b T) bool) error {
	for i := range want {
		if len(got) != len(want) || !same(got[i], want[i]) {
			return fmt.Errorf("%s: element %d of %d is %v, want %v of %d", name, i, len(got), got[i], want[i], len(want))
		}
	}
	return nil
}

// TestChainedBits: a sum along a chain has the bits of one of all ranks at once, also where
// the order matters.
func TestChainedBits(t *testing.T) {
	sums := map[string][]byte{}
	for _, spec := range []string{"", "scan:direct"} {
		cs := local(t, 5, comm.WithAlgorithm(spec))
		for _, err := range each(cs, func(c *comm.Communicator) error {
			in := inputs(c.Size(), 5000, 1, func(r *rand.Rand) float64 { return r.NormFloat64() })[c.Rank()]
			if err := Scan(context.Background(), c, in, in, kernels.Sum); err != nil || c.Rank() != 4 {
				return err
			}
			sums[spec] = bytes.Clone(kernels.Bytes(in))
			return nil
		}) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if !bytes.Equal(sums[""], sums["scan:direct"]) {
		t.Fatal("bits differ")
	}
}
