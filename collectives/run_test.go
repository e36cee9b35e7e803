package collectives

import (
	"context"
	"errors"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

// TestGrown: memory that grew for elements of a byte serves larger ones.
func TestGrown(t *testing.T) {
	var keep [][]byte
	for n := 1; n < 200; n++ {
		for range 20 {
			var b []byte
			got := grown(&b, n)
			require.Len(t, got, n)
			require.Zero(t, uintptr(unsafe.Pointer(&got[0]))%8)
			require.Equal(t, &got[0], &grown(&b, 1)[0])
			keep = append(keep, got, make([]byte, 1+n%7)) // small pieces of memory in between
		}
	}
	require.NotEmpty(t, keep)

	ctx := context.Background()
	for k := range 20 {
		cs := local(t, 2)
		require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error {
			b, f := make([]uint8, 2*9), make([]float64, 2)
			if err := ReduceScatterBlock(ctx, c, b[:9], b, kernels.Sum); err != nil {
				return err
			}
			return ReduceScatterBlock(ctx, c, f[:1], f, kernels.Sum)
		})...), k)
	}
}
