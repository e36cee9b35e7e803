package collectives

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/collectives/plan"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport/progress"
)

// A twin is memory of one rank twice: a group works on one, the same calls made
// one by one on the other. Each element type has its own part, so that calls share memory
// but nothing is read as another type.
type twin [2][]byte

// affine64 is x → a·x + b modulo 2³²: composition is associative and does not commute.
type affine64 struct{ a, b uint32 }

func compose(acc, x []affine64) {
	for i := range acc {
		acc[i] = affine64{acc[i].a * x[i].a, acc[i].a*x[i].b + acc[i].b}
	}
}

type triple32 [3]uint32

func addTriples(acc, x []triple32) {
	for i := range acc {
		for k := range acc[i] {
			acc[i][k] += x[i][k]
		}
	}
}

// A kindOfElement is what calls of a random group are about.
type kindOfElement struct {
	e   element
	ops []operator // that it can be reduced by
	gen func(r *rand.Rand, b []byte)
}

func numbersFor[T kernels.Number](gen func(r *rand.Rand) T) kindOfElement {
	k := kindOfElement{e: numberOf[T]()}
	for op := kernels.Sum; op.Valid(); op++ {
		if op.Supports(k.e.t) {
			k.ops = append(k.ops, operator{op: op})
		}
	}
	k.gen = func(r *rand.Rand, b []byte) {
		for i := range sliceOf[T](b) {
			sliceOf[T](b)[i] = gen(r)
		}
	}
	return k
}

func bytesFor[T any](ops ...operator) kindOfElement {
	return kindOfElement{e: elementOf[T](), ops: ops, gen: func(r *rand.Rand, b []byte) {
		for i := range b {
			b[i] = byte(r.Uint32())
		}
	}}
}

// smallFloat makes no NaNs, whose bits nobody promises.
func smallFloat(r *rand.Rand) float32 { return float32(r.IntN(17)-8) / 8 }

func elementKinds() []kindOfElement {
	return []kindOfElement{
		numbersFor(genBits[int8]), numbersFor(genBits[uint16]), numbersFor(genBits[int32]), numbersFor(genBits[uint64]),
		numbersFor(func(r *rand.Rand) kernels.Float16 { return kernels.Float16FromFloat32(smallFloat(r)) }),
		numbersFor(func(r *rand.Rand) kernels.BFloat16 { return kernels.BFloat16FromFloat32(smallFloat(r)) }),
		numbersFor(func(r *rand.Rand) float32 { return float32(r.NormFloat64()) }),
		numbersFor(func(r *rand.Rand) float64 { return r.NormFloat64() }),
		numbersFor(func(r *rand.Rand) complex64 { return complex(smallFloat(r), smallFloat(r)) }),
		numbersFor(func(r *rand.Rand) complex128 { return complex(r.NormFloat64(), r.NormFloat64()) }),
		numbersFor(func(r *rand.Rand) kernels.Float32Loc {
			return kernels.Float32Loc{Value: smallFloat(r), Index: int32(r.IntN(9))}
		}),
		numbersFor(func(r *rand.Rand) kernels.Int64Loc {
			return kernels.Int64Loc{Value: int64(r.IntN(9)), Index: int64(r.IntN(9))}
		}),
		bytesFor[affine64](byFunc(compose)), bytesFor[triple32](byFunc(addTriples)), bytesFor[[5]byte](),
	}
}

// A randomGroup is calls for each rank, on both of its memories.
type randomGroup struct {
	cs    []*comm.Communicator
	rng   *rand.Rand
	kinds []kindOfElement
	elems int // of each type's memory
	start []int
	mem   []twin
	often int // the kind of call that half of them are; −1: none

	ops  [][2][]operation // by rank
	text []string
}

func newRandomGroup(cs []*comm.Communicator, rng *rand.Rand, elems int) *randomGroup {
	g := &randomGroup{cs: cs, rng: rng, often: rng.IntN(24) - 1, kinds: elementKinds(), elems: elems, mem: make([]twin, len(cs)), ops: make([][2][]operation, len(cs))}
	size := 0
	for _, k := range g.kinds {
		g.start = append(g.start, size)
		size += (elems*k.e.size + 15) &^ 15
	}
	for r := range g.mem {
		for i := range g.mem[r] {
			g.mem[r][i] = kernels.Bytes(make([]complex128, size/16))
		}
		for i, k := range g.kinds {
			k.gen(rng, g.mem[r][0][g.start[i]:][:elems*k.e.size])
		}
		copy(g.mem[r][1], g.mem[r][0])
	}
	return g
}

// count draws the elements of a block, with n of them in the memory.
func (g *randomGroup) count(n int) int {
	most := g.elems / n
	if g.rng.IntN(8) == 0 {
		return g.rng.IntN(most + 1)
	}
	return min(most, []int{0, 1, 2, 3, 5, 16, 17, 40, 100, 333}[g.rng.IntN(10)])
}

// add adds a random call.
func (g *randomGroup) add() {
	for !g.try() {
	}
}

func (g *randomGroup) try() bool {
	rng, n := g.rng, len(g.cs)
	ki := rng.IntN(len(g.kinds))
	k := g.kinds[ki]
	e, root := k.e, rng.IntN(n)
	what := rng.IntN(17)
	if g.often >= 0 && rng.IntN(2) == 0 {
		what = max(0, g.often-6) // an AllReduce for many
	}
	reduces := what < 7
	var by operator
	if reduces {
		if len(k.ops) == 0 {
			return false
		}
		by = k.ops[rng.IntN(len(k.ops))]
	}
	// Blocks of dst and of src, where each rank has the same; V forms have counts.
	give, get := 1, 1
	switch what {
	case 3:
		give = n
	case 8, 9:
		get = n
	case 10:
		give = n
	case 11:
		give, get = n, n
	}
	count := g.count(max(give, get))
	counts, table := make([]int, n), make([][]int, n) // table: what rank i sends to j
	for i := range counts {
		counts[i] = g.count(n)
		for range n {
			table[i] = append(table[i], g.count(n))
		}
	}
	total := 0
	for _, x := range counts {
		total += x
	}
	place := rng.IntN(4)
	at := [2]int{rng.Int(), rng.Int()}
	shift := 0
	if rng.IntN(4) == 0 {
		shift = rng.IntN(2000) // ranks use different places
	}
	absent := rng.IntN(2) == 0 // what is ignored is nil
	ops := make([][2]operation, n)
	for r, c := range g.cs {
		for m := range ops[r] {
			mem := g.mem[r][m][g.start[ki]:][:g.elems*e.size]
			slice := func(i, count int) []byte {
				from := (at[i] + r*shift) % (g.elems - count + 1)
				return mem[from*e.size:][:count*e.size]
			}
			// dst and src of so many elements: apart or not, the same, one in the other.
			both := func(d, s int) (dst, src []byte) {
				dst, src = slice(0, d), slice(1, s)
				if place == 0 {
					switch {
					case d == s:
						src = dst
					case d > s:
						src = dst[min(r*s, d-s)*e.size:][:s*e.size]
					default:
						dst = src[min(r*d, s-d)*e.size:][:d*e.size]
					}
				}
				return dst, src
			}
			unless := func(used bool, b []byte) []byte {
				if used || !absent {
					return b
				}
				return nil
			}
			dst, src := both(get*count, give*count)
			o := &ops[r][m]
			switch what {
			case 0, 1, 2:
				*o = allReduce(c, e, dst, src, by)
			case 3:
				*o = reduceScatterBlock(c, e, dst, src, by)
			case 4:
				*o = reduce(c, e, unless(r == root, dst), src, by, root)
			case 5:
				*o = scan(c, e, dst, src, by)
			case 6:
				*o = exscan(c, e, dst, src, by)
			case 7, 16:
				*o = broadcast(c, e, dst, root)
			case 8:
				*o = allGather(c, e, dst, src)
			case 9:
				*o = gather(c, e, unless(r == root, dst), src, root)
			case 10:
				*o = scatter(c, e, dst, unless(r == root, src), root)
			case 11:
				*o = allToAll(c, e, dst, src)
			case 12:
				*o = barrier(c)
			case 13:
				dst, src = both(total, counts[r])
				*o = allGatherV(c, e, dst, counts, src)
			case 14:
				dst, src = both(total, counts[r])
				*o = gatherV(c, e, dst, counts, src, root)
			case 15:
				in, out := make([]int, n), table[r]
				inTotal, outTotal := 0, 0
				for p := range in {
					in[p] = table[p][r]
					inTotal += in[p]
					outTotal += out[p]
				}
				dst, src = both(inTotal, outTotal)
				*o = allToAllV(c, e, dst, in, src, out)
			}
			if o.err != nil {
				return false // an operator that it hasn't, or slices that overlap
			}
		}
	}
	for r := range ops {
		for m := range ops[r] {
			g.ops[r][m] = append(g.ops[r][m], ops[r][m])
		}
	}
	g.text = append(g.text, fmt.Sprint(ops[0][0].call))
	return true
}

// run makes the calls in both ways.
func (g *randomGroup) run(form int) error {
	ctx := context.Background()
	errs := each(g.cs, func(c *comm.Communicator) error {
		ops := g.ops[c.Rank()]
		calls := func(add *GroupCalls) error {
			for _, o := range ops[0] {
				add.add(o)
			}
			return nil
		}
		runs := 1
		switch form {
		case 0:
			if err := Group(ctx, c, calls); err != nil {
				return err
			}
		case 1:
			if err := StartGroup(ctx, c, calls).Wait(ctx); err != nil {
				return err
			}
		case 2:
			runs = 3
			p, err := NewGroup(c, calls)
			if err != nil {
				return err
			}
			first := p.Start(ctx)
			for range runs - 1 {
				if err := p.Run(ctx); err != nil {
					return err
				}
			}
			if err := first.Wait(ctx); err != nil {
				return err
			}
		}
		for range runs {
			for i := range ops[1] {
				if err := ops[1][i].run(ctx); err != nil {
					return fmt.Errorf("alone: %w", err)
				}
			}
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for r, m := range g.mem {
		for i, k := range g.kinds {
			a, b := m[0][g.start[i]:][:g.elems*k.e.size], m[1][g.start[i]:][:g.elems*k.e.size]
			for at := range a {
				if a[at] != b[at] {
					return fmt.Errorf("rank %d: byte %d of %v (%d bytes): %x in the group, %x alone", r, at, k.e.t, k.e.size, a[at], b[at])
				}
			}
		}
	}
	return nil
}

// TestGroupExact: random groups give the bits of their calls made one by one, in
// all forms, with calls that depend on each other, not always on all ranks.
func TestGroupExact(t *testing.T) {
	seed := testSeed(t)
	for n := 1; n <= 7; n++ {
		if raceEnabled && n > 4 {
			break
		}
		for _, spec := range []string{"", "^oneshot", "allreduce:ring;reduce:tree;scan:chain;broadcast:tree", "twoshot", "bruck,doubling", "allreduce:doubling,oneshot;allgather:ring"} {
			if n > 5 && spec != "" && spec != "bruck,doubling" {
				continue
			}
			t.Run(fmt.Sprintf("ranks=%d/%s", n, spec), func(t *testing.T) {
				cs := local(t, n, comm.WithAlgorithm(spec))
				rounds := 8
				switch {
				case raceEnabled:
					rounds = 3
				case n > 5:
					rounds = 4
				}
				for round := range rounds {
					rng := rand.New(rand.NewPCG(seed, uint64(100*n+round)))
					elems := 400 // some calls meet in their memory
					if round%2 == 1 {
						elems = 4000
					}
					if round%4 == 3 {
						elems = 12_000 // and some are large
					}
					g := newRandomGroup(cs, rng, elems)
					for range 1 + rng.IntN(40) {
						g.add()
					}
					require.NoError(t, g.run(round%3), "seed %d, round %d, %d ranks: %s", seed, round, n, strings.Join(g.text, "; "))
				}
			})
		}
	}
}

// TestGroupWindows: packs that are cut into several schedules.
func TestGroupWindows(t *testing.T) {
	seed := testSeed(t)
	for n := 2; n <= 4; n++ {
		if raceEnabled && n != 3 { // ranks are alike
			continue
		}
		cs := local(t, n)
		require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error {
			r, err := extension(c)
			if err == nil {
				r.windowMessages = n // one message a window
			}
			return err
		})...))
		for round := range 6 {
			g := newRandomGroup(cs, rand.New(rand.NewPCG(seed, uint64(10*n+round))), 30_000)
			for range 60 {
				g.add()
			}
			require.NoError(t, g.run(round%3), "seed %d, round %d, %d ranks", seed, round, n)
		}
	}
}

// TestGroupDependent: what later calls make of what earlier ones made.
func TestGroupDependent(t *testing.T) {
	ctx := context.Background()
	for n := 1; n <= 5; n++ {
		cs := local(t, n)
		require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error {
			x, y := []int32{1, 2, int32(c.Rank())}, make([]int32, 3)
			var z []int32
			if c.Rank() == n-1 {
				z = make([]int32, 3)
			}
			all := make([]int32, 3*n)
			// Only on the last rank do some of these depend on others.
			err := Group(ctx, c, func(g *GroupCalls) error {
				AddAllReduce(g, y, x, kernels.Sum)
				AddReduce(g, z, y, kernels.Sum, n-1) // n times that
				AddAllReduce(g, x, x, kernels.Max)
				if z == nil {
					z = x
				}
				AddBroadcast(g, z, n-1)
				AddAllGather(g, all, z)
				AddAllReduce(g, all, all, kernels.Sum)
				return nil
			})
			if err != nil {
				return err
			}
			sum := int32(n * (n - 1) / 2)
			want := []int32{int32(n * n), int32(2 * n * n), sum * int32(n)}
			if !slices.Equal(z, want) {
				return fmt.Errorf("%v, not %v", z, want)
			}
			for i, v := range all {
				if v != want[i%3]*int32(n) {
					return fmt.Errorf("%v", all)
				}
			}
			return nil
		})...))
	}
}

// TestGroupMessages: small calls share messages, large ones have their own, and
// nothing is packed that is not to be.
func TestGroupMessages(t *testing.T) {
	ctx := context.Background()
	const n = 4
	many := func(counts ...int) func(c *comm.Communicator, s []float32) error {
		return func(c *comm.Communicator, s []float32) error {
			var tensors [][]float32
			for _, k := range counts {
				tensors, s = append(tensors, s[:k:k]), s[k:]
			}
			return AllReduceMany(ctx, c, tensors, kernels.Avg)
		}
	}
	group := func(add func(g *GroupCalls, i int, s []float32)) func(c *comm.Communicator, s []float32) error {
		return func(c *comm.Communicator, s []float32) error {
			return Group(ctx, c, func(g *GroupCalls) error {
				for i := range 50 {
					add(g, i, s[i*100:][:100:100])
				}
				return nil
			})
		}
	}
	for _, tt := range []struct {
		name        string
		call        func(c *comm.Communicator, s []float32) error
		least, most int // messages that rank 0 sends
	}{
		{"many small", many(slices.Repeat([]int{7}, 50)...), n - 1, n - 1},
		{"many small, much in all", many(slices.Repeat([]int{1000}, 100)...), 2 * (n - 1), 16 * (n - 1)},
		{"none", many(), 0, 0},
		{"without elements", many(0, 0, 0), 0, 0},
		{"one", many(5), n - 1, n - 1},
		{"two large and small", many(20_000, 3, 20_000, 4), 3 * (n - 1), 12 * (n - 1)},
		{"mixed types", group(func(g *GroupCalls, i int, s []float32) {
			switch i % 3 {
			case 0:
				AddAllReduce(g, s[:9], s[:9], kernels.Min)
			case 1:
				AddAllReduce(g, s[:1], s[1:2], kernels.Prod)
			default:
				AddAllReduce(g, s[:3], s[:3], kernels.Sum)
			}
		}), n - 1, n - 1},
		{"broadcasts of two roots", group(func(g *GroupCalls, i int, s []float32) { AddBroadcast(g, s[:5], i%2) }), 2 * (n - 1), 2 * (n - 1)},
		{"gathers", group(func(g *GroupCalls, i int, s []float32) { AddAllGather(g, s[:4*n], s[90:94]) }), 2 * (n - 1), 2 * (n - 1)},
		{"each after the one before", group(func(g *GroupCalls, i int, s []float32) { AddAllReduce(g, s[:1:1][:1], s[:1], kernels.Sum) }), n - 1, n - 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cs := local(t, n)
			var sent [n]int
			require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error {
				r, err := extension(c)
				if err != nil {
					return err
				}
				before := messagesOf(r.e)
				err = tt.call(c, make([]float32, 100_000))
				sent[c.Rank()] = messagesOf(r.e) - before
				return err
			})...))
			for _, k := range sent {
				require.GreaterOrEqual(t, sent[0], tt.least)
				require.LessOrEqual(t, k, tt.most)
			}
		})
	}
	t.Run("dependent", func(t *testing.T) {
		cs := local(t, 2)
		require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error {
			r, err := extension(c)
			if err != nil {
				return err
			}
			before := messagesOf(r.e)
			x := []int64{1}
			err = Group(ctx, c, func(g *GroupCalls) error {
				for range 5 {
					AddAllReduce(g, x, x, kernels.Sum)
				}
				return nil
			})
			if sent := messagesOf(r.e) - before; err == nil && (x[0] != 32 || sent != 5) {
				return fmt.Errorf("%d in %d messages", x[0], sent)
			}
			return err
		})...))
	})
}

// messagesOf is how many messages a rank has sent.
func messagesOf(e *progress.Engine) int {
	n := 0
	for _, s := range e.Stats() {
		n += int(s.Messages)
	}
	return n
}

// TestAllReduceMany: tensors of different length, in all forms.
func TestAllReduceMany(t *testing.T) {
	ctx := context.Background()
	for n := 1; n <= 6; n++ {
		cs := local(t, n)
		require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error {
			lengths := []int{0, 1, 3, 1000, 20_000, 5, 0, 17}
			tensors := make([][]float64, len(lengths))
			fill := func() {
				for i, k := range lengths {
					tensors[i] = append(tensors[i][:0], make([]float64, k)...)
					for j := range k {
						tensors[i][j] = float64(i + j*c.Rank())
					}
				}
			}
			check := func(err error) error {
				for i := range tensors {
					for j, v := range tensors[i] {
						if want := float64(n*i + j*n*(n-1)/2); err == nil && v != want {
							return fmt.Errorf("tensor %d[%d] is %v, not %v", i, j, v, want)
						}
					}
				}
				return err
			}
			fill()
			if err := check(AllReduceMany(ctx, c, tensors, kernels.Sum)); err != nil {
				return err
			}
			fill()
			if err := check(StartAllReduceMany(ctx, c, tensors, kernels.Sum).Wait(ctx)); err != nil {
				return err
			}
			p, err := NewAllReduceMany(c, tensors, kernels.Sum)
			for range 3 {
				if err == nil {
					fill()
					err = check(p.Run(ctx))
				}
			}
			return err
		})...))
	}
}

// TestGroupArguments: refused before anything happens, and by name.
func TestGroupArguments(t *testing.T) {
	ctx := context.Background()
	cs := local(t, 2)
	c := cs[0]
	s := make([]float32, 10)
	own := errors.New("mine")
	var none *comm.Communicator
	var noContext context.Context
	var kept *GroupCalls
	for _, tt := range []struct {
		name string
		call func() error
		want error
		text string
	}{
		{"nil communicator", func() error { return Group(ctx, none, func(*GroupCalls) error { return nil }) }, comm.ErrNil, "Group"},
		{"nil context", func() error { return Group(noContext, c, func(*GroupCalls) error { return nil }) }, comm.ErrArgument, "nil context"},
		{"nil context, started", func() error {
			return StartGroup(noContext, c, func(*GroupCalls) error { return nil }).Wait(ctx)
		}, comm.ErrArgument, "nil context"},
		{"nil function", func() error { return Group(ctx, c, nil) }, comm.ErrArgument, "nil function"},
		{"second call", func() error {
			return Group(ctx, c, func(g *GroupCalls) error {
				AddBarrier(g)
				AddBroadcast(g, s, 7)
				AddAllReduce(g, s[1:], s, kernels.Sum)
				return nil
			})
		}, ErrRoot, "Group: call 2, Broadcast root 7 count 10 float32: root out of range"},
		{"the function's own", func() error {
			return Group(ctx, c, func(g *GroupCalls) error {
				AddBroadcast(g, s, 7)
				return own
			})
		}, own, "mine"},
		{"the function's own, started", func() error {
			return StartGroup(ctx, c, func(g *GroupCalls) error { return own }).Wait(ctx)
		}, own, "mine"},
		{"the function's own, persistent", func() error {
			_, err := NewGroup(c, func(g *GroupCalls) error { return own })
			return err
		}, own, "mine"},
		{"tensors overlap", func() error {
			return AllReduceMany(ctx, c, [][]float32{s[:3], s[3:6], s[5:7]}, kernels.Sum)
		}, ErrOverlap, "Group: call 3, AllReduce count 2 float32 sum"},
		{"operator of tensors", func() error { return AllReduceMany(ctx, c, [][]float32{s}, kernels.BitOr) }, ErrOperator, ""},
		{"nil communicator of tensors", func() error { return AllReduceMany(ctx, none, [][]float32{s}, kernels.Sum) }, comm.ErrNil, ""},
		{"nil context of tensors", func() error { return AllReduceMany(noContext, c, [][]float32{s}, kernels.Sum) }, comm.ErrArgument, ""},
		{"persistent tensors", func() error { _, err := NewAllReduceMany(c, [][]float32{s, s}, kernels.Sum); return err }, ErrOverlap, ""},
	} {
		err := tt.call()
		require.ErrorIs(t, err, tt.want, tt.name)
		require.ErrorContains(t, err, tt.text, tt.name)
	}
	require.PanicsWithValue(t, "no", func() {
		_ = Group(ctx, c, func(g *GroupCalls) error { kept = g; AddBarrier(g); panic("no") })
	})
	AddBroadcast(kept, s, 0) // too late
	require.Len(t, kept.ops, 1)
	AddBroadcast(nil, s, 0)
	AddAllReduce(nil, s, s, kernels.Sum)
	// Nothing has begun; a group in a group is made first.
	require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error {
		x := []int32{1}
		if err := Group(ctx, c, func(*GroupCalls) error { return nil }); err != nil {
			return err
		}
		err := Group(ctx, c, func(g *GroupCalls) error {
			AddAllReduce(g, x, x, kernels.Prod)
			return Group(ctx, c, func(g *GroupCalls) error {
				AddAllReduce(g, x, x, kernels.Sum)
				return nil
			})
		})
		if err == nil && x[0] != 4 {
			return fmt.Errorf("%d", x[0])
		}
		return err
	})...))
	// An empty group is no call: the next one is #3.
	err := errors.Join(each(cs, func(c *comm.Communicator) error {
		if c.Rank() == 0 {
			return Barrier(ctx, c)
		}
		return AllReduce(ctx, c, s, s, kernels.Sum)
	})...)
	require.ErrorContains(t, err, "Barrier #3")
}

// TestGroupMismatch: ranks that add different calls all get an error that says in
// which they differ.
func TestGroupMismatch(t *testing.T) {
	ctx := context.Background()
	type adder func(g *GroupCalls)
	allReduce := func(count int) adder {
		return func(g *GroupCalls) {
			AddAllReduce(g, make([]float32, count), make([]float32, count), kernels.Sum)
		}
	}
	group := func(adders ...adder) func(c *comm.Communicator) error {
		return func(c *comm.Communicator) error {
			return Group(ctx, c, func(g *GroupCalls) error {
				for _, a := range adders {
					a(g)
				}
				return nil
			})
		}
	}
	many := func(counts ...int) func(c *comm.Communicator) error {
		return func(c *comm.Communicator) error {
			var tensors [][]int16
			for _, k := range counts {
				tensors = append(tensors, make([]int16, k))
			}
			return AllReduceMany(ctx, c, tensors, kernels.Sum)
		}
	}
	barrier := func(c *comm.Communicator) error { return Barrier(ctx, c) }
	broadcast := func(root int) adder { return func(g *GroupCalls) { AddBroadcast(g, make([]float32, 10), root) } }
	sixty := slices.Repeat([]adder{allReduce(1)}, 60)
	hundred := slices.Repeat([]adder{allReduce(1)}, 100)
	for _, tt := range []struct {
		name      string
		odd, rest func(c *comm.Communicator) error
		text      string
	}{
		{"kind", group(allReduce(3), broadcast(0)), group(allReduce(3), allReduce(10)),
			`rank \d: Group #2 call 2: (Broadcast root 0 count 10 float32; rank \d: Group #2 call 2: AllReduce count 10 float32 sum|AllReduce count 10 float32 sum; rank \d: Group #2 call 2: Broadcast root 0 count 10 float32)`},
		{"count", group(allReduce(3), allReduce(4)), group(allReduce(3), allReduce(5)), `Group #2 call 2: AllReduce count [45] float32 sum; rank \d: Group #2 call 2: AllReduce count [45]`},
		{"root", group(broadcast(1), allReduce(1)), group(broadcast(0), allReduce(1)), `call 1: Broadcast root [01]`},
		{"type", group(func(g *GroupCalls) { AddAllReduce(g, []int32{1}, []int32{1}, kernels.Sum) }), group(allReduce(1)), `call 1: AllReduce count 1 (int32|float32)`},
		{"operator", group(func(g *GroupCalls) { AddAllReduce(g, []float32{1}, []float32{1}, kernels.Max) }), group(allReduce(1)), `call 1: AllReduce count 1 float32 (sum|max)`},
		{"one less", group(allReduce(1)), group(allReduce(1), allReduce(2)), `Group #2 (has 1 calls|call 2: AllReduce count 2 float32 sum); rank \d: Group #2 (has 1 calls|call 2: AllReduce count 2 float32 sum)`},
		{"none", group(), group(allReduce(1), allReduce(2)), `Barrier #2.*Group #2 of 2 calls|Group #2 of 2 calls.*Barrier #2`}, // no call
		{"the 61st", group(append(slices.Clone(sixty), allReduce(2), allReduce(3))...), group(append(slices.Clone(sixty), allReduce(3), allReduce(3))...), `call 61: AllReduce count [23]`},
		{"too late to tell", group(append(slices.Clone(hundred), allReduce(2), allReduce(3))...), group(append(slices.Clone(hundred), allReduce(3), allReduce(3))...), `Group #2 of 102 calls, digest [0-9a-f]{8}; rank`},
		{"order", group(allReduce(2), allReduce(1)), group(allReduce(1), allReduce(2)), `call 1: AllReduce count [12]`},
		{"Group and not", barrier, group(allReduce(1)), `(Barrier #2|Group #2 of 1 calls)`},
		{"large", group(allReduce(100_000), allReduce(50_000)), group(allReduce(100_000), allReduce(50_001)), `call 2: AllReduce count 5000[01]`},
		{"tensors", many(1, 2, 3), many(1, 3, 3), `call 2: AllReduce count [23] int16`},
		{"tensors and group", many(1), group(func(g *GroupCalls) { AddAllReduce(g, []int16{1}, []int16{1}, kernels.Sum) }), `Group #2 of 1 calls, digest [0-9a-f]{8}, persistent or of tensors`},
		{"block of AllToAllV", func(c *comm.Communicator) error {
			return Group(ctx, c, func(g *GroupCalls) error {
				AddBarrier(g)
				AddAllToAllV(g, make([]int8, 3), []int{1, 1, 1}, make([]int8, 3), []int{1, 1, 1})
				return nil
			})
		}, func(c *comm.Communicator) error {
			return Group(ctx, c, func(g *GroupCalls) error {
				AddBarrier(g)
				AddAllToAllV(g, make([]int8, 4), []int{1, 1, 2}, make([]int8, 4), []int{1, 1, 2})
				return nil
			})
		}, `(?s)Group #2.*call 2, AllToAllV: rank \d expects [12] elements from rank \d`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cs := local(t, 3)
			require.NoError(t, errors.Join(each(cs, barrier)...))
			begin := time.Now()
			errs := each(cs, func(c *comm.Communicator) error {
				call := tt.rest
				if c.Rank() == 2 {
					call = tt.odd
				}
				if err := call(c); err != nil {
					return err
				}
				return barrier(c) // a rank that could run ahead learns of it here
			})
			require.Less(t, time.Since(begin), 10*time.Second)
			for r, err := range errs {
				require.ErrorIs(t, err, comm.ErrMismatch, "rank %d", r)
				require.Regexp(t, tt.text, err.Error())
			}
		})
	}
}

// TestGroupMismatchAtClose: groups that wait for nobody are compared by ranks that
// leave.
func TestGroupMismatchAtClose(t *testing.T) {
	ctx := context.Background()
	cs := local(t, 2)
	errs := each(cs, func(c *comm.Communicator) error {
		return Group(ctx, c, func(g *GroupCalls) error {
			AddAllReduce[int32](g, nil, nil, kernels.Sum)
			AddBroadcast[int8](g, nil, c.Rank())
			return nil
		})
	})
	require.NoError(t, errors.Join(errs...))
	err := errors.Join(each(cs, func(c *comm.Communicator) error { return c.Close() })...)
	require.ErrorIs(t, err, comm.ErrMismatch)
	require.Regexp(t, `rank \d: Group #1 call 2: Broadcast root \d count 0 int8; rank \d: Group #1 call 2: Broadcast root \d`, err.Error())
}

// TestGroupAllocations: persistent groups make no garbage, blocking ones little
// that does not depend on the number of calls.
func TestGroupAllocations(t *testing.T) {
	if raceEnabled {
		t.Log("the race detector allocates; nothing measured")
		return
	}
	ctx := context.Background()
	cs := local(t, 2)
	add := func(c *comm.Communicator, n int) func(g *GroupCalls) error {
		x := make([][]float32, n)
		for i := range x {
			x[i] = make([]float32, 40)
		}
		y := make([]int64, 80)
		large := make([]float64, 30_000)
		return func(g *GroupCalls) error {
			for i := range x {
				AddAllReduce(g, x[i], x[i], kernels.Max)
			}
			AddAllReduceFunc(g, y[:40], y[40:], func(acc, x []int64) {})
			AddAllReduce(g, large, large, kernels.Min)
			AddReduce(g, y[:20], y[20:40], kernels.Sum, 1) // after the one before
			AddReduce(g, y[40:60], y[60:80], kernels.Prod, 1)
			AddBroadcast(g, y[:3], 0)
			AddAllGather(g, y, y[c.Rank()*40:][:40])
			AddBarrier(g)
			AddAllToAll(g, y, y)
			AddScan(g, y, y, kernels.Sum)
			AddAllToAllV(g, y[:3], []int{1 + c.Rank(), 2 - c.Rank()}, y[3:6], []int{1 + c.Rank(), 2 - c.Rank()})
			return nil
		}
	}
	measure := func(runs int, call func(rank int) error) float64 {
		for range 2 { // what the first calls make is kept
			require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error { return call(c.Rank()) })...))
		}
		done := make(chan error, 1)
		go func() {
			for range runs + 1 { // AllocsPerRun makes one call more
				if err := call(1); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
		var err error
		allocs := testing.AllocsPerRun(runs, func() { err = errors.Join(err, call(0)) })
		require.NoError(t, err)
		require.NoError(t, <-done)
		return allocs
	}
	var groups [2]*Persistent
	var tensors [2]*Persistent
	var adds [2][2]func(g *GroupCalls) error
	for r, c := range cs {
		var err error
		groups[r], err = NewGroup(c, add(c, 100))
		require.NoError(t, err)
		tensors[r], err = NewAllReduceMany(c, [][]float32{make([]float32, 3), make([]float32, 30_000), make([]float32, 700)}, kernels.Avg)
		require.NoError(t, err)
		adds[r] = [2]func(g *GroupCalls) error{add(c, 100), add(c, 1000)}
	}
	require.Zero(t, measure(100, func(r int) error { return groups[r].Run(ctx) }))
	require.Zero(t, measure(100, func(r int) error { return tensors[r].Run(ctx) }))
	few := measure(20, func(r int) error { return Group(ctx, cs[r], adds[r][0]) })
	more := measure(20, func(r int) error { return Group(ctx, cs[r], adds[r][1]) })
	t.Logf("%v and %v allocations for 2 ranks", few, more)
	require.Less(t, few, 200.0)
	require.Less(t, more, few+40)
	runtime.KeepAlive(groups)
}

// TestIndependent compares the search for calls that share memory with one that
// looks at each two of them.
func TestIndependent(t *testing.T) {
	seed := testSeed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	c := local(t, 1)[0]
	mem := make([]byte, 400)
	for range 300 {
		ops := make([]operation, rng.IntN(40))
		for i := range ops {
			o := &ops[i]
			o.c, o.kind = c, plan.AllReduce
			slice := func() []byte {
				at, n := rng.IntN(300), rng.IntN(1+rng.IntN(20))
				return mem[at:][:n]
			}
			switch rng.IntN(4) {
			case 0:
				o.dst = slice()
			case 1:
				o.src = slice()
			case 2:
				o.dst = slice()
				o.src = o.dst
			default:
				o.dst, o.src = slice(), slice()
			}
		}
		meet := func(a, b *operation) bool {
			return !apart(a.dst, b.dst) || !apart(a.dst, b.src) || !apart(a.src, b.dst)
		}
		want, list := len(ops), []use(nil)
	search:
		for j := range ops {
			// What is written is taken for more if dst and src overlap, so only a bound.
			for i := range j {
				if meet(&ops[i], &ops[j]) {
					want = j
					break search
				}
			}
		}
		got := independentCalls(ops, &list)
		exact := !slices.ContainsFunc(ops, func(o operation) bool { return !apart(o.dst, o.src) && !same(o.dst, o.src) })
		if exact {
			require.Equal(t, want, got, "seed %d", seed)
		}
		require.LessOrEqual(t, got, want, "seed %d", seed)
		require.True(t, got == len(ops) || !independent(ops[:got+1], &list), "seed %d", seed)
	}
}

// TestPackMemory: what is packed is aligned as messages are, whatever its size.
func TestPackMemory(t *testing.T) {
	for n := granule; n < 1000; n += granule {
		var b []byte
		require.Zero(t, uintptr(unsafe.Pointer(&grown(&b, n)[0]))%granule)
		require.True(t, bytes.Equal(b, make([]byte, n)))
	}
}

// TestGroupExchange: messages in a group, with and without calls, all begin at
// once; ranks without any need not make the group.
func TestGroupExchange(t *testing.T) {
	ctx := context.Background()
	const long = 100_000 // by rendezvous
	for n := 1; n <= 4; n++ {
		cs := local(t, n)
		require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error {
			me := c.Rank()
			out, in, apart := make([]int32, n*long), make([]int32, n*long), make([]int32, 1)
			exchange := func(calls bool) func(g *GroupCalls) error {
				return func(g *GroupCalls) error {
					for p := range n {
						AddSend(g, out[p*long:][:long], p, 7)
					}
					for p := range n {
						AddRecv(g, in[p*long:][:long], p, 7)
					}
					if calls {
						AddBroadcast(g, apart, 0)
					}
					return nil
				}
			}
			check := func() error {
				for p := range n {
					if in[p*long+1] != int32(100*p+me) {
						return fmt.Errorf("%d from %d", in[p*long+1], p)
					}
				}
				clear(in)
				return nil
			}
			for p := range n {
				out[p*long+1] = int32(100*me + p)
			}
			p, err := NewGroup(c, exchange(false))
			if err != nil {
				return err
			}
			for _, run := range []func() error{
				func() error { return Group(ctx, c, exchange(false)) },
				func() error { return Group(ctx, c, exchange(true)) },
				func() error {
					r := StartGroup(ctx, c, exchange(false))
					return errors.Join(Barrier(ctx, c), r.Wait(ctx))
				},
				func() error { return StartGroup(ctx, c, exchange(true)).Wait(ctx) },
				func() error { return p.Run(ctx) },
				func() error { return p.Run(ctx) },
			} {
				if err := errors.Join(run(), check()); err != nil {
					return err
				}
			}
			// Between two of them, the others making nothing of it.
			if n > 2 && me < 2 {
				if err := Group(ctx, c, func(g *GroupCalls) error {
					AddSend(g, out[:3], 1-me, 1)
					AddRecv(g, in[:3], 1-me, 1)
					return nil
				}); err != nil {
					return err
				}
			}
			err = Group(ctx, c, func(g *GroupCalls) error { AddSend(g, out, n, 0); return nil })
			if !errors.Is(err, ErrPeer) {
				return fmt.Errorf("%v", err)
			}
			return Barrier(ctx, c)
		})...))
	}
}

// TestGroupMessageMemory: messages of a group have no order, so their memory must
// be theirs.
func TestGroupMessageMemory(t *testing.T) {
	ctx := context.Background()
	cs := local(t, 2)
	require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error {
		x, y := make([]int32, 8), make([]int32, 8)
		peer := 1 - c.Rank()
		for i, tt := range []struct {
			fn func(g *GroupCalls)
			ok bool
		}{
			{func(g *GroupCalls) {
				AddAllReduce(g, x, x, kernels.Sum)
				AddSend(g, x[7:], peer, 0)
				AddRecv(g, y, peer, 0)
			}, false},
			{func(g *GroupCalls) { AddSend(g, x, peer, 0); AddRecv(g, x[3:4], peer, 0) }, false},
			{func(g *GroupCalls) { AddRecv(g, x[:5], peer, 0); AddRecv(g, x[4:], peer, 0) }, false},
			{func(g *GroupCalls) { AddRecv(g, y, peer, 0); AddAllReduce(g, x, y, kernels.Sum) }, false},
			{func(g *GroupCalls) {
				AddSend(g, x, peer, 0)
				AddSend(g, x, peer, 1)
				AddAllReduce(g, y[:4], x[:4], kernels.Sum)
			}, true},
		} {
			err := Group(ctx, c, func(g *GroupCalls) error { tt.fn(g); return nil })
			if (err == nil) != tt.ok || err != nil && !errors.Is(err, ErrOverlap) {
				return fmt.Errorf("case %d: %v", i, err)
			}
		}
		for tag := range 2 {
			if _, err := Recv(ctx, c, y, peer, tag); err != nil {
				return err
			}
		}
		return Barrier(ctx, c)
	})...))
}

// TestGroupNumbers: calls and messages are counted together.
func TestGroupNumbers(t *testing.T) {
	c := local(t, 1)[0]
	x := make([]int32, 4)
	err := Group(context.Background(), c, func(g *GroupCalls) error {
		AddBarrier(g)
		AddSend(g, x, 0, 0)
		AddSend(g, x, 7, 0)
		AddBroadcast(g, x, 9)
		return nil
	})
	require.ErrorIs(t, err, ErrPeer)
	require.ErrorContains(t, err, "call 3, Send to 7")
}

// TestCountsAreCopied: the counts of a call that has been added, or started, may be
// used for the next.
func TestCountsAreCopied(t *testing.T) {
	ctx := context.Background()
	cs := local(t, 2)
	require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error {
		me := c.Rank()
		src := []int32{int32(me + 1), int32(me + 1), int32(me + 1)}
		a, b, d := make([]int32, 3), make([]int32, 5), make([]int32, 4)
		counts := []int{1, 2}
		err := Group(ctx, c, func(g *GroupCalls) error {
			AddAllGatherV(g, a, counts, src[:counts[me]])
			counts[0], counts[1] = 3, 2
			AddAllGatherV(g, b, counts, src[:counts[me]])
			return nil
		})
		if err != nil {
			return err
		}
		counts[0], counts[1] = 1, 3 // not equal: those of equal blocks are looked at once
		r := StartAllGatherV(ctx, c, d, counts, src[:counts[me]])
		counts[0], counts[1] = 100, -5
		if err := r.Wait(ctx); err != nil {
			return err
		}
		if !slices.Equal(a, []int32{1, 2, 2}) || !slices.Equal(b, []int32{1, 1, 1, 2, 2}) || !slices.Equal(d, []int32{1, 2, 2, 2}) {
			return fmt.Errorf("%v %v %v", a, b, d)
		}
		return nil
	})...))
}
