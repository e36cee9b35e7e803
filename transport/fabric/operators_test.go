package fabric_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/fabric"
)

// TestPullRedSupports has the table written out.
func TestPullRedSupports(t *testing.T) {
	const (
		u32, s32, u64, s64 = kernels.TypeUint32, kernels.TypeInt32, kernels.TypeUint64, kernels.TypeInt64
		f16, bf16, f32     = kernels.TypeFloat16, kernels.TypeBFloat16, kernels.TypeFloat32
		e4m3, e5m2         = kernels.TypeFloat8E4M3, kernels.TypeFloat8E5M2
	)
	table := map[transport.RedOp][]kernels.Type{
		transport.RedAnd: {u32, u64}, transport.RedOr: {u32, u64}, transport.RedXor: {u32, u64},
		transport.RedMin: {u32, s32, u64, s64, f16, bf16, e4m3, e5m2},
		transport.RedMax: {u32, s32, u64, s64, f16, bf16, e4m3, e5m2},
		transport.RedAdd: {u32, u64, f16, bf16, f32, e4m3, e5m2},
	}
	for op := range 256 {
		for typ := range 256 {
			op, typ := transport.RedOp(op), kernels.Type(typ)
			require.Equal(t, slices.Contains(table[op], typ), fabric.PullRedSupports(op, typ), "%v on %v", op, typ)
		}
	}
}
