package collectives

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/weft-go/weft/collectives/plan"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/internal/ranktest"
	"github.com/weft-go/weft/kernels"
)

// Random programs of collectives are run in several ways, which must not be seen
// in what they compute. A program is a list of steps; an interpreter makes them in one
// form of call (blocking, started, …) on some communicator, and a reference works out
// what each rank should have, without communication.

// A metaType is a type of elements that programs use.
type metaType struct {
	name string
	e    element
	fill func(b []byte, r *rand.Rand)
	ops  []metaOp
}

// A metaOp is an operator on elements of a type. exact: its result doesn't depend
// on how contributions are put together, only on their order.
type metaOp struct {
	operator
	exact bool
}

func filler[T any](gen func(r *rand.Rand) T) func(b []byte, r *rand.Rand) {
	return func(b []byte, r *rand.Rand) {
		s := sliceOf[T](b)
		for i := range s {
			s[i] = gen(r)
		}
	}
}

// onNumbers are operators of package kernels.
func onNumbers(exact bool, list ...kernels.Op) (ops []metaOp) {
	for _, op := range list {
		ops = append(ops, metaOp{operator{op: op}, exact})
	}
	return ops
}

// byFunction is a function that is associative; none of them is commutative.
func byFunction[T any](f func(acc, x T) T) []metaOp {
	return []metaOp{{byFunc(func(acc, x []T) {
		for i := range acc {
			acc[i] = f(acc[i], x[i])
		}
	}), true}}
}

// affine32 is x ↦ a·x + b.
type affine32 struct{ a, b, unused uint32 }

func metaTypes() []metaType {
	normal := func(r *rand.Rand) float64 { return r.NormFloat64() }
	return []metaType{
		{"uint8", numberOf[uint8](), filler(func(r *rand.Rand) uint8 { return uint8(r.Uint32()) }),
			onNumbers(true, kernels.Sum, kernels.Prod, kernels.Min, kernels.Avg, kernels.BitXor, kernels.LogicalOr)},
		{"int32", numberOf[int32](), filler(func(r *rand.Rand) int32 { return int32(r.Uint32()) }),
			append(onNumbers(true, kernels.Sum, kernels.Max, kernels.BitAnd, kernels.LogicalAnd), byFunction(func(acc, x int32) int32 { return x })...)},
		{"int64", numberOf[int64](), filler(func(r *rand.Rand) int64 { return int64(r.Uint64()) }),
			onNumbers(true, kernels.Sum, kernels.Prod, kernels.Min, kernels.BitOr)},
		{"float32", numberOf[float32](), filler(func(r *rand.Rand) float32 { return float32(normal(r)) }),
			append(onNumbers(false, kernels.Sum, kernels.Prod, kernels.Avg), onNumbers(true, kernels.Max)...)},
		{"float64", numberOf[float64](), filler(normal),
			append(onNumbers(false, kernels.Sum, kernels.Avg), onNumbers(true, kernels.Min)...)},
		{"bfloat16", numberOf[kernels.BFloat16](), filler(func(r *rand.Rand) kernels.BFloat16 { return kernels.BFloat16FromFloat32(float32(normal(r))) }),
			append(onNumbers(false, kernels.Sum, kernels.Avg), onNumbers(true, kernels.Max)...)},
		{"complex64", numberOf[complex64](), filler(func(r *rand.Rand) complex64 { return complex(float32(normal(r)), float32(normal(r))) }),
			onNumbers(false, kernels.Sum, kernels.Prod)},
		{"Float64Loc", elementOf[kernels.Float64Loc](), filler(func(r *rand.Rand) kernels.Float64Loc {
			return kernels.Float64Loc{Value: float64(r.IntN(3)), Index: int64(r.IntN(9))}
		}), onNumbers(true, kernels.MaxLoc, kernels.MinLoc)},
		{"affine", elementOf[affine32](), filler(func(r *rand.Rand) affine32 { return affine32{r.Uint32(), r.Uint32(), r.Uint32()} }),
			byFunction(func(acc, x affine32) affine32 { return affine32{x.a * acc.a, x.a*acc.b + x.b, acc.unused} })},
		{"[5]byte", elementOf[[5]byte](), filler(func(r *rand.Rand) [5]byte { return [5]byte{byte(r.Uint32()), 4: byte(r.Uint32())} }),
			byFunction(func(acc, x [5]byte) [5]byte { return [5]byte{acc[0], 4: x[4]} })},
	}
}

// A step is a call with its arguments.
type step struct {
	kind    comm.Collective
	elem    int // of metaTypes
	op      int // of its ops
	root    int
	count   int     // per rank, or per block
	counts  [][]int // of V forms: AllToAllV has those of each rank, the others only the first
	inPlace bool
	begins  bool // a ReduceScatter in place has its result at the beginning of src
	// again: the call works in place on what the step before left.
	again bool
	seed  uint64 // of the inputs
}

var types = metaTypes()

func (s *step) typ() *metaType { return &types[s.elem] }
func (s *step) size() int      { return s.typ().e.size }
func (s *step) by() operator   { return s.typ().ops[s.op].operator }

func (s *step) String() string {
	text := fmt.Sprintf("%v of %d %s", s.kind, s.count, s.typ().name)
	if (comm.Call{Collective: s.kind}).Reduces() {
		if by := s.by(); by.f != nil {
			text += " by a function"
		} else {
			text += " " + by.op.String()
		}
	}
	return fmt.Sprintf("%s root %d counts %v in place %v again %v", text, s.root, s.counts, s.inPlace, s.again)
}

// A metaProgram is what n ranks call.
type metaProgram struct {
	n     int
	steps []step
	ends  []int // of batches: after these steps everybody waits for all calls
	long  bool  // vectors are
}

var metaKinds = []comm.Collective{
	comm.OpAllReduce, comm.OpReduce, comm.OpBroadcast, comm.OpAllGather, comm.OpAllToAll, comm.OpBarrier,
	comm.OpReduceScatter, comm.OpReduceScatterBlock, comm.OpGather, comm.OpScatter, comm.OpScan, comm.OpExscan,
	comm.OpAllGatherV, comm.OpGatherV, comm.OpScatterV, comm.OpAllToAllV,
}

// newMetaProgram draws a program. exact: whatever the algorithm, it has one result.
func newMetaProgram(seed uint64, n, steps int, exact bool) *metaProgram {
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	p := &metaProgram{n: n}
	for len(p.steps) < steps {
		p.draw(r, metaKinds[r.IntN(len(metaKinds))], exact, true)
		if r.IntN(5) == 0 && len(p.steps) < steps {
			p.ends = append(p.ends, len(p.steps))
		}
	}
	p.ends = append(p.ends, steps)
	return p
}

// draw adds a step of some kind. goesOn: it may use the memory of the step before.
func (p *metaProgram) draw(r *rand.Rand, kind comm.Collective, exact, goesOn bool) {
	n := p.n
	size := func() int {
		if p.long {
			return 1<<(13+r.IntN(6)) + r.IntN(1000)
		}
		switch r.IntN(25) {
		case 0:
			return r.IntN(60_000)
		case 1, 2, 3:
			return r.IntN(3000)
		case 4, 5, 6:
			return 0
		}
		return r.IntN(40)
	}
	row := func() []int {
		c := make([]int, n)
		same, k := r.IntN(4) == 0, size()/n
		for i := range c {
			if c[i] = k; !same {
				c[i] = size() / n
			}
		}
		return c
	}
	s := step{
		kind: kind, elem: r.IntN(len(types)), root: r.IntN(n), count: size(),
		inPlace: r.IntN(2) == 0, begins: r.IntN(2) == 0, seed: r.Uint64(),
	}
	reduces := comm.Call{Collective: s.kind}.Reduces()
	for ok := false; !ok; { // an operator that the call can use
		s.op = r.IntN(len(s.typ().ops))
		op := s.typ().ops[s.op]
		if ok = !reduces || (op.exact || !exact) && s.takes(op); !ok {
			s.elem = r.IntN(len(types))
		}
	}
	switch s.kind {
	case comm.OpAllGather, comm.OpAllToAll, comm.OpReduceScatterBlock, comm.OpGather, comm.OpScatter:
		s.count /= n
	case comm.OpAllGatherV, comm.OpGatherV, comm.OpScatterV, comm.OpReduceScatter:
		s.counts = [][]int{row()}
	case comm.OpAllToAllV:
		for range n {
			s.counts = append(s.counts, row())
		}
		for q := range n { // in place what comes is as long as what goes
			for p := range q {
				if s.inPlace {
					s.counts[q][p] = s.counts[p][q]
				}
			}
		}
	}
	// On the memory of the last step, if it has the same shape on all ranks.
	if last := len(p.steps) - 1; goesOn && last >= 0 && r.IntN(2) == 0 && s.overwrites() && p.steps[last].overwrites() {
		prev := &p.steps[last]
		if op := prev.typ().ops; s.op < len(op) && op[s.op].exact && s.takes(op[s.op]) {
			s.elem, s.count, s.inPlace, s.again = prev.elem, prev.count, true, true
		}
	}
	p.steps = append(p.steps, s)
}

// takes: the call can reduce by an operator.
func (s *step) takes(op metaOp) bool {
	return op.f != nil || op.op != kernels.Avg || s.kind != comm.OpScan && s.kind != comm.OpExscan
}

// overwrites: the call can have its result where its input was, on all ranks.
func (s *step) overwrites() bool {
	return s.kind == comm.OpAllReduce || s.kind == comm.OpBroadcast || s.kind == comm.OpScan
}

// lengths are the elements of dst and src on a rank of n.
func (s *step) lengths(rank, n int) (dst, src int) {
	row := func(r int) []int { return s.counts[r] }
	switch s.kind {
	case comm.OpBarrier:
		return 0, 0
	case comm.OpReduce:
		if rank != s.root {
			return 0, s.count
		}
	case comm.OpAllGather:
		return n * s.count, s.count
	case comm.OpAllToAll:
		return n * s.count, n * s.count
	case comm.OpReduceScatterBlock:
		return s.count, n * s.count
	case comm.OpReduceScatter:
		return row(0)[rank], sum(row(0))
	case comm.OpGather:
		if rank != s.root {
			return 0, s.count
		}
		return n * s.count, s.count
	case comm.OpScatter:
		if rank != s.root {
			return s.count, 0
		}
		return s.count, n * s.count
	case comm.OpAllGatherV:
		return sum(row(0)), row(0)[rank]
	case comm.OpGatherV:
		if rank != s.root {
			return 0, row(0)[rank]
		}
		return sum(row(0)), row(0)[rank]
	case comm.OpScatterV:
		if rank != s.root {
			return row(0)[rank], 0
		}
		return row(0)[rank], sum(row(0))
	case comm.OpAllToAllV:
		return sum(s.column(rank)), sum(row(rank))
	}
	return s.count, s.count
}

// column is what a rank gets from each in an AllToAllV.
func (s *step) column(rank int) []int {
	c := make([]int, len(s.counts))
	for p := range c {
		c[p] = s.counts[p][rank]
	}
	return c
}

// start is where a rank's block begins, in elements.
func (s *step) start(rank int) int {
	if s.counts != nil {
		return sum(s.counts[0][:rank])
	}
	return rank * s.count
}

// input is what a rank has in src.
func (s *step) input(rank, n int) []byte {
	_, elems := s.lengths(rank, n)
	b := make([]byte, elems*s.size())
	s.typ().fill(b, rand.New(rand.NewPCG(s.seed, uint64(rank))))
	return b
}

// memory returns dst and src on a rank, of memory that take gives, with src filled:
// in place if the step says so and the call has such a form on this rank. What is not
// to be written is 0xa5.
func (s *step) memory(rank, n int, take func(bytes int) []byte) (dst, src []byte) {
	nDst, nSrc := s.lengths(rank, n)
	size := s.size()
	all := take(max(nDst, nSrc) * size)
	for i := range all {
		all[i] = 0xa5
	}
	block := func(whole []byte, elems int) []byte { return whole[s.start(rank)*size:][:elems*size] }
	dst, src = all[:nDst*size], all[:nSrc*size]
	switch {
	case !s.inPlace && s.kind != comm.OpBroadcast:
		src = take(nSrc * size)
	case s.kind == comm.OpReduce && rank != s.root:
	case s.kind == comm.OpAllGather, s.kind == comm.OpAllGatherV:
		src = block(dst, nSrc)
	case s.kind == comm.OpGather && rank == s.root, s.kind == comm.OpGatherV && rank == s.root:
		src = block(dst, nSrc)
	case s.kind == comm.OpScatter && rank == s.root, s.kind == comm.OpScatterV && rank == s.root:
		dst = block(src, nDst)
	case (s.kind == comm.OpReduceScatterBlock || s.kind == comm.OpReduceScatter) && !s.begins:
		dst = block(src, nDst)
	}
	copy(src, s.input(rank, n))
	return dst, src
}

// newMemory is memory that nobody used before.
func newMemory(bytes int) []byte { return make([]byte, bytes) }

// operation is the call of a step.
func (s *step) operation(c *comm.Communicator, dst, src []byte) operation {
	e, by := s.typ().e, s.by()
	rank := c.Rank()
	switch s.kind {
	case comm.OpAllReduce:
		return allReduce(c, e, dst, src, by)
	case comm.OpReduce:
		return reduce(c, e, dst, src, by, s.root)
	case comm.OpBroadcast:
		return broadcast(c, e, dst, s.root)
	case comm.OpAllGather:
		return allGather(c, e, dst, src)
	case comm.OpAllToAll:
		return allToAll(c, e, dst, src)
	case comm.OpReduceScatter:
		return reduceScatter(c, e, dst, src, s.counts[0], by)
	case comm.OpReduceScatterBlock:
		return reduceScatterBlock(c, e, dst, src, by)
	case comm.OpGather:
		return gather(c, e, dst, src, s.root)
	case comm.OpScatter:
		return scatter(c, e, dst, src, s.root)
	case comm.OpScan:
		return scan(c, e, dst, src, by)
	case comm.OpExscan:
		return exscan(c, e, dst, src, by)
	case comm.OpAllGatherV:
		return allGatherV(c, e, dst, s.counts[0], src)
	case comm.OpGatherV:
		return gatherV(c, e, dst, s.counts[0], src, s.root)
	case comm.OpScatterV:
		return scatterV(c, e, dst, src, s.counts[0], s.root)
	case comm.OpAllToAllV:
		return allToAllV(c, e, dst, s.column(rank), src, s.counts[rank])
	}
	return barrier(c)
}

// reduced is a reduction in rank order.
func (s *step) reduced(srcs [][]byte) []byte {
	by, dst := s.by(), make([]byte, len(srcs[0]))
	switch {
	case by.f != nil:
		copy(dst, srcs[0])
		for _, src := range srcs[1:] {
			if len(dst) > 0 {
				by.f.fold(dst, src)
			}
		}
		return dst
	case by.op == kernels.Avg:
		must(kernels.Average(dst, srcs, s.typ().e.t, len(srcs)))
		return dst
	case len(srcs) == 1 && (by.op == kernels.LogicalAnd || by.op == kernels.LogicalOr):
		must(kernels.Reduce(dst, [][]byte{srcs[0], srcs[0]}, s.typ().e.t, by.op)) // normalised
		return dst
	}
	must(kernels.Reduce(dst, srcs, s.typ().e.t, by.op))
	return dst
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// reference is what dst has on all ranks after each step.
func (p *metaProgram) reference() [][][]byte {
	var all [][][]byte
	for i := range p.steps {
		s := &p.steps[i]
		in, out := make([][]byte, p.n), make([][]byte, p.n)
		for r := range p.n {
			if in[r] = s.input(r, p.n); s.again {
				in[r] = all[i-1][r]
			}
		}
		at := func(r, from, elems int) []byte { return in[r][from*s.size():][:elems*s.size()] }
		for r := range p.n {
			dst, src := s.memory(r, p.n, newMemory)
			if s.again {
				dst, src = slices.Clone(in[r]), in[r]
			}
			var want []byte
			switch s.kind {
			case comm.OpBarrier:
			case comm.OpAllReduce:
				want = s.reduced(in)
			case comm.OpReduce:
				if r == s.root {
					want = s.reduced(in)
				}
			case comm.OpBroadcast:
				want = in[s.root]
			case comm.OpAllGather, comm.OpAllGatherV:
				want = bytes.Join(in, nil)
			case comm.OpGather, comm.OpGatherV:
				if r == s.root {
					want = bytes.Join(in, nil)
				}
			case comm.OpScatter, comm.OpScatterV:
				want = at(s.root, s.start(r), len(dst)/s.size())
			case comm.OpAllToAll:
				for q := range p.n {
					want = append(want, at(q, r*s.count, s.count)...)
				}
			case comm.OpAllToAllV:
				for q := range p.n {
					want = append(want, at(q, sum(s.counts[q][:r]), s.counts[q][r])...)
				}
			case comm.OpReduceScatter, comm.OpReduceScatterBlock:
				var blocks [][]byte
				for q := range p.n {
					blocks = append(blocks, at(q, s.start(r), len(dst)/s.size()))
				}
				want = s.reduced(blocks)
			case comm.OpScan:
				want = s.reduced(in[:r+1])
			case comm.OpExscan:
				want = slices.Clone(dst)
				if r > 0 {
					want = s.reduced(in[:r])
				} else if s.inPlace {
					want = src
				}
			}
			out[r] = want
		}
		all = append(all, out)
	}
	return all
}

// adding is the function of a group of operations.
func adding(ops []operation) func(g *GroupCalls) error {
	return func(g *GroupCalls) error {
		for _, o := range ops {
			g.add(o)
		}
		return nil
	}
}

// metaForms are the ways to make the calls of one batch. rng is this rank's own;
// returned is told of each call, when it has returned without an error.
var metaForms = []struct {
	name string
	run  func(ctx context.Context, c *comm.Communicator, ops []operation, rng *rand.Rand, returned func(call int)) error
}{
	{"blocking", func(ctx context.Context, c *comm.Communicator, ops []operation, rng *rand.Rand, returned func(int)) error {
		for i := range ops {
			if err := ops[i].run(ctx); err != nil {
				return err
			}
			returned(i)
		}
		return nil
	}},
	{"started", func(ctx context.Context, c *comm.Communicator, ops []operation, rng *rand.Rand, returned func(int)) error {
		var all []*Request
		for _, o := range ops {
			all = append(all, start(ctx, o))
		}
		for _, i := range rng.Perm(len(all)) {
			if err := all[i].Wait(ctx); err != nil {
				return WaitAll(ctx, all...)
			}
			returned(i)
		}
		return nil
	}},
	{"persistent", func(ctx context.Context, c *comm.Communicator, ops []operation, rng *rand.Rand, returned func(int)) error {
		var all []*Persistent
		for _, o := range ops {
			p, err := newPersistent(o)
			if err != nil {
				return err
			}
			all = append(all, p)
		}
		for i, p := range all {
			if err := p.Run(ctx); err != nil {
				return err
			}
			returned(i)
		}
		return nil
	}},
	{"started persistent", func(ctx context.Context, c *comm.Communicator, ops []operation, rng *rand.Rand, returned func(int)) error {
		var all []*Request
		for _, o := range ops {
			p, err := newPersistent(o)
			if err != nil {
				return err
			}
			all = append(all, p.Start(ctx))
		}
		return allReturned(WaitAll(ctx, all...), ops, returned)
	}},
	{"group", func(ctx context.Context, c *comm.Communicator, ops []operation, rng *rand.Rand, returned func(int)) error {
		return allReturned(Group(ctx, c, adding(ops)), ops, returned)
	}},
	{"group, in several forms", func(ctx context.Context, c *comm.Communicator, ops []operation, rng *rand.Rand, returned func(int)) error {
		var err error
		switch rng.IntN(3) {
		case 0:
			err = Group(ctx, c, adding(ops))
		case 1:
			err = StartGroup(ctx, c, adding(ops)).Wait(ctx)
		default:
			var p *Persistent
			p, err = NewGroup(c, adding(ops))
			err = errors.Join(err, p.Run(ctx))
		}
		return allReturned(err, ops, returned)
	}},
	{"groups of two", func(ctx context.Context, c *comm.Communicator, ops []operation, rng *rand.Rand, returned func(int)) error {
		var all []*Request
		for pair := range slices.Chunk(ops, 2) {
			all = append(all, StartGroup(ctx, c, adding(pair)))
		}
		return allReturned(WaitAll(ctx, all...), ops, returned)
	}},
	// Each rank makes each call in a form of its own choice.
	{"mixed", func(ctx context.Context, c *comm.Communicator, ops []operation, rng *rand.Rand, returned func(int)) error {
		all := make([]*Request, len(ops))
		for i, o := range ops {
			var err error
			switch rng.IntN(4) {
			case 0:
				err = o.run(ctx)
			case 1:
				all[i] = start(ctx, o)
			default:
				var p *Persistent
				if p, err = newPersistent(o); err == nil && rng.IntN(2) == 0 {
					err = p.Run(ctx)
				} else if err == nil {
					all[i] = p.Start(ctx)
				}
			}
			if err != nil {
				return err
			}
			if all[i] == nil {
				returned(i)
			}
		}
		if err := WaitAll(ctx, all...); err != nil {
			return err
		}
		for i, r := range all {
			if r != nil {
				returned(i)
			}
		}
		return nil
	}},
}

// allReturned tells of calls that return together, unless with an error.
func allReturned(err error, ops []operation, returned func(call int)) error {
	if err == nil {
		for i := range ops {
			returned(i)
		}
	}
	return err
}

// run makes the calls of a program in a form and compares what each step left
// with the reference.
func (p *metaProgram) run(ctx context.Context, c *comm.Communicator, form int, rng *rand.Rand, want [][][]byte) error {
	rank, from := c.Rank(), 0
	if c.Size() != p.n {
		return fmt.Errorf("a program for %d ranks on %d", p.n, c.Size())
	}
	var dst []byte
	for _, to := range p.ends {
		var ops []operation
		var results [][]byte
		for i := from; i < to; i++ {
			s := &p.steps[i]
			src := dst
			if !s.again {
				dst, src = s.memory(rank, p.n, newMemory)
			}
			ops = append(ops, s.operation(c, dst, src))
			results = append(results, dst)
		}
		if err := metaForms[form].run(ctx, c, ops, rng, func(int) {}); err != nil {
			return fmt.Errorf("%s: steps %d to %d, %v …: %w", metaForms[form].name, from, to-1, &p.steps[from], err)
		}
		for i, got := range results {
			if next := from + i + 1; next < to && p.steps[next].again {
				continue // overwritten
			}
			if err := p.compare(from+i, rank, got, want[from+i][rank]); err != nil {
				return fmt.Errorf("%s: %w", metaForms[form].name, err)
			}
		}
		from = to
	}
	return nil
}

// compare compares what a step left in dst on a rank with what it should have.
func (p *metaProgram) compare(i, rank int, got, want []byte) error {
	if bytes.Equal(got, want) {
		return nil
	}
	at := 0
	for at < len(got) && at < len(want) && got[at] == want[at] {
		at++
	}
	return fmt.Errorf("step %d, %v, rank %d of %d: %d bytes, want %d; they differ at %d: %x, want %x",
		i, &p.steps[i], rank, p.n, len(got), len(want), at, got[at:min(at+16, len(got))], want[at:min(at+16, len(want))])
}

// A metaJob is what the ranks of a job do: programs on communicators that come of
// their world in several ways. All ranks draw the same.
type metaJob struct {
	seed  uint64
	exact bool
	steps int
	forms int // how many of each program
}

// communicators are the ways to a communicator. They say which ranks of world
// form it, in their new order.
var communicators = []struct {
	name string
	make func(ctx context.Context, world *comm.Communicator, r *rand.Rand) (*comm.Communicator, error)
}{
	{"world", func(ctx context.Context, world *comm.Communicator, r *rand.Rand) (*comm.Communicator, error) {
		return world, nil
	}},
	{"Dup", func(ctx context.Context, world *comm.Communicator, r *rand.Rand) (*comm.Communicator, error) {
		return world.Dup(ctx)
	}},
	{"reordered", func(ctx context.Context, world *comm.Communicator, r *rand.Rand) (*comm.Communicator, error) {
		return world.Split(ctx, 0, r.Perm(world.Size())[world.Rank()])
	}},
	{"parts", func(ctx context.Context, world *comm.Communicator, r *rand.Rand) (*comm.Communicator, error) {
		colors := make([]int, world.Size())
		for i := range colors {
			colors[i] = r.IntN(3) - 1
		}
		return world.Split(ctx, colors[world.Rank()], r.Perm(world.Size())[world.Rank()])
	}},
	{"Dup of a part", func(ctx context.Context, world *comm.Communicator, r *rand.Rand) (*comm.Communicator, error) {
		part, err := world.Split(ctx, r.IntN(2)*world.Rank()%2, -world.Rank())
		if err != nil {
			return nil, err
		}
		dup, err := part.Dup(ctx)
		if err == nil {
			err = part.Close()
		}
		return dup, err
	}},
}

// run does the job on a rank of world.
func (j metaJob) run(ctx context.Context, world *comm.Communicator) error {
	common := rand.New(rand.NewPCG(j.seed, 17))
	own := rand.New(rand.NewPCG(j.seed, uint64(1000+world.Rank())))
	programs := map[int]*metaProgram{} // by the number of ranks
	references := map[int][][][]byte{}
	for way := range communicators {
		perms := common.Uint64()
		first := common.IntN(len(metaForms))
		c, err := communicators[way].make(ctx, world, rand.New(rand.NewPCG(perms, 0)))
		if err != nil {
			return fmt.Errorf("%s: %w", communicators[way].name, err)
		}
		if c == nil {
			continue
		}
		n := c.Size()
		if programs[n] == nil {
			programs[n] = newMetaProgram(j.seed, n, j.steps, j.exact)
			references[n] = programs[n].reference()
		}
		for f := range j.forms {
			if err := programs[n].run(ctx, c, (first+f)%len(metaForms), own, references[n]); err != nil {
				return fmt.Errorf("seed %d, exact %v, %s: %w", j.seed, j.exact, communicators[way].name, err)
			}
		}
		if c != world {
			if err := c.Close(); err != nil {
				return err
			}
		}
	}
	return nil
}

// metaSpecs are choices of algorithms that between them name every one. The first
// is that of the library.
func metaSpecs() []string {
	all := []string{""}
	most := 0
	for _, k := range plan.Collectives() {
		most = max(most, len(plan.Algorithms(k)))
	}
	for i := range most {
		var lists []string
		for _, k := range plan.Collectives() {
			names := plan.Algorithms(k)
			lists = append(lists, fmt.Sprintf("%v:%s", k, names[i%len(names)]))
		}
		all = append(all, strings.Join(lists, ";"))
	}
	return all
}

// metaSeed is drawn, or WEFT_TEST_SEED.
func metaSeed(t *testing.T) uint64 {
	if s := os.Getenv("WEFT_TEST_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
		return seed
	}
	return testSeed(t)
}

// TestMetamorphicLocal runs programs on goroutines, by every choice of algorithms,
// on mapped memory and on a fabric.
// WEFT_TEST_LONG=1 runs many more, WEFT_TEST_SEED the ones of a seed.
func TestMetamorphicLocal(t *testing.T) {
	seed := metaSeed(t)
	rounds, most := 1, 5
	if testLong {
		rounds, most = 10, 9
	}
	for round := range rounds {
		for i, spec := range metaSpecs() {
			seed := seed + uint64(1000*round+i)
			n := 1 + int(seed%uint64(most))
			if raceEnabled && i%3 != 0 {
				continue
			}
			j := metaJob{seed: seed, exact: spec != "", steps: 40, forms: 3}
			if spec == "" {
				n, j.steps, j.forms = most, 80, len(metaForms)
			}
			transport, faults := "pointer", ""
			switch i % 4 { // the result must not depend on it
			case 1:
				transport, faults = "fabric:fast", fmt.Sprintf("seed=%d,rate=0.03", seed)
			case 3:
				transport = "fabric"
			}
			cs, err := comm.Local(n, comm.WithTimeout(time.Minute), comm.WithAlgorithm(spec), comm.WithTransport(transport), comm.WithFaults(faults))
			require.NoError(t, err)
			var g errgroup.Group
			for _, c := range cs {
				g.Go(func() error {
					err := j.run(context.Background(), c)
					if err != nil {
						c.Abort(err)
					}
					if cerr := c.Close(); err == nil {
						err = cerr
					}
					return err
				})
			}
			require.NoError(t, g.Wait(), "seed %d, ranks %d, %q, %s", seed, n, spec, transport)
		}
	}
}

// metamorphicProgram is a rank of the multi-process test.
func metamorphicProgram() error {
	seed, err := strconv.ParseUint(os.Getenv("WEFT_TEST_SEED"), 10, 64)
	if err != nil {
		return err
	}
	c, err := comm.Init(context.Background(), comm.WithTimeout(time.Minute))
	if err != nil {
		return err
	}
	for k := range uint64(2) {
		j := metaJob{seed: seed + k, exact: c.Algorithm() != "", steps: 60, forms: len(metaForms)}
		if err := j.run(context.Background(), c); err != nil {
			c.Abort(err)
			c.Close()
			return err
		}
	}
	return c.Close()
}

// TestMetamorphicProcesses runs programs on processes, whose memory is shared.
func TestMetamorphicProcesses(t *testing.T) {
	seed := metaSeed(t)
	specs := metaSpecs()
	rounds := uint64(3)
	if testLong {
		rounds = 60
	}
	if raceEnabled {
		rounds = 1
	}
	for k := range rounds {
		n := 2 + int((seed+k)%4)
		spec := specs[int(seed+k)%len(specs)*min(int(k), 1)] // the first time that of the library
		var env []string
		if spec != "" {
			env = append(env, "WEFT_ALGO="+spec)
		}
		t.Logf("seed %d, ranks %d, %q", seed+k, n, spec)
		ranktest.Start(t, n, "metamorphic", append(env, fmt.Sprintf("WEFT_TEST_SEED=%d", seed+k))...).Succeed(t, 2*time.Minute)
	}
}

// TestMetamorphicReference: the reference itself, for a step that can be worked
// out by hand, and that programs have every kind of step.
func TestMetamorphicReference(t *testing.T) {
	seen := map[comm.Collective]int{}
	again, inPlace := 0, 0
	for seed := range uint64(20) {
		for _, s := range newMetaProgram(seed, 3, 50, false).steps {
			seen[s.kind]++
			if s.again {
				again++
			}
			if s.inPlace {
				inPlace++
			}
		}
	}
	for _, k := range metaKinds {
		require.Greater(t, seen[k], 20, k)
	}
	require.Greater(t, again, 5)
	require.Greater(t, inPlace, 100)

	i32 := slices.IndexFunc(types, func(m metaType) bool { return m.name == "int32" })
	p := &metaProgram{n: 2, steps: []step{
		{kind: comm.OpScan, elem: i32, count: 1, seed: 5},
		{kind: comm.OpBroadcast, elem: i32, count: 1, root: 1, again: true},
	}}
	var in [2]uint32
	for r := range in {
		in[r] = binary.LittleEndian.Uint32(p.steps[0].input(r, 2))
	}
	got := p.reference()
	require.Equal(t, in[0], binary.LittleEndian.Uint32(got[0][0]))
	require.Equal(t, in[0]+in[1], binary.LittleEndian.Uint32(got[0][1]))
	require.Equal(t, got[0][1], got[1][0])
}
