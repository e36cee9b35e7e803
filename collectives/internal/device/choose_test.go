package device

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
	layout "github.com/weft-go/weft/kernels/cuda"
)

// With any number of ranks and lanes, a call has blocks for all its bytes and no more than there
// are lanes; and the packets of a small one lie within the segment.
func TestChoose(t *testing.T) {
	for _, ranks := range []int{2, 3, 4, 8, 9, 16, 17, 33, 64, 65, 66, layout.MaxRanks} {
		for _, lanes := range []int{1, 2, 3, 16, layout.MaxLanes} {
			g := &Group{ranks: ranks, lanes: lanes}
			longest := 0 // of small blocks
			for bytes := 0; bytes <= 300<<10; bytes += 1 + bytes/16 {
				c := &Call{Collective: comm.OpAllReduce, Count: bytes, Type: kernels.TypeUint8, ElemBytes: 1}
				name, blocks, rows := g.choose(c)
				require.Equal(t, 1, rows)
				require.Positive(t, blocks)
				require.LessOrEqual(t, blocks, lanes)
				if name == layout.SmallReduce[c.Type] {
					require.GreaterOrEqual(t, blocks*layout.SmallBytes, bytes)
					longest = bytes
					at := smallPlace(ranks, lanes, blocks-1)
					require.LessOrEqual(t, at, layout.SegmentBytes(ranks, lanes), "%d ranks, %d lanes, %d bytes", ranks, lanes, bytes)
				}
			}
			require.Greater(t, longest, min(lanes*layout.SmallBytes, (256<<10)/(ranks-1))*9/10)
			c := &Call{Collective: comm.OpSend, To: 0, From: ranks - 1, Blocks: &layout.Blocks{}}
			name, blocks, _ := g.choose(c)
			require.Equal(t, layout.Mail, name)
			require.LessOrEqual(t, blocks, max(lanes, 2))
		}
	}
}

// smallPlace is where the packets of a lane end, as lane.cuh has it.
func smallPlace(ranks, lanes, lane int) int {
	const packet, hello = 16, 8
	eachLane := 128 + ranks*(128+2*hello*packet) + 2*layout.StageBytes
	mail := ranks * layout.MailLanes * (512 + layout.MailSlots*layout.MailSlotBytes)
	return layout.SegmentHeader + lanes*eachLane + mail + (lane+1)*2*ranks*layout.Threads*packet
}
