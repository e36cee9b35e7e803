package pointer

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/internal/elementwise"
)

// TestPullRedOrder: with numbers whose sums depend on the order, the result is
// to the bit the reduction from member 0 on, at any alignment of dst, and also
// into the member's own replica.
func TestPullRedOrder(t *testing.T) {
	const n, size = 5, 8192 + 48
	seed := rand.Uint64()
	t.Logf("seed %#x", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	ts, multi, mem := make([]*Transport, n), make([]transport.Endpoint, n), make([]transport.Memory, n)
	all := make([]transport.Exported, n)
	cfg := transport.EndpointConfig{Size: 16 << 10}
	for r := range n {
		ts[r] = NewLocal()
		var e transport.Endpoint
		mem[r], e = bound(t, ts[r], cfg)
		x, err := e.Export()
		require.NoError(t, err)
		all[r] = x
	}
	var err error
	multi[2], err = ts[2].JoinMulticast(t.Context(), cfg, 2, n, mem[2], exchangeOf(all))
	require.NoError(t, err)
	c, err := ts[2].NewCompletion(1)
	require.NoError(t, err)
	for _, typ := range []kernels.Type{kernels.TypeFloat16, kernels.TypeBFloat16, kernels.TypeFloat32, kernels.TypeUint64} {
		for _, op := range []transport.RedOp{transport.RedAdd, transport.RedAnd, transport.RedXor} {
			if !transport.PullRedSupports(op, typ) {
				continue
			}
			srcs := make([][]byte, n)
			for r := range n {
				b := mem[r].Bytes()[64:][:size]
				for i := range b {
					b[i] = byte(rng.Uint32())
					if i%2 == 1 {
						b[i] &= 0xbf // no NaN: which one is not specified
					}
				}
				srcs[r] = append([]byte(nil), b...)
			}
			result, err := newHeapMemory(size) // aligned, which a []byte need not be
			require.NoError(t, err)
			want := result.Bytes()[:size]
			if op == transport.RedAdd {
				require.NoError(t, kernels.Reduce(want, srcs, typ, kernels.Sum))
			} else {
				require.NoError(t, elementwise.PullRed(want, srcs, op, typ))
				v := srcs[0][17]
				for _, s := range srcs[1:] {
					if op == transport.RedAnd {
						v &= s[17]
					} else {
						v ^= s[17]
					}
				}
				require.Equal(t, v, want[17])
			}
			h := transport.Handle{ID: multi[2].ID(), Offset: 64}
			for _, at := range []int{0, 1, 2, 4, 7} {
				got := make([]byte, size+16)
				require.NoError(t, ts[2].PullRed(c, got[at:at+size], h, op, typ))
				require.True(t, string(want) == string(got[at:at+size]), "%v on %v, dst at %d", op, typ, at)
			}
			require.NoError(t, ts[2].PullRed(c, mem[2].Bytes()[64:][:size], h, op, typ))
			require.True(t, string(want) == string(mem[2].Bytes()[64:][:size]), "%v on %v, in place", op, typ)
			require.NoError(t, c.Submit())
			require.NoError(t, c.Arrive())
			_, err = c.Report()
			require.NoError(t, err)
		}
	}
}

// bound makes an endpoint with memory behind it.
func bound(t testing.TB, tr *Transport, cfg transport.EndpointConfig) (transport.Memory, transport.Endpoint) {
	m, err := tr.Alloc(cfg.Size)
	require.NoError(t, err)
	e, err := tr.Create(cfg)
	require.NoError(t, err)
	require.NoError(t, e.Bind(0, m))
	return m, e
}

func exchangeOf(all []transport.Exported) transport.Exchange {
	return func(context.Context, transport.Exported) ([]transport.Exported, error) { return all, nil }
}
