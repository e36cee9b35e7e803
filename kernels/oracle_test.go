package kernels_test

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"unsafe"

	"github.com/weft-go/weft/kernels"
)

// The oracle works on one element at a time, on the bits in a uint64, and uses
// nothing of the package but the names of its constants.

// expectation is what the oracle wants of an element: these bits, or any NaN.
type expectation struct {
	bits   uint64
	anyNaN bool
}

func isNaN(t kernels.Type, bits uint64) bool {
	switch t {
	case kernels.TypeFloat16:
		return bits&0x7C00 == 0x7C00 && bits&0x03FF != 0
	case kernels.TypeBFloat16:
		return bits&0x7F80 == 0x7F80 && bits&0x007F != 0
	case kernels.TypeFloat32:
		return bits&0x7F800000 == 0x7F800000 && bits&0x007FFFFF != 0
	case kernels.TypeFloat64:
		return bits&0x7FF0000000000000 == 0x7FF0000000000000 && bits&0x000FFFFFFFFFFFFF != 0
	}
	return false
}

func (e expectation) met(t kernels.Type, got uint64) bool {
	if e.anyNaN {
		return isNaN(t, got)
	}
	return e.bits == got
}

func oracle(t kernels.Type, op kernels.Op, xs []uint64) expectation {
	if len(xs) == 1 {
		return expectation{bits: xs[0]}
	}
	switch t {
	case kernels.TypeInt8:
		return expectation{bits: signedOracle(op, xs, 8)}
	case kernels.TypeInt16:
		return expectation{bits: signedOracle(op, xs, 16)}
	case kernels.TypeInt32:
		return expectation{bits: signedOracle(op, xs, 32)}
	case kernels.TypeInt64:
		return expectation{bits: signedOracle(op, xs, 64)}
	case kernels.TypeUint8:
		return expectation{bits: unsignedOracle(op, xs, 8)}
	case kernels.TypeUint16:
		return expectation{bits: unsignedOracle(op, xs, 16)}
	case kernels.TypeUint32:
		return expectation{bits: unsignedOracle(op, xs, 32)}
	case kernels.TypeUint64:
		return expectation{bits: unsignedOracle(op, xs, 64)}
	}
	return floatOracle(t, op, xs)
}

func wrapped(op kernels.Op, xs []uint64) uint64 {
	r := xs[0]
	for _, x := range xs[1:] {
		if op == kernels.Prod {
			r *= x
		} else {
			r += x
		}
	}
	return r
}

func extreme(op kernels.Op, xs []uint64, order func(a, b uint64) int) uint64 {
	if op == kernels.Min {
		return slices.MinFunc(xs, order)
	}
	return slices.MaxFunc(xs, order)
}

func signedOracle(op kernels.Op, xs []uint64, width int) uint64 {
	signed := func(x uint64) int64 { return int64(x<<(64-width)) >> (64 - width) }
	mask := ^uint64(0) >> (64 - width)
	switch op {
	case kernels.Min, kernels.Max:
		return extreme(op, xs, func(a, b uint64) int { return cmp.Compare(signed(a), signed(b)) })
	case kernels.Avg:
		sum, n := signed(wrapped(op, xs)), int64(len(xs))
		q := sum / n
		if rest := sum - q*n; rest != 0 && (rest < 0) != (sum < 0) {
			panic("Go's division truncates")
		}
		return uint64(q) & mask
	}
	return wrapped(op, xs) & mask
}

func unsignedOracle(op kernels.Op, xs []uint64, width int) uint64 {
	mask := ^uint64(0) >> (64 - width)
	switch op {
	case kernels.Min, kernels.Max:
		return extreme(op, xs, cmp.Compare[uint64])
	case kernels.Avg:
		return (wrapped(op, xs) & mask) / uint64(len(xs))
	}
	return wrapped(op, xs) & mask
}

func floatOracle(t kernels.Type, op kernels.Op, xs []uint64) expectation {
	if op == kernels.Min || op == kernels.Max {
		width := t.Size() * 8
		sign := uint64(1) << (width - 1)
		for _, x := range xs {
			if isNaN(t, x) {
				return expectation{bits: sign - 1}
			}
		}
		return expectation{bits: extreme(op, xs, func(a, b uint64) int { // by sign, then by magnitude
			if a&sign != b&sign {
				return cmp.Compare(b&sign, a&sign)
			}
			if a&sign != 0 {
				return cmp.Compare(b, a)
			}
			return cmp.Compare(a, b)
		})}
	}
	if t == kernels.TypeFloat64 {
		r := math.Float64frombits(xs[0])
		for _, x := range xs[1:] {
			if op == kernels.Prod {
				r = float64(r * math.Float64frombits(x))
			} else {
				r = float64(r + math.Float64frombits(x))
			}
		}
		if op == kernels.Avg {
			r /= float64(len(xs))
		}
		return expectation{bits: math.Float64bits(r), anyNaN: math.IsNaN(r)}
	}
	value := func(x uint64) float32 {
		switch t {
		case kernels.TypeFloat16:
			return float32(float16Format.value(uint16(x)))
		case kernels.TypeBFloat16:
			return float32(bfloat16Format.value(uint16(x)))
		}
		return math.Float32frombits(uint32(x))
	}
	// Sums, products and quotients of two float32, made in float64 and rounded
	// to float32, are those made in float32: 53 ≥ 2·24 + 2.
	r := value(xs[0])
	for _, x := range xs[1:] {
		if op == kernels.Prod {
			r = float32(float64(r) * float64(value(x)))
		} else {
			r = float32(float64(r) + float64(value(x)))
		}
	}
	if op == kernels.Avg {
		r = float32(float64(r) / float64(len(xs)))
	}
	e := expectation{anyNaN: r != r}
	switch t {
	case kernels.TypeFloat16:
		e.bits = uint64(float16Format.round(float64(r)))
	case kernels.TypeBFloat16:
		e.bits = uint64(bfloat16Format.round(float64(r)))
	default:
		e.bits = uint64(math.Float32bits(r))
	}
	return e
}

// halfFormat is a 16-bit floating-point format, by definition rather than by
// arithmetic on bits.
type halfFormat struct {
	fracBits int
	bias     int
	positive []float64 // values of the patterns from +0 to the one of +Inf, as if that were finite
}

var (
	float16Format  = newHalfFormat(10, 15)
	bfloat16Format = newHalfFormat(7, 127)
)

func newHalfFormat(fracBits, bias int) *halfFormat {
	f := &halfFormat{fracBits: fracBits, bias: bias}
	inf := (1<<(15-fracBits) - 1) << fracBits
	for b := 0; b <= inf; b++ {
		exp, frac := b>>fracBits, b&(1<<fracBits-1)
		if exp == 0 {
			exp = 1
		} else {
			frac += 1 << fracBits
		}
		f.positive = append(f.positive, math.Ldexp(float64(frac), exp-bias-fracBits))
	}
	return f
}

func (f *halfFormat) value(b uint16) float64 {
	sign := 1.0
	if b&0x8000 != 0 {
		sign = -1
	}
	switch magnitude, inf := int(b&0x7FFF), len(f.positive)-1; {
	case magnitude > inf:
		return math.NaN()
	case magnitude == inf:
		return math.Inf(int(sign))
	default:
		return math.Copysign(f.positive[magnitude], sign)
	}
}

// round finds the nearest of all values, of two the one with the even pattern.
func (f *halfFormat) round(x float64) uint16 {
	var sign uint16
	if math.Signbit(x) {
		sign, x = 0x8000, -x
	}
	if x != x {
		return sign | 0x7FFF
	}
	above := sort.SearchFloat64s(f.positive, x)
	if above == len(f.positive) { // beyond even the value that stands for +Inf
		return sign | uint16(above-1)
	}
	if f.positive[above] == x {
		return sign | uint16(above)
	}
	low, high := x-f.positive[above-1], f.positive[above]-x
	if low < high || low == high && above%2 == 1 {
		above--
	}
	return sign | uint16(above)
}

// Elements in memory.

func get(b []byte, size, i int) uint64 {
	b = b[i*size:]
	switch size {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.NativeEndian.Uint16(b))
	case 4:
		return uint64(binary.NativeEndian.Uint32(b))
	}
	return binary.NativeEndian.Uint64(b)
}

func put(b []byte, size, i int, x uint64) {
	b = b[i*size:]
	switch size {
	case 1:
		b[0] = byte(x)
	case 2:
		binary.NativeEndian.PutUint16(b, uint16(x))
	case 4:
		binary.NativeEndian.PutUint32(b, uint32(x))
	default:
		binary.NativeEndian.PutUint64(b, x)
	}
}

// aligned returns n bytes that start offset bytes after a multiple of 64, and
// the 64 bytes or more on either side of them.
func aligned(n, offset int) (buf, whole []byte) {
	whole = make([]byte, n+256)
	start := 64 + int(-uintptr(unsafe.Pointer(&whole[0]))&63) + offset
	return whole[start : start+n : start+n], whole
}

// special holds, for each type, numbers at the edges.
var special = map[kernels.Type][]uint64{
	kernels.TypeInt8:     integerEdges(8),
	kernels.TypeInt16:    integerEdges(16),
	kernels.TypeInt32:    integerEdges(32),
	kernels.TypeInt64:    integerEdges(64),
	kernels.TypeUint8:    integerEdges(8),
	kernels.TypeUint16:   integerEdges(16),
	kernels.TypeUint32:   integerEdges(32),
	kernels.TypeUint64:   integerEdges(64),
	kernels.TypeFloat16:  floatEdges(16, 10, 15),
	kernels.TypeBFloat16: floatEdges(16, 7, 127),
	kernels.TypeFloat32:  floatEdges(32, 23, 127),
	kernels.TypeFloat64:  floatEdges(64, 52, 1023),
}

func integerEdges(width int) []uint64 {
	mask := ^uint64(0) >> (64 - width)
	top := uint64(1) << (width - 1)
	return []uint64{0, 1, 2, 3, mask, mask - 1, mask - 2, top, top - 1, top + 1, top >> 1, top>>1 - 1}
}

func floatEdges(width, frac, bias int) []uint64 {
	sign, inf := uint64(1)<<(width-1), uint64(2*bias+1)<<frac
	one := uint64(bias) << frac
	var all []uint64
	for _, x := range []uint64{
		0, 1, 2, 3, 1<<frac - 1, 1 << frac, 1<<frac + 1, // around the least normal number
		one, one + 1, one - 1, one + 1<<frac, one - 1<<frac, one + 3<<(frac-1), // 1, 2, 1/2, 3
		inf - 1, inf - 2, inf - 1<<frac, inf, // the greatest numbers, infinity
		inf + 1, inf + 1<<(frac-1), inf + 1<<(frac-1) + 5, inf + 1<<frac - 1, // NaNs
	} {
		all = append(all, x, x|sign)
	}
	return all
}

// fill gives buf random elements of three sorts: any bits, edges, and small
// numbers, whose sums are often exact.
func fill(r *rand.Rand, buf []byte, t kernels.Type) {
	size := t.Size()
	edges := special[t]
	for i := range len(buf) / size {
		var x uint64
		switch r.IntN(8) {
		case 0, 1:
			x = r.Uint64()
		case 2:
			x = edges[r.IntN(len(edges))]
		default:
			v := float64(r.IntN(4001)-2000) / 16
			switch t {
			case kernels.TypeFloat16:
				x = uint64(float16Format.round(v))
			case kernels.TypeBFloat16:
				x = uint64(bfloat16Format.round(v))
			case kernels.TypeFloat32:
				x = uint64(math.Float32bits(float32(v)))
			case kernels.TypeFloat64:
				x = math.Float64bits(v)
			default:
				x = uint64(int64(v))
			}
		}
		put(buf, size, i, x)
	}
}
