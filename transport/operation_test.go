package transport

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/kernels"
)

func TestRetryClass(t *testing.T) {
	for k := OpPut; k <= OpAtom; k++ {
		for op := RedAdd; op <= AtomCAS; op++ {
			want := Idempotent
			switch {
			case k == OpPutCounted || k == OpPutCountedMultimem || k == OpRedCounted:
				want = Counted
			case k == OpAtom, (k == OpRed || k == OpRedMultimem) && (op == RedAdd || op == RedXor):
				want = NonRepeatable
			}
			require.Equal(t, want, k.Class(op), "%v %v", k, op)
		}
	}
}

// TestSupports has the tables written out, as the support matrix of the fabric
// has them.
func TestSupports(t *testing.T) {
	const (
		u32, s32, u64, s64 = kernels.TypeUint32, kernels.TypeInt32, kernels.TypeUint64, kernels.TypeInt64
		f16, bf16          = kernels.TypeFloat16, kernels.TypeBFloat16
		f32, f64           = kernels.TypeFloat32, kernels.TypeFloat64
	)
	type table map[RedOp][]kernels.Type
	red := table{
		RedAdd: {u32, u64, f16, bf16, f32, f64},
		RedMin: {u32, s32, u64, s64, f16, bf16}, RedMax: {u32, s32, u64, s64, f16, bf16},
		RedAnd: {u32, u64}, RedOr: {u32, u64}, RedXor: {u32, u64},
	}
	pull := table{RedAdd: {u32, u64, f16, bf16, f32}}
	for _, op := range []RedOp{RedMin, RedMax, RedAnd, RedOr, RedXor} {
		pull[op] = red[op]
	}
	atom := table{RedAdd: {u32, u64, f32, f64}}
	for _, op := range []RedOp{RedMin, RedMax, RedAnd, RedOr, RedXor, AtomExch, AtomCAS} {
		atom[op] = []kernels.Type{u32, u64}
	}
	for _, c := range []struct {
		name     string
		supports func(RedOp, kernels.Type) bool
		want     table
	}{{"red", RedSupports, red}, {"pullred", PullRedSupports, pull}, {"atom", AtomSupports, atom}} {
		for op := range 256 {
			for typ := range 256 {
				op, typ := RedOp(op), kernels.Type(typ)
				want := false
				for _, w := range c.want[op] {
					want = want || w == typ
				}
				require.Equal(t, want, c.supports(op, typ), "%s %v on %v", c.name, op, typ)
			}
		}
	}
}

func TestStrings(t *testing.T) {
	seen := map[string]bool{}
	for k := OpPut; k <= OpAtom; k++ {
		require.False(t, seen[k.String()])
		seen[k.String()] = true
	}
	for op := RedAdd; op <= AtomCAS; op++ {
		require.False(t, seen[op.String()])
		seen[op.String()] = true
	}
	require.Equal(t, "unknown operation", OpKind(200).String())
	require.Equal(t, "unknown operator", RedOp(200).String())
	require.Equal(t, "clean", Report{}.String())
	require.True(t, Report{}.Clean())
	require.Equal(t, "failed (errors 2, code 0x7)", Report{Status: StatusFailed, Errors: 2, Code: 7}.String())
	require.False(t, Report{Status: StatusFailed}.Clean())
	require.Contains(t, (&FabricError{Op: OpGet, Rank: 1, Peer: 2, Status: Report{Status: StatusFailed}}).Error(), "rank 1: get to rank 2")
}

func TestLimits(t *testing.T) {
	require.Equal(t, 16777200, MaxPutBytes)
	require.Equal(t, 1048560, MaxGetBytes)
	require.Equal(t, Handle{ID: 3, Offset: 48}, Handle{ID: 3, Offset: 16}.Add(32))
}

func TestExportedClose(t *testing.T) {
	Exported{}.Close()
	f, w, err := os.Pipe()
	require.NoError(t, err)
	defer w.Close()
	Exported{File: f}.Close()
	require.ErrorIs(t, f.Close(), os.ErrClosed)
}
