package device

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/internal/cuda"
	"github.com/weft-go/weft/kernels"
)

// Random calls, on random streams of each rank, of two communicators at once, without a wait
// between them. WEFT_TEST_LONG=1 takes more seeds.
func TestSoak(t *testing.T) {
	seeds := 1
	if os.Getenv("WEFT_TEST_LONG") != "" {
		seeds = 20
	}
	for _, ranks := range append([]int{2, 3, 4, 8}, manyRanks...) {
		for seed := range seeds {
			t.Run(fmt.Sprintf("%d/seed=%d", ranks, seed), func(t *testing.T) { soak(t, ranks, uint64(seed)) })
		}
	}
}

func soak(t *testing.T, ranks int, seed uint64) {
	most, calls := 200000, 150
	counts := []int{10, 1000, 30000, most / 4 / ranks}
	if ranks > 8 {
		most, calls = 4*ranks*2000, 30
		counts = []int{10, 500, 2000}
	}
	rng := rand.New(rand.NewPCG(5+seed, uint64(ranks)))
	rigs := []*rig{newRig(t, ranks, patience), newRig(t, ranks, patience)}
	type step struct {
		call     Call
		dst, src []Memory
		srcs     [][]byte
	}
	var steps [2][]step
	for i, r := range rigs {
		for range 2 { // more streams of each rank
			for _, c := range r.contexts {
				s, err := c.NewStream(0)
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, s.Synchronize()); require.NoError(t, s.Destroy()) })
				r.streams = append(r.streams, s)
			}
		}
		src := r.register(t, 4*ranks*slices.Max(counts))
		srcs := make([][]byte, ranks)
		for p := range srcs {
			srcs[p] = randomBytes(rng, kernels.TypeInt32, ranks*slices.Max(counts))
			r.upload(t, p, src[p].Ptr, srcs[p])
		}
		dst := r.register(t, calls*most)
		at := 0
		for range calls {
			k := []comm.Collective{comm.OpAllReduce, comm.OpReduceScatterBlock, comm.OpAllGather, comm.OpAllToAll}[rng.IntN(4)]
			count := rng.IntN(counts[rng.IntN(len(counts))])
			c := Call{Collective: k, Count: count, Type: kernels.TypeInt32, ElemBytes: 4, Op: kernels.Op(rng.IntN(5)), To: -1, From: -1, Hash: rng.Uint32()}
			registered := rng.IntN(2) == 0
			st := step{call: c, srcs: srcs}
			for p := range ranks {
				st.src, st.dst = append(st.src, src[p].within(0, registered)), append(st.dst, dst[p].within(at, registered))
			}
			at += (count*4*ranks + 15) &^ 15
			steps[i] = append(steps[i], st)
		}
	}
	for n := range calls {
		for i, r := range rigs {
			for p, g := range r.groups {
				c := steps[i][n].call
				c.Dst, c.Src = steps[i][n].dst[p], steps[i][n].src[p]
				s := r.streams[p+ranks*rng.IntN(len(r.streams)/ranks)]
				require.NoError(t, g.Enqueue(s, &c))
			}
		}
	}
	for i, r := range rigs {
		for _, s := range r.streams {
			require.NoError(t, s.Synchronize())
		}
		for p, g := range r.groups {
			require.Nil(t, g.Failure())
			for n, st := range steps[i] {
				want := expected(t, &st.call, st.srcs, p)
				got := r.download(t, p, st.dst[p].Ptr, len(want))
				require.True(t, string(want) == string(got), "communicator %d call %d (%v count %d) rank %d", i, n, st.call.Collective, st.call.Count, p)
			}
		}
	}
}

// expected is the result of a call on a rank.
func expected(t testing.TB, c *Call, srcs [][]byte, rank int) []byte {
	bytes := c.Count * c.ElemBytes
	var out []byte
	var parts [][]byte
	for _, src := range srcs {
		switch c.Collective {
		case comm.OpAllReduce:
			parts = append(parts, src[:bytes])
		case comm.OpReduceScatterBlock:
			parts = append(parts, src[rank*bytes:][:bytes])
		case comm.OpAllGather:
			out = append(out, src[:bytes]...)
		case comm.OpAllToAll:
			out = append(out, src[rank*bytes:][:bytes]...)
		}
	}
	if parts != nil {
		out = make([]byte, bytes)
		require.NoError(t, kernels.Reduce(out, parts, c.Type, c.Op))
	}
	return out
}

// Sizes beyond 2³¹ bytes, and 1 GiB of floats.
func TestHuge(t *testing.T) {
	if testing.Short() {
		t.Skip("much memory")
	}
	r := newRig(t, 2, 20*patience)
	const many = 1<<31 + 4099
	dst, src := r.register(t, many), r.register(t, many)
	// A piece whose length is no power of two, again and again.
	piece := make([][]byte, 2)
	const pieceBytes = 12<<20 + 4
	rng := rand.New(rand.NewPCG(6, 0))
	for p := range piece {
		piece[p] = randomBytes(rng, kernels.TypeFloat32, pieceBytes/4)
		for at := 0; at < many; at += pieceBytes {
			r.upload(t, p, src[p].Ptr+cuda.Ptr(at), piece[p][:min(pieceBytes, many-at)])
		}
	}
	check := func(got func(at, n int) []byte, want []byte, total int, typ kernels.Type, op kernels.Op) {
		for at := 0; at < total; at += pieceBytes {
			n := min(pieceBytes, total-at)
			i, same := sameBits(want[:n], got(at, n), typ, op)
			require.True(t, same, "%v: element %d", typ, at/typ.Size()+i)
		}
	}
	for _, registered := range []bool{true, false} {
		for _, c := range []struct {
			k     comm.Collective
			typ   kernels.Type
			count int
		}{{comm.OpAllReduce, kernels.TypeFloat32, 1 << 28}, {comm.OpAllReduce, kernels.TypeUint8, many}, {comm.OpBroadcast, kernels.TypeUint8, many}} {
			for p := range 2 {
				require.NoError(t, r.contexts[p].Fill8(dst[p].Ptr, 0xA5, many))
				require.NoError(t, r.contexts[p].Synchronize())
			}
			r.do(t, func(p int) *Call {
				call := &Call{Collective: c.k, Count: c.count, Type: c.typ, ElemBytes: c.typ.Size(), Dst: dst[p].within(0, registered), Src: src[p].within(0, registered), To: -1, From: -1}
				if c.k == comm.OpBroadcast && p == 0 {
					call.Dst = call.Src
				}
				return call
			})
			want := make([]byte, pieceBytes)
			if c.k == comm.OpBroadcast {
				want = piece[0]
			} else {
				require.NoError(t, kernels.Reduce(want, piece, c.typ, kernels.Sum))
			}
			for p := range 2 {
				if c.k == comm.OpBroadcast && p == 0 {
					continue
				}
				check(func(at, n int) []byte { return r.download(t, p, dst[p].Ptr+cuda.Ptr(at), n) }, want, c.count*c.typ.Size(), c.typ, kernels.Sum)
			}
		}
	}
}
