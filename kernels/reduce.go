package kernels

import "unsafe"

// Reduce combines the sources element by element: element i of dst becomes
// srcs[0][i] op srcs[1][i] op …, in that order, as the package documentation
// defines to the bit.
//
// All buffers hold elements of type t in the byte order of the machine. They
// have one common length in bytes, a multiple of t.Size(), which may be 0, and
// their first bytes are aligned as t.Align() says. There is at least one
// source; with exactly one, Reduce copies, but for LogicalAnd and LogicalOr,
// which make 0 or 1 even of one. t is a type that op supports.
//
// dst may be the very same memory as one or several sources, which are then
// overwritten, but must not overlap any of them partly. Sources may overlap
// and repeat as they like.
//
// Reduce does not allocate, does not keep the slices, and does not change
// srcs. It never panics: where an argument is not as said here, it writes
// nothing and returns an [*ArgumentError] that wraps [ErrOp], [ErrType],
// [ErrNoSource], [ErrLength], [ErrAlign] or [ErrOverlap].
func Reduce(dst []byte, srcs [][]byte, t Type, op Op) error {
	if op == Sum && len(srcs) == 2 && len(dst) <= fewBytes && sumFew(dst, srcs, t) {
		return nil
	}
	return reduce(dst, srcs, t, op, divisor(op, len(srcs)))
}

// Average is Reduce with [Avg] where the sources are partial sums of n
// contributions in all: the sum of the sources, divided by n before it is
// rounded to the type. It fails with [ErrOp] if n is less than 1, and for types
// that have no average.
func Average(dst []byte, srcs [][]byte, t Type, n int) error {
	if n < 1 {
		return refuse(ErrOp, -1, "average of %d", n)
	}
	return reduce(dst, srcs, t, Avg, n)
}

// divisor is what the sum of n sources is divided by.
func divisor(op Op, n int) int {
	if op == Avg {
		return n
	}
	return 1
}

func reduce(dst []byte, srcs [][]byte, t Type, op Op, divisor int) error {
	if !t.Valid() {
		return refuse(ErrType, -1, "%v", t)
	}
	size := t.Size()
	if len(dst)%size != 0 {
		return refuse(ErrLength, -1, "destination of %d bytes, elements of %d", len(dst), size)
	}
	if err := check(dst, srcs, 1, t, op); err != nil {
		return err
	}
	if len(dst) == 0 {
		return nil
	}
	align := uintptr(t.Align())
	if address(dst)%align != 0 {
		return refuse(ErrAlign, -1, "destination at %#x, %v needs a multiple of %d", address(dst), t, align)
	}
	for i, src := range srcs {
		if address(src)%align != 0 {
			return refuse(ErrAlign, i, "at %#x, %v needs a multiple of %d", address(src), t, align)
		}
	}
	run(dst, srcs, len(dst)/size, t, op, divisor)
	return nil
}

// ReduceSlices is [Reduce] for typed slices: dst[i] becomes
// srcs[0][i] op srcs[1][i] op …, in that order. Lengths are in elements and
// must be equal; alignment needs no thought. dst may be the very same memory
// as one or several sources but must not overlap any of them partly.
//
// ReduceSlices does not allocate and never panics: where an argument is not as
// said here, it writes nothing and returns an [*ArgumentError] that wraps
// [ErrOp], [ErrNoSource], [ErrLength] or [ErrOverlap].
func ReduceSlices[T Number](dst []T, op Op, srcs ...[]T) error {
	t := TypeOf[T]()
	// Slices differ in their element type only, so the same headers can be
	// read as byte slices. Their lengths then count elements, and thus claim
	// no memory that is not there.
	d := *(*[]byte)(unsafe.Pointer(&dst))
	s := *(*[][]byte)(unsafe.Pointer(&srcs))
	if err := check(d, s, t.Size(), t, op); err != nil {
		return err
	}
	if len(dst) > 0 {
		run(d, s, len(dst), t, op, divisor(op, len(srcs)))
	}
	return nil
}

// check makes the tests that Reduce and ReduceSlices share. The lengths of the
// slices count units of the given number of bytes.
func check(dst []byte, srcs [][]byte, unit int, t Type, op Op) error {
	if !op.Supports(t) {
		return refuse(ErrOp, -1, "%v of %v", op, t)
	}
	if len(srcs) == 0 {
		return refuse(ErrNoSource, -1, "%v needs one at least", op)
	}
	for i, src := range srcs {
		if len(src) != len(dst) {
			return refuse(ErrLength, i, "%d bytes, destination of %d", len(src)*unit, len(dst)*unit)
		}
		a, b := address(dst), address(src)
		if a > b {
			a, b = b, a
		}
		if gap := b - a; gap > 0 && gap < uintptr(len(dst)*unit) {
			return refuse(ErrOverlap, i, "%d bytes each, %d apart", len(dst)*unit, gap)
		}
	}
	return nil
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// view returns elements lo to hi of the buffer that starts where b starts. The
// length of b is not looked at: it may count bytes or elements.
func view[E any](b []byte, lo, hi int) []E {
	return unsafe.Slice((*E)(unsafe.Pointer(unsafe.SliceData(b))), hi)[lo:]
}
