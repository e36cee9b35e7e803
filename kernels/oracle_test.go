package kernels_test

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"sort"
	"unsafe"

	"github.com/weft-go/weft/kernels"
)

// The oracle works on one element at a time, on its bits, and uses nothing of
// the package but the names of its constants and its sizes.

// element has the bits of an element: of complex numbers and pairs, those of
// the two parts, of all others in the first alone.
type element [2]uint64

// parts returns the types of the parts of an element.
func parts(t kernels.Type) []kernels.Type {
	switch t {
	case kernels.TypeComplex64:
		return []kernels.Type{kernels.TypeFloat32, kernels.TypeFloat32}
	case kernels.TypeComplex128:
		return []kernels.Type{kernels.TypeFloat64, kernels.TypeFloat64}
	case kernels.TypeFloat32Loc:
		return []kernels.Type{kernels.TypeFloat32, kernels.TypeInt32}
	case kernels.TypeFloat64Loc:
		return []kernels.Type{kernels.TypeFloat64, kernels.TypeInt64}
	case kernels.TypeInt32Loc:
		return []kernels.Type{kernels.TypeInt32, kernels.TypeInt32}
	case kernels.TypeInt64Loc:
		return []kernels.Type{kernels.TypeInt64, kernels.TypeInt64}
	}
	return []kernels.Type{t}
}

func isPair(t kernels.Type) bool {
	ps := parts(t)
	return len(ps) == 2 && (ps[1] == kernels.TypeInt32 || ps[1] == kernels.TypeInt64)
}

func isInteger(t kernels.Type) bool { return t >= kernels.TypeInt8 && t <= kernels.TypeUint64 }

// expectation is what the oracle wants of an element: for each part these
// bits, or any NaN.
type expectation [2]partExpectation

type partExpectation struct {
	bits   uint64
	anyNaN bool
}

func (e expectation) met(t kernels.Type, got element) bool {
	for i, part := range parts(t) {
		if !e[i].met(part, got[i]) {
			return false
		}
	}
	return true
}

// oracle reduces the elements xs.
func oracle(t kernels.Type, op kernels.Op, xs []element) (e expectation) {
	column := func(part int) []uint64 {
		c := make([]uint64, len(xs))
		for i, x := range xs {
			c[i] = x[part]
		}
		return c
	}
	switch ps := parts(t); {
	case len(ps) == 1:
		e[0] = partOracle(t, op, column(0))
	case len(xs) == 1:
		e[0].bits, e[1].bits = xs[0][0], xs[0][1]
	case isPair(t):
		e[0].bits, e[1].bits = locOracle(ps[0], op, xs)
	case op == kernels.Prod:
		re, im := complexProduct(ps[0], xs)
		e[0], e[1] = floatExpectation(ps[0], re), floatExpectation(ps[0], im)
	default:
		e[0], e[1] = partOracle(ps[0], op, column(0)), partOracle(ps[0], op, column(1))
	}
	return e
}

// locOracle finds the NaNs, else the extreme values, and of these the lowest
// index.
func locOracle(value kernels.Type, op kernels.Op, xs []element) (bits, index uint64) {
	width := value.Size() * 8
	signed := func(x uint64) int64 { return int64(x<<(64-width)) >> (64 - width) }
	var best []element
	for _, x := range xs {
		if isNaN(value, x[0]) {
			best = append(best, element{1<<(width-1) - 1, x[1]})
		}
	}
	if best == nil {
		extreme := kernels.Min
		if op == kernels.MaxLoc {
			extreme = kernels.Max
		}
		var values []uint64
		for _, x := range xs {
			values = append(values, x[0])
		}
		top := partOracle(value, extreme, values).bits
		for _, x := range xs {
			if x[0] == top {
				best = append(best, x)
			}
		}
	}
	first := slices.MinFunc(best, func(a, b element) int { return cmp.Compare(signed(a[1]), signed(b[1])) })
	return first[0], first[1]
}

// complexProduct multiplies from left to right, each step exact and then
// rounded.
func complexProduct(part kernels.Type, xs []element) (re, im float64) {
	number := func(bits uint64) float64 {
		if part == kernels.TypeFloat32 {
			return float64(math.Float32frombits(uint32(bits)))
		}
		return math.Float64frombits(bits)
	}
	step := func(f func(z, x, y *big.Float) *big.Float, native func(a, b float64) float64, a, b float64) float64 {
		r := native(a, b)
		if a-a == 0 && b-b == 0 && a != 0 && b != 0 { // else there is nothing to round, and signs and NaNs matter
			var z, x, y big.Float
			exact := f(z.SetPrec(4400), x.SetFloat64(a), y.SetFloat64(b))
			if exact.Acc() != big.Exact {
				panic("not exact")
			}
			if part == kernels.TypeFloat32 {
				f, _ := exact.Float32()
				r = float64(f)
			} else {
				r, _ = exact.Float64()
			}
		}
		return r
	}
	mul := func(a, b float64) float64 {
		return step((*big.Float).Mul, func(a, b float64) float64 { return a * b }, a, b)
	}
	add := func(a, b float64) float64 {
		return step((*big.Float).Add, func(a, b float64) float64 { return a + b }, a, b)
	}
	re, im = number(xs[0][0]), number(xs[0][1])
	for _, x := range xs[1:] {
		c, d := number(x[0]), number(x[1])
		re, im = add(mul(re, c), -mul(im, d)), add(mul(re, d), mul(im, c))
	}
	return re, im
}

func floatExpectation(t kernels.Type, x float64) partExpectation {
	if t == kernels.TypeFloat32 {
		return partExpectation{bits: uint64(math.Float32bits(float32(x))), anyNaN: math.IsNaN(x)}
	}
	return partExpectation{bits: math.Float64bits(x), anyNaN: math.IsNaN(x)}
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
	case kernels.TypeFloat8E4M3:
		return bits&0x7F == 0x7F
	case kernels.TypeFloat8E5M2:
		return bits&0x7C == 0x7C && bits&0x03 != 0
	}
	return false
}

func (e partExpectation) met(t kernels.Type, got uint64) bool {
	if e.anyNaN {
		return isNaN(t, got)
	}
	return e.bits == got
}

// partOracle is oracle for elements of one part.
func partOracle(t kernels.Type, op kernels.Op, xs []uint64) partExpectation {
	if op == kernels.LogicalAnd || op == kernels.LogicalOr {
		return partExpectation{bits: logicalOracle(t, op, xs)}
	}
	if len(xs) == 1 {
		return partExpectation{bits: xs[0]}
	}
	switch t {
	case kernels.TypeInt8:
		return partExpectation{bits: signedOracle(op, xs, 8)}
	case kernels.TypeInt16:
		return partExpectation{bits: signedOracle(op, xs, 16)}
	case kernels.TypeInt32:
		return partExpectation{bits: signedOracle(op, xs, 32)}
	case kernels.TypeInt64:
		return partExpectation{bits: signedOracle(op, xs, 64)}
	case kernels.TypeUint8:
		return partExpectation{bits: unsignedOracle(op, xs, 8)}
	case kernels.TypeUint16:
		return partExpectation{bits: unsignedOracle(op, xs, 16)}
	case kernels.TypeUint32:
		return partExpectation{bits: unsignedOracle(op, xs, 32)}
	case kernels.TypeUint64:
		return partExpectation{bits: unsignedOracle(op, xs, 64)}
	}
	return floatOracle(t, op, xs)
}

// numberOne is the representation of 1.
var numberOne = map[kernels.Type]uint64{
	kernels.TypeFloat8E4M3: uint64(e4m3Format.round(1)),
	kernels.TypeFloat8E5M2: uint64(e5m2Format.round(1)),
	kernels.TypeFloat16:    uint64(float16Format.round(1)),
	kernels.TypeBFloat16:   uint64(bfloat16Format.round(1)),
	kernels.TypeFloat32:    uint64(math.Float32bits(1)),
	kernels.TypeFloat64:    math.Float64bits(1),
}

func logicalOracle(t kernels.Type, op kernels.Op, xs []uint64) uint64 {
	trues := 0
	for _, x := range xs {
		negativeZero := uint64(1) << (8*t.Size() - 1)
		if x != 0 && (isInteger(t) || x != negativeZero) {
			trues++
		}
	}
	if trues == 0 || op == kernels.LogicalAnd && trues < len(xs) {
		return 0
	}
	if isInteger(t) {
		return 1
	}
	return numberOne[t]
}

// bitwise counts the sources that have each bit.
func bitwise(op kernels.Op, xs []uint64) (r uint64) {
	for bit := range 64 {
		set := 0
		for _, x := range xs {
			set += int(x >> bit & 1)
		}
		if op == kernels.BitAnd && set == len(xs) || op == kernels.BitOr && set > 0 || op == kernels.BitXor && set%2 == 1 {
			r |= 1 << bit
		}
	}
	return r
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
	case kernels.BitAnd, kernels.BitOr, kernels.BitXor:
		return bitwise(op, xs)
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
	case kernels.BitAnd, kernels.BitOr, kernels.BitXor:
		return bitwise(op, xs)
	case kernels.Min, kernels.Max:
		return extreme(op, xs, cmp.Compare[uint64])
	case kernels.Avg:
		return (wrapped(op, xs) & mask) / uint64(len(xs))
	}
	return wrapped(op, xs) & mask
}

func floatOracle(t kernels.Type, op kernels.Op, xs []uint64) partExpectation {
	if op == kernels.Min || op == kernels.Max {
		width := t.Size() * 8
		sign := uint64(1) << (width - 1)
		for _, x := range xs {
			if isNaN(t, x) {
				return partExpectation{bits: sign - 1}
			}
		}
		return partExpectation{bits: extreme(op, xs, func(a, b uint64) int { // by sign, then by magnitude
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
		return partExpectation{bits: math.Float64bits(r), anyNaN: math.IsNaN(r)}
	}
	value := func(x uint64) float32 {
		switch t {
		case kernels.TypeFloat16:
			return float32(float16Format.value(uint16(x)))
		case kernels.TypeBFloat16:
			return float32(bfloat16Format.value(uint16(x)))
		case kernels.TypeFloat8E4M3:
			return float32(e4m3Format.value(uint8(x)))
		case kernels.TypeFloat8E5M2:
			return float32(e5m2Format.value(uint8(x)))
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
	e := partExpectation{anyNaN: r != r}
	switch t {
	case kernels.TypeFloat16:
		e.bits = uint64(float16Format.round(float64(r)))
	case kernels.TypeBFloat16:
		e.bits = uint64(bfloat16Format.round(float64(r)))
	case kernels.TypeFloat8E4M3: // the NaN is always the same
		return partExpectation{bits: uint64(e4m3Format.round(float64(r)))}
	case kernels.TypeFloat8E5M2:
		return partExpectation{bits: uint64(e5m2Format.round(float64(r)))}
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

// byteFormat is an 8-bit floating-point format, by definition.
type byteFormat struct {
	finite   []float64 // the values of the patterns from +0 on
	infinity bool      // whether the next pattern is +Inf; those after are NaNs
}

var (
	e4m3Format = newByteFormat(3, 7, 0x7F, false)
	e5m2Format = newByteFormat(2, 15, 0x7C, true)
)

func newByteFormat(fracBits, bias, finite int, infinity bool) *byteFormat {
	f := &byteFormat{infinity: infinity}
	for b := range finite {
		exp, frac := b>>fracBits, b&(1<<fracBits-1)
		if exp == 0 {
			exp = 1
		} else {
			frac += 1 << fracBits
		}
		f.finite = append(f.finite, math.Ldexp(float64(frac), exp-bias-fracBits))
	}
	return f
}

func (f *byteFormat) value(b uint8) float64 {
	sign := 1.0
	if b >= 0x80 {
		sign = -1
	}
	switch magnitude := int(b & 0x7F); {
	case magnitude < len(f.finite):
		return math.Copysign(f.finite[magnitude], sign)
	case magnitude == len(f.finite) && f.infinity:
		return math.Inf(int(sign))
	}
	return math.NaN()
}

// round finds the nearest of all finite values, of two the one with the even
// pattern.
func (f *byteFormat) round(x float64) uint8 {
	var sign uint8
	if math.Signbit(x) {
		sign, x = 0x80, -x
	}
	if x != x {
		return 0x7F
	}
	greatest := len(f.finite) - 1
	if x >= f.finite[greatest] {
		return sign | uint8(greatest)
	}
	nearest, distance := 0, x
	for b, v := range f.finite {
		if d := math.Abs(x - v); d < distance || d == distance && b%2 == 0 {
			nearest, distance = b, d
		}
	}
	return sign | uint8(nearest)
}

// Elements in memory.

func get(b []byte, t kernels.Type, i int) (x element) {
	b = b[i*t.Size():]
	for p, part := range parts(t) {
		switch size := part.Size(); size {
		case 1:
			x[p] = uint64(b[0])
		case 2:
			x[p] = uint64(binary.NativeEndian.Uint16(b))
		case 4:
			x[p] = uint64(binary.NativeEndian.Uint32(b[p*size:]))
		default:
			x[p] = binary.NativeEndian.Uint64(b[p*size:])
		}
	}
	return x
}

func put(b []byte, t kernels.Type, i int, x element) {
	b = b[i*t.Size():]
	for p, part := range parts(t) {
		switch size := part.Size(); size {
		case 1:
			b[0] = byte(x[p])
		case 2:
			binary.NativeEndian.PutUint16(b, uint16(x[p]))
		case 4:
			binary.NativeEndian.PutUint32(b[p*size:], uint32(x[p]))
		default:
			binary.NativeEndian.PutUint64(b[p*size:], x[p])
		}
	}
}

// aligned returns n bytes that start offset bytes after a multiple of 64, and
// the 64 bytes or more on either side of them.
func aligned(n, offset int) (buf, whole []byte) {
	whole = make([]byte, n+256)
	start := 64 + int(-uintptr(unsafe.Pointer(&whole[0]))&63) + offset
	return whole[start : start+n : start+n], whole
}

// special holds, for each type of one part, numbers at the edges.
var special = map[kernels.Type][]uint64{
	kernels.TypeInt8:       integerEdges(8),
	kernels.TypeInt16:      integerEdges(16),
	kernels.TypeInt32:      integerEdges(32),
	kernels.TypeInt64:      integerEdges(64),
	kernels.TypeUint8:      integerEdges(8),
	kernels.TypeUint16:     integerEdges(16),
	kernels.TypeUint32:     integerEdges(32),
	kernels.TypeUint64:     integerEdges(64),
	kernels.TypeFloat8E4M3: floatEdges(8, 3, 7),
	kernels.TypeFloat8E5M2: floatEdges(8, 2, 15),
	kernels.TypeFloat16:    floatEdges(16, 10, 15),
	kernels.TypeBFloat16:   floatEdges(16, 7, 127),
	kernels.TypeFloat32:    floatEdges(32, 23, 127),
	kernels.TypeFloat64:    floatEdges(64, 52, 1023),
}

// edges returns elements at the edges: all of those of one part, a choice of
// those of two.
func edges(t kernels.Type) (all []element) {
	ps := parts(t)
	if len(ps) == 1 {
		for _, x := range special[t] {
			all = append(all, element{x})
		}
		return all
	}
	r := rand.New(rand.NewPCG(seed, uint64(t)))
	others, each := special[ps[1]], 1
	if isPair(t) {
		others, each = others[:5], 2 // so that values meet again, at this index and at others
	}
	for _, x := range special[ps[0]] {
		for range each {
			all = append(all, element{x, others[r.IntN(len(others))]})
		}
	}
	return all
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
// numbers, whose sums are often exact. Those of pairs are very small, so that
// they are often equal.
func fill(r *rand.Rand, buf []byte, t kernels.Type) {
	ps := parts(t)
	for i := range len(buf) / t.Size() {
		var x element
		for p, part := range ps {
			switch edges := special[part]; r.IntN(8) {
			case 0, 1:
				x[p] = r.Uint64() >> (64 - 8*part.Size())
			case 2:
				x[p] = edges[r.IntN(len(edges))]
			default:
				v := float64(r.IntN(4001)-2000) / 16
				if isPair(t) {
					v = float64(r.IntN(5) - 2)
				}
				x[p] = represent(part, v)
			}
		}
		put(buf, t, i, x)
	}
}

// represent rounds v to a type of one part.
func represent(t kernels.Type, v float64) uint64 {
	switch t {
	case kernels.TypeFloat8E4M3:
		return uint64(e4m3Format.round(v))
	case kernels.TypeFloat8E5M2:
		return uint64(e5m2Format.round(v))
	case kernels.TypeFloat16:
		return uint64(float16Format.round(v))
	case kernels.TypeBFloat16:
		return uint64(bfloat16Format.round(v))
	case kernels.TypeFloat32:
		return uint64(math.Float32bits(float32(v)))
	case kernels.TypeFloat64:
		return math.Float64bits(v)
	}
	return uint64(int64(v)) & (^uint64(0) >> (64 - 8*t.Size()))
}
