package comm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/comm/bootstrap"
)

func TestNodes(t *testing.T) {
	ch := fakeChannel{peers: []bootstrap.Peer{{Node: "a"}, {Node: "b"}, {Node: "a"}, {Node: "c"}, {Node: "b"}}}
	w := &world{ch: ch}
	for _, tt := range []struct {
		members     []int
		rank        int
		nodes       [][]int
		local, size int
	}{
		{[]int{0, 1, 2, 3, 4}, 2, [][]int{{0, 2}, {1, 4}, {3}}, 1, 2},
		{[]int{4, 3, 2, 1, 0}, 0, [][]int{{0, 3}, {1}, {2, 4}}, 0, 2},
		{[]int{3}, 0, [][]int{{0}}, 0, 1},
	} {
		c := &Communicator{world: w, members: tt.members, rank: tt.rank}
		require.Equal(t, tt.nodes, c.Nodes())
		require.Equal(t, tt.local, c.LocalRank())
		require.Equal(t, tt.size, c.LocalSize())
	}
	var none *Communicator
	require.Equal(t, -1, none.Rank())
	require.Zero(t, none.Size())
	require.Nil(t, none.Nodes())
	require.Zero(t, none.LocalSize())
	require.Equal(t, -1, none.LocalRank())
	require.ErrorIs(t, none.Close(), ErrNil)
}
