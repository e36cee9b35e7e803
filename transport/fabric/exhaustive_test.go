package fabric_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/fabric"
	"github.com/weft-go/weft/transport/transporttest"
)

// reduced is the reference for one element: a op b, as bits.
func reduced(a, b uint64, op transport.RedOp, typ kernels.Type) uint64 {
	float := func(f func(a, b float64) float64) uint64 {
		switch typ {
		case kernels.TypeFloat16:
			x := f(float64(kernels.Float16FromBits(uint16(a)).Float32()), float64(kernels.Float16FromBits(uint16(b)).Float32()))
			return uint64(kernels.Float16FromFloat32(float32(x)).Bits())
		case kernels.TypeBFloat16:
			x := f(float64(kernels.BFloat16FromBits(uint16(a)).Float32()), float64(kernels.BFloat16FromBits(uint16(b)).Float32()))
			return uint64(kernels.BFloat16FromFloat32(float32(x)).Bits())
		case kernels.TypeFloat32:
			return uint64(math.Float32bits(float32(f(float64(math.Float32frombits(uint32(a))), float64(math.Float32frombits(uint32(b)))))))
		}
		return math.Float64bits(f(math.Float64frombits(a), math.Float64frombits(b)))
	}
	isFloat := typ == kernels.TypeFloat16 || typ == kernels.TypeBFloat16 || typ == kernels.TypeFloat32 || typ == kernels.TypeFloat64
	// Signed numbers compare as unsigned ones with the sign turned.
	turn := uint64(0)
	if typ == kernels.TypeInt32 {
		turn = 1 << 31
	} else if typ == kernels.TypeInt64 {
		turn = 1 << 63
	}
	switch op {
	case transport.RedAnd:
		return a & b
	case transport.RedOr:
		return a | b
	case transport.RedXor:
		return a ^ b
	case transport.AtomExch:
		return b
	case transport.RedAdd:
		if isFloat {
			return float(func(a, b float64) float64 { return a + b })
		}
		if typ.Size() == 4 {
			return uint64(uint32(a) + uint32(b))
		}
		return a + b
	case transport.RedMin:
		if isFloat {
			return float(math.Min)
		}
		if a^turn < b^turn {
			return a
		}
		return b
	}
	if isFloat {
		return float(math.Max)
	}
	if a^turn > b^turn {
		return a
	}
	return b
}

func element(b []byte, i, size int) uint64 {
	switch size {
	case 1:
		return uint64(b[i])
	case 2:
		return uint64(binary.NativeEndian.Uint16(b[i*2:]))
	case 4:
		return uint64(binary.NativeEndian.Uint32(b[i*4:]))
	}
	return binary.NativeEndian.Uint64(b[i*8:])
}

func setElement(b []byte, i, size int, v uint64) {
	switch size {
	case 1:
		b[i] = byte(v)
	case 2:
		binary.NativeEndian.PutUint16(b[i*2:], uint16(v))
	case 4:
		binary.NativeEndian.PutUint32(b[i*4:], uint32(v))
	default:
		binary.NativeEndian.PutUint64(b[i*8:], v)
	}
}

// reduceInto is the reference of a reduction: dst[i] = dst[i] op src[i].
func reduceInto(dst, src []byte, op transport.RedOp, typ kernels.Type) {
	size := typ.Size()
	for i := range len(src) / size {
		setElement(dst, i, size, reduced(element(dst, i, size), element(src, i, size), op, typ))
	}
}

// narrow converts elements of the types that are accumulated in float32.
func narrow(typ kernels.Type) (widen func(uint64) float32, round func(float32) uint64) {
	switch typ {
	case kernels.TypeFloat16:
		return func(v uint64) float32 { return kernels.Float16FromBits(uint16(v)).Float32() },
			func(f float32) uint64 { return uint64(kernels.Float16FromFloat32(f).Bits()) }
	case kernels.TypeBFloat16:
		return func(v uint64) float32 { return kernels.BFloat16FromBits(uint16(v)).Float32() },
			func(f float32) uint64 { return uint64(kernels.BFloat16FromFloat32(f).Bits()) }
	case kernels.TypeFloat8E4M3:
		return func(v uint64) float32 { return kernels.Float8E4M3FromBits(uint8(v)).Float32() },
			func(f float32) uint64 { return uint64(kernels.Float8E4M3FromFloat32(f).Bits()) }
	case kernels.TypeFloat8E5M2:
		return func(v uint64) float32 { return kernels.Float8E5M2FromBits(uint8(v)).Float32() },
			func(f float32) uint64 { return uint64(kernels.Float8E5M2FromFloat32(f).Bits()) }
	}
	return nil, nil
}

// reduceAll is the reference of a pull-reduction: in the order of the members,
// narrow types in float32 and rounded once.
func reduceAll(dst []byte, srcs [][]byte, op transport.RedOp, typ kernels.Type) {
	size := typ.Size()
	widen, round := narrow(typ)
	for i := range len(dst) / size {
		v := element(srcs[0], i, size)
		if widen == nil {
			for _, s := range srcs[1:] {
				v = reduced(v, element(s, i, size), op, typ)
			}
			setElement(dst, i, size, v)
			continue
		}
		f := widen(v)
		for _, s := range srcs[1:] {
			switch g := widen(element(s, i, size)); op {
			case transport.RedAdd:
				f += g
			case transport.RedMin:
				f = min(f, g)
			default:
				f = max(f, g)
			}
		}
		setElement(dst, i, size, round(f))
	}
}

// randomElements fills b with numbers of any kind but NaN and infinity.
func randomElements(rng *rand.Rand, b []byte, typ kernels.Type) {
	size := typ.Size()
	for i := range len(b) / size {
		v := rng.Uint64()
		switch typ { // exponents near that of 1: sums round
		case kernels.TypeFloat16, kernels.TypeBFloat16, kernels.TypeFloat8E4M3, kernels.TypeFloat8E5M2:
			_, round := narrow(typ)
			v = round(float32(rng.NormFloat64()))
		case kernels.TypeFloat32:
			v = uint64(math.Float32bits(float32(rng.NormFloat64())))
		case kernels.TypeFloat64:
			v = math.Float64bits(rng.NormFloat64())
		}
		setElement(b, i, size, v)
	}
}

// A bench is three ranks, on each of which two endpoints of the same layout: one
// of its own, and its replica of a multicast endpoint. Each is in bindings of
// many sizes, of memory in another order. want is what they must hold.
type bench struct {
	t     *testing.T
	ts    []*fabric.Transport
	views [2][ranksOfBench]func(offset uint64, n int) []byte
	poke  [2][ranksOfBench]func(offset uint64, src []byte)
	ids   [2][ranksOfBench]transport.EndpointID // as rank 1 knows them; of the multicast endpoint all the same
	want  [2][ranksOfBench][]byte
}

const ranksOfBench = 3

// The bindings of the bench, in units of the alignment; those of one endpoint
// come from one memory, the last first.
var benchBindings = []uint64{1, 3, 1, 7, 2, 16, 1, 1}

const (
	benchAlign = 256
	benchBytes = 32 * benchAlign
)

func openBench(t *testing.T, one maker, mode fabric.Mode) *bench {
	b := &bench{t: t}
	ends := transporttest.Exchanges(ranksOfBench)
	for r := range ranksOfBench {
		f, err := one(fabric.WithMode(mode), fabric.WithRank(r), fabric.WithFaults(""),
			fabric.WithLimits(fabric.Limits{BindAlign: benchAlign, MaxEndpointBytes: benchBytes, IDs: 16}))
		require.NoError(t, err)
		b.ts = append(b.ts, f)
	}
	bindAll := func(r, which int, id transport.EndpointID) error {
		f := b.ts[r]
		m, err := f.Alloc(benchBytes)
		if err != nil {
			return err
		}
		b.want[which][r] = make([]byte, benchBytes)
		type piece struct{ at, from, n uint64 }
		var pieces []piece
		at, from := uint64(0), uint64(benchBytes)
		for _, n := range benchBindings {
			n *= benchAlign
			from -= n
			pieces = append(pieces, piece{at, from, n})
			if err := f.BindMemory(id, at, m, from, n); err != nil {
				return err
			}
			at += n
		}
		// The endpoint's bytes, wherever they are.
		b.poke[which][r] = func(offset uint64, src []byte) {
			for _, p := range pieces {
				lo, hi := max(offset, p.at), min(offset+uint64(len(src)), p.at+p.n)
				if lo < hi {
					copy(m.Bytes()[p.from+lo-p.at:], src[lo-offset:hi-offset])
				}
			}
			f.Fence(transport.FenceRelease)
		}
		b.views[which][r] = func(offset uint64, n int) []byte {
			var out []byte
			for _, p := range pieces {
				lo, hi := max(offset, p.at), min(offset+uint64(n), p.at+p.n)
				if lo < hi {
					out = append(out, m.Bytes()[p.from+lo-p.at:][:hi-lo]...)
				}
			}
			return out
		}
		t.Cleanup(func() {
			require.NoError(t, f.Close())
			require.NoError(t, m.Free())
		})
		return nil
	}
	for r, f := range b.ts {
		e, err := f.Create(transport.EndpointConfig{Size: benchBytes, Counted: true})
		require.NoError(t, err)
		require.NoError(t, e.Ready(t.Context()))
		require.NoError(t, bindAll(r, 0, e.ID()))
		x, err := e.Export()
		require.NoError(t, err)
		in, err := b.ts[1].Import(x)
		x.Close()
		require.NoError(t, err)
		require.NoError(t, in.Ready(t.Context()))
		b.ids[0][r] = in.ID()
	}
	multi := make([]transport.Endpoint, ranksOfBench)
	parallel(t, ranksOfBench, func(r int) error {
		m, err := b.ts[r].Alloc(benchBytes)
		if err != nil {
			return err
		}
		multi[r], err = b.ts[r].JoinMulticast(t.Context(), transport.EndpointConfig{Size: benchBytes, Counted: true}, r, ranksOfBench, m, ends[r])
		if err != nil {
			return err
		}
		// Other memory instead, in pieces.
		if err := multi[r].Unbind(0, benchBytes); err != nil {
			return err
		}
		return m.Free()
	})
	for r := range b.ts {
		require.NoError(t, bindAll(r, 1, multi[r].ID()))
		b.ids[1][r] = multi[1].ID()
	}
	return b
}

// TestEveryOperation has every operation with every operator and type, at places
// where limits are: the start, the end, across bindings, of one unit, of all. The
// operator and type tables are those of the contract, and of
// the fabric for pullreds; others are refused.
func TestEveryOperation(t *testing.T) {
	types := make([]kernels.Type, 256)
	for i := range types {
		types[i] = kernels.Type(i)
	}
	places := []struct {
		offset uint64
		n      int
	}{
		{1024, 16}, {benchAlign, 16}, {benchAlign - 16 + 3*benchAlign, 32}, {benchBytes - 16, 16},
		{512, benchBytes - 512}, {benchAlign + 16, 11*benchAlign - 16}, {1024, 0},
	}
	everywhere(t, func(t *testing.T, one maker, mode fabric.Mode) {
		if raceEnabled && mode != fabric.ModeStrict { // operations are made one by one
			t.Skip()
		}
		seed := rand.Uint64()
		t.Logf("seed %#x", seed)
		rng := rand.New(rand.NewPCG(seed, 0))
		b := openBench(t, one, mode)
		c, err := b.ts[1].NewCompletion(1)
		require.NoError(t, err)
		p := &pair{t: t, c: c.(*fabric.Completion)}
		// set gives a range of an endpoint, in all its replicas, content of their own.
		set := func(which int, offset uint64, n int, typ kernels.Type) {
			for r := range ranksOfBench {
				randomElements(rng, b.want[which][r][offset:][:n], typ)
				b.poke[which][r](offset, b.want[which][r][offset:][:n])
			}
		}
		check := func(what string, args ...any) {
			for which := range b.want {
				for r, want := range b.want[which] {
					b.ts[r].Fence(transport.FenceAcquire)
					require.Equal(t, want, b.views[which][r](0, benchBytes), "%s: endpoint %d of rank %d", fmt.Sprintf(what, args...), which, r)
				}
			}
		}
		count := func(which, r, n int) {
			w := b.want[which][r]
			binary.NativeEndian.PutUint64(w, binary.NativeEndian.Uint64(w)+uint64(n))
		}
		tr := b.ts[1]
		done := 0
		for _, place := range places {
			n := place.n
			for op := range transport.AtomCAS + 2 {
				for _, typ := range types {
					src := make([]byte, n)
					uni := transport.Handle{ID: b.ids[0][0], Offset: place.offset}
					multi := transport.Handle{ID: b.ids[1][0], Offset: place.offset}
					if !transport.RedSupports(op, typ) {
						require.ErrorIs(t, tr.Red(c, uni, src, op, typ), transport.ErrUnsupported)
						require.ErrorIs(t, tr.RedCounted(c, uni, src, op, typ, 0), transport.ErrUnsupported)
						require.ErrorIs(t, tr.RedMultimem(c, multi, src, op, typ), transport.ErrUnsupported)
					} else {
						done++
						set(0, place.offset, n, typ)
						set(1, place.offset, n, typ)
						randomElements(rng, src, typ)
						require.NoError(t, tr.Red(c, uni, src, op, typ))
						require.True(t, p.finish().Clean())
						reduceInto(b.want[0][0][place.offset:], src, op, typ)
						check("red %v on %v, %d at %d", op, typ, n, place.offset)
						if place.offset >= 8 {
							require.NoError(t, tr.RedCounted(c, uni, src, op, typ, 0))
							require.True(t, p.finish().Clean())
							reduceInto(b.want[0][0][place.offset:], src, op, typ)
							count(0, 0, n)
							check("counted red %v on %v, %d at %d", op, typ, n, place.offset)
						}
						require.NoError(t, tr.RedMultimem(c, multi, src, op, typ))
						require.True(t, p.finish().Clean())
						for r := range ranksOfBench {
							reduceInto(b.want[1][r][place.offset:], src, op, typ)
						}
						check("red-multimem %v on %v, %d at %d", op, typ, n, place.offset)
					}
					if !fabric.PullRedSupports(op, typ) {
						require.ErrorIs(t, tr.PullRed(c, src, multi, op, typ), transport.ErrUnsupported)
					} else if n > 0 {
						set(1, place.offset, n, typ)
						want := make([]byte, n)
						var srcs [][]byte
						for r := range ranksOfBench {
							srcs = append(srcs, b.want[1][r][place.offset:][:n])
						}
						reduceAll(want, srcs, op, typ)
						got := make([]byte, n)
						require.NoError(t, tr.PullRed(c, got, multi, op, typ))
						require.True(t, p.finish().Clean())
						require.Equal(t, want, got, "pullred %v on %v, %d at %d", op, typ, n, place.offset)
					}
					if !transport.AtomSupports(op, typ) {
						require.ErrorIs(t, tr.Atom(c, make([]byte, 16), uni, make([]byte, 32), op, typ), transport.ErrUnsupported)
					} else if n > 0 {
						set(0, place.offset, n, typ)
						size := typ.Size()
						at := n - size // the last element
						w := b.want[0][0][place.offset+uint64(at):][:size]
						old, operand := make([]byte, size), make([]byte, 2*size)
						randomElements(rng, operand, typ)
						if rng.IntN(2) == 0 {
							copy(operand, w)
						}
						wire, was := operand, append([]byte(nil), w...)
						if op != transport.AtomCAS {
							wire = operand[:size]
						}
						require.NoError(t, tr.Atom(c, old, uni.Add(uint64(at)), wire, op, typ))
						require.True(t, p.finish().Clean())
						switch {
						case op != transport.AtomCAS:
							reduceInto(w, operand[:size], op, typ)
						case string(was) == string(operand[:size]):
							copy(w, operand[size:])
						}
						require.Equal(t, was, old)
						check("atom %v on %v at %d", op, typ, place.offset)
					}
				}
			}
			// The operations without an operator.
			if n > 0 {
				src, got := make([]byte, n), make([]byte, n)
				for _, mask := range []uint16{0, 1, 0x8001, 0xffff, uint16(rng.Uint32())} {
					randomElements(rng, src, kernels.TypeUint64)
					require.NoError(t, tr.PutMasked(c, transport.Handle{ID: b.ids[0][2], Offset: place.offset}, src, mask))
					require.True(t, p.finish().Clean())
					for i, v := range src {
						if mask>>(i%16)&1 != 0 {
							b.want[0][2][place.offset+uint64(i)] = v
						}
					}
					check("put with mask %#x", mask)
				}
				require.NoError(t, tr.PutCounted(c, transport.Handle{ID: b.ids[0][2], Offset: place.offset}, src, 0))
				require.NoError(t, tr.PutCountedMultimem(c, transport.Handle{ID: b.ids[1][0], Offset: place.offset}, src, 0))
				require.True(t, p.finish().Clean())
				copy(b.want[0][2][place.offset:], src)
				count(0, 2, n)
				for r := range ranksOfBench {
					copy(b.want[1][r][place.offset:], src)
					count(1, r, n)
				}
				check("counted puts of %d at %d", n, place.offset)
				require.NoError(t, tr.Get(c, got, transport.Handle{ID: b.ids[0][2], Offset: place.offset}))
				require.True(t, p.finish().Clean())
				require.Equal(t, src, got)
			}
		}
		require.Greater(t, done, 100)
	})
}
