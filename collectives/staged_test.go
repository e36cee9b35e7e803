package collectives

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/collectives/plan"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport/progress"
)

// smallStages has calls over stages in small chunks, so that all their ways are gone with
// few elements.
var smallStages = stagedLimits{chunk: 256, two: 3000, many: 1500, stream: 2500, link: 128}

// TestExactStaged: every collective, type and operator over stages, with counts around what
// goes in a round, and around those at which calls are done in another way.
func TestExactStaged(t *testing.T) {
	seed := testSeed(t)
	for _, n := range []int{2, 3, 5} {
		if raceEnabled && n > 3 {
			break
		}
		t.Run(fmt.Sprintf("ranks=%d", n), func(t *testing.T) {
			runRanks(t, n, func(c *comm.Communicator) error { return exactStaged(c, seed) })
		})
	}
}

func exactStaged(c *comm.Communicator, seed uint64) error {
	r, err := extension(c)
	if err != nil {
		return err
	}
	r.limits = smallStages
	for k := range r.shortBytes { // what shorts would do goes over stages as well
		r.shortBytes[k] = -1
	}
	for i, k := range exactCases() {
		for j, count := range []int{1, 31, 32, 33, 63, 64, 65, 85, 86, 127, 128, 129, 256, 257, 374, 375, 376, 625, 749, 750, 751, 1500, 1501} {
			all := i == 1 && c.Size() < 4 || testLong
			if !all && (i+j)%20 != 0 || raceEnabled && (i+j)%60 != 0 {
				continue
			}
			set := blocking
			if !all {
				set |= persistent | started
			}
			before := r.e.StageRound()
			if err := k.run(context.Background(), c, count, seed+uint64(100*i+j), set); err != nil {
				return fmt.Errorf("%s, count %d: %w", k.name, count, err)
			}
			if r.e.StageRound() == before {
				return fmt.Errorf("%s, count %d: not over stages", k.name, count)
			}
		}
	}
	return nil
}

// TestStagedLarge: with chunks and limits as they are, also those of ranks that share
// processors, and slices that begin anywhere.
func TestStagedLarge(t *testing.T) {
	for _, n := range []int{2, 3, 4} {
		runRanks(t, n, func(c *comm.Communicator) error {
			ctx, me := context.Background(), c.Rank()
			r, err := extension(c)
			if err != nil {
				return err
			}
			if r.limits = stagedLimitsOf(progress.WaitPolicy{Oversubscribed: n == 4}); (r.limits == defaultStagedLimits) != (n != 4) {
				return errors.New("processors are shared, and the limits as ever")
			}
			for _, count := range []int{12_000, 12_400, 16383, 16384, 16385, 300_001} {
				src, dst := make([]float32, count*n+3)[3:], make([]float32, count*n+5)[5:]
				for i := range src {
					src[i] = float32(i%1000 + me)
				}
				check := func(name string, got []float32, want func(i int) float32) error {
					for i, x := range got {
						if x != want(i) {
							return fmt.Errorf("%s, count %d: element %d is %v, want %v", name, count, i, x, want(i))
						}
					}
					return nil
				}
				sum := func(i int) float32 { return float32(n*(i%1000) + n*(n-1)/2) }
				of := func(rank, i int) float32 { return float32(i%1000 + rank) }
				if err := first(
					AllReduce(ctx, c, dst[:count], src[:count], kernels.Sum), check("AllReduce", dst[:count], sum),
					ReduceScatterBlock(ctx, c, dst[:count], src, kernels.Sum), check("ReduceScatter", dst[:count], func(i int) float32 { return sum(me*count + i) }),
					AllGather(ctx, c, dst, src[:count]), check("AllGather", dst, func(i int) float32 { return of(i/count, i%count) }),
					AllToAll(ctx, c, dst, src), check("AllToAll", dst, func(i int) float32 { return of(i/count, me*count+i%count) }),
					AllToAll(ctx, c, dst, dst), check("AllToAll in place", dst, func(i int) float32 { return of(me, i) }),
					Reduce(ctx, c, dst[:count], src[:count], kernels.Sum, 1)); err != nil {
					return err
				}
				if me == 1 {
					if err := check("Reduce", dst[:count], sum); err != nil {
						return err
					}
				}
				for i := range dst {
					dst[i] = of(me, i)
				}
				if err := first(
					AllReduce(ctx, c, src, src, kernels.Avg), check("AllReduce in place", src, func(i int) float32 { return sum(i) / float32(n) }),
					Broadcast(ctx, c, dst, n-1), check("Broadcast", dst, func(i int) float32 { return of(n-1, i) })); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// TestStagedHuge: elements that are larger than a slot go another way.
func TestStagedHuge(t *testing.T) {
	runRanks(t, 2, func(c *comm.Communicator) error {
		r, err := extension(c)
		if err != nil {
			return err
		}
		r.limits.chunk = 256
		before := r.e.StageRound()
		x := make([]wide, 3)
		x[2][74].B = uint16(1 + c.Rank())
		if err := AllReduceFunc(context.Background(), c, x, x, func(acc, y []wide) { copy(acc, y) }); err != nil {
			return err
		}
		if r.e.StageRound() != before {
			return errors.New("over stages")
		}
		return nil
	})
}

// TestWithoutStages: where an algorithm is asked for, calls go by its schedule, whatever
// their length and wherever their slices are, and others go as before.
func TestWithoutStages(t *testing.T) {
	for _, symmetric := range []bool{false, true} {
		for _, spec := range []string{"", "allreduce:ring", "ring,direct,oneshot,twoshot"} {
			t.Run(fmt.Sprintf("symmetric=%t/%s", symmetric, spec), func(t *testing.T) {
				cs := local(t, 2, comm.WithAlgorithm(spec))
				require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error {
					r, err := extension(c)
					if err != nil {
						return err
					}
					const count = 5000
					rec := &recorder{lanes: r.e}
					r.x.lanes = rec
					x := make([]int32, 3*count)
					if symmetric {
						b, err := comm.Alloc[int32](context.Background(), c, 3*count)
						if err != nil {
							return err
						}
						x = b.Slice()
					}
					for _, k := range []struct {
						kind plan.Collective
						call func() error
					}{
						{plan.AllReduce, func() error { return AllReduce(context.Background(), c, x[:count], x[count:2*count], kernels.Sum) }},
						{plan.AllGather, func() error { return AllGather(context.Background(), c, x[:2*count], x[2*count:]) }},
					} {
						rec.done = nil
						if err := k.call(); err != nil {
							return err
						}
						restricted := r.chooser.spec.Restricts(k.kind)
						for _, what := range []struct {
							prefix string
							want   bool
						}{{"wait for", restricted}, {"put short", !restricted && symmetric}, {"put on stage", !restricted && !symmetric}} {
							got := false
							for _, line := range rec.done {
								got = got || strings.HasPrefix(line, what.prefix)
							}
							if got != what.want {
								return fmt.Errorf("%v, %q is %t: %q", k.kind, what.prefix, got, rec.done)
							}
						}
					}
					return nil
				})...))
			})
		}
	}
}

// TestStagedMismatch: calls that differ over stages, also when one rank publishes and
// waits for nobody.
func TestStagedMismatch(t *testing.T) {
	for name, tt := range map[string]struct {
		one, others testCall
	}{
		"count":     {summed(1000), summed(1001)},
		"large":     {summed(200_000), summed(300_000)},
		"kind":      {allGathered(1000), exchanged(1000)},
		"root":      {broadcasted(int32s, 1000, 0), broadcasted(int32s, 1000, 1)},
		"operator":  {reducedTo(1000, 1, kernels.Sum), reducedTo(1000, 1, kernels.Max)},
		"prefix":    {scanned(1000, comm.OpScan, operator{}), scanned(1000, comm.OpExscan, operator{})},
		"scan":      {scanned(200_000, comm.OpScan, operator{}), scanned(200_001, comm.OpScan, operator{})},
		"gather":    {gathered(1000, 0), gathered(1000, 1)},
		"scatter":   {scattered(1000, 0), scattered(1001, 0)},
		"with none": {summed(1000), barriered},
	} {
		t.Run(name, func(t *testing.T) {
			cs := local(t, 3)
			calls := func(c *comm.Communicator) []testCall {
				if c.Rank() == 0 {
					return []testCall{summed(500), tt.one, summed(500)}
				}
				return []testCall{summed(500), tt.others, summed(500)}
			}
			begin := time.Now()
			errs := each(cs, func(c *comm.Communicator) error {
				return callForms[0].make(context.Background(), c, calls(c))
			})
			require.Less(t, time.Since(begin), 10*time.Second)
			for _, err := range errs {
				require.ErrorIs(t, err, comm.ErrMismatch)
				require.ErrorContains(t, err, tt.one.text(cs[0], 2, false))
				require.ErrorContains(t, err, tt.others.text(cs[1], 2, false))
			}
		})
	}
}

// TestStagedCancelled: a rank's context ends while it waits in the middle of a call,
// since another is held up by its operator.
func TestStagedCancelled(t *testing.T) {
	cs := local(t, 3)
	ctx, cancel := context.WithCancel(context.Background())
	given := make(chan struct{})
	errs := each(cs, func(c *comm.Communicator) error {
		x := make([]int32, 1<<20)
		calls := 0
		add := func(acc, y []int32) {
			if calls++; c.Rank() == 1 && calls == 20 {
				cancel()
				<-given
			}
			for i := range acc {
				acc[i] += y[i]
			}
		}
		if c.Rank() != 0 {
			return AllReduceFunc(context.Background(), c, x, x, add)
		}
		defer close(given)
		return AllReduceFunc(ctx, c, x, x, add)
	})
	require.ErrorIs(t, errs[0], context.Canceled)
	for _, err := range errs {
		require.ErrorIs(t, err, comm.ErrAborted)
	}
}

// TestStagedTwice: two communicators of the same ranks at the same time.
func TestStagedTwice(t *testing.T) {
	runRanks(t, 3, func(c *comm.Communicator) error {
		d, err := c.Dup(context.Background())
		if err != nil {
			return err
		}
		work := func(c *comm.Communicator, k int64) error {
			x, y := make([]int64, 30_000), make([]int64, 30_000)
			for round := range int64(20) {
				for i := range x {
					x[i] = k*round + int64(i*(c.Rank()+1))
				}
				if err := AllReduce(context.Background(), c, y, x, kernels.Sum); err != nil {
					return err
				}
				for i := range y {
					if y[i] != 3*k*round+int64(6*i) {
						return fmt.Errorf("element %d of round %d is %d", i, round, y[i])
					}
				}
			}
			return nil
		}
		other := make(chan error)
		go func() { other <- work(d, 1000) }()
		return errors.Join(work(c, 7), <-other)
	})
}
