package kernels

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// The tests of this file hold each tier that the processor has against plain Go,
// which the other tests hold against an oracle.

// vectorTiers returns the tiers but plain Go.
func vectorTiers() (all []tier) {
	for t := plain + 1; t <= best(); t++ {
		all = append(all, t)
	}
	return all
}

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		limit string
		best  tier
		race  bool
		want  tier
	}{
		{"", plain, false, plain},
		{"", avx2, false, avx2},
		{"", avx512, false, avx512},
		{"go", avx512, false, plain},
		{"avx2", avx512, false, avx2},
		{"avx2", plain, false, plain},
		{"avx512", avx2, false, avx2},
		{"avx512", avx512, false, avx512},
		{"sse2", avx2, false, avx2},
		{"", avx512, true, plain},
		{"sse2", avx512, true, plain},
		{"avx2", avx512, true, avx2},
	} {
		require.Equal(t, c.want, choose(c.limit, c.best, c.race), "%+v", c)
	}
}

// arena has the buffers of a reduction in one piece of memory, with guards
// between them, so that one comparison finds all that was written.
type arena struct {
	memory []byte
	dst    []byte
	srcs   [][]byte
}

const (
	guardBytes  = 64
	mostSources = 8
)

// newArena returns room for reductions of up to the given number of bytes. Its
// memory begins at a multiple of 64 bytes.
func newArena(size int) *arena {
	slot := (size + 2*64 + guardBytes) &^ 63
	memory := make([]byte, (mostSources+1)*slot+2*guardBytes+64)
	memory = memory[-uintptr(unsafe.Pointer(unsafe.SliceData(memory)))&63:]
	return &arena{memory: memory[:(mostSources+1)*slot+2*guardBytes]}
}

// lay places the buffers: dst, as source i too if bit i of alias is set, and
// the others, each at the offset within 64 bytes that place gives (−1 for dst).
func (a *arena) lay(sources, size int, alias uint, place func(i int) int) {
	at := guardBytes
	buffer := func(i int) []byte {
		b := a.memory[at+place(i):][:size:size]
		at += (size + 64 + guardBytes) &^ 63
		return b
	}
	a.dst = buffer(-1)
	a.srcs = a.srcs[:0]
	for i := range sources {
		src := a.dst
		if alias>>i&1 == 0 {
			src = buffer(i)
		}
		a.srcs = append(a.srcs, src)
	}
}

// twins are the same buffers twice: for the tier that is tested, and for plain Go.
type twins struct{ got, want *arena }

func newTwins(size int) twins { return twins{newArena(size), newArena(size)} }

// fill gives all of the memory the same contents, those of numbers.
func (p twins) fill(numbers []byte) {
	for to := p.got.memory; len(to) > 0; {
		to = to[copy(to, numbers):]
	}
	copy(p.want.memory, p.got.memory)
}

// check makes one reduction in both ways. It leaves both memories as they were
// but for dst, where they have the same result.
func (p twins) check(t testing.TB, with tier, typ Type, op Op, sources, n int, alias uint, place func(i int) int, divisor int) {
	size := n * typ.Size()
	p.got.lay(sources, size, alias, place)
	p.want.lay(sources, size, alias, place)
	if n > 0 {
		runWith(with, p.got.dst, p.got.srcs, n, typ, op, divisor)
		runWith(plain, p.want.dst, p.want.srcs, n, typ, op, divisor)
	}
	if bytes.Equal(p.got.memory, p.want.memory) {
		return
	}
	what := fmt.Sprintf("%v: %v %v of %d sources of %d elements, aliases %#b, dst at %d, divisor %d",
		with, typ, op, sources, n, alias, place(-1), divisor)
	each := typ.Size()
	if types[typ].class == complexes {
		each /= 2
	}
	for i := 0; i < size; i += each {
		got, want := p.got.dst[i:i+each], p.want.dst[i:i+each]
		if !bytes.Equal(got, want) && !(anyNaN(typ, op) && isNaN(typ, got) && isNaN(typ, want)) {
			require.FailNow(t, "wrong element", "%s: element %d is %x, not %x", what, i/each, got, want)
		}
	}
	copy(p.got.dst, p.want.dst)
	require.True(t, bytes.Equal(p.got.memory, p.want.memory), "%s: wrote beside dst", what)
}

// anyNaN tells where the package does not say which NaN is the result.
func anyNaN(typ Type, op Op) bool {
	return (op == Sum || op == Prod || op == Avg) && typ != TypeFloat8E4M3 && typ != TypeFloat8E5M2
}

func isNaN(typ Type, b []byte) bool {
	switch typ {
	case TypeFloat16:
		return view[uint16](b, 0, 1)[0]&0x7FFF > f16Inf
	case TypeBFloat16:
		return view[uint16](b, 0, 1)[0]&0x7FFF > b16Inf
	case TypeFloat32, TypeComplex64:
		f := view[float32](b, 0, 1)[0]
		return f != f
	case TypeFloat64, TypeComplex128:
		return math.IsNaN(view[float64](b, 0, 1)[0])
	}
	return false
}

// numbers returns elements of a type at the edges (zeros, subnormals, the least
// and greatest numbers, infinities, NaNs with all sorts of payloads), small
// numbers, and any bits.
func numbers(r *rand.Rand, typ Type, n int) []byte {
	buf := make([]uint64, (n*typ.Size()+7)/8)
	b := Bytes(buf)
	width, fraction, bias := typ.Size()*8, 0, 0
	switch typ {
	case TypeFloat16:
		fraction, bias = 10, 15
	case TypeBFloat16:
		fraction, bias = 7, 127
	case TypeFloat32, TypeComplex64:
		width, fraction, bias = 32, 23, 127
	case TypeFloat64, TypeComplex128:
		width, fraction, bias = 64, 52, 1023
	case TypeFloat8E4M3:
		fraction, bias = 3, 7
	case TypeFloat8E5M2:
		fraction, bias = 2, 15
	}
	for i := 0; i < len(b)*8/width; i++ {
		x := r.Uint64()
		sign := x & (1 << (width - 1))
		small := r.Uint64N(4)
		if r.IntN(2) == 0 {
			small = -small
		}
		if fraction == 0 {
			switch r.IntN(4) {
			case 0:
				x = small
			case 1:
				x = 1<<(width-1) + small
			}
		} else {
			inf := uint64(2*bias+1) << fraction
			one := uint64(bias) << fraction
			switch r.IntN(10) {
			case 0:
				x = sign | small&3 // zero and the least subnormals
			case 1:
				x = sign | (1<<fraction + small) // about the least normal number
			case 2:
				x = sign | (inf + small) // the greatest, infinity, NaNs that signal
			case 3:
				x = sign | inf | x&(1<<fraction-1) // NaNs
			case 4, 5, 6:
				x = sign | (one + x>>8%(6<<fraction) - 3<<fraction) // of magnitude 1/8 to 8
			case 7:
				x = sign | one + small<<(fraction-1)
			}
		}
		switch width {
		case 8:
			b[i] = byte(x)
		case 16:
			view[uint16](b, i, i+1)[0] = uint16(x)
		case 32:
			view[uint32](b, i, i+1)[0] = uint32(x)
		case 64:
			buf[i] = x
		}
	}
	return b[:n*typ.Size()]
}

// eachKernel calls f in a subtest for each tier, type and operator of it.
func eachKernel(t *testing.T, f func(t *testing.T, r *rand.Rand, with tier, typ Type, op Op)) {
	for _, with := range vectorTiers() {
		for typ := TypeInt8; typ.Valid(); typ++ {
			for op := Sum; op.Valid(); op++ {
				if !op.Supports(typ) || raceEnabled && (int(typ)+int(op))%8 != 0 { // it does not see vectors
					continue
				}
				t.Run(fmt.Sprintf("%v/%v/%v", with, typ, op), func(t *testing.T) {
					t.Parallel()
					seed := uint64(typ)<<8 | uint64(op)
					defer func() {
						if t.Failed() {
							t.Logf("seed: rand.NewPCG(20260101, %d)", seed)
						}
					}()
					f(t, rand.New(rand.NewPCG(20260101, seed)), with, typ, op)
				})
			}
		}
	}
}

// All lengths up to a few vectors, at all places within 64 bytes that the type
// allows, of one to six sources; all ways in which dst can be sources take turns.
func TestVectorPlaces(t *testing.T) {
	eachKernel(t, func(t *testing.T, r *rand.Rand, with tier, typ Type, op Op) {
		const most = 70
		each := 1
		if raceEnabled { // which makes plain Go slow, and sees nothing of the rest
			each = 5
		}
		size, align := typ.Size(), typ.Align()
		p := newTwins(most * size)
		data := numbers(r, typ, len(p.got.memory)/size+7)
		turn := uint(0)
		for sources := 1; sources <= 6; sources++ {
			for n := 0; n <= most; n += each {
				p.fill(data[r.IntN(7)*size:])
				for offset := 0; offset < 64; offset += align {
					turn++
					alias := turn % (1 << sources)
					if turn%3 != 0 {
						alias = 0
					}
					apart := r.IntN(64)
					place := func(i int) int { return (offset + (i+1)*apart*align) & 63 }
					divisor := sources
					if op != Avg {
						divisor = 1
					} else if turn%4 == 0 {
						divisor = 1 + r.IntN(300)
					}
					p.check(t, with, typ, op, sources, n, alias, place, divisor)
				}
			}
		}
	})
}

// Lengths about the sizes of the loops and of the parts that one call takes, with
// up to eight sources.
func TestVectorLengths(t *testing.T) {
	eachKernel(t, func(t *testing.T, r *rand.Rand, with tier, typ Type, op Op) {
		size, align := typ.Size(), typ.Align()
		const most = 300 << 10
		p := newTwins(most)
		data := numbers(r, typ, 10007)
		p.fill(data)
		for sources := 1; sources <= mostSources; sources++ {
			if raceEnabled && sources != 2 {
				continue
			}
			part := (256 << 10) / (sources + 1) // what one call takes
			for _, length := range []int{255, 256, 257, 1000, 4095, 4096, 4161, part - 64, part, part + 64, part + 100, 2*part + 10} {
				if length > most {
					continue
				}
				n := length/size + r.IntN(2)
				alias := uint(r.IntN(1<<sources)) * uint(r.IntN(2))
				p.check(t, with, typ, op, sources, n, alias, func(i int) int { return (i + 1) * 3 * align & 63 }, divisor(op, sources))
			}
			p.fill(data[sources*size:])
		}
	})
}

// All pairs of numbers of the 8-bit formats and types, and all numbers of the
// 16-bit ones, each with some others.
func TestVectorNumbers(t *testing.T) {
	eachKernel(t, func(t *testing.T, r *rand.Rand, with tier, typ Type, op Op) {
		size := typ.Size()
		n := 1 << 16
		if raceEnabled {
			n = 1 << 13
		}
		p := newTwins(n * size)
		p.fill(numbers(r, typ, 4099))
		for round := range 3 {
			for _, a := range []*arena{p.got, p.want} {
				a.lay(3, n*size, 0, func(int) int { return 0 })
				x, y := a.srcs[0], a.srcs[1]
				for i := range n {
					switch {
					case size == 1:
						x[i], y[i] = byte(i), byte(i>>8)
					case size == 2 && round == 0: // near in magnitude, for cancellation and carries
						view[uint16](x, i, i+1)[0] = uint16(i)
						view[uint16](y, i, i+1)[0] = (uint16(i) + uint16(i>>3%5) - 2) ^ uint16(i>>2)<<15
					case size == 2:
						view[uint16](x, i, i+1)[0] = uint16(i)
					}
				}
			}
			p.check(t, with, typ, op, 2+round%2, n, 0, func(int) int { return 0 }, divisor(op, 2+round%2))
			p.fill(numbers(r, typ, 4099+round))
		}
	})
}

// Sums about multiples of the divisor, where a quotient of floats might be rounded
// across an integer, and divisors that are no float.
func TestVectorAverages(t *testing.T) {
	for _, with := range vectorTiers() {
		for typ := TypeInt8; typ <= TypeUint64; typ++ {
			t.Run(fmt.Sprintf("%v/%v", with, typ), func(t *testing.T) {
				t.Parallel()
				r := rand.New(rand.NewPCG(20260101, uint64(typ)))
				const n = 3000
				p := newTwins(n * typ.Size())
				divisors := []int{1, 2, 3, 5, 7, 10, 255, 256, 257, 641, 65535, 65537, math.MaxInt}
				for shift := range 62 {
					divisors = append(divisors, 1<<shift+1, 1<<(shift+1)-1, r.Int()>>shift+1)
				}
				for _, divisor := range divisors {
					for _, a := range []*arena{p.got, p.want} {
						a.lay(2, n*typ.Size(), 0, func(int) int { return 0 })
						clear(a.srcs[0])
					}
					for i := range n {
						x := uint64(i)
						if typ.Size() > 2 {
							x = (r.Uint64()>>r.IntN(64)*uint64(divisor) + r.Uint64N(3) - 1) // q·n − 1, q·n, q·n + 1
						} else if typ.Size() == 2 {
							x = r.Uint64()
						}
						for _, a := range []*arena{p.got, p.want} {
							put := a.srcs[1]
							switch typ.Size() {
							case 1:
								put[i] = byte(x)
							case 2:
								view[uint16](put, i, i+1)[0] = uint16(x)
							case 4:
								view[uint32](put, i, i+1)[0] = uint32(x)
							case 8:
								view[uint64](put, i, i+1)[0] = x
							}
						}
					}
					p.check(t, with, typ, Avg, 2, n, 0, func(int) int { return 0 }, divisor)
				}
			})
		}
	}
}

// Every float32 that lies at or beside the middle of two numbers of a narrow
// format is a sum of two or three of its numbers, or of bits that are not: the
// sums of three float16 or bfloat16 of far magnitudes round once only.
func TestVectorRounding(t *testing.T) {
	for _, with := range vectorTiers() {
		for _, typ := range []Type{TypeFloat16, TypeBFloat16} {
			t.Run(fmt.Sprintf("%v/%v", with, typ), func(t *testing.T) {
				t.Parallel()
				const n = 1 << 16
				p := newTwins(2 * n)
				fraction := 10
				if typ == TypeBFloat16 {
					fraction = 7
				}
				for shift := 1; shift <= fraction+2; shift++ {
					for _, a := range []*arena{p.got, p.want} {
						a.lay(3, 2*n, 0, func(int) int { return 0 })
						x, y, z := view[uint16](a.srcs[0], 0, n), view[uint16](a.srcs[1], 0, n), view[uint16](a.srcs[2], 0, n)
						for i := range n {
							h := uint16(i)
							exponent := h & 0x7FFF >> fraction
							x[i] = h
							// About half of the last place, and one far below.
							y[i], z[i] = 0, 0
							if down := uint16(fraction + shift%4); exponent > down {
								y[i] = (exponent-down)<<fraction | h<<3&0x8000
							}
							if down := uint16(fraction + shift); exponent > down {
								z[i] = (exponent-down)<<fraction | h<<4&0x8000
							}
						}
					}
					p.check(t, with, typ, Sum, 3, n, 0, func(int) int { return 0 }, 1)
				}
			})
		}
	}
}

// There are kernels where the package says that there are, so that the tests
// above do not hold plain Go against itself.
func TestVectorKernels(t *testing.T) {
	for _, with := range vectorTiers() {
		for typ := TypeInt8; typ.Valid(); typ++ {
			for op := Sum; op.Valid(); op++ {
				if !op.Supports(typ) {
					continue
				}
				buf := make([]uint64, 32)
				srcs := [][]byte{Bytes(buf[8:16]), Bytes(buf[16:24])}
				want := op <= BitXor
				require.Equal(t, want, vector(with, Bytes(buf[:8]), srcs, 64/typ.Size(), typ, op, divisor(op, 2)), "%v: %v %v", with, typ, op)
			}
		}
	}
}
