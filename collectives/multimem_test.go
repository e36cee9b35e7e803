package collectives

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport/progress"
)

// largeCalls are those for which a fabric's multicast memory is the better choice.
var largeCalls = []comm.Call{
	{Collective: comm.OpAllReduce, Type: kernels.TypeFloat32, Op: kernels.Sum, Count: 200_000},
	{Collective: comm.OpAllReduce, Type: kernels.TypeBFloat16, Op: kernels.Max, Count: 400_000},
	{Collective: comm.OpBroadcast, Type: kernels.TypeFloat32, Count: 200_000},
}

// TestMultimemChosen: on a fabric multicast memory does large reductions that it can,
// and broadcasts, unless something else is asked for; and nothing elsewhere.
func TestMultimemChosen(t *testing.T) {
	for _, tt := range []struct {
		transport, algorithm string
		want                 bool
	}{
		{"fabric:fast", "", true}, {"fabric", "", true}, {"fabric", "broadcast:tree,multimem", true},
		{"fabric:fast", "twoshot;broadcast:tree", false}, {"pointer", "", false},
	} {
		for n := 2; n <= 8; n++ {
			cs := local(t, n, comm.WithTransport(tt.transport), comm.WithAlgorithm(tt.algorithm))
			name := func(call comm.Call) string {
				name, err := Algorithm(cs[0], call)
				require.NoError(t, err)
				return name
			}
			for _, call := range largeCalls {
				want := tt.want && (n > 2 || call.Collective == comm.OpBroadcast && tt.algorithm != "") // of two each has one peer
				require.Equal(t, want, name(call) == "multimem", "%+v, %d ranks: %v is by %s", tt, n, call, name(call))
				small := call
				small.Count = 100
				require.NotEqual(t, "multimem", name(small))
			}
			prod := largeCalls[0]
			prod.Op = kernels.Prod // nothing that is pulled
			require.NotEqual(t, "multimem", name(prod))
			half := largeCalls[0]
			half.Type, half.Op = kernels.TypeFloat16, kernels.Avg // would round twice
			require.NotEqual(t, "multimem", name(half))
		}
	}
}

// TestMultimemFaults: what was chosen is tried again, and goes around multicast memory
// that is dead, with the bits of a loop over the ranks.
func TestMultimemFaults(t *testing.T) {
	seed := testSeed(t)
	for faults, want := range map[string]func(s progress.PeerStats) bool{
		"rate=0.05":             func(s progress.PeerStats) bool { return s.Reports > 0 && s.Retries > 0 && s.Lost > 0 },
		"rate=0.3,kinds=late":   func(s progress.PeerStats) bool { return s.Reports > 0 && s.Retries > 0 && s.Replaced > 0 },
		"dead=*>m@40":           func(s progress.PeerStats) bool { return s.Reroutes.Pointer > 0 && s.Reroutes.Channel == 0 },
		"rate=0.02,dead=*>*@60": func(s progress.PeerStats) bool { return s.Reroutes.Pointer > 0 && s.Reroutes.Channel == 0 },
		"dead=*>m@41":           func(s progress.PeerStats) bool { return s.Reroutes.Pointer == 0 && s.Reroutes.Channel > 0 },
	} {
		t.Run(faults, func(t *testing.T) {
			const n, count = 3, 70_000
			reroute := comm.WithReroute(true)
			if faults == "dead=*>m@41" { // as if nothing could be mapped
				reroute = comm.WithRerouteBy(comm.ByAlias, comm.ByChannel)
			}
			cs := local(t, n, comm.WithTransport("fabric:fast"), comm.WithTimeout(time.Minute), reroute,
				comm.WithFaults(fmt.Sprintf("seed=%d,%s", seed, faults)))
			require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error {
				src, dst, want := make([]float32, count), make([]float32, count), make([]float32, count)
				value := func(call, rank, i int) float32 { return float32(call*7+rank+1) / float32(i%1000+3) }
				for call := range 12 {
					for i := range src {
						src[i] = value(call, c.Rank(), i)
						want[i] = value(call, 0, i)
						for r := 1; r < n; r++ {
							want[i] += value(call, r, i)
						}
					}
					if err := AllReduce(context.Background(), c, dst, src, kernels.Sum); err != nil {
						return err
					}
					for i := range dst {
						if dst[i] != want[i] {
							return fmt.Errorf("call %d: element %d is %v, not %v", call, i, dst[i], want[i])
						}
					}
					root := call % n
					if c.Rank() == root {
						copy(dst, src)
					}
					if err := Broadcast(context.Background(), c, dst, root); err != nil {
						return err
					}
					for i := range dst {
						if dst[i] != value(call, root, i) {
							return fmt.Errorf("call %d: element %d of rank %d is %v", call, i, root, dst[i])
						}
					}
				}
				return nil
			})...))
			var sum progress.PeerStats
			for _, c := range cs {
				stats, err := c.Stats()
				require.NoError(t, err)
				s := stats[c.Rank()]
				require.NotZero(t, s.Messages)
				require.NotZero(t, s.Bytes)
				sum.Reports += s.Reports
				sum.Retries += s.Retries
				sum.Reroutes.Add(s.Reroutes)
				sum.Replaced += s.Replaced
				sum.Lost += s.Lost
			}
			require.True(t, want(sum), "%+v", sum)
		})
	}
}

// TestMultimemNoAllocations has multicast memory do what it can.
func TestMultimemNoAllocations(t *testing.T) {
	if raceEnabled {
		t.Log("the race detector allocates; nothing measured")
		return
	}
	const count = 40_000
	allocs := map[string]float64{}
	cs := local(t, 3, comm.WithAlgorithm("allreduce:multimem;broadcast:multimem"))
	require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error {
		x, y := make([]float32, count), make([]float32, count)
		for _, k := range []namedCall{
			{"AllReduce", func() error { return AllReduce(context.Background(), c, x, y, kernels.Sum) }},
			{"Broadcast", func() error { return Broadcast(context.Background(), c, x, 1) }},
		} {
			err := k.again(c, func(runs int, call func()) {
				if c.Rank() == 0 {
					allocs[k.name] = testing.AllocsPerRun(runs, call)
					return
				}
				for range runs + 1 {
					call()
				}
			})
			if err != nil {
				return err
			}
		}
		return nil
	})...))
	require.Equal(t, map[string]float64{"AllReduce": 0, "Broadcast": 0}, allocs)
}
