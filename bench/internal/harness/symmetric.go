package harness

import (
	"context"
	"errors"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

// symmetricPool is a pool of symmetric memory.
func symmetricPool(ctx context.Context, c *comm.Communicator, bytes int64) (pool, error) {
	src, err := comm.Alloc[uint64](ctx, c, int(bytes/8))
	if err != nil {
		return pool{}, err
	}
	dst, err := comm.Alloc[uint64](ctx, c, int(bytes/8))
	if err != nil {
		return pool{}, err
	}
	return pool{
		src:  kernels.Bytes(src.Slice()),
		dst:  kernels.Bytes(dst.Slice()),
		free: func() error { return errors.Join(src.Free(), dst.Free()) },
	}, nil
}
