package kernels_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"github.com/weft-go/weft/kernels"
)

const seed = 20260101

var lengths = []int{0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 1000, 1023}

// operators returns those of a type.
func operators(typ kernels.Type) (ops []kernels.Op) {
	for op := kernels.Sum; op.Valid(); op++ {
		if op.Supports(typ) {
			ops = append(ops, op)
		}
	}
	return ops
}

// each calls f in a subtest for each type and operator of it, with a generator of
// its own whose seed a failure prints.
func each(t *testing.T, f func(t *testing.T, r *rand.Rand, typ kernels.Type, op kernels.Op)) {
	for typ := kernels.TypeInt8; typ.Valid(); typ++ {
		ops := operators(typ)
		if raceEnabled { // nothing happens at the same time: one for each type, in turn
			k := int(typ) % len(ops)
			ops = ops[k : k+1]
		}
		for _, op := range ops {
			t.Run(fmt.Sprintf("%v/%v", typ, op), func(t *testing.T) {
				t.Parallel()
				defer func() {
					if t.Failed() {
						t.Logf("seed: rand.NewPCG(%d, %d)", seed, uint64(typ)<<8|uint64(op))
					}
				}()
				f(t, rand.New(rand.NewPCG(seed, uint64(typ)<<8|uint64(op))), typ, op)
			})
		}
	}
}

// job is one reduction with its buffers, which lie within guards.
type job struct {
	typ    kernels.Type
	op     kernels.Op
	dst    []byte
	srcs   [][]byte
	wholes [][]byte
	before [][]byte // copies of wholes
	want   []expectation
}

// newJob makes a reduction of n elements. offset gives the place of each
// buffer (−1 for dst) within 64 bytes; alias says which sources dst is.
func newJob(r *rand.Rand, typ kernels.Type, op kernels.Op, sources, n int, offset func(i int) int, alias func(i int) bool) *job {
	j := &job{typ: typ, op: op}
	size := typ.Size()
	add := func(i int) []byte {
		buf, whole := aligned(n*size, offset(i))
		for k := range whole {
			whole[k] = byte(r.Uint32())
		}
		j.wholes = append(j.wholes, whole)
		return buf
	}
	j.dst = add(-1)
	fill(r, j.dst, typ)
	for i := range sources {
		src := j.dst
		if !alias(i) {
			src = add(i)
			fill(r, src, typ)
		}
		j.srcs = append(j.srcs, src)
	}
	xs := make([]element, sources)
	for e := range n {
		for i, src := range j.srcs {
			xs[i] = get(src, typ, e)
		}
		j.want = append(j.want, oracle(typ, op, xs))
	}
	for _, whole := range j.wholes {
		j.before = append(j.before, bytes.Clone(whole))
	}
	return j
}

func (j *job) String() string {
	return fmt.Sprintf("%v %v of %d sources of %d elements", j.typ, j.op, len(j.srcs), len(j.want))
}

// check looks at the results, the guards and the sources.
func (j *job) check(t *testing.T) {
	t.Helper()
	start := len(j.dst)
	if start > 0 {
		start = int(uintptr(unsafe.Pointer(&j.dst[0])) - uintptr(unsafe.Pointer(&j.wholes[0][0])))
	}
	for e, want := range j.want {
		if got := get(j.dst, j.typ, e); !want.met(j.typ, got) {
			var xs []string
			for _, src := range j.srcs {
				x := get(src, j.typ, e)
				if len(src) > 0 && &src[0] == &j.dst[0] {
					x = get(j.before[0][start:], j.typ, e)
				}
				xs = append(xs, fmt.Sprintf("%#x", x))
			}
			require.FailNowf(t, "wrong element", "%v: element %d of %v is %#x, not %#x",
				j, e, xs, got, want)
		}
	}
	for i, whole := range j.wholes {
		before := j.before[i]
		if i == 0 {
			require.True(t, bytes.Equal(before[:start], whole[:start]), "%v: wrote before dst", j)
			end := start + len(j.dst)
			require.True(t, bytes.Equal(before[end:], whole[end:]), "%v: wrote after dst", j)
			continue
		}
		require.True(t, bytes.Equal(before, whole), "%v: wrote to buffer %d, not dst", j, i)
	}
}

func none(int) bool { return false }
func zero(int) int  { return 0 }

func TestReduce(t *testing.T) {
	each(t, func(t *testing.T, r *rand.Rand, typ kernels.Type, op kernels.Op) {
		for sources := 1; sources <= 9; sources++ {
			for _, n := range lengths {
				j := newJob(r, typ, op, sources, n, zero, none)
				require.NoError(t, kernels.Reduce(j.dst, j.srcs, typ, op), j)
				j.check(t)
			}
		}
	})
}

// Every element-aligned place within 64 bytes, for dst and for sources.
func TestReduceOffsets(t *testing.T) {
	each(t, func(t *testing.T, r *rand.Rand, typ kernels.Type, op kernels.Op) {
		size := typ.Size()
		for offset := 0; offset < 64; offset += size {
			for which := range 3 {
				sources := 2 + r.IntN(4)
				place := func(i int) int {
					switch {
					case which == 0 && i < 0, which == 1 && i >= 0:
						return offset
					case which == 2:
						return r.IntN(64/size) * size
					}
					return 0
				}
				j := newJob(r, typ, op, sources, 40+r.IntN(40), place, none)
				require.NoError(t, kernels.Reduce(j.dst, j.srcs, typ, op), j)
				j.check(t)
			}
		}
	})
}

// dst is each of the sources in turn, two of them, or all. The greater length
// is more than one block of every type.
func TestReduceAliases(t *testing.T) {
	each(t, func(t *testing.T, r *rand.Rand, typ kernels.Type, op kernels.Op) {
		for sources := 1; sources <= 9; sources++ {
			for which := range sources + 2 {
				n := 50
				if sources == 3 && which == 2 || sources == 6 && which == 4 {
					n = 4500
				}
				j := newJob(r, typ, op, sources, n, zero, func(i int) bool {
					switch which {
					case sources:
						return true
					case sources + 1:
						return i == 0 || i == sources-1
					}
					return i == which
				})
				require.NoError(t, kernels.Reduce(j.dst, j.srcs, typ, op), j)
				j.check(t)
			}
		}
	})
}

// All pairs and triples of numbers at the edges.
func TestReduceEdges(t *testing.T) {
	each(t, func(t *testing.T, _ *rand.Rand, typ kernels.Type, op kernels.Op) {
		size, edges := typ.Size(), edges(typ)
		k := len(edges)
		for sources := 2; sources <= 3; sources++ {
			n := k * k
			if sources == 3 {
				n *= k
			}
			srcs := make([][]byte, sources)
			for i := range srcs {
				srcs[i], _ = aligned(n*size, 0)
			}
			dst, _ := aligned(n*size, 0)
			xs := make([]element, sources)
			pick := func(e int) {
				for i := range xs {
					xs[i] = edges[e%k]
					e /= k
				}
			}
			for e := range n {
				pick(e)
				for i, x := range xs {
					put(srcs[i], typ, e, x)
				}
			}
			require.NoError(t, kernels.Reduce(dst, srcs, typ, op))
			for e := range n {
				pick(e)
				if want, got := oracle(typ, op, xs), get(dst, typ, e); !want.met(typ, got) {
					require.FailNowf(t, "wrong element", "%v %v of %#x is %#x, not %#x", typ, op, xs, got, want)
				}
			}
		}
	})
}

// More sources than an 8-bit element can count.
func TestReduceManySources(t *testing.T) {
	each(t, func(t *testing.T, r *rand.Rand, typ kernels.Type, op kernels.Op) {
		for _, sources := range []int{127, 128, 255, 256, 257, 300} {
			j := newJob(r, typ, op, sources, 5, zero, none)
			require.NoError(t, kernels.Reduce(j.dst, j.srcs, typ, op), j)
			j.check(t)
		}
	})
}

// All 65,536 numbers of each 16-bit format, each with a few others, in two
// sources and in three: loops write the rounding out once more.
func TestReduceHalves(t *testing.T) {
	for _, typ := range []kernels.Type{kernels.TypeFloat16, kernels.TypeBFloat16} {
		for _, op := range operators(typ) {
			t.Run(fmt.Sprintf("%v/%v", typ, op), func(t *testing.T) {
				t.Parallel()
				r := rand.New(rand.NewPCG(seed, uint64(op)))
				all, other, third, dst := make([]uint16, 1<<16), make([]uint16, 1<<16), make([]uint16, 1<<16), make([]uint16, 1<<16)
				for i := range all {
					all[i] = uint16(i)
				}
				for round := range 4 {
					for i := range other {
						if round == 0 { // near in magnitude, for cancellation and carries
							other[i] = uint16(i) + uint16(r.IntN(5)) - 2 ^ uint16(r.IntN(2))<<15
						} else {
							other[i] = uint16(r.Uint32())
						}
						third[i] = uint16(r.Uint32())
					}
					srcs := [][]byte{kernels.Bytes(all), kernels.Bytes(other), kernels.Bytes(third)}[:2+round%2]
					require.NoError(t, kernels.Reduce(kernels.Bytes(dst), srcs, typ, op))
					for i := range dst {
						xs := []element{{uint64(all[i])}, {uint64(other[i])}, {uint64(third[i])}}[:len(srcs)]
						if want := oracle(typ, op, xs); !want.met(typ, element{uint64(dst[i])}) {
							require.FailNowf(t, "wrong element", "seed %d, round %d: %#x gave %#x, not %#x", seed, round, xs, dst[i], want)
						}
					}
				}
			})
		}
	}
}

// All pairs of numbers of each 8-bit format, and all single numbers.
func TestReduceFloat8(t *testing.T) {
	for _, typ := range []kernels.Type{kernels.TypeFloat8E4M3, kernels.TypeFloat8E5M2} {
		for _, op := range operators(typ) {
			t.Run(fmt.Sprintf("%v/%v", typ, op), func(t *testing.T) {
				t.Parallel()
				a, b, dst := make([]byte, 1<<16), make([]byte, 1<<16), make([]byte, 1<<16)
				for i := range a {
					a[i], b[i] = byte(i), byte(i>>8)
				}
				for _, srcs := range [][][]byte{{a}, {a, b}} {
					require.NoError(t, kernels.Reduce(dst, srcs, typ, op))
					for i := range dst {
						xs := []element{{uint64(a[i])}, {uint64(b[i])}}[:len(srcs)]
						if want := oracle(typ, op, xs); !want.met(typ, element{uint64(dst[i])}) {
							require.FailNowf(t, "wrong element", "%#x gave %#x, not %#x", xs, dst[i], want)
						}
					}
				}
			})
		}
	}
}

// Where the operator allows, neither the order of the sources nor how they are
// grouped can be seen: any source, or reduction of some, may come first.
func TestReduceOrder(t *testing.T) {
	each(t, func(t *testing.T, r *rand.Rand, typ kernels.Type, op kernels.Op) {
		integer := isInteger(typ) && op != kernels.Avg
		if (op == kernels.Sum || op == kernels.Prod || op == kernels.Avg) && !integer {
			return // rounded at each step, or divided once
		}
		const n = 700
		for sources := 2; sources <= 9; sources++ {
			for range 4 {
				j := newJob(r, typ, op, sources, n, zero, none)
				require.NoError(t, kernels.Reduce(j.dst, j.srcs, typ, op), j)
				left := append([][]byte(nil), j.srcs...)
				for len(left) > 1 {
					r.Shuffle(len(left), func(a, b int) { left[a], left[b] = left[b], left[a] })
					some := 1 + r.IntN(len(left))
					part, _ := aligned(len(j.dst), 0)
					require.NoError(t, kernels.Reduce(part, left[:some], typ, op), j)
					left = append(left[some:], part)
				}
				require.True(t, bytes.Equal(j.dst, left[0]), j)
			}
		}
	})
}

// Results that need no oracle to be understood.
func TestReduceValues(t *testing.T) {
	inf, nan, negzero := float32(math.Inf(1)), math.Float32frombits(0xFFC12345), float32(math.Copysign(0, -1))
	half := func(fs ...float32) (hs []kernels.Float16) {
		for _, f := range fs {
			hs = append(hs, kernels.Float16FromFloat32(f))
		}
		return hs
	}
	for _, c := range []struct {
		name string
		run  func(t *testing.T) (got, want any)
	}{
		{"int8 wraps", func(t *testing.T) (any, any) {
			return reduced[int8](t, kernels.Sum, []int8{100, -128}, []int8{100, -1}), []int8{-56, 127}
		}},
		{"int8 avg truncates the wrapped sum", func(t *testing.T) (any, any) {
			return reduced[int8](t, kernels.Avg, []int8{100, -3, 3}, []int8{100, 0, 0}), []int8{-28, -1, 1}
		}},
		{"uint64 avg is unsigned", func(t *testing.T) (any, any) {
			return reduced[uint64](t, kernels.Avg, []uint64{math.MaxUint64}, []uint64{0}), []uint64{math.MaxInt64}
		}},
		{"float32 sums from the left", func(t *testing.T) (any, any) {
			return reduced[float32](t, kernels.Sum, []float32{1, 1e8}, []float32{1e8, -1e8}, []float32{-1e8, 1}), []float32{0, 1}
		}},
		{"float32 avg of an overflow", func(t *testing.T) (any, any) {
			return reduced[float32](t, kernels.Avg, []float32{math.MaxFloat32}, []float32{math.MaxFloat32}), []float32{inf}
		}},
		{"float32 min orders zeros", func(t *testing.T) (any, any) {
			return words(reduced[float32](t, kernels.Min, []float32{0, negzero}, []float32{negzero, 0})), []uint32{0x80000000, 0x80000000}
		}},
		{"float32 max orders zeros", func(t *testing.T) (any, any) {
			return words(reduced[float32](t, kernels.Max, []float32{0, negzero}, []float32{negzero, 0})), []uint32{0, 0}
		}},
		{"float32 min with NaN", func(t *testing.T) (any, any) {
			return words(reduced[float32](t, kernels.Min, []float32{nan, 1, -inf}, []float32{1, nan, nan})), []uint32{0x7FFFFFFF, 0x7FFFFFFF, 0x7FFFFFFF}
		}},
		{"one source keeps a NaN", func(t *testing.T) (any, any) {
			return words(reduced[float32](t, kernels.Min, []float32{nan})), []uint32{0xFFC12345}
		}},
		{"float16 accumulates in float32", func(t *testing.T) (any, any) {
			return reduced[kernels.Float16](t, kernels.Sum, half(60000, 2048), half(60000, 1), half(-60000, 1)), half(60000, 2050)
		}},
		{"complex64 multiplies part by part", func(t *testing.T) (any, any) {
			return reduced[complex64](t, kernels.Prod, []complex64{1 + 2i, 2}, []complex64{3 - 1i, 1i}, []complex64{1i, 1i}), []complex64{-5 + 5i, -2}
		}},
		{"complex64 recovers no infinity", func(t *testing.T) (any, any) { // as C would: (Inf + 0i) · i is NaN + Inf i here
			z := reduced[complex64](t, kernels.Prod, []complex64{complex(inf, 0)}, []complex64{1i})[0]
			return []bool{real(z) != real(z), imag(z) == inf}, []bool{true, true}
		}},
		{"complex128 does not fuse", func(t *testing.T) (any, any) { // (1+2⁻³⁰)² − 1 · (1+2⁻²⁹) is 2⁻⁶⁰, but 0 rounded
			x := 1 + 0x1p-30
			return reduced[complex128](t, kernels.Prod, []complex128{complex(x, 1)}, []complex128{complex(x, 1+0x1p-29)}),
				[]complex128{complex(0, x*(1+0x1p-29)+x)}
		}},
		{"complex128 avg divides both parts", func(t *testing.T) (any, any) {
			return reduced[complex128](t, kernels.Avg, []complex128{3 - 3i}, []complex128{1 - 2i}), []complex128{2 - 2.5i}
		}},
		{"float8 saturates", func(t *testing.T) (any, any) {
			return reduced[kernels.Float8E4M3](t, kernels.Sum, kernels.AsFloat8E4M3([]byte{0x7E, 0xFE}), kernels.AsFloat8E4M3([]byte{0x7E, 0xFE})),
				kernels.AsFloat8E4M3([]byte{0x7E, 0xFE})
		}},
		{"float8 saturates infinities", func(t *testing.T) (any, any) {
			return reduced[kernels.Float8E5M2](t, kernels.Sum, kernels.AsFloat8E5M2([]byte{0x7C, 0xFC, 0x7C}), kernels.AsFloat8E5M2([]byte{0, 0, 0xFC})),
				kernels.AsFloat8E5M2([]byte{0x7B, 0xFB, 0x7F})
		}},
		{"float8 min and max keep infinities", func(t *testing.T) (any, any) {
			return reduced[kernels.Float8E5M2](t, kernels.Max, kernels.AsFloat8E5M2([]byte{0x7C, 0xFC}), kernels.AsFloat8E5M2([]byte{0x7B, 0xFC})),
				kernels.AsFloat8E5M2([]byte{0x7C, 0xFC})
		}},
		{"float8 accumulates in float32", func(t *testing.T) (any, any) {
			x := func(f float32) []kernels.Float8E4M3 { return []kernels.Float8E4M3{kernels.Float8E4M3FromFloat32(f)} }
			return reduced[kernels.Float8E4M3](t, kernels.Sum, x(448), x(448), x(-448), x(0.5), x(-448)), x(0.5)
		}},
		{"bits", func(t *testing.T) (any, any) {
			var got []int8
			for _, op := range []kernels.Op{kernels.BitAnd, kernels.BitOr, kernels.BitXor} {
				got = append(got, reduced[int8](t, op, []int8{0b0111}, []int8{0b0101}, []int8{-0b0101})...)
			}
			return got, []int8{0b0001, -1, -0b0111}
		}},
		{"logical of floats", func(t *testing.T) (any, any) {
			xs := [][]float32{{nan, negzero, 0, 5}, {math.SmallestNonzeroFloat32, 0, inf, -2}}
			return append(reduced[float32](t, kernels.LogicalAnd, xs...), reduced[float32](t, kernels.LogicalOr, xs...)...),
				[]float32{1, 0, 0, 1, 1, 0, 1, 1}
		}},
		{"logical of one source", func(t *testing.T) (any, any) {
			return words(reduced[float32](t, kernels.LogicalAnd, []float32{nan, negzero, 7})), []uint32{0x3F800000, 0, 0x3F800000}
		}},
		{"minloc takes the lowest index", func(t *testing.T) (any, any) {
			return reduced[kernels.Int32Loc](t, kernels.MinLoc, []kernels.Int32Loc{{5, 9}, {1, 0}}, []kernels.Int32Loc{{5, -3}, {2, -1}}),
				[]kernels.Int32Loc{{5, -3}, {1, 0}}
		}},
		{"maxloc finds the first NaN", func(t *testing.T) (any, any) {
			r := reduced[kernels.Float32Loc](t, kernels.MaxLoc, []kernels.Float32Loc{{nan, 4}}, []kernels.Float32Loc{{inf, 0}}, []kernels.Float32Loc{{-nan, 2}})
			return kernels.Slice[uint32](kernels.Bytes(r)), []uint32{0x7FFFFFFF, 2}
		}},
		{"maxloc orders zeros", func(t *testing.T) (any, any) {
			return reduced[kernels.Float32Loc](t, kernels.MaxLoc, []kernels.Float32Loc{{negzero, 0}}, []kernels.Float32Loc{{0, 1}}),
				[]kernels.Float32Loc{{0, 1}}
		}},
		{"float16 avg beyond its range", func(t *testing.T) (any, any) {
			return reduced[kernels.Float16](t, kernels.Avg, half(60000), half(60000)), half(60000)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, want := c.run(t)
			require.Equal(t, want, got)
		})
	}
}

func reduced[T kernels.Number](t *testing.T, op kernels.Op, srcs ...[]T) []T {
	t.Helper()
	dst := make([]T, len(srcs[0]))
	require.NoError(t, kernels.ReduceSlices(dst, op, srcs...))
	return dst
}

func words(fs []float32) []uint32 { return kernels.Slice[uint32](kernels.Bytes(fs)) }

// Named types, as other packages declare them.
type (
	count    int
	unsigned uint
	celsius  float32
	grad     kernels.Float16
	weight   kernels.BFloat16
	pattern  uint16
	tiny     kernels.Float8E4M3
	wide     kernels.Float8E5M2
	phasor   complex64
	spectrum complex128
	coldest  kernels.Float32Loc
	farthest struct {
		Value float64
		Index int64
	}
	vote  kernels.Int32Loc
	offer kernels.Int64Loc
)

func TestReduceSlices(t *testing.T) {
	testReduceSlices[int](t)
	testReduceSlices[int8](t)
	testReduceSlices[int16](t)
	testReduceSlices[int32](t)
	testReduceSlices[int64](t)
	testReduceSlices[uint](t)
	testReduceSlices[uint8](t)
	testReduceSlices[uint16](t)
	testReduceSlices[uint32](t)
	testReduceSlices[uint64](t)
	testReduceSlices[float32](t)
	testReduceSlices[float64](t)
	testReduceSlices[kernels.Float16](t)
	testReduceSlices[kernels.BFloat16](t)
	testReduceSlices[count](t)
	testReduceSlices[unsigned](t)
	testReduceSlices[celsius](t)
	testReduceSlices[grad](t)
	testReduceSlices[weight](t)
	testReduceSlices[pattern](t)
	testReduceSlices[kernels.Float8E4M3](t)
	testReduceSlices[kernels.Float8E5M2](t)
	testReduceSlices[complex64](t)
	testReduceSlices[complex128](t)
	testReduceSlices[kernels.Float32Loc](t)
	testReduceSlices[kernels.Float64Loc](t)
	testReduceSlices[kernels.Int32Loc](t)
	testReduceSlices[kernels.Int64Loc](t)
	testReduceSlices[tiny](t)
	testReduceSlices[wide](t)
	testReduceSlices[phasor](t)
	testReduceSlices[spectrum](t)
	testReduceSlices[coldest](t)
	testReduceSlices[farthest](t)
	testReduceSlices[vote](t)
	testReduceSlices[offer](t)
}

func testReduceSlices[T kernels.Number](t *testing.T) {
	t.Run(fmt.Sprintf("%T", *new(T)), func(t *testing.T) {
		r := rand.New(rand.NewPCG(seed, 0))
		typ := kernels.TypeOf[T]()
		for _, op := range operators(typ) {
			for sources := 1; sources <= 9; sources++ {
				n := lengths[r.IntN(len(lengths))]
				j := newJob(r, typ, op, sources, n, zero, none)
				srcs := make([][]T, sources)
				for i, src := range j.srcs {
					srcs[i] = kernels.Slice[T](src)
				}
				require.NoError(t, kernels.ReduceSlices(kernels.Slice[T](j.dst), op, srcs...), j)
				j.check(t)
			}
		}
		require.NoError(t, kernels.ReduceSlices(nil, operators(typ)[0], nil, []T{}), "nil slices are empty slices")
	})
}

func TestErrors(t *testing.T) {
	buf, _ := aligned(256, 0)
	b := func(lo, n int) []byte { return buf[lo : lo+n] }
	f, s := kernels.TypeFloat32, kernels.Sum
	for _, c := range []struct {
		name   string
		dst    []byte
		srcs   [][]byte
		typ    kernels.Type
		op     kernels.Op
		want   error
		source int
	}{
		{"no type", b(0, 8), [][]byte{b(64, 8)}, kernels.TypeInvalid, s, kernels.ErrType, -1},
		{"unknown type", b(0, 8), [][]byte{b(64, 8)}, kernels.TypeInt64Loc + 1, s, kernels.ErrType, -1},
		{"unknown op", b(0, 8), [][]byte{b(64, 8)}, f, kernels.MaxLoc + 1, kernels.ErrOp, -1},
		{"op 255", b(0, 0), [][]byte{b(64, 0)}, f, 255, kernels.ErrOp, -1},
		{"nil sources", b(0, 8), nil, f, s, kernels.ErrNoSource, -1},
		{"no sources", b(0, 0), [][]byte{}, f, s, kernels.ErrNoSource, -1},
		{"part of an element", b(0, 7), [][]byte{b(64, 7)}, f, s, kernels.ErrLength, -1},
		{"short source", b(0, 8), [][]byte{b(64, 8), b(128, 4)}, f, s, kernels.ErrLength, 1},
		{"long source", b(0, 8), [][]byte{b(64, 12)}, f, s, kernels.ErrLength, 0},
		{"nil source", b(0, 8), [][]byte{b(64, 8), b(128, 8), nil}, f, s, kernels.ErrLength, 2},
		{"nil destination", nil, [][]byte{b(64, 8)}, f, s, kernels.ErrLength, 0},
		{"misaligned destination", b(2, 8), [][]byte{b(64, 8)}, f, s, kernels.ErrAlign, -1},
		{"misaligned source", b(0, 8), [][]byte{b(64, 8), b(129, 8)}, f, s, kernels.ErrAlign, 1},
		{"misaligned float16", b(0, 8), [][]byte{b(65, 8)}, kernels.TypeFloat16, s, kernels.ErrAlign, 0},
		{"overlap after", b(4, 8), [][]byte{b(0, 8)}, f, s, kernels.ErrOverlap, 0},
		{"overlap before", b(0, 8), [][]byte{b(0, 8), b(64, 8), b(4, 8)}, f, s, kernels.ErrOverlap, 2},
		{"overlap of bytes", b(0, 8), [][]byte{b(7, 8)}, kernels.TypeInt8, s, kernels.ErrOverlap, 0},
		{"neighbours", b(8, 8), [][]byte{b(0, 8), b(16, 8)}, f, s, nil, 0},
		{"overlapping sources", b(0, 8), [][]byte{b(64, 8), b(68, 8), b(64, 8)}, f, s, nil, 0},
		{"empty", b(0, 0), [][]byte{b(1, 0), nil}, f, s, nil, 0},
		{"misaligned bytes", b(3, 8), [][]byte{b(65, 8)}, kernels.TypeUint8, s, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := bytes.Clone(buf)
			err := kernels.Reduce(c.dst, c.srcs, c.typ, c.op)
			if c.want == nil {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, c.want)
			var arg *kernels.ArgumentError
			require.ErrorAs(t, err, &arg)
			require.Equal(t, c.source, arg.Source)
			require.Contains(t, err.Error(), c.want.Error())
			require.Contains(t, err.Error(), arg.Detail)
			require.Equal(t, before, buf, "written to in spite of the error")
		})
	}

	x := make([]float64, 8)
	require.ErrorIs(t, kernels.ReduceSlices(x[:2], kernels.Sum), kernels.ErrNoSource)
	require.ErrorIs(t, kernels.ReduceSlices(x[:2], 99, x[4:6]), kernels.ErrOp)
	require.ErrorIs(t, kernels.ReduceSlices(x[:2], kernels.Sum, x[4:7]), kernels.ErrLength)
	require.ErrorIs(t, kernels.ReduceSlices(x[:2], kernels.Sum, x[1:3]), kernels.ErrOverlap)
	require.NoError(t, kernels.ReduceSlices(x[:2], kernels.Sum, x[2:4]))
	require.EqualError(t, kernels.ReduceSlices(x[:2], kernels.Sum, x[4:7]),
		"kernels: wrong length (source 0): 24 bytes, destination of 16")
	require.EqualError(t, &kernels.ArgumentError{Err: kernels.ErrOp, Source: -1}, "kernels: no such reduction operator")
}

// Each operator refuses the types that it is not defined for, by both names.
func TestUnsupported(t *testing.T) {
	buf, _ := aligned(256, 0)
	before := bytes.Clone(buf)
	refused := 0
	for typ := kernels.TypeInt8; typ.Valid(); typ++ {
		for op := kernels.Sum; op.Valid(); op++ {
			if op.Supports(typ) {
				continue
			}
			refused++
			for sources := 1; sources <= 3; sources++ {
				srcs := [][]byte{buf[64:96], buf[96:128], buf[128:160]}[:sources]
				err := kernels.Reduce(buf[:32], srcs, typ, op)
				require.ErrorIs(t, err, kernels.ErrOp)
				require.EqualError(t, err, fmt.Sprintf("kernels: no such reduction operator: %v of %v", op, typ))
				if op == kernels.Avg {
					require.ErrorIs(t, kernels.Average(buf[:32], srcs, typ, 2), kernels.ErrOp)
				}
			}
		}
	}
	require.Equal(t, 8*2+6*5+2*9+4*10, refused)
	require.Equal(t, before, buf)

	require.ErrorIs(t, kernels.ReduceSlices([]float32{1}, kernels.BitXor, []float32{1}), kernels.ErrOp)
	require.ErrorIs(t, kernels.ReduceSlices([]phasor{1}, kernels.Max, []phasor{1}), kernels.ErrOp)
	require.ErrorIs(t, kernels.ReduceSlices([]vote{{}}, kernels.Sum, []vote{{}}), kernels.ErrOp)
	require.ErrorIs(t, kernels.ReduceSlices([]int32{1}, kernels.MinLoc, []int32{1}), kernels.ErrOp)
}

func TestAllocs(t *testing.T) {
	for typ := kernels.TypeInt8; typ.Valid(); typ++ {
		for _, op := range operators(typ) {
			for sources := 1; sources <= 9; sources++ {
				r := rand.New(rand.NewPCG(seed, 0))
				j := newJob(r, typ, op, sources, 100, zero, none)
				require.Zero(t, testing.AllocsPerRun(10, func() {
					if kernels.Reduce(j.dst, j.srcs, typ, op) != nil {
						panic("refused")
					}
				}), j)
			}
		}
	}
	// Neither the buffers nor the list of sources need leave the stack.
	require.Zero(t, testing.AllocsPerRun(10, func() {
		var dst, a, b, c [10]celsius
		if kernels.ReduceSlices(dst[:], kernels.Avg, a[:], b[:], c[:], a[:], b[:], c[:]) != nil {
			panic("refused")
		}
	}), "celsius")
	require.Zero(t, testing.AllocsPerRun(10, func() {
		var dst, a, b [10]grad
		if kernels.ReduceSlices(dst[:], kernels.Max, a[:], b[:], a[:]) != nil {
			panic("refused")
		}
	}), "grad")
	require.Zero(t, testing.AllocsPerRun(10, func() {
		var dst, a, b [10]offer
		if kernels.ReduceSlices(dst[:], kernels.MinLoc, a[:], b[:], a[:]) != nil {
			panic("refused")
		}
	}), "offer")
	require.Zero(t, testing.AllocsPerRun(10, func() {
		var dst, a, b [10]float64
		if kernels.Reduce(kernels.Bytes(dst[:]), [][]byte{kernels.Bytes(a[:]), kernels.Bytes(b[:])}, kernels.TypeFloat64, kernels.Sum) != nil {
			panic("refused")
		}
	}), "float64")
}
