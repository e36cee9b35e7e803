package device

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/internal/cuda"
	"github.com/weft-go/weft/kernels"
)

// BenchmarkAllReduce takes the time of calls in a graph, which has many so that launching it
// doesn't count, of two ranks: on two devices if there are, else on one.
func BenchmarkAllReduce(b *testing.B) {
	const most, calls = 512 << 20, 20
	for _, config := range []struct {
		name       string
		registered bool
		config     Config
		sizes      []int
	}{
		{"registered", true, Config{}, []int{8, 4 << 10, 32 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 8 << 20, 32 << 20, 128 << 20, most}},
		{"serial", true, Config{Serial: true}, []int{8, 32 << 10, 256 << 10, 2 << 20}},
		{"onedomain", true, Config{OneDomain: true}, []int{8, 32 << 10, 256 << 10, 2 << 20}},
		{"staged", false, Config{}, []int{512 << 10, 2 << 20, 8 << 20, 128 << 20}},
	} {
		config.config.Timeout = 10 * time.Second
		r := newRigWith(b, 2, config.config)
		mem := [2][]Memory{r.register(b, most), r.register(b, most)}
		for _, bytes := range config.sizes {
			b.Run(fmt.Sprintf("%s/bytes=%d", config.name, bytes), func(b *testing.B) {
				r.benchmark(b, calls, func(p int) *Call {
					return &Call{Collective: comm.OpAllReduce, Count: bytes / 4, Type: kernels.TypeFloat32, ElemBytes: 4,
						Dst: mem[0][p].within(0, config.registered), Src: mem[1][p].within(0, config.registered), To: -1, From: -1}
				}, bytes)
			})
		}
	}
}

// BenchmarkBlocks is the same for collectives with a block for each rank, bytes being those of all
// blocks, in registered memory.
func BenchmarkBlocks(b *testing.B) {
	const most, calls, ranks = 512 << 20, 20, 2
	r := newRigWith(b, ranks, Config{Timeout: 10 * time.Second})
	mem := [2][]Memory{r.register(b, most), r.register(b, most)}
	for _, c := range []struct {
		name       string
		collective comm.Collective
		inPlace    bool
	}{
		{"allgather", comm.OpAllGather, false}, {"allgather-inplace", comm.OpAllGather, true},
		{"alltoall", comm.OpAllToAll, false}, {"reducescatter", comm.OpReduceScatterBlock, false},
	} {
		for _, bytes := range []int{1 << 20, 2 << 20, 4 << 20, 16 << 20, most} {
			b.Run(fmt.Sprintf("%s/bytes=%d", c.name, bytes), func(b *testing.B) {
				block := bytes / ranks
				r.benchmark(b, calls, func(p int) *Call {
					dst, src := mem[0][p].within(0, true), mem[1][p].within(0, true)
					if c.inPlace {
						src = mem[0][p].within(p*block, true)
					}
					return &Call{Collective: c.collective, Count: block / 4, Type: kernels.TypeFloat32, ElemBytes: 4, Dst: dst, Src: src, To: -1, From: -1}
				}, bytes)
			})
		}
	}
}

// benchmark takes the time of graphs of a number of equal calls.
func (r *rig) benchmark(b *testing.B, calls int, call func(p int) *Call, bytes int) {
	graphs := make([]*cuda.GraphExec, 2)
	var marks [2]cuda.Event
	for p := range 2 {
		require.NoError(b, r.streams[p].BeginCapture())
		for range calls {
			require.NoError(b, r.groups[p].Enqueue(r.streams[p], call(p)))
		}
		g, err := r.streams[p].EndCapture()
		require.NoError(b, err)
		graphs[p], err = g.Instantiate()
		require.NoError(b, err)
		require.NoError(b, g.Destroy())
		marks[p], err = r.contexts[0].NewEvent(true)
		require.NoError(b, err)
	}
	launch := func() {
		for p := range 2 {
			require.NoError(b, graphs[p].Launch(r.streams[p]))
		}
	}
	wait := func() {
		for p := range 2 {
			require.NoError(b, r.streams[p].Synchronize())
			require.Nil(b, r.groups[p].Failure())
		}
	}
	launch() // the first is slower
	wait()
	rounds := (b.N + calls - 1) / calls
	require.NoError(b, marks[0].Record(r.streams[0]))
	for range rounds {
		launch()
	}
	require.NoError(b, marks[1].Record(r.streams[0]))
	wait()
	took, err := marks[1].Since(marks[0])
	require.NoError(b, err)
	each := float64(took.Nanoseconds()) / float64(rounds*calls)
	b.ReportMetric(each/1e3, "µs/call")
	b.ReportMetric(float64(bytes)/each, "GB/s")
	b.ReportMetric(0, "ns/op")
	for p := range 2 {
		require.NoError(b, graphs[p].Destroy())
		require.NoError(b, marks[p].Destroy())
	}
}
