package kernels

import (
	"math"
	"unsafe"
)

// run reduces n > 0 elements of checked arguments, and divides the results of
// Avg by divisor, which is 1 for the other operators. The lengths of dst and
// srcs are not looked at.
func run(dst []byte, srcs [][]byte, n int, t Type, op Op, divisor int) {
	runWith(chosen, dst, srcs, n, t, op, divisor)
}

// runWith is the place that chooses an implementation: a kernel of the tier if
// there is one, else the switch, which is the reference. Calls are direct rather
// than through a table of functions, because arguments of indirect calls escape:
// buffers on the stack of a caller, and the variadic slice of ReduceSlices, would
// be allocated for each call.
func runWith(with tier, dst []byte, srcs [][]byte, n int, t Type, op Op, divisor int) {
	if len(srcs) == 1 && divisor == 1 && op != LogicalAnd && op != LogicalOr {
		size := t.Size()
		copy(view[byte](dst, 0, n*size), view[byte](srcs[0], 0, n*size))
		return
	}
	if with != plain && vector(with, dst, srcs, n, t, op, divisor) {
		return
	}
	if op > Avg { // bits, truth and places: no loops of more than two sources
		pairwise(dst, srcs, n, t, op)
		return
	}
	switch t {
	case TypeInt8:
		natives[int8](dst, srcs, n, op, 0, divisor)
	case TypeInt16:
		natives[int16](dst, srcs, n, op, 0, divisor)
	case TypeInt32:
		natives[int32](dst, srcs, n, op, 0, divisor)
	case TypeInt64:
		natives[int64](dst, srcs, n, op, 0, divisor)
	case TypeUint8:
		natives[uint8](dst, srcs, n, op, 0, divisor)
	case TypeUint16:
		natives[uint16](dst, srcs, n, op, 0, divisor)
	case TypeUint32:
		natives[uint32](dst, srcs, n, op, 0, divisor)
	case TypeUint64:
		natives[uint64](dst, srcs, n, op, 0, divisor)
	case TypeFloat16:
		halves(dst, srcs, n, op, float16Format, divisor)
	case TypeBFloat16:
		halves(dst, srcs, n, op, bfloat16Format, divisor)
	case TypeFloat32:
		natives(dst, srcs, n, op, math.Float32frombits(0x7FFFFFFF), divisor)
	case TypeFloat64:
		natives(dst, srcs, n, op, math.Float64frombits(0x7FFFFFFFFFFFFFFF), divisor)
	case TypeFloat8E4M3:
		float8s(dst, srcs, n, t, op, &e4m3Format, divisor)
	case TypeFloat8E5M2:
		float8s(dst, srcs, n, t, op, &e5m2Format, divisor)
	case TypeComplex64:
		if op == Prod {
			pairwise(dst, srcs, n, t, op)
		} else { // part by part
			natives[float32](dst, srcs, 2*n, op, 0, divisor)
		}
	case TypeComplex128:
		if op == Prod {
			pairwise(dst, srcs, n, t, op)
		} else {
			natives[float64](dst, srcs, 2*n, op, 0, divisor)
		}
	}
}

const (
	blockBytes = 4096 // of an accumulator: a small part of any first-level cache
	fan        = 4    // the most buffers that one loop reads
)

// natives reduces n elements of the types that Go computes with. nan is the result of Min and Max if a source is a NaN.
func natives[E native](dst []byte, srcs [][]byte, n int, op Op, nan E, divisor int) {
	if len(srcs) > fan {
		nativesMany(dst, srcs, n, op, nan, divisor)
		return
	}
	block := n
	if divisor != 1 {
		block = blockBytes / int(unsafe.Sizeof(nan)) // divided while still in the cache
	}
	for lo := 0; lo < n; lo += block {
		hi := min(lo+block, n)
		d := view[E](dst, lo, hi)
		fold(op, d, view[E](srcs[0], lo, hi), srcs[1:], lo, hi, nan)
		if divisor != 1 {
			divide(d, divisor)
		}
	}
}

// nativesMany is natives for more sources than one loop reads. Partial results
// cannot wait in dst, which may be the memory of a source that is still to be
// read: they wait in a block on the stack.
func nativesMany[E native](dst []byte, srcs [][]byte, n int, op Op, nan E, divisor int) {
	var buf [blockBytes / 8]uint64
	acc := unsafe.Slice((*E)(unsafe.Pointer(&buf)), blockBytes/unsafe.Sizeof(nan))
	for lo := 0; lo < n; lo += len(acc) {
		hi := min(lo+len(acc), n)
		first, rest := view[E](srcs[0], lo, hi), srcs[1:]
		for len(rest) >= fan {
			fold(op, acc[:hi-lo], first, rest[:fan-1], lo, hi, nan)
			first, rest = acc[:hi-lo], rest[fan-1:]
		}
		d := view[E](dst, lo, hi)
		fold(op, d, first, rest, lo, hi, nan)
		if divisor != 1 {
			divide(d, divisor)
		}
	}
}

// fold makes one pass: dst = first op rest[0] op …, for elements lo to hi of
// none to three further sources. dst may be first or one of the rest.
func fold[E native](op Op, dst, first []E, rest [][]byte, lo, hi int, nan E) {
	if len(rest) == 0 {
		copy(dst, first)
		return
	}
	b := view[E](rest[0], lo, hi)
	if len(rest) == 1 {
		switch op {
		case Sum, Avg:
			sum2(dst, first, b)
		case Prod:
			prod2(dst, first, b)
		case Min:
			min2(dst, first, b, nan)
		case Max:
			max2(dst, first, b, nan)
		}
		return
	}
	c := view[E](rest[1], lo, hi)
	if len(rest) == 2 {
		switch op {
		case Sum, Avg:
			sum3(dst, first, b, c)
		case Prod:
			prod3(dst, first, b, c)
		case Min:
			min3(dst, first, b, c, nan)
		case Max:
			max3(dst, first, b, c, nan)
		}
		return
	}
	d := view[E](rest[2], lo, hi)
	switch op {
	case Sum, Avg:
		sum4(dst, first, b, c, d)
	case Prod:
		prod4(dst, first, b, c, d)
	case Min:
		min4(dst, first, b, c, d, nan)
	case Max:
		max4(dst, first, b, c, d, nan)
	}
}

// halves reduces n elements of a 16-bit floating-point format.
func halves(dst []byte, srcs [][]byte, n int, op Op, f format, divisor int) {
	if op == Min || op == Max {
		halvesOrder(dst, srcs, n, op == Max, f)
		return
	}
	if len(srcs) == 2 && op == Sum {
		f.sum2(view[uint16](dst, 0, n), view[uint16](srcs[0], 0, n), view[uint16](srcs[1], 0, n))
		return
	}
	var buf [blockBytes / 4]float32
	for lo := 0; lo < n; lo += len(buf) {
		hi := min(lo+len(buf), n)
		acc := buf[:hi-lo]
		f.load(acc, view[uint16](srcs[0], lo, hi))
		for _, src := range srcs[1:] {
			if op == Prod {
				f.mul(acc, view[uint16](src, lo, hi))
			} else {
				f.add(acc, view[uint16](src, lo, hi))
			}
		}
		if divisor != 1 {
			divide(acc, divisor)
		}
		f.store(view[uint16](dst, lo, hi), acc)
	}
}

// halvesOrder is halves for Min and Max, on the keys of loops_order.go.
func halvesOrder(dst []byte, srcs [][]byte, n int, greatest bool, f format) {
	inf := f.inf()
	if len(srcs) == 2 {
		d, a, b := view[uint16](dst, 0, n), view[uint16](srcs[0], 0, n), view[uint16](srcs[1], 0, n)
		if greatest {
			greatest2(d, a, b, inf)
		} else {
			least2(d, a, b, inf)
		}
		return
	}
	var buf [blockBytes / 2]int16
	for lo := 0; lo < n; lo += len(buf) {
		hi := min(lo+len(buf), n)
		acc := buf[:hi-lo]
		if greatest {
			greatestFirst(acc, view[uint16](srcs[0], lo, hi), view[uint16](srcs[1], lo, hi), inf)
			for _, src := range srcs[2:] {
				greatestNext(acc, view[uint16](src, lo, hi), inf)
			}
		} else {
			leastFirst(acc, view[uint16](srcs[0], lo, hi), view[uint16](srcs[1], lo, hi), inf)
			for _, src := range srcs[2:] {
				leastNext(acc, view[uint16](src, lo, hi), inf)
			}
		}
		fromKeys(view[uint16](dst, lo, hi), acc, inf)
	}
}

// float8s reduces n elements of an 8-bit floating-point format.
func float8s(dst []byte, srcs [][]byte, n int, t Type, op Op, f *float8Format, divisor int) {
	if op == Min || op == Max {
		pairwise(dst, srcs, n, t, op)
		return
	}
	var buf [blockBytes / 4]float32
	for lo := 0; lo < n; lo += len(buf) {
		hi := min(lo+len(buf), n)
		acc := buf[:hi-lo]
		f.load(acc, view[uint8](srcs[0], lo, hi))
		for _, src := range srcs[1:] {
			if op == Prod {
				f.mul(acc, view[uint8](src, lo, hi))
			} else {
				f.add(acc, view[uint8](src, lo, hi))
			}
		}
		if divisor != 1 {
			divide(acc, divisor)
		}
		f.store(view[uint8](dst, lo, hi), acc)
	}
}

// pairwise reduces n elements where the results of pairs are results: by loops
// of two sources, the result of one being a source of the next. It waits in a
// block on the stack, for the reason that nativesMany has. A single source is
// reduced with itself, which makes the truth of it 0 or 1.
func pairwise(dst []byte, srcs [][]byte, n int, t Type, op Op) {
	last := len(srcs) - 1
	if last <= 1 {
		reduce2(dst, srcs[0], srcs[last], n, t, op)
		return
	}
	var buf [blockBytes / 8]uint64
	acc := unsafe.Slice((*byte)(unsafe.Pointer(&buf)), blockBytes)
	size := t.Size()
	block := blockBytes / size
	for lo := 0; lo < n; lo += block {
		hi := min(lo+block, n)
		from, to := lo*size, hi*size
		reduce2(acc, view[byte](srcs[0], from, to), view[byte](srcs[1], from, to), hi-lo, t, op)
		for _, src := range srcs[2:last] {
			reduce2(acc, acc, view[byte](src, from, to), hi-lo, t, op)
		}
		reduce2(view[byte](dst, from, to), acc, view[byte](srcs[last], from, to), hi-lo, t, op)
	}
}

// reduce2 is pairwise for two sources.
func reduce2(dst, a, b []byte, n int, t Type, op Op) {
	switch op {
	case Prod:
		if t == TypeComplex64 {
			complexProd2(view[parts[float32]](dst, 0, n), view[parts[float32]](a, 0, n), view[parts[float32]](b, 0, n))
		} else {
			complexProd2(view[parts[float64]](dst, 0, n), view[parts[float64]](a, 0, n), view[parts[float64]](b, 0, n))
		}
	case Min, Max:
		f := &e4m3Format
		if t == TypeFloat8E5M2 {
			f = &e5m2Format
		}
		f.order2(view[uint8](dst, 0, n), view[uint8](a, 0, n), view[uint8](b, 0, n), op == Max)
	case MinLoc, MaxLoc:
		switch t {
		case TypeInt32Loc:
			locs2[int32](dst, a, b, n, op, 0, math.MaxInt32)
		case TypeInt64Loc:
			locs2[int64](dst, a, b, n, op, 0, math.MaxInt64)
		case TypeFloat32Loc:
			locs2[int32](dst, a, b, n, op, math.MaxInt32, f32Inf)
		case TypeFloat64Loc:
			locs2[int64](dst, a, b, n, op, math.MaxInt64, f64Inf)
		}
	default:
		magnitude, one := truth(t)
		switch t.Size() {
		case 1:
			words2(dst, a, b, n, op, uint8(magnitude), uint8(one))
		case 2:
			words2(dst, a, b, n, op, uint16(magnitude), uint16(one))
		case 4:
			words2(dst, a, b, n, op, uint32(magnitude), uint32(one))
		case 8:
			words2(dst, a, b, n, op, magnitude, one)
		}
	}
}

// words2 is reduce2 for the operators on bits and truth, whose loops need no
// more of a type than its size and what truth tells.
func words2[W word](dst, a, b []byte, n int, op Op, magnitude, one W) {
	d, x, y := view[W](dst, 0, n), view[W](a, 0, n), view[W](b, 0, n)
	if op == LogicalAnd || op == LogicalOr {
		logical2(d, x, y, op, magnitude, one)
	} else {
		bitwise2(d, x, y, op)
	}
}

// locs2 is reduce2 for MinLoc and MaxLoc.
func locs2[I int32 | int64](dst, a, b []byte, n int, op Op, flipped, last I) {
	o := locOrder[I]{flipped: flipped, last: last}
	if op == MaxLoc {
		o.turned = -1
	}
	loc2(view[pair[I]](dst, 0, n), view[pair[I]](a, 0, n), view[pair[I]](b, 0, n), o)
}
