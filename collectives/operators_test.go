package collectives

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

// TestOperators: every operator on every type that it has, as kernels.Reduce
// does it, on one rank too.
func TestOperators(t *testing.T) {
	const count, seed = 333, 20260301
	ctx := context.Background()
	for n := 1; n <= 4; n++ {
		cs := local(t, n)
		r := rand.New(rand.NewPCG(seed, uint64(n)))
		for typ := kernels.TypeInt8; typ.Valid(); typ++ {
			for op := kernels.Sum; op.Valid(); op++ {
				if !op.Supports(typ) {
					continue
				}
				name := fmt.Sprintf("seed %d: %v of %v on %d ranks", seed, op, typ, n)
				buf := func() []byte { return kernels.Bytes(make([]uint64, 2*count))[:count*typ.Size()] }
				srcs, dsts, want := make([][]byte, n), make([][]byte, n), buf()
				for i := range srcs {
					srcs[i], dsts[i] = buf(), buf()
					for k := range srcs[i] {
						srcs[i][k] = byte(r.Uint32())
					}
					if op == kernels.Sum || op == kernels.Prod || op == kernels.Avg {
						zeroOne(t, srcs[i], typ)
					}
				}
				require.NoError(t, kernels.Reduce(want, srcs, typ, op))
				for _, err := range each(cs, func(c *comm.Communicator) error {
					o := allReduce(c, element{t: typ, size: typ.Size()}, dsts[c.Rank()], srcs[c.Rank()], operator{op: op})
					return o.run(ctx)
				}) {
					require.NoError(t, err, name)
				}
				for _, dst := range dsts {
					require.True(t, bytes.Equal(want, dst), name)
				}
				clear(dsts[n-1])
				for _, err := range each(cs, func(c *comm.Communicator) error {
					o := reduce(c, element{t: typ, size: typ.Size()}, dsts[c.Rank()], srcs[c.Rank()], operator{op: op}, n-1)
					return o.run(ctx)
				}) {
					require.NoError(t, err, name)
				}
				require.True(t, bytes.Equal(want, dsts[n-1]), name)
			}
		}
	}
}

// zeroOne makes each number 0 or 1, because the sum of NaNs may be any NaN.
func zeroOne(t *testing.T, b []byte, typ kernels.Type) {
	switch typ {
	case kernels.TypeComplex64:
		typ = kernels.TypeFloat32
	case kernels.TypeComplex128:
		typ = kernels.TypeFloat64
	}
	require.NoError(t, kernels.Reduce(b, [][]byte{b}, typ, kernels.LogicalOr))
}
