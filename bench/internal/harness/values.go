package harness

import (
	"bytes"
	"math"

	"github.com/weft-go/weft/kernels"
)

// Inputs are made so that results are exact in whatever order they are
// reduced: floats to be summed are small integers, those to be multiplied are
// powers of two. Everything follows from the rank and the element's place in
// the pool, so that every rank knows what every other has, and no two slots
// have the same contents.

// A maker fills buffers of one type for one operator, and checks results.
type maker interface {
	// fill writes what a rank has from the element at on.
	fill(dst []byte, rank int, at int64)
	// wrong counts the elements of got which are not what a rank has from at on.
	wrong(got []byte, rank int, at int64) int64
	// wrongReduced counts those which are not reduced over all ranks.
	wrongReduced(got []byte, ranks int, at int64) int64
}

// newMaker makes the maker for a type. If reduces is false, elements are of
// any bits.
func newMaker(t kernels.Type, reduces bool, op kernels.Op, ranks int) maker {
	v := values{op: op, reduces: reduces, ranks: ranks, sum: exactSum, factors: exactFactors}
	switch t {
	case kernels.TypeInt8:
		return typed[int8]{v, integer[int8], foldInteger[int8]}
	case kernels.TypeInt16:
		return typed[int16]{v, integer[int16], foldInteger[int16]}
	case kernels.TypeInt32:
		return typed[int32]{v, integer[int32], foldInteger[int32]}
	case kernels.TypeInt64:
		return typed[int64]{v, integer[int64], foldInteger[int64]}
	case kernels.TypeUint8:
		return typed[uint8]{v, integer[uint8], foldInteger[uint8]}
	case kernels.TypeUint16:
		return typed[uint16]{v, integer[uint16], foldInteger[uint16]}
	case kernels.TypeUint32:
		return typed[uint32]{v, integer[uint32], foldInteger[uint32]}
	case kernels.TypeUint64:
		return typed[uint64]{v, integer[uint64], foldInteger[uint64]}
	case kernels.TypeFloat16:
		return rounded(v, kernels.Float16FromBits, kernels.Float16FromFloat32)
	case kernels.TypeBFloat16:
		return rounded(v, kernels.BFloat16FromBits, kernels.BFloat16FromFloat32)
	case kernels.TypeFloat32:
		return typed[float32]{v, func(v values, rank int, at int64) float32 {
			if !v.reduces {
				return math.Float32frombits(uint32(v.hash(rank, at)))
			}
			return float32(v.small(rank, at))
		}, foldFloat[float32]}
	case kernels.TypeFloat8E4M3: // 4 bits, and powers of two from 2^-9 to 2^8
		v.sum, v.factors = 16, 8
		return rounded(v, kernels.Float8E4M3FromBits, kernels.Float8E4M3FromFloat32)
	case kernels.TypeFloat8E5M2: // 3 bits
		v.sum = 8
		return rounded(v, kernels.Float8E5M2FromBits, kernels.Float8E5M2FromFloat32)
	case kernels.TypeFloat64:
		return typed[float64]{v, func(v values, rank int, at int64) float64 {
			if !v.reduces {
				return math.Float64frombits(v.hash(rank, at))
			}
			return v.small(rank, at)
		}, foldFloat[float64]}
	}
	panic("no such type: " + t.String())
}

// rounded are the values of a type that is float32 rounded, by its two ways to make one.
func rounded[B uint8 | uint16, T interface {
	kernels.Number
	Float32() float32
}](v values, fromBits func(B) T, round func(float32) T) maker {
	return typed[T]{v, func(v values, rank int, at int64) T {
		if !v.reduces {
			return fromBits(B(v.hash(rank, at)))
		}
		return round(float32(v.small(rank, at)))
	}, func(op kernels.Op, x []T) T {
		return round(foldHalf(op, x))
	}}
}

type values struct {
	op      kernels.Op
	reduces bool
	ranks   int
	// Whole numbers up to sum are exact, and so are products of as many factors as there may be.
	sum, factors int
}

// hash is splitmix64 of the rank and the place.
func (v values) hash(rank int, at int64) uint64 {
	x := uint64(at)*0x9e3779b97f4a7c15 + uint64(rank+1)*0xd1b54a32d192ed03
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Significands of bfloat16 have 8 bits, and half has normal numbers from 2^-14
// to 2^15: within these bounds every type is exact, but for those of 8 bits.
const (
	exactSum     = 256
	exactFactors = 12
)

// small is a number whose reduction over all ranks is exact in every float type.
func (v values) small(rank int, at int64) float64 {
	h := v.hash(rank, at) >> 7
	switch v.op {
	case kernels.Prod:
		x := 1 - 2*float64(h&1)
		if rank < v.factors {
			x = math.Ldexp(x, int(h>>1%3)-1)
		}
		return x
	case kernels.Sum, kernels.Avg:
		if rank >= v.sum {
			return 0
		}
		most := uint64(min(15, max(1, v.sum/v.ranks)))
		return float64(h % (most + 1))
	}
	return float64(h%256) - 128
}

type number interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

func integer[T number](v values, rank int, at int64) T { return T(v.hash(rank, at)) }

func foldInteger[T number](op kernels.Op, x []T) T {
	acc := fold(op, x)
	if op == kernels.Avg && len(x) > 1 {
		if acc < 0 { // by the int64 or uint64 value, toward zero
			return T(int64(acc) / int64(len(x)))
		}
		return T(uint64(acc) / uint64(len(x)))
	}
	return acc
}

func foldFloat[T float32 | float64](op kernels.Op, x []T) T {
	acc := fold(op, x)
	if op == kernels.Avg && len(x) > 1 {
		acc /= T(len(x))
	}
	return acc
}

func foldHalf[T interface{ Float32() float32 }](op kernels.Op, x []T) float32 {
	w := make([]float32, 0, 64)
	for _, e := range x {
		w = append(w, e.Float32())
	}
	return foldFloat(op, w)
}

// fold is the plain loop over the ranks.
func fold[T number | float32 | float64](op kernels.Op, x []T) T {
	acc := x[0]
	for _, e := range x[1:] {
		switch op {
		case kernels.Sum, kernels.Avg:
			acc += e
		case kernels.Prod:
			acc *= e
		case kernels.Min:
			acc = min(acc, e)
		case kernels.Max:
			acc = max(acc, e)
		}
	}
	return acc
}

// typed is a maker of one type.
type typed[T kernels.Number] struct {
	values
	value func(v values, rank int, at int64) T
	fold  func(op kernels.Op, x []T) T
}

func (m typed[T]) fill(dst []byte, rank int, at int64) {
	s := kernels.Slice[T](dst)
	for i := range s {
		s[i] = m.value(m.values, rank, at+int64(i))
	}
}

// checkChunk is how many elements are compared at once.
const checkChunk = 4096

func (m typed[T]) wrong(got []byte, rank int, at int64) int64 {
	return m.compare(got, func(want []T, from int64) {
		for i := range want {
			want[i] = m.value(m.values, rank, at+from+int64(i))
		}
	})
}

func (m typed[T]) wrongReduced(got []byte, ranks int, at int64) int64 {
	column := make([]T, ranks)
	return m.compare(got, func(want []T, from int64) {
		for i := range want {
			for r := range column {
				column[r] = m.value(m.values, r, at+from+int64(i))
			}
			want[i] = m.fold(m.op, column)
		}
	})
}

// compare counts the elements of got that differ in any bit from what expect
// writes for each chunk.
func (m typed[T]) compare(got []byte, expect func(want []T, from int64)) int64 {
	size := kernels.TypeOf[T]().Size()
	buf := make([]T, checkChunk)
	var wrong int64
	for from := 0; from < len(got)/size; from += checkChunk {
		n := min(checkChunk, len(got)/size-from)
		expect(buf[:n], int64(from))
		have, want := got[from*size:(from+n)*size], kernels.Bytes(buf[:n])
		if bytes.Equal(have, want) {
			continue
		}
		for i := 0; i < len(want); i += size {
			if !bytes.Equal(have[i:i+size], want[i:i+size]) {
				wrong++
			}
		}
	}
	return wrong
}
