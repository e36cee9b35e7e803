package collectives

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

type pt struct {
	A int8
	B float64
}

func TestSmoke(t *testing.T) {
	ctx := context.Background()
	for n := 1; n <= 5; n++ {
		cs, err := comm.Local(n)
		require.NoError(t, err)
		var g errgroup.Group
		for _, c := range cs {
			g.Go(func() error {
				r := c.Rank()
				src := []int{r, r * 10, 7}
				all := make([]int, 3*n)
				if err := Gather(ctx, c, all, src, n-1); err != nil {
					return err
				}
				if r == n-1 && n > 1 {
					require.Equal(t, (n-1)*10, all[3*(n-1)+1])
				}
				out := make([]int, 3)
				if err := Scatter(ctx, c, out, all, n-1); err != nil {
					return err
				}
				require.Equal(t, src, out)
				require.NoError(t, Scan(ctx, c, out, src, kernels.Sum))
				require.Equal(t, 7*(r+1), out[2])
				require.NoError(t, Exscan(ctx, c, out, src, kernels.Sum))
				if r > 0 {
					require.Equal(t, 7*r, out[2])
				}
				counts := make([]int, n)
				for i := range counts {
					counts[i] = i * 40000
				}
				tot := n * (n - 1) / 2 * 40000
				big := make([]int, tot)
				for i := range big {
					big[i] = i
				}
				mine := make([]int, counts[r])
				require.NoError(t, ReduceScatter(ctx, c, mine, big, counts, kernels.Sum))
				if r > 0 {
					require.Equal(t, n*r*(r-1)/2*40000, mine[0])
				}
				require.NoError(t, ReduceScatter(ctx, c, big[:counts[r]], big, counts, kernels.Max))
				require.NoError(t, AllGatherV(ctx, c, big, counts, mine))
				if n > 1 {
					require.Equal(t, n, big[1])
				}
				s1 := make([]pt, n*3)
				for i := range s1 {
					s1[i] = pt{int8(r), float64(i)}
				}
				d1 := make([]pt, n*3)
				require.NoError(t, AllToAll(ctx, c, d1, s1))
				require.Equal(t, pt{int8(n - 1), float64(3 * r)}, d1[3*(n-1)])
				req := StartAllReduceFunc(ctx, c, s1, s1, func(a, x []pt) {
					for i := range a {
						a[i].B += x[i].B
					}
				})
				req2 := StartBroadcast(ctx, c, d1, 0)
				require.NoError(t, Barrier(ctx, c))
				require.NoError(t, WaitAll(ctx, req2, req))
				require.Equal(t, pt{0, float64(n)}, s1[1])
				return c.Close()
			})
		}
		require.NoError(t, g.Wait())
	}
}
