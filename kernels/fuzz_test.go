package kernels_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/weft-go/weft/kernels"
)

// FuzzReduce cuts data into sources. alias selects the sources that are dst;
// shift moves the destination, if that leaves a valid call or not.
func FuzzReduce(f *testing.F) {
	f.Add([]byte("0123456789abcdef0123456789abcdef"), uint8(kernels.TypeFloat32), uint8(kernels.Sum), uint8(2), uint8(0), uint8(0))
	f.Add([]byte("0123456789abcdef0123456789abcdef"), uint8(kernels.TypeFloat16), uint8(kernels.Avg), uint8(4), uint8(1), uint8(0))
	f.Add([]byte("0123456789abcdef0123456789abcdef"), uint8(kernels.TypeBFloat16), uint8(kernels.Max), uint8(3), uint8(0), uint8(2))
	f.Add([]byte{0, 0x7C, 1, 0xFC, 0xFF, 0x7F, 0, 0x80}, uint8(kernels.TypeFloat16), uint8(kernels.Min), uint8(2), uint8(2), uint8(0))
	f.Add([]byte{128, 255, 127, 1}, uint8(kernels.TypeInt8), uint8(kernels.Avg), uint8(2), uint8(0), uint8(0))
	for typ := kernels.TypeFloat8E4M3; typ.Valid(); typ++ {
		for i, op := range operators(typ) {
			f.Add([]byte("\x00\x80\x7f\xff0123456789abcdef0123456789abcdef"), uint8(typ), uint8(op), uint8(i%3+1), uint8(i), uint8(0))
		}
	}
	f.Add([]byte{128, 255, 127, 1, 0, 0}, uint8(kernels.TypeUint16), uint8(kernels.BitXor), uint8(3), uint8(0), uint8(1))
	f.Add([]byte{128, 0, 0, 1, 0, 0}, uint8(kernels.TypeFloat16), uint8(kernels.LogicalOr), uint8(1), uint8(1), uint8(0))
	f.Fuzz(func(t *testing.T, data []byte, typ8, op8, sources, alias, shift uint8) {
		typ, op := kernels.Type(typ8), kernels.Op(op8)
		sources %= 12
		size := max(typ.Size(), 1)
		n := len(data) / size / max(int(sources), 1)
		dst, whole := aligned(n*size, int(shift)%64)
		var srcs [][]byte
		for i := range int(sources) {
			src, _ := aligned(n*size, 0)
			copy(src, data[i*n*size:])
			if alias>>i&1 != 0 {
				copy(dst, src)
				src = dst
			}
			srcs = append(srcs, src)
		}
		want := make([]expectation, n)
		valid := typ.Valid() && op.Supports(typ) && sources > 0
		if valid {
			xs := make([]element, sources)
			for e := range want {
				for i, src := range srcs {
					xs[i] = get(src, typ, e)
				}
				want[e] = oracle(typ, op, xs)
			}
		}
		before := append([]byte(nil), whole...)
		err := kernels.Reduce(dst, srcs, typ, op)
		if !valid || n > 0 && int(shift)%64%typ.Align() != 0 {
			var arg *kernels.ArgumentError
			require.ErrorAs(t, err, &arg)
			require.Equal(t, before, whole)
			return
		}
		require.NoError(t, err)
		for e, w := range want {
			if got := get(dst, typ, e); !w.met(typ, got) {
				require.FailNowf(t, "wrong element", "element %d is %#x, not %#x", e, got, w)
			}
		}
	})
}

// FuzzParse tells that what is parsed is printed as it was, or is a second
// name.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "sum", "avg", "Op(5)", "int8", "half", "float", "double", "bfloat16", "invalid",
		"band", "bitand", "lor", "minloc", "f8e4m3", "float8e5m2", "complex128", "int64loc"} {
		f.Add(s)
	}
	second := map[string]string{
		"half": "float16", "float": "float32", "double": "float64", "f8e4m3": "float8e4m3", "f8e5m2": "float8e5m2",
		"band": "bitand", "bor": "bitor", "bxor": "bitxor", "land": "logicaland", "lor": "logicalor",
	}
	printed := func(s string) string {
		if name, ok := second[s]; ok {
			return name
		}
		return s
	}
	f.Fuzz(func(t *testing.T, s string) {
		if op, err := kernels.ParseOp(s); err == nil {
			require.True(t, op.Valid())
			require.Equal(t, printed(s), op.String())
		} else {
			require.ErrorIs(t, err, kernels.ErrOp)
		}
		if typ, err := kernels.ParseType(s); err == nil {
			require.True(t, typ.Valid())
			require.Equal(t, printed(s), typ.String())
		} else {
			require.ErrorIs(t, err, kernels.ErrType)
		}
	})
}
