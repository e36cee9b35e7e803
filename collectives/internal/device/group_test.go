package device

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
	layout "github.com/weft-go/weft/kernels/cuda"
)

const patience = 3 * time.Second

// place is where a call's memory is: elements before dst and src, what is registered, and
// whether dst is src.
type place struct {
	dst, src   int
	registered bool
	inPlace    bool
}

var places = []place{{0, 0, true, false}, {0, 0, false, false}, {0, 0, true, true}, {0, 0, false, true}, {1, 1, true, false}, {3, 2, true, false}, {1, 3, false, false}}

// counts are of elements: by packets, by lanes with ends that are no vectors, and of many chunks.
var counts = []int{0, 1, 2, 3, 5, 8, 31, 1000, 4097, 70001, 300007}

// Reductions have the bits of package kernels.
func TestReductions(t *testing.T) {
	for _, ranks := range []int{2, 3, 4, 8} {
		t.Run(fmt.Sprint(ranks), func(t *testing.T) {
			r := newRig(t, ranks, patience)
			const most = 300007
			dst, src := r.register(t, most*8+3*guard), r.register(t, ranks*(most+8)*8+guard)
			rng := rand.New(rand.NewPCG(1, uint64(ranks)))
			for _, typ := range layout.Types {
				srcs := make([][]byte, ranks)
				for p := range srcs {
					srcs[p] = randomBytes(rng, typ, ranks*most+8)
					r.upload(t, p, src[p].Ptr, srcs[p])
				}
				n := 0
				for _, k := range reductions {
					for op := kernels.Sum; op <= kernels.Avg; op++ {
						for _, count := range counts {
							// All places with few elements, one with many.
							few := places
							if count > 5000 {
								n++
								few = places[n%len(places):][:1]
							}
							for _, pl := range few {
								r.checkReduction(t, k, typ, op, count, pl, dst, src, srcs, n%ranks)
							}
						}
					}
				}
			}
		})
	}
}

// With many ranks, too: few lanes, and parts of few elements or none.
func TestReductionsOfMany(t *testing.T) {
	for _, ranks := range manyRanks {
		t.Run(fmt.Sprint(ranks), func(t *testing.T) {
			r := newRig(t, ranks, patience)
			const most, block = 150001, 5003 // elements of a rank, and of a block of ReduceScatterBlock
			dst, src := r.register(t, most*4+3*guard), r.register(t, ranks*block*4+64)
			rng := rand.New(rand.NewPCG(8, uint64(ranks)))
			n := 0
			for _, typ := range []kernels.Type{kernels.TypeFloat32, kernels.TypeFloat8E4M3} {
				srcs := make([][]byte, ranks)
				for p := range srcs {
					srcs[p] = randomBytes(rng, typ, ranks*block+8)
					r.upload(t, p, src[p].Ptr, srcs[p])
				}
				for _, k := range reductions {
					for _, count := range []int{0, 1, 31, 900, 1000, 4097, block, most} {
						if count > block && k == comm.OpReduceScatterBlock {
							continue
						}
						for _, op := range []kernels.Op{kernels.Sum, kernels.Avg} {
							n++
							r.checkReduction(t, k, typ, op, count, places[n%len(places)], dst, src, srcs, n%ranks)
						}
					}
				}
			}
		})
	}
}

// checkReduction makes one call, and compares the results, what is around them, and src.
func (r *rig) checkReduction(t *testing.T, k comm.Collective, typ kernels.Type, op kernels.Op, count int, pl place, dst, src []Memory, srcs [][]byte, root int) {
	t.Helper()
	ranks, size := len(r.groups), typ.Size()
	bytes := count * size
	blocks := 1
	if k == comm.OpReduceScatterBlock {
		blocks = ranks
	}
	from := pl.src * size
	d := make([]Memory, ranks)
	s := make([]Memory, ranks)
	for p := range ranks {
		s[p], d[p] = src[p].within(from, pl.registered), dst[p].within(guard+pl.dst*size, pl.registered)
		if pl.inPlace {
			d[p] = src[p].within(from, pl.registered)
			if blocks > 1 {
				d[p] = src[p].within(from+p*bytes, pl.registered)
			}
		} else {
			r.upload(t, p, d[p].Ptr-guard, pattern(bytes+2*guard))
		}
	}
	r.do(t, func(p int) *Call {
		return &Call{Collective: k, Count: count, Type: typ, ElemBytes: size, Op: op, Root: root, Dst: d[p], Src: s[p], InPlace: pl.inPlace, To: -1, From: -1, Hash: uint32(count)*31 + uint32(op)}
	})
	var want []byte
	for p := range ranks {
		if p == 0 || blocks > 1 {
			parts := make([][]byte, ranks)
			for q := range parts {
				parts[q] = srcs[q][from:][:bytes]
				if blocks > 1 {
					parts[q] = srcs[q][from+p*bytes:][:bytes]
				}
			}
			want = make([]byte, bytes)
			require.NoError(t, kernels.Reduce(want, parts, typ, op))
		}
		what := fmt.Sprintf("%v %v %v count %d %+v rank %d", k, typ, op, count, pl, p)
		gets := k != comm.OpReduce || p == root
		if pl.inPlace {
			got := r.download(t, p, d[p].Ptr, bytes)
			if gets {
				at, same := sameBits(want, got, typ, op)
				require.True(t, same, "%s: element %d", what, at)
			}
			r.upload(t, p, s[p].Ptr, srcs[p][from:][:blocks*bytes])
			continue
		}
		got := r.download(t, p, d[p].Ptr-guard, bytes+2*guard)
		want, exact := want, op
		if !gets {
			want, exact = pattern(bytes), kernels.Max
		}
		require.Equal(t, pattern(guard), got[:guard], what)
		require.Equal(t, pattern(guard), got[guard+bytes:], what)
		at, same := sameBits(want, got[guard:guard+bytes], typ, exact)
		if !same {
			require.Equal(t, want[at*size:][:size], got[guard+at*size:][:size], "%s: element %d", what, at)
		}
	}
}

// What only moves arrives, block by block.
func TestMoves(t *testing.T) {
	for _, ranks := range append([]int{2, 3, 4, 8}, manyRanks...) {
		t.Run(fmt.Sprint(ranks), func(t *testing.T) {
			r := newRig(t, ranks, patience)
			most := 1200011
			counts := []int{0, 1, 3, 8, 17, 1000, 4096, 4097, 40000, 300001, most}
			if ranks > 8 {
				most = 10007
				counts = []int{0, 1, 17, 3000, most}
			}
			dst, src := r.register(t, ranks*most+3*guard), r.register(t, ranks*most+64)
			rng := rand.New(rand.NewPCG(2, uint64(ranks)))
			srcs := make([][]byte, ranks)
			for p := range srcs {
				srcs[p] = randomBytes(rng, kernels.TypeUint8, ranks*most+64)
				r.upload(t, p, src[p].Ptr, srcs[p])
			}
			n := 0
			for _, k := range []comm.Collective{comm.OpBroadcast, comm.OpAllGather, comm.OpAllToAll, comm.OpBarrier} {
				for _, count := range counts {
					for _, pl := range places {
						if k == comm.OpBarrier && (count > 0 || pl.inPlace) {
							continue
						}
						n++
						r.checkMove(t, k, count, pl, dst, src, srcs, n%ranks)
					}
				}
			}
		})
	}
}

func (r *rig) checkMove(t *testing.T, k comm.Collective, count int, pl place, dst, src []Memory, srcs [][]byte, root int) {
	t.Helper()
	ranks := len(r.groups)
	what := fmt.Sprintf("%v count %d %+v root %d", k, count, pl, root)
	total := ranks * count
	if k == comm.OpBroadcast || k == comm.OpBarrier {
		total = count
	}
	d, s := make([]Memory, ranks), make([]Memory, ranks)
	before := make([][]byte, ranks) // of dst
	for p := range ranks {
		d[p], s[p] = dst[p].within(guard+pl.dst, pl.registered), src[p].within(pl.src, pl.registered)
		before[p] = pattern(total)
		inPlace := pl.inPlace || k == comm.OpBroadcast
		if inPlace {
			switch k {
			case comm.OpAllGather:
				s[p] = dst[p].within(guard+pl.dst+p*count, pl.registered)
				copy(before[p][p*count:], srcs[p][:count])
			case comm.OpAllToAll:
				s[p] = d[p]
				before[p] = srcs[p][:total]
			case comm.OpBroadcast:
				s[p] = d[p]
				if p == root {
					before[p] = srcs[p][:total]
				}
			}
		}
		r.upload(t, p, d[p].Ptr-guard, append(append(pattern(guard), before[p]...), pattern(guard)...))
	}
	r.do(t, func(p int) *Call {
		return &Call{Collective: k, Count: count, Type: kernels.TypeUint8, ElemBytes: 1, Root: root, Dst: d[p], Src: s[p], InPlace: pl.inPlace && k == comm.OpAllToAll, To: -1, From: -1, Hash: uint32(count) * 31}
	})
	for p := range ranks {
		want := make([]byte, 0, total)
		at := pl.src
		if pl.inPlace {
			at = 0
		}
		for q := range ranks {
			switch k {
			case comm.OpAllGather:
				want = append(want, srcs[q][at:][:count]...)
			case comm.OpAllToAll:
				want = append(want, srcs[q][at+p*count:][:count]...)
			}
		}
		if k == comm.OpBroadcast {
			want = srcs[root][:count]
		}
		if k == comm.OpBarrier {
			want = before[p]
		}
		got := r.download(t, p, d[p].Ptr-guard, total+2*guard)
		for i := range got {
			w := byte(0xA5)
			if i >= guard && i < guard+total {
				w = want[i-guard]
			}
			if got[i] != w {
				require.Failf(t, what, "rank %d: byte %d is %x, not %x", p, i-guard, got[i], w)
			}
		}
	}
}

// Blocks of different lengths, with none and long ones among them.
func TestAllToAllV(t *testing.T) {
	for _, ranks := range append([]int{2, 3, 8}, manyRanks...) {
		t.Run(fmt.Sprint(ranks), func(t *testing.T) {
			r := newRig(t, ranks, patience)
			most, rounds := 400000, 12
			if ranks > 8 {
				most, rounds = 20000, 4
			}
			dst, src := r.register(t, ranks*most+2*guard), r.register(t, ranks*most)
			rng := rand.New(rand.NewPCG(3, uint64(ranks)))
			for round := range rounds {
				registered := round%2 == 0
				lengths := make([][]int, ranks) // [from][to]
				for p := range lengths {
					lengths[p] = make([]int, ranks)
					for q := range lengths[p] {
						if rng.IntN(3) > 0 {
							lengths[p][q] = rng.IntN([]int{2, 100, most / 20, most}[rng.IntN(4)])
						}
					}
				}
				srcs := make([][]byte, ranks)
				blocks := make([]layout.Blocks, ranks)
				wants := make([][]byte, ranks)
				for p := range ranks {
					srcs[p] = randomBytes(rng, kernels.TypeUint8, ranks*most)
					r.upload(t, p, src[p].Ptr, srcs[p])
					r.upload(t, p, dst[p].Ptr, pattern(ranks*most+2*guard))
				}
				for p := range ranks {
					sendAt, recvAt := 0, 0
					for q := range ranks {
						b := &blocks[p]
						b.SendAt[q], b.SendBytes[q] = uint64(sendAt), uint64(lengths[p][q])
						b.RecvAt[q], b.RecvBytes[q] = uint64(recvAt), uint64(lengths[q][p])
						sendAt += lengths[p][q]
						recvAt += lengths[q][p]
					}
				}
				for p := range ranks {
					for q := range ranks {
						b := blocks[q]
						wants[p] = append(wants[p], srcs[q][b.SendAt[p]:][:b.SendBytes[p]]...)
					}
				}
				r.do(t, func(p int) *Call {
					return &Call{Collective: comm.OpAllToAllV, Type: kernels.TypeUint8, ElemBytes: 1, Dst: dst[p].within(guard, registered), Src: src[p].within(0, registered), Blocks: &blocks[p], To: -1, From: -1}
				})
				for p := range ranks {
					got := r.download(t, p, dst[p].Ptr, ranks*most+2*guard)
					want := append(pattern(guard), wants[p]...)
					want = append(want, pattern(len(got)-len(want))...)
					require.True(t, string(want) == string(got), "round %d rank %d", round, p)
				}
			}
		})
	}
}

// Messages of all lengths, one way, both ways and around a ring.
func TestMessages(t *testing.T) {
	for _, ranks := range append([]int{2, 3, 5}, manyRanks...) {
		t.Run(fmt.Sprint(ranks), func(t *testing.T) {
			r := newRig(t, ranks, patience)
			const most = 3000017
			rng := rand.New(rand.NewPCG(4, uint64(ranks)))
			dst, src := r.register(t, most+2*guard), r.register(t, most+16)
			srcs := make([][]byte, ranks)
			for p := range srcs {
				srcs[p] = randomBytes(rng, kernels.TypeUint8, most+16)
				r.upload(t, p, src[p].Ptr, srcs[p])
			}
			for round, count := range []int{0, 1, 15, 4096, 65536, 65537, 300000, 700001, most, 0, 7} {
				off := round % 4
				message := func(p, to, from int) *Call {
					c := &Call{Collective: comm.OpSend, Type: kernels.TypeUint8, ElemBytes: 1, Count: count, To: to, From: from, Hash: uint32(count), Blocks: &layout.Blocks{}}
					if to >= 0 {
						c.Src, c.Blocks.SendBytes[to] = src[p].within(off, false), uint64(count)
					}
					if from >= 0 {
						c.Dst, c.Blocks.RecvBytes[from] = dst[p].within(guard, false), uint64(count)
					}
					return c
				}
				for p := range ranks {
					r.upload(t, p, dst[p].Ptr, pattern(count+2*guard))
				}
				if round%2 == 0 {
					r.do(t, func(p int) *Call { return message(p, (p+1)%ranks, (p+ranks-1)%ranks) })
				} else { // 0 to the last, alone
					require.NoError(t, r.groups[0].Enqueue(r.streams[0], message(0, ranks-1, -1)))
					require.NoError(t, r.groups[ranks-1].Enqueue(r.streams[ranks-1], message(ranks-1, -1, 0)))
					require.NoError(t, r.streams[0].Synchronize())
					require.NoError(t, r.streams[ranks-1].Synchronize())
				}
				for p := range ranks {
					from := (p + ranks - 1) % ranks
					if round%2 == 1 {
						if from = 0; p != ranks-1 {
							continue
						}
					}
					got := r.download(t, p, dst[p].Ptr, count+2*guard)
					want := append(append(pattern(guard), srcs[from][off:][:count]...), pattern(guard)...)
					require.True(t, string(want) == string(got), "count %d rank %d", count, p)
				}
			}
		})
	}
}
