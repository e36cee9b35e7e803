package collectives

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/internal/ranktest"
	"github.com/weft-go/weft/kernels"
)

// A namedCall is a call that is made again and again.
type namedCall struct {
	name string
	call func() error
}

// quietCalls are the calls of one rank that must allocate nothing: every
// collective, blocking and persistent, with blocks of count elements.
func quietCalls(c *comm.Communicator, count int) ([]namedCall, error) {
	n, me := c.Size(), c.Rank()
	x, y := make([]float32, n*count), make([]float32, n*count)
	a, b := make([]padded, n*count), make([]padded, n*count)
	last := func(acc, x []padded) { copy(acc, x) }
	counts := make([]int, n)
	for p := range counts {
		counts[p] = count * p / (n - 1) // the first has nothing
	}
	total, mine := startOf(counts, n), counts[me]
	out, in := make([]int, n), make([]int, n)
	for p := range n {
		out[p], in[p] = counts[(2*me+p)%n], counts[(2*p+me)%n]
	}
	var calls []namedCall
	for _, k := range []struct {
		name string
		forms
	}{
		{"Barrier", barrierForms(c)},
		{"Broadcast", broadcastForms(c, x, 0)},
		{"Broadcast of structs", broadcastForms(c, a, n-1)},
		{"AllGather", allGatherForms(c, x, y[:count])},
		{"AllGather of structs", allGatherForms(c, a, b[:count])},
		{"AllGatherV", allGatherVForms(c, x[:total], counts, y[:mine])},
		{"AllToAll", allToAllForms(c, x, y)},
		{"AllToAll of structs", allToAllForms(c, a, b)},
		{"AllToAllV", allToAllVForms(c, x[:startOf(in, n)], in, y[:startOf(out, n)], out)},
		{"Gather", gatherForms(c, x, y[:count], 1)},
		{"GatherV", gatherVForms(c, x[:total], counts, y[:mine], 1)},
		{"Scatter", scatterForms(c, x[:count], y, 1)},
		{"ScatterV", scatterVForms(c, x[:mine], y[:total], counts, 1)},
		{"ScatterV of structs", scatterVForms(c, a[:mine], b[:total], counts, 1)},
		{"AllReduce", allReduceForms(c, x, y, kernels.Sum)},
		{"AllReduce average", allReduceForms(c, x, y, kernels.Avg)},
		{"AllReduce in place", allReduceForms(c, x, x, kernels.Max)},
		{"Reduce", reduceForms(c, x, y, kernels.Sum, 1)},
		{"ReduceScatter", reduceScatterForms(c, x[:mine], y[:total], counts, kernels.Sum)},
		{"ReduceScatter in place", reduceScatterForms(c, y[:mine], y[:total], counts, kernels.Sum)},
		{"ReduceScatterBlock", reduceScatterBlockForms(c, x[:count], y, kernels.Sum)},
		{"ReduceScatterBlock in place", reduceScatterBlockForms(c, y[:count], y, kernels.Sum)},
		{"Scan", scanForms(c, x, y, kernels.Sum)},
		{"Exscan", exscanForms(c, x, y, kernels.Sum)},
		{"AllReduceFunc", allReduceFuncForms(c, a, b, last)},
		{"AllReduceFunc in place", allReduceFuncForms(c, a, a, last)},
		{"ReduceFunc", reduceFuncForms(c, a, b, last, 1)},
		{"ReduceScatterFunc", reduceScatterFuncForms(c, a[:mine], b[:total], counts, last)},
		{"ReduceScatterBlockFunc", reduceScatterBlockFuncForms(c, a[:count], b, last)},
		{"ScanFunc", scanFuncForms(c, a, b, last)},
		{"ExscanFunc", exscanFuncForms(c, a, b, last)},
	} {
		ctx := context.Background()
		p, err := k.setUp()
		if err != nil {
			return nil, err
		}
		calls = append(calls,
			namedCall{k.name, func() error { return k.block(ctx) }},
			namedCall{k.name + ", persistent", func() error { return p.Run(ctx) }})
	}
	return calls, nil
}

const quietRuns = 50

// quietCounts are elements of a block: one that fits a message with many, one
// of several messages.
var quietCounts = []int{2, 25_000}

// again makes a call twice and more, by the given loop. What the first call of a
// shape makes is kept; when the loop begins all ranks have made it.
func (k namedCall) again(c *comm.Communicator, loop func(runs int, call func())) error {
	err := errors.Join(k.call(), Barrier(context.Background(), c))
	loop(quietRuns, func() {
		if err == nil {
			err = k.call()
		}
	})
	if err != nil {
		return fmt.Errorf("%s: %w", k.name, err)
	}
	return Barrier(context.Background(), c)
}

// TestNoAllocationsLocal: the calls of all ranks are in the process.
func TestNoAllocationsLocal(t *testing.T) {
	if raceEnabled {
		t.Log("the race detector allocates; nothing measured")
		return
	}
	for _, n := range []int{2, 3} {
		for _, count := range quietCounts {
			t.Run(fmt.Sprintf("ranks=%d/count=%d", n, count), func(t *testing.T) {
				allocs := map[string]float64{}
				require.NoError(t, errors.Join(each(local(t, n), func(c *comm.Communicator) error {
					r, err := extension(c)
					if err != nil {
						return err
					}
					r.relays = n == 3
					calls, err := quietCalls(c, count)
					for _, k := range calls {
						loop := func(runs int, call func()) {
							for range runs + 1 { // AllocsPerRun makes one more
								call()
							}
						}
						if c.Rank() == 0 {
							loop = func(runs int, call func()) { allocs[k.name] = testing.AllocsPerRun(runs, call) }
						}
						if err := k.again(c, loop); err != nil {
							return err
						}
					}
					return err
				})...))
				for name, k := range allocs {
					if k != 0 {
						t.Errorf("%s: %v allocations", name, k)
					}
				}
			})
		}
	}
}

// quietProgram is a rank of the same in processes; each counts its own.
func quietProgram() error {
	c, err := comm.Init(context.Background(), comm.WithTimeout(time.Minute))
	if err != nil {
		return err
	}
	for _, count := range quietCounts {
		calls, err := quietCalls(c, count)
		if err != nil {
			return err
		}
		for _, k := range calls {
			var allocs float64
			if err := k.again(c, func(runs int, call func()) { allocs = testing.AllocsPerRun(runs, call) }); err != nil {
				return err
			}
			if allocs != 0 {
				return fmt.Errorf("%s of %d: %v allocations", k.name, count, allocs)
			}
		}
	}
	fmt.Println("nothing allocated")
	return c.Close()
}

func TestNoAllocationsProcesses(t *testing.T) {
	if raceEnabled {
		t.Log("the race detector allocates; nothing measured")
		return
	}
	j := ranktest.Start(t, 2, "quiet")
	j.Succeed(t, time.Minute)
	for _, r := range j.Ranks {
		require.Contains(t, r.Output(), "nothing allocated")
	}
}
