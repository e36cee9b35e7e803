package collectives

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

func TestSmoke(t *testing.T) {
	for n := 1; n <= 5; n++ {
		cs, err := comm.Local(n, comm.WithTimeout(5*time.Second))
		require.NoError(t, err)
		var g errgroup.Group
		for _, c := range cs {
			g.Go(func() error {
				for _, k := range []int{0, 1, 7, 1000, 65537, 300000} {
					src := make([]float32, k)
					for i := range src {
						src[i] = float32(i + c.Rank())
					}
					if err := AllReduce(context.Background(), c, src, src, kernels.Sum); err != nil {
						return err
					}
					for i := range src {
						if src[i] != float32(i*n+n*(n-1)/2) {
							t.Errorf("%d %d %v", k, i, src[i])
							break
						}
					}
				}
				return c.Close()
			})
		}
		require.NoError(t, g.Wait())
	}
}
