package kernels_test

import (
	"math/bits"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"github.com/weft-go/weft/kernels"
)

// TestOp: names, and the types of each operator.
func TestOp(t *testing.T) {
	integers := []kernels.Type{
		kernels.TypeInt8, kernels.TypeInt16, kernels.TypeInt32, kernels.TypeInt64,
		kernels.TypeUint8, kernels.TypeUint16, kernels.TypeUint32, kernels.TypeUint64,
	}
	floats := []kernels.Type{
		kernels.TypeFloat8E4M3, kernels.TypeFloat8E5M2, kernels.TypeFloat16, kernels.TypeBFloat16,
		kernels.TypeFloat32, kernels.TypeFloat64,
	}
	real := append(slices.Clone(integers), floats...)
	numbers := append(slices.Clone(real), kernels.TypeComplex64, kernels.TypeComplex128)
	locs := []kernels.Type{kernels.TypeFloat32Loc, kernels.TypeFloat64Loc, kernels.TypeInt32Loc, kernels.TypeInt64Loc}
	all := []struct {
		op    kernels.Op
		name  string
		alias string
		on    []kernels.Type
	}{
		{kernels.Sum, "sum", "", numbers},
		{kernels.Prod, "prod", "", numbers},
		{kernels.Min, "min", "", real},
		{kernels.Max, "max", "", real},
		{kernels.Avg, "avg", "", numbers},
		{kernels.BitAnd, "bitand", "band", integers},
		{kernels.BitOr, "bitor", "bor", integers},
		{kernels.BitXor, "bitxor", "bxor", integers},
		{kernels.LogicalAnd, "logicaland", "land", real},
		{kernels.LogicalOr, "logicalor", "lor", real},
		{kernels.MinLoc, "minloc", "", locs},
		{kernels.MaxLoc, "maxloc", "", locs},
	}
	for i, c := range all {
		require.EqualValues(t, i, c.op)
		require.True(t, c.op.Valid())
		require.Equal(t, c.name, c.op.String())
		for _, s := range []string{c.name, c.alias} {
			if s != "" {
				parsed, err := kernels.ParseOp(s)
				require.NoError(t, err)
				require.Equal(t, c.op, parsed)
			}
		}
		for typ := range kernels.Type(255) {
			require.Equal(t, slices.Contains(c.on, typ), c.op.Supports(typ), "%v of %v", c.op, typ)
		}
	}
	require.Equal(t, kernels.Sum, *new(kernels.Op))
	for _, op := range []kernels.Op{kernels.Op(len(all)), 255} {
		require.False(t, op.Valid())
		require.False(t, op.Supports(kernels.TypeInt32))
	}
	require.Equal(t, "Op(12)", (kernels.MaxLoc + 1).String())
	for _, s := range []string{"", "Sum", "sum ", "Op(5)", "Op(12)", "mean", "lxor"} {
		_, err := kernels.ParseOp(s)
		require.ErrorIs(t, err, kernels.ErrOp, "%q", s)
	}
}

func TestType(t *testing.T) {
	for _, c := range []struct {
		typ   kernels.Type
		name  string
		alias string
		size  int
	}{
		{kernels.TypeInt8, "int8", "", 1},
		{kernels.TypeInt16, "int16", "", 2},
		{kernels.TypeInt32, "int32", "", 4},
		{kernels.TypeInt64, "int64", "", 8},
		{kernels.TypeUint8, "uint8", "", 1},
		{kernels.TypeUint16, "uint16", "", 2},
		{kernels.TypeUint32, "uint32", "", 4},
		{kernels.TypeUint64, "uint64", "", 8},
		{kernels.TypeFloat16, "float16", "half", 2},
		{kernels.TypeBFloat16, "bfloat16", "", 2},
		{kernels.TypeFloat32, "float32", "float", 4},
		{kernels.TypeFloat64, "float64", "double", 8},
		{kernels.TypeFloat8E4M3, "float8e4m3", "f8e4m3", 1},
		{kernels.TypeFloat8E5M2, "float8e5m2", "f8e5m2", 1},
		{kernels.TypeComplex64, "complex64", "", 8},
		{kernels.TypeComplex128, "complex128", "", 16},
		{kernels.TypeFloat32Loc, "float32loc", "", 8},
		{kernels.TypeFloat64Loc, "float64loc", "", 16},
		{kernels.TypeInt32Loc, "int32loc", "", 8},
		{kernels.TypeInt64Loc, "int64loc", "", 16},
	} {
		require.True(t, c.typ.Valid())
		require.Equal(t, c.name, c.typ.String())
		require.Equal(t, c.size, c.typ.Size())
		require.LessOrEqual(t, c.typ.Align(), c.size)
		for _, s := range []string{c.name, c.alias} {
			if s == "" {
				continue
			}
			parsed, err := kernels.ParseType(s)
			require.NoError(t, err)
			require.Equal(t, c.typ, parsed)
		}
	}
	require.Equal(t, kernels.TypeInvalid, *new(kernels.Type))
	for typ, name := range map[kernels.Type]string{kernels.TypeInvalid: "invalid", kernels.TypeInt64Loc + 1: "Type(21)"} {
		require.False(t, typ.Valid())
		require.Equal(t, name, typ.String())
		require.Zero(t, typ.Size())
		require.Zero(t, typ.Align())
	}
	for _, s := range []string{"", "invalid", "Float32", "int", "float 32", "Type(13)", "complex", "loc"} {
		_, err := kernels.ParseType(s)
		require.ErrorIs(t, err, kernels.ErrType, "%q", s)
	}
}

func TestTypeOf(t *testing.T) {
	typeInt, typeUint := kernels.TypeInt64, kernels.TypeUint64
	if bits.UintSize == 32 {
		typeInt, typeUint = kernels.TypeInt32, kernels.TypeUint32
	}
	testTypeOf[int8](t, kernels.TypeInt8)
	testTypeOf[int16](t, kernels.TypeInt16)
	testTypeOf[int32](t, kernels.TypeInt32)
	testTypeOf[int64](t, kernels.TypeInt64)
	testTypeOf[int](t, typeInt)
	testTypeOf[uint8](t, kernels.TypeUint8)
	testTypeOf[uint16](t, kernels.TypeUint16)
	testTypeOf[uint32](t, kernels.TypeUint32)
	testTypeOf[uint64](t, kernels.TypeUint64)
	testTypeOf[uint](t, typeUint)
	testTypeOf[float32](t, kernels.TypeFloat32)
	testTypeOf[float64](t, kernels.TypeFloat64)
	testTypeOf[kernels.Float16](t, kernels.TypeFloat16)
	testTypeOf[kernels.BFloat16](t, kernels.TypeBFloat16)
	testTypeOf[kernels.Float8E4M3](t, kernels.TypeFloat8E4M3)
	testTypeOf[kernels.Float8E5M2](t, kernels.TypeFloat8E5M2)
	testTypeOf[complex64](t, kernels.TypeComplex64)
	testTypeOf[complex128](t, kernels.TypeComplex128)
	testTypeOf[kernels.Float32Loc](t, kernels.TypeFloat32Loc)
	testTypeOf[kernels.Float64Loc](t, kernels.TypeFloat64Loc)
	testTypeOf[kernels.Int32Loc](t, kernels.TypeInt32Loc)
	testTypeOf[kernels.Int64Loc](t, kernels.TypeInt64Loc)
	testTypeOf[struct {
		Value float32
		Index int32
	}](t, kernels.TypeFloat32Loc)

	type (
		i8  int8
		i16 int16
		i32 int32
		i64 int64
		u8  uint8
		u32 uint32
		u64 uint64
		f64 float64
		deg celsius
		gg  grad
	)
	testTypeOf[i8](t, kernels.TypeInt8)
	testTypeOf[i16](t, kernels.TypeInt16)
	testTypeOf[i32](t, kernels.TypeInt32)
	testTypeOf[i64](t, kernels.TypeInt64)
	testTypeOf[count](t, typeInt)
	testTypeOf[u8](t, kernels.TypeUint8)
	testTypeOf[pattern](t, kernels.TypeUint16)
	testTypeOf[u32](t, kernels.TypeUint32)
	testTypeOf[u64](t, kernels.TypeUint64)
	testTypeOf[unsigned](t, typeUint)
	testTypeOf[celsius](t, kernels.TypeFloat32)
	testTypeOf[deg](t, kernels.TypeFloat32)
	testTypeOf[f64](t, kernels.TypeFloat64)
	testTypeOf[grad](t, kernels.TypeFloat16)
	testTypeOf[gg](t, kernels.TypeFloat16)
	testTypeOf[weight](t, kernels.TypeBFloat16)
	testTypeOf[tiny](t, kernels.TypeFloat8E4M3)
	testTypeOf[wide](t, kernels.TypeFloat8E5M2)
	testTypeOf[phasor](t, kernels.TypeComplex64)
	testTypeOf[spectrum](t, kernels.TypeComplex128)
	testTypeOf[coldest](t, kernels.TypeFloat32Loc)
	testTypeOf[farthest](t, kernels.TypeFloat64Loc)
	testTypeOf[vote](t, kernels.TypeInt32Loc)
	testTypeOf[offer](t, kernels.TypeInt64Loc)
}

func testTypeOf[T kernels.Number](t *testing.T, want kernels.Type) {
	t.Helper()
	require.Equal(t, want, kernels.TypeOf[T](), "%T", *new(T))
	require.Equal(t, int(unsafe.Sizeof(*new(T))), want.Size())
	require.Equal(t, int(unsafe.Alignof(*new(T))), want.Align())
	require.Zero(t, testing.AllocsPerRun(10, func() { _ = kernels.TypeOf[T]() }), "%T", *new(T))
}

func TestViews(t *testing.T) {
	x := []int32{1, 2, 3}
	b := kernels.Bytes(x)
	require.Len(t, b, 12)
	require.Equal(t, 12, cap(b))
	b[0] ^= 0xFF
	b[3] ^= 0xFF
	require.NotEqual(t, int32(1), x[0])
	y := kernels.Slice[int32](b)
	require.Equal(t, x, y)
	require.Same(t, &x[0], &y[0])
	require.Equal(t, x[1:], kernels.Slice[int32](b[4:]))

	require.Nil(t, kernels.Bytes[float64](nil))
	require.Empty(t, kernels.Bytes([]float64{}))
	require.NotNil(t, kernels.Bytes([]float64{}))
	require.Nil(t, kernels.Slice[float64](nil))
	require.NotNil(t, kernels.Slice[float64]([]byte{}))
	require.Empty(t, kernels.Slice[float64](b[1:1]), "an empty slice needs no alignment")
	require.Panics(t, func() { kernels.Slice[int32](b[:7]) })
	require.Panics(t, func() { kernels.Slice[int32](b[2:6]) })

	raw := []pattern{0x3C00, 0xC000}
	h := kernels.AsFloat16(raw)
	require.Equal(t, []float32{1, -2}, []float32{h[0].Float32(), h[1].Float32()})
	h[0] = kernels.Float16FromFloat32(0.5)
	require.Equal(t, pattern(0x3800), raw[0])
	require.Nil(t, kernels.AsFloat16[uint16](nil))
	bf := kernels.AsBFloat16(raw)
	bf[1] = kernels.BFloat16FromFloat32(1)
	require.Equal(t, pattern(0x3F80), raw[1])
	require.Nil(t, kernels.AsBFloat16[uint16](nil))

	type octet uint8
	small := []octet{0x38, 0xC0}
	e4m3 := kernels.AsFloat8E4M3(small)
	require.Equal(t, []float32{1, -2}, []float32{e4m3[0].Float32(), e4m3[1].Float32()})
	e4m3[0] = kernels.Float8E4M3FromFloat32(448)
	require.Equal(t, octet(0x7E), small[0])
	require.Nil(t, kernels.AsFloat8E4M3[uint8](nil))
	e5m2 := kernels.AsFloat8E5M2(small)
	e5m2[1] = kernels.Float8E5M2FromFloat32(1)
	require.Equal(t, octet(0x3C), small[1])
	require.Nil(t, kernels.AsFloat8E5M2[uint8](nil))

	z := []complex64{1 + 2i, 3 + 4i}
	require.Equal(t, []float32{1, 2, 3, 4}, kernels.Slice[float32](kernels.Bytes(z)))
	require.Panics(t, func() { kernels.Slice[complex64](kernels.Bytes(z)[:12]) })
	require.Equal(t, []int32{7, 9}, kernels.Slice[int32](kernels.Bytes([]vote{{7, 9}})))
}
