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
	layout "github.com/weft-go/weft/kernels/cuda"
)

// Random calls, of all collectives and messages around a ring, of several types, on random streams
// of each rank, of two communicators at once, without a wait between them. WEFT_TEST_LONG=1 takes
// more seeds.
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
	kinds := []comm.Collective{comm.OpAllReduce, comm.OpReduce, comm.OpReduceScatterBlock, comm.OpBroadcast, comm.OpAllGather, comm.OpAllToAll, comm.OpAllToAllV, comm.OpSend}
	types := []kernels.Type{kernels.TypeInt32, kernels.TypeFloat32, kernels.TypeBFloat16, kernels.TypeUint8}
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
			srcs[p] = randomBytes(rng, kernels.TypeFloat32, ranks*slices.Max(counts))
			r.upload(t, p, src[p].Ptr, srcs[p])
		}
		dst := r.register(t, calls*most)
		at := 0
		for range calls {
			k, typ := kinds[rng.IntN(len(kinds))], types[rng.IntN(len(types))]
			count := min(rng.IntN(counts[rng.IntN(len(counts))]), (calls*most-at)/4/ranks) // as dst has room for
			c := Call{Collective: k, Count: count, Type: typ, ElemBytes: typ.Size(), Op: kernels.Op(rng.IntN(5)), Root: rng.IntN(ranks), To: -1, From: -1, Hash: rng.Uint32()}
			steps[i] = append(steps[i], newStep(rng, c, srcs, dst, src, at, rng.IntN(2) == 0))
			at += (count*4*ranks + 15) &^ 15
		}
	}
	for n := range calls {
		for i, r := range rigs {
			for p, g := range r.groups {
				s := r.streams[p+ranks*rng.IntN(len(r.streams)/ranks)]
				require.NoError(t, g.Enqueue(s, &steps[i][n].calls[p]))
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
				c := &st.calls[p]
				want := st.expected(t, p)
				_, same := sameBits(want, r.download(t, p, c.Dst.Ptr, len(want)), c.Type, c.Op)
				require.True(t, same, "communicator %d call %d (%v %v %v count %d) rank %d", i, n, c.Collective, c.Type, c.Op, c.Count, p)
			}
		}
	}
}

// step is a call as each rank makes it, and what the ranks have in their src.
type step struct {
	calls []Call
	srcs  [][]byte
}

// newStep completes a call: dst from a place on, blocks of random lengths for AllToAllV, and for
// a message the neighbours on a ring.
func newStep(rng *rand.Rand, c Call, srcs [][]byte, dst, src []Memory, at int, registered bool) step {
	ranks := len(srcs)
	st := step{make([]Call, ranks), srcs}
	for p := range ranks {
		call := c
		call.Src, call.Dst = src[p].within(0, registered), dst[p].within(at, registered)
		switch c.Collective {
		case comm.OpBroadcast:
			if p == c.Root {
				call.Dst = call.Src
			} else {
				call.Src = call.Dst
			}
		case comm.OpAllToAllV:
			call.Blocks = &layout.Blocks{}
			for q := range ranks {
				call.Blocks.SendBytes[q] = uint64(rng.IntN(c.Count+1) * c.ElemBytes)
			}
		case comm.OpSend:
			call.To, call.From, call.Blocks = (p+1)%ranks, (p+ranks-1)%ranks, &layout.Blocks{}
			call.Blocks.SendBytes[call.To], call.Blocks.RecvBytes[call.From] = uint64(c.Count*c.ElemBytes), uint64(c.Count*c.ElemBytes)
		}
		st.calls[p] = call
	}
	if c.Collective == comm.OpAllToAllV {
		for p := range ranks {
			b := st.calls[p].Blocks
			var sendAt, recvAt uint64
			for q := range ranks {
				b.SendAt[q], b.RecvAt[q], b.RecvBytes[q] = sendAt, recvAt, st.calls[q].Blocks.SendBytes[p]
				sendAt, recvAt = sendAt+b.SendBytes[q], recvAt+b.RecvBytes[q]
			}
		}
	}
	return st
}

// expected is what a rank gets.
func (st *step) expected(t testing.TB, rank int) []byte {
	c := &st.calls[rank]
	bytes := c.Count * c.ElemBytes
	var out []byte
	var parts [][]byte
	for p, src := range st.srcs {
		switch c.Collective {
		case comm.OpReduce:
			if rank == c.Root {
				parts = append(parts, src[:bytes])
			}
		case comm.OpAllReduce:
			parts = append(parts, src[:bytes])
		case comm.OpReduceScatterBlock:
			parts = append(parts, src[rank*bytes:][:bytes])
		case comm.OpBroadcast:
			if p == c.Root {
				out = append(out, src[:bytes]...)
			}
		case comm.OpAllGather:
			out = append(out, src[:bytes]...)
		case comm.OpAllToAll:
			out = append(out, src[rank*bytes:][:bytes]...)
		case comm.OpAllToAllV:
			b := st.calls[p].Blocks
			out = append(out, src[b.SendAt[rank]:][:b.SendBytes[rank]]...)
		case comm.OpSend:
			if p == c.From {
				out = append(out, src[:bytes]...)
			}
		}
	}
	if parts != nil {
		out = make([]byte, bytes)
		require.NoError(t, kernels.Reduce(out, parts, c.Type, c.Op))
	}
	return out
}

// Sizes beyond 2³¹ bytes, and 1 GiB of each collective's blocks and of a message.
func TestHuge(t *testing.T) {
	if testing.Short() {
		t.Skip("much memory")
	}
	r := newRig(t, 2, 20*patience)
	const gib, many = 1 << 30, 1<<31 + 4099
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
	source := func(p, at, n int) []byte {
		var b []byte
		for len(b) < n {
			from := (at + len(b)) % pieceBytes
			b = append(b, piece[p][from:min(pieceBytes, from+n-len(b))]...)
		}
		return b
	}
	// Blocks of AllToAllV, between 0 and 1 shorter than those that stay.
	lengths := [2][2]int{{gib + 1001, gib - 3}, {gib - 5, gib + 999}} // [from][to]
	// A result is a block that is src of one rank, or of both reduced, each from a place on.
	type result struct {
		bytes int
		from  map[int]int
	}
	for _, c := range []struct {
		k       comm.Collective
		typ     kernels.Type
		count   int
		results func(p, bytes int) []result // one after the other in dst
	}{
		{comm.OpAllReduce, kernels.TypeFloat32, gib / 4, func(_, n int) []result { return []result{{n, map[int]int{0: 0, 1: 0}}} }},
		{comm.OpAllReduce, kernels.TypeUint8, many, func(_, n int) []result { return []result{{n, map[int]int{0: 0, 1: 0}}} }},
		{comm.OpReduce, kernels.TypeFloat32, gib / 4, func(p, n int) []result { return []result{{n, map[int]int{0: 0, 1: 0}}}[p:] }},
		{comm.OpReduceScatterBlock, kernels.TypeFloat32, gib / 4, func(p, n int) []result { return []result{{n, map[int]int{0: p * n, 1: p * n}}} }},
		{comm.OpBroadcast, kernels.TypeUint8, many, func(p, n int) []result { return []result{{n, map[int]int{0: 0}}}[1-p:] }},
		{comm.OpAllGather, kernels.TypeUint8, gib, func(_, n int) []result { return []result{{n, map[int]int{0: 0}}, {n, map[int]int{1: 0}}} }},
		{comm.OpAllToAll, kernels.TypeUint8, gib, func(p, n int) []result { return []result{{n, map[int]int{0: p * n}}, {n, map[int]int{1: p * n}}} }},
		{comm.OpAllToAllV, kernels.TypeUint8, 0, func(p, _ int) []result {
			return []result{{lengths[0][p], map[int]int{0: p * lengths[0][0]}}, {lengths[1][p], map[int]int{1: p * lengths[1][0]}}}
		}},
		{comm.OpSend, kernels.TypeUint8, gib, func(p, n int) []result { return []result{{n, map[int]int{0: 0}}}[1-p:] }},
	} {
		for _, registered := range []bool{true, false} {
			for p := range 2 {
				require.NoError(t, r.contexts[p].Fill8(dst[p].Ptr, 0xA5, many))
				require.NoError(t, r.contexts[p].Synchronize())
			}
			bytes := c.count * c.typ.Size()
			r.do(t, func(p int) *Call {
				call := &Call{Collective: c.k, Count: c.count, Type: c.typ, ElemBytes: c.typ.Size(), Dst: dst[p].within(0, registered), Src: src[p].within(0, registered), To: -1, From: -1}
				b := &layout.Blocks{}
				switch c.k {
				case comm.OpBroadcast:
					if p == 0 {
						call.Dst = call.Src
					}
				case comm.OpAllToAllV:
					for q := range 2 {
						b.SendAt[q], b.SendBytes[q] = uint64(q*lengths[p][0]), uint64(lengths[p][q])
						b.RecvAt[q], b.RecvBytes[q] = uint64(q*lengths[0][p]), uint64(lengths[q][p])
					}
					call.Blocks = b
				case comm.OpSend: // from 0 to 1
					call.Blocks = b
					if p == 0 {
						call.To, b.SendBytes[1] = 1, uint64(bytes)
					} else {
						call.Collective, call.From, b.RecvBytes[0] = comm.OpRecv, 0, uint64(bytes)
					}
				}
				return call
			})
			for p := range 2 {
				end := 0
				for _, res := range c.results(p, bytes) {
					for at := 0; at < res.bytes; at += pieceBytes {
						n := min(pieceBytes, res.bytes-at)
						var parts [][]byte
						for q := range 2 {
							if from, ok := res.from[q]; ok {
								parts = append(parts, source(q, from+at, n))
							}
						}
						want := parts[0]
						if len(parts) == 2 {
							want = make([]byte, n)
							require.NoError(t, kernels.Reduce(want, parts, c.typ, kernels.Sum))
						}
						i, same := sameBits(want, r.download(t, p, dst[p].Ptr+cuda.Ptr(end+at), n), c.typ, kernels.Sum)
						require.True(t, same, "%v of %v, registered %v, rank %d: element %d", c.k, c.typ, registered, p, (end+at)/c.typ.Size()+i)
					}
					end += res.bytes
				}
				rest := min(guard, many-end)
				require.Equal(t, pattern(rest), r.download(t, p, dst[p].Ptr+cuda.Ptr(end), rest), "%v, registered %v, rank %d: behind the result", c.k, registered, p)
			}
		}
	}
}
