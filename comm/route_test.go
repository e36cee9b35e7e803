package comm

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/comm/bootstrap"
)

func TestEachHasCPU(t *testing.T) {
	for _, tt := range []struct {
		masks [][]int
		want  bool
	}{
		{nil, true},
		{[][]int{{0}}, true},
		{[][]int{{0, 1}, {0, 1}}, true},
		{[][]int{{0, 1}, {0, 1}, {0, 1}}, false},
		{[][]int{{0}, {0}}, false},
		{[][]int{{0, 1}, {0}}, true}, // the first must give way
		{[][]int{{0, 1}, {0, 2}, {0}, {3}}, true},
		{[][]int{{0, 1}, {0, 1}, {0, 1}, {2, 3, 4, 5}}, false}, // enough processors, not for all
		{[][]int{nil, {0}}, true},                              // unknown
	} {
		require.Equal(t, tt.want, eachHasCPU(tt.masks), "%v", tt.masks)
	}
}

// fakeChannel is a job of ranks that are where the test says.
type fakeChannel struct {
	peers []bootstrap.Peer
}

func (f fakeChannel) Rank() int                         { return 0 }
func (f fakeChannel) Size() int                         { return len(f.peers) }
func (f fakeChannel) Peer(r int) bootstrap.Peer         { return f.peers[r] }
func (f fakeChannel) Source() string                    { return "fake" }
func (f fakeChannel) Start(bootstrap.Handler)           {}
func (f fakeChannel) Send(int, bootstrap.Message) error { return nil }
func (f fakeChannel) Close(context.Context) error       { return nil }

// TestUnreachable: a rank on another node is named.
func TestUnreachable(t *testing.T) {
	ch := fakeChannel{peers: []bootstrap.Peer{{Rank: 0, Node: "a", Host: "h0"}, {Rank: 1, Node: "a"}, {Rank: 2, Node: "b", Host: "h2"}}}
	s, err := configure(nil, func(string) string { return "" })
	require.NoError(t, err)
	_, err = start(context.Background(), ch, false, s)
	require.ErrorIs(t, err, ErrUnreachable)
	require.ErrorContains(t, err, "rank 2 is on another node (host h2)")
}
