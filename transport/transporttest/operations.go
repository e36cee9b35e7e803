package transporttest

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
)

// What most checks work on: endpoints with counters at the start.
const (
	counterAt  = 0
	counterAt2 = transport.CounterAlign
	dataAt     = 1024
)

var (
	area  = transport.EndpointConfig{Size: 64 << 10, Counted: true}
	large = transport.EndpointConfig{Size: 640 << 10, Counted: true}
)

var (
	few     = []int{16, 32, 48, 1008, 4112}
	sizes   = append(few, 65552, 512<<10+16)
	offsets = []uint64{dataAt, dataAt + 16, 4080, 65536}
)

func init() {
	if raceEnabled { // how much it is and where makes no difference to which goroutine does it
		sizes, offsets = []int{16, 4112, 512<<10 + 16}, []uint64{dataAt + 16, 65536}
	}
}

func checkPut(t *testing.T, open New) {
	rng := random(t)
	g := openGroup(t, open, 3, large)
	for _, n := range sizes {
		for _, off := range offsets {
			g.scramble(rng)
			src := unaligned(n)
			fill(rng, src)
			g.phase(0, func(c transport.Completion) error {
				return g.ts[0].Put(c, transport.Handle{ID: g.peer[0][1].ID(), Offset: off}, src)
			})
			copy(g.want[1][off:], src)
			g.check("put of %d bytes at %d", n, off)
		}
	}
	// Up to the very end, and several in one phase.
	g.phase(2, func(c transport.Completion) error {
		for _, to := range []int{0, 1} {
			src := unaligned(32)
			fill(rng, src)
			copy(g.want[to][large.Size-32:], src)
			if err := g.ts[2].Put(c, transport.Handle{ID: g.peer[2][to].ID(), Offset: large.Size - 32}, src); err != nil {
				return err
			}
		}
		return nil
	})
	g.check("put at the end")
}

// checkStream: puts that go around the caches write the same.
func checkStream(t *testing.T, open New) {
	streaming := func(t testing.TB, n int) []transport.Transport {
		ts := open(t, n)
		for _, tr := range ts {
			if s, ok := tr.(transport.Streamer); ok {
				s.Stream(true)
			} else {
				t.Skip("operations are no copies by this processor")
			}
		}
		return ts
	}
	checkPut(t, streaming)
	checkPutCounted(t, streaming)
	checkMulticast(t, streaming)
}

func checkPutMasked(t *testing.T, open New) {
	rng := random(t)
	g := openGroup(t, open, 2, area)
	for _, n := range few {
		for _, mask := range []uint16{0, 1, 0x8000, 0xffff, 0xa5a5, 0x0ff0, uint16(rng.Uint32())} {
			g.scramble(rng)
			src := unaligned(n)
			fill(rng, src)
			g.phase(1, func(c transport.Completion) error {
				return g.ts[1].PutMasked(c, transport.Handle{ID: g.peer[1][0].ID(), Offset: dataAt + 48}, src, mask)
			})
			for i, b := range src {
				if mask&(1<<(i%16)) != 0 {
					g.want[0][dataAt+48+i] = b
				}
			}
			g.check("put of %d bytes with mask %#x", n, mask)
		}
	}
}

// counted has a counter of the pictured memory of a rank grow.
func (g *group) counted(rank int, at uint64, n int) {
	w := g.want[rank][at:]
	binary.NativeEndian.PutUint64(w, binary.NativeEndian.Uint64(w)+uint64(n))
}

func checkPutCounted(t *testing.T, open New) {
	rng := random(t)
	g := openGroup(t, open, 2, large)
	for _, counter := range []uint64{counterAt, counterAt2, large.Size - transport.CounterAlign} {
		for _, n := range sizes {
			for _, off := range offsets {
				src := unaligned(n)
				fill(rng, src)
				g.phase(0, func(c transport.Completion) error {
					return g.ts[0].PutCounted(c, transport.Handle{ID: g.peer[0][1].ID(), Offset: off}, src, counter)
				})
				copy(g.want[1][off:], src)
				g.counted(1, counter, n)
				g.check("counted put of %d bytes at %d", n, off)
				require.Equal(t, binary.NativeEndian.Uint64(g.want[1][counter:]), g.mem[1].Load(counter))
			}
		}
	}
	// Data right before and right after a counter's line do not overlap it.
	const counter = 16 << 10
	for _, off := range []uint64{counter - 16, counter + transport.CounterAlign} {
		src := unaligned(16)
		fill(rng, src)
		g.phase(0, func(c transport.Completion) error {
			return g.ts[0].PutCounted(c, transport.Handle{ID: g.peer[0][1].ID(), Offset: off}, src, counter)
		})
		copy(g.want[1][off:], src)
		g.counted(1, counter, 16)
		g.check("counted put beside the counter")
	}
}

// checkPutCountedParts: parts lie at their offsets, and all are counted.
func checkPutCountedParts(t *testing.T, open New) {
	rng := random(t)
	g := openGroup(t, open, 2, large)
	j, ok := g.ts[0].(transport.Joiner)
	if !ok {
		t.Skip("each put is one of its own")
	}
	put := func(c transport.Completion, off uint64, parts []transport.Part) error {
		return j.PutCountedParts(c, transport.Handle{ID: g.peer[0][1].ID(), Offset: off}, parts, counterAt)
	}
	for _, gap := range []int{0, 16, 4096} {
		for _, lengths := range [][]int{nil, {16}, {0, 32}, {16, 0, 48}, {16, 4096}, {16, 65536, 16}, {160, 16, 8192, 32}} {
			for _, off := range offsets {
				at, n := 0, 0
				var parts []transport.Part
				for i, k := range lengths {
					src := unaligned(k)
					fill(rng, src)
					at += gap * i
					parts = append(parts, transport.Part{Offset: uint64(at), Src: src})
					copy(g.want[1][off+uint64(at):], src)
					at, n = at+k, n+k
				}
				rng.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
				g.phase(0, func(c transport.Completion) error { return put(c, off, parts) })
				g.counted(1, counterAt, n)
				g.check("parts of %v bytes at %d, %d apart", lengths, off, gap)
			}
		}
	}
	part := func(offset uint64, n int) transport.Part { return transport.Part{Offset: offset, Src: make([]byte, n)} }
	for _, tt := range []struct {
		err   error
		parts [2]transport.Part
	}{
		{transport.ErrAlign, [2]transport.Part{part(0, 8), part(8, 8)}},
		{transport.ErrAlign, [2]transport.Part{part(0, 16), part(16, 24)}},
		{transport.ErrAlign, [2]transport.Part{part(0, 24), part(32, 16)}},
		{transport.ErrAlign, [2]transport.Part{part(0, 16), part(24, 16)}},
		{transport.ErrBounds, [2]transport.Part{part(0, 32), part(1<<40, 32)}},
		{transport.ErrBounds, [2]transport.Part{part(1<<40, 32), part(0, 32)}},
		{transport.ErrBounds, [2]transport.Part{part(1<<64-16, 32), part(0, 32)}},
	} {
		require.ErrorIs(t, put(g.done[0], offsets[0], tt.parts[:]), tt.err, "parts %v", tt.parts)
	}
	g.check("after parts that were refused")
}

func checkGet(t *testing.T, open New) {
	rng := random(t)
	g := openGroup(t, open, 2, large)
	g.scramble(rng)
	for _, n := range sizes {
		for _, off := range offsets {
			buf := unaligned(n + 32)
			fill(rng, buf)
			want := append([]byte(nil), buf...)
			copy(want[16:16+n], g.want[1][off:])
			g.phase(0, func(c transport.Completion) error {
				return g.ts[0].Get(c, buf[16:16+n], transport.Handle{ID: g.peer[0][1].ID(), Offset: off})
			})
			require.True(t, string(want) == string(buf), "get of %d bytes at %d", n, off)
		}
	}
	g.check("after gets")
}

// eachRed calls f for every operator and type that Red has, and checks that it
// refuses the others.
func eachRed(t *testing.T, g *group, red func(c transport.Completion, src []byte, op transport.RedOp, typ kernels.Type) error,
	supports func(transport.RedOp, kernels.Type) bool, f func(op transport.RedOp, typ kernels.Type)) {
	n := 0
	for _, op := range append(allOps, 17, 255) {
		for _, typ := range append(allTypes, kernels.TypeInvalid, 99) {
			if supports(op, typ) {
				f(op, typ)
				n++
				continue
			}
			err := red(g.done[0], make([]byte, 32), op, typ)
			require.ErrorIs(t, err, transport.ErrUnsupported, "%v on %v", op, typ)
		}
	}
	require.NotZero(t, n)
	g.check("after refused reductions")
}

func checkRed(t *testing.T, open New) {
	rng := random(t)
	g := openGroup(t, open, 2, area)
	at := transport.Handle{ID: g.peer[0][1].ID(), Offset: dataAt + 272}
	red := func(c transport.Completion, src []byte, op transport.RedOp, typ kernels.Type) error {
		return g.ts[0].Red(c, at, src, op, typ)
	}
	eachRed(t, g, red, transport.RedSupports, func(op transport.RedOp, typ kernels.Type) {
		for _, n := range few {
			src := unaligned(n)
			dst := g.want[1][at.Offset:][:n]
			elements(rng, src, typ)
			elements(rng, dst, typ)
			copy(g.mem[1].Bytes()[at.Offset:], dst)
			g.ts[1].Fence(transport.FenceRelease)
			g.phase(0, func(c transport.Completion) error { return red(c, src, op, typ) })
			combine(dst, src, op, typ)
			g.check("red %v on %d bytes of %v", op, n, typ)
		}
	})
}

func checkRedCounted(t *testing.T, open New) {
	rng := random(t)
	g := openGroup(t, open, 2, area)
	at := transport.Handle{ID: g.peer[0][1].ID(), Offset: dataAt + 32}
	red := func(c transport.Completion, src []byte, op transport.RedOp, typ kernels.Type) error {
		return g.ts[0].RedCounted(c, at, src, op, typ, counterAt)
	}
	eachRed(t, g, red, transport.RedSupports, func(op transport.RedOp, typ kernels.Type) {
		for _, n := range few {
			src := unaligned(n)
			dst := g.want[1][at.Offset:][:n]
			elements(rng, src, typ)
			elements(rng, dst, typ)
			copy(g.mem[1].Bytes()[at.Offset:], dst)
			g.ts[1].Fence(transport.FenceRelease)
			g.phase(0, func(c transport.Completion) error { return red(c, src, op, typ) })
			combine(dst, src, op, typ)
			g.counted(1, counterAt, n)
			g.check("counted red %v on %d bytes of %v", op, n, typ)
		}
	})
}

func checkAtom(t *testing.T, open New) {
	rng := random(t)
	g := openGroup(t, open, 2, area)
	id := g.peer[0][1].ID()
	put := func(b []byte, v uint64) {
		if len(b) == 8 {
			binary.LittleEndian.PutUint64(b, v)
		} else {
			binary.LittleEndian.PutUint32(b, uint32(v))
		}
	}
	refused := func(c transport.Completion, src []byte, op transport.RedOp, typ kernels.Type) error {
		return g.ts[0].Atom(c, make([]byte, 16), transport.Handle{ID: id}, src, op, typ)
	}
	eachRed(t, g, refused, transport.AtomSupports, func(op transport.RedOp, typ kernels.Type) {
		size := typ.Size()
		for i := range 32 {
			off := uint64(rng.IntN(64) * size)
			dst := g.want[1][off:][:size]
			elements(rng, dst, typ)
			operand := unaligned(2 * size)
			elements(rng, operand, typ)
			if i%2 == 0 { // let the comparison hold
				copy(operand, dst)
			}
			copy(g.mem[1].Bytes()[off:], dst)
			g.ts[1].Fence(transport.FenceRelease)
			before := append([]byte(nil), dst...)
			wire := unaligned(2 * size) // operands are little-endian
			for o := 0; o < 2*size; o += size {
				if size == 8 {
					put(wire[o:o+8], binary.NativeEndian.Uint64(operand[o:]))
				} else {
					put(wire[o:o+4], uint64(binary.NativeEndian.Uint32(operand[o:])))
				}
			}
			n := size
			if op == transport.AtomCAS {
				n *= 2
			}
			old := unaligned(16)
			g.phase(0, func(c transport.Completion) error {
				return g.ts[0].Atom(c, old, transport.Handle{ID: id, Offset: off}, wire[:n], op, typ)
			})
			switch {
			case op == transport.AtomExch:
				copy(dst, operand)
			case op != transport.AtomCAS:
				combine(dst, operand[:size], op, typ)
			case string(before) == string(operand[:size]):
				copy(dst, operand[size:])
			}
			g.check("atom %v on %v at %d", op, typ, off)
			was := make([]byte, size)
			if size == 8 {
				put(was, binary.NativeEndian.Uint64(before))
			} else {
				put(was, uint64(binary.NativeEndian.Uint32(before)))
			}
			require.Equal(t, was, old[:size], "old value of atom %v on %v", op, typ)
		}
	})
	for _, c := range []struct {
		name         string
		old, operand int
		off          uint64
		op           transport.RedOp
		want         error
	}{
		{"short old value", 7, 8, 0, transport.RedAdd, transport.ErrBounds},
		{"short operand", 8, 7, 0, transport.RedAdd, transport.ErrBounds},
		{"cas without new value", 8, 8, 0, transport.AtomCAS, transport.ErrBounds},
		{"misaligned", 8, 8, 4, transport.RedAdd, transport.ErrAlign},
		{"beyond the end", 8, 8, area.Size, transport.RedAdd, transport.ErrBounds},
		{"far beyond the end", 8, 8, math.MaxUint64 - 7, transport.RedAdd, transport.ErrBounds},
	} {
		err := g.ts[0].Atom(g.done[0], make([]byte, c.old), transport.Handle{ID: id, Offset: c.off}, make([]byte, c.operand), c.op, kernels.TypeUint64)
		require.ErrorIs(t, err, c.want, c.name)
	}
	g.check("after refused atoms")
}

// checkOwnerAccess uses an endpoint from its owner.
func checkOwnerAccess(t *testing.T, open New) {
	rng := random(t)
	g := openGroup(t, open, 1, area)
	if !g.ts[0].Limits().OwnerAccess {
		t.Skip("owners have no access")
	}
	g.scramble(rng)
	clear(g.want[0][:dataAt])
	clear(g.mem[0].Bytes()[:dataAt])
	src, back := unaligned(4096), unaligned(4096)
	fill(rng, src)
	h := transport.Handle{ID: g.own[0].ID(), Offset: dataAt}
	g.phase(0, func(c transport.Completion) error { return g.ts[0].PutCounted(c, h, src, counterAt) })
	copy(g.want[0][dataAt:], src)
	g.counted(0, counterAt, len(src))
	g.check("owner's counted put")
	g.phase(0, func(c transport.Completion) error { return g.ts[0].Get(c, back, h) })
	require.Equal(t, src, back)
}
