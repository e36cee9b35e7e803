package device

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/comm"
	layout "github.com/weft-go/weft/kernels/cuda"
)

// Kernels know collectives by comm's numbers.
func TestCollectives(t *testing.T) {
	for number, k := range map[int]comm.Collective{
		layout.AllReduce: comm.OpAllReduce, layout.Reduce: comm.OpReduce, layout.Broadcast: comm.OpBroadcast, layout.AllGather: comm.OpAllGather,
		layout.AllToAll: comm.OpAllToAll, layout.Barrier: comm.OpBarrier, layout.ReduceScatterBlock: comm.OpReduceScatterBlock,
	} {
		require.EqualValues(t, k, number, k)
	}
}
