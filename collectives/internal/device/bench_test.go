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
	const most, calls = 256 << 20, 20
	r := newRig(b, 2, 10*time.Second)
	mem := [2][]Memory{r.register(b, most), r.register(b, most)}
	for _, registered := range []bool{true, false} {
		for bytes := 8; bytes <= most; bytes *= 8 {
			b.Run(fmt.Sprintf("registered=%v/bytes=%d", registered, bytes), func(b *testing.B) {
				graphs := make([]*cuda.GraphExec, 2)
				var marks [2]cuda.Event
				for p := range 2 {
					require.NoError(b, r.streams[p].BeginCapture())
					for range calls {
						c := &Call{Collective: comm.OpAllReduce, Count: bytes / 4, Type: kernels.TypeFloat32, ElemBytes: 4,
							Dst: mem[0][p].within(0, registered), Src: mem[1][p].within(0, registered), To: -1, From: -1}
						require.NoError(b, r.groups[p].Enqueue(r.streams[p], c))
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
			})
		}
	}
}
