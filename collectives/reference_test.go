package collectives

import (
	"math"
	"math/rand/v2"
	"unsafe"

	"github.com/weft-go/weft/kernels"
)

// The references say what the collectives give, by plain loops over the ranks.
// in[p] is the input of rank p; counts are the elements of the blocks.

// startOf is where block p begins.
func startOf(counts []int, p int) int {
	at := 0
	for _, n := range counts[:p] {
		at += n
	}
	return at
}

// refScatter is block p of s.
func refScatter[T any](s []T, counts []int, p int) []T {
	return s[startOf(counts, p):][:counts[p]]
}

// refGather has the first counts[p] elements of each rank.
func refGather[T any](in [][]T, counts []int) []T {
	all := []T{}
	for p := range in {
		all = append(all, in[p][:counts[p]]...)
	}
	return all
}

// refAllToAll is what rank me gets if rank p sends counts[p][q] elements to
// rank q.
func refAllToAll[T any](in [][]T, counts [][]int, me int) []T {
	all := []T{}
	for p := range in {
		all = append(all, refScatter(in[p], counts[p], me)...)
	}
	return all
}

// refOp reduces the first count elements in the order of the ranks.
func refOp[T kernels.Number](in [][]T, count int, op kernels.Op) []T {
	srcs := make([][]T, len(in))
	for p := range in {
		srcs[p] = in[p][:count]
	}
	dst := make([]T, count)
	if err := kernels.ReduceSlices(dst, op, srcs...); err != nil {
		panic(err)
	}
	return dst
}

// refFold does so with an operator on two elements.
func refFold[T any](in [][]T, count int, op func(a, b T) T) []T {
	dst := append([]T{}, in[0][:count]...)
	for _, x := range in[1:] {
		for i := range dst {
			dst[i] = op(dst[i], x[i])
		}
	}
	return dst
}

// Elements are drawn by functions of a random source.

// genBits draws any bits, for types that have no others.
func genBits[T any](r *rand.Rand) T {
	var x T
	b := unsafe.Slice((*byte)(unsafe.Pointer(&x)), unsafe.Sizeof(x))
	for i := 0; i < len(b); i += 8 {
		for u, j := r.Uint64(), i; j < min(i+8, len(b)); j++ {
			b[j] = byte(u)
			u >>= 8
		}
	}
	return x
}

func genFloat[T ~float32 | ~float64](r *rand.Rand) T {
	switch r.IntN(64) {
	case 0:
		return T(math.Inf(r.IntN(2)*2 - 1))
	case 1:
		return T(math.NaN())
	case 2:
		return T(math.Copysign(0, float64(r.IntN(2)*2-1)))
	}
	return T(r.NormFloat64())
}

// genTied draws values that are often the same.
func genTied[T ~float32 | ~float64 | ~int32 | ~int64](r *rand.Rand) T { return T(r.IntN(5) - 2) }

// genTiedFloat does so with NaN and −0.
func genTiedFloat[T ~float32 | ~float64](r *rand.Rand) T {
	switch r.IntN(16) {
	case 0:
		return T(math.NaN())
	case 1:
		return T(math.Copysign(0, -1))
	}
	return genTied[T](r)
}

// sameNumber wants the same bits, or NaNs, of which the sum and the product do
// not say which.
func sameNumber[T kernels.Number](a, b T) bool {
	x, y := []T{a}, []T{b}
	switch kernels.TypeOf[T]() {
	case kernels.TypeFloat32, kernels.TypeComplex64:
		return sameParts[uint32, float32](x, y, math.Float32frombits)
	case kernels.TypeFloat64, kernels.TypeComplex128:
		return sameParts[uint64, float64](x, y, math.Float64frombits)
	case kernels.TypeFloat16:
		return sameParts[uint16, float32](x, y, func(b uint16) float32 { return kernels.Float16FromBits(b).Float32() })
	case kernels.TypeBFloat16:
		return sameParts[uint16, float32](x, y, func(b uint16) float32 { return kernels.BFloat16FromBits(b).Float32() })
	}
	return a == b
}

func sameParts[B uint16 | uint32 | uint64, F float32 | float64, T kernels.Number](x, y []T, value func(B) F) bool {
	xs, ys := sliceOf[B](bytesOf(x)), sliceOf[B](bytesOf(y))
	for i := range xs {
		f, g := value(xs[i]), value(ys[i])
		if xs[i] != ys[i] && (f == f || g == g) {
			return false
		}
	}
	return true
}

func sameValue[T comparable](a, b T) bool { return a == b }
