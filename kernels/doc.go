// Package kernels holds the element-wise arithmetic of reductions: given one
// or more source buffers of one element type, [Reduce] and [ReduceSlices]
// combine them element by element into a destination.
//
// The package imports nothing else of this module and starts no goroutines.
// All functions may be called from several goroutines at once, as long as no
// buffer that one call writes is used by another at the same time.
//
// # Exactness
//
// Results are defined to the bit, so that every implementation of this
// package (plain Go, vector assembly, accelerator code) can be checked against
// every other. The one exception is named below: the sign and payload of a NaN
// that Sum, Prod or Avg gives. Element i of the result depends on element i of
// the sources alone: not on its index, the length, the alignment or the
// aliasing of the buffers.
//
// Not every operator is defined for every type; [Op.Supports] has the table.
// The others are refused.
//
// Let x0, x1, … x(n-1) be element i of the n sources in the order in which
// they were passed.
//
// With one source (n = 1), every operator but LogicalAnd and LogicalOr copies:
// all bits are kept, including those of NaNs.
//
// With two or more sources:
//
// Integers (int8 … uint64):
//   - Sum and Prod wrap modulo 2^bits, in two's complement for signed types.
//     The order of the sources cannot be seen.
//   - Min and Max are the usual ones.
//   - Avg is the wrapped Sum, taken as a value of the element type, divided by
//     the integer n and truncated toward zero. The division is made as if in
//     64 bits, so n need not fit the element type: the average of 300 uint8 is
//     defined (and 0).
//   - BitAnd, BitOr and BitXor combine the bits of two's complement.
//
// float32 and float64:
//   - Sum is ((x0 + x1) + x2) + …, Prod is ((x0 · x1) · x2) · …; each step is
//     rounded to the element type, to nearest with ties to even. There is no
//     fused multiply-add, no wider intermediate and no reassociation.
//     Subnormals are kept on input and on output.
//   - Avg is Sum and then one division, in the element type, by n converted to
//     the element type (to nearest even). It is not a multiplication by 1/n,
//     and a Sum that overflowed stays infinite.
//
// float16, bfloat16, float8e4m3 and float8e5m2:
//   - Sum, Prod and Avg convert each source to float32 (which is exact),
//     accumulate in float32 from left to right by the rules of float32, for
//     Avg divide once in float32, and only then round, once, to the element
//     type: to nearest even, subnormals kept. A partial result beyond the range
//     of the type is therefore no overflow.
//   - A result beyond the range of a 16-bit type is infinite. The 8-bit types
//     saturate: it is their greatest finite number, with its sign, even if it
//     is infinite in float32, as it is where a source is.
//   - A reduction of reductions rounds several times and can differ from one
//     reduction over all the sources.
//
// complex64 and complex128, the parts being float32 or float64:
//   - Sum and Avg are those of the parts, each on its own.
//   - Prod is ((x0 · x1) · x2) · …, where (a + bi) · (c + di) is
//     (a·c − b·d) + (a·d + b·c)i, and each of its four products, the difference
//     and the sum are rounded to the type of the parts. There is no fused
//     multiply-add, and no rule of its own for infinities, as C has one:
//     (∞ + 0i) · i is NaN + ∞i.
//   - Nothing orders complex numbers: there is no Min and no Max.
//
// NaN and signed zero, the six floating-point types and the parts of complex
// ones:
//   - Sum, Prod and Avg give a NaN where a source or a partial result is one
//     (Inf − Inf, 0 · Inf). Which NaN is not specified, but for the 8-bit types,
//     where it is 0x7F.
//   - Min and Max propagate NaN: where any source is a NaN, the result is the
//     canonical one, 0x7FFFFFFF for float32, 0x7FFFFFFFFFFFFFFF for float64,
//     0x7FFF for both 16-bit types and 0x7F for both 8-bit types.
//   - For Min and Max, −0 is less than +0. With the rule above, the order of
//     the sources cannot be seen in their result.
//
// LogicalAnd and LogicalOr, integers and floats, any number of sources:
//   - A source is true if it is not zero: a NaN is true, −0 is false.
//   - The result is 1 or +0 of the element type. So it is with one source, which
//     is not copied: a reduction has no other results for one rank than for many.
//
// MinLoc and MaxLoc, pairs of a value and an index:
//   - The result is the pair with the least or greatest value, bit for bit; of
//     several such pairs, that with the lowest index (as a signed integer).
//   - −0 is less than +0, as for Min and Max.
//   - If any value is a NaN, the result is the canonical NaN with the lowest
//     index that a NaN has.
//   - The order of the sources cannot be seen.
//
// # Memory
//
// Each source is read once and the destination is written once, in blocks that
// fit the first-level cache or, in vector loops, with partial results in
// registers. (AVX2 reads and writes up to 31 bytes at the end of a buffer twice.)
// Reductions do not allocate, unless for an error.
//
// # Vector loops
//
// On amd64, loops of AVX-512 (F, BW, DQ, VL, with BMI2) or AVX2 (with F16C) take
// the place of plain Go where the processor has them: for Sum, Prod, Min, Max and
// Avg of all types but pairs, and for BitAnd, BitOr and BitXor. LogicalAnd,
// LogicalOr, MinLoc, MaxLoc, the division in Avg of 64-bit integers, and in AVX2
// buffers shorter than 32 bytes stay with Go. All give the same bits, with the one
// exception above, so that the ranks of a job may be on different processors.
//
// The environment variable WEFT_KERNELS, read once at the start, is the most that
// may be used: "go", "avx2" or "avx512". What the processor lacks is not used
// whatever it says, and any other value is as none, but an error where ranks join a
// job. Under the race detector,
// which does not see into assembly, the default is "go". The build tag noasm
// leaves the assembly out.
//
// The assembly is written by the program in kernels/gen, a module of its own,
// and checked in; docs/performance.md has figures.
package kernels
