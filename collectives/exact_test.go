package collectives

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/internal/ranktest"
	"github.com/weft-go/weft/kernels"
)

var ops = []kernels.Op{kernels.Sum, kernels.Prod, kernels.Min, kernels.Max, kernels.Avg}

// counts are the awkward numbers of elements for n ranks.
func counts(n int) []int { return []int{0, 1, 2, n - 1, n, n + 1, 1000, 65537} }

// An exactCase checks every collective with one element type against a loop.
type exactCase struct {
	name string
	run  func(ctx context.Context, c *comm.Communicator, count int, seed uint64) error
}

// caseOf makes the case of one type: gen draws an element, ref reduces elements
// in their order, and eq says whether two results are the same.
func caseOf[T kernels.Number](gen func(*rand.Rand) T, ref func(kernels.Op, []T) T, eq func(a, b T) bool) exactCase {
	var zero T
	return exactCase{fmt.Sprintf("%T", zero), func(ctx context.Context, c *comm.Communicator, count int, seed uint64) error {
		return exact(ctx, c, count, seed, gen, ref, eq)
	}}
}

type (
	named16    uint16
	namedHalf  kernels.Float16
	namedFloat float32
)

func exactCases() []exactCase {
	return []exactCase{
		caseOf(genInt[int], refReal[int], same2[int]), caseOf(genInt[int8], refReal[int8], same2[int8]),
		caseOf(genInt[int16], refReal[int16], same2[int16]), caseOf(genInt[int32], refReal[int32], same2[int32]),
		caseOf(genInt[int64], refReal[int64], same2[int64]), caseOf(genInt[uint], refReal[uint], same2[uint]),
		caseOf(genInt[uint8], refReal[uint8], same2[uint8]), caseOf(genInt[uint16], refReal[uint16], same2[uint16]),
		caseOf(genInt[uint32], refReal[uint32], same2[uint32]), caseOf(genInt[uint64], refReal[uint64], same2[uint64]),
		caseOf(genFloat[float32], refReal[float32], sameFloat[float32]), caseOf(genFloat[float64], refReal[float64], sameFloat[float64]),
		caseOf(genHalf, refHalf, sameHalf), caseOf(genBrain, refBrain, sameBrain),
		caseOf(genInt[named16], refReal[named16], same2[named16]), caseOf(genFloat[namedFloat], refReal[namedFloat], sameFloat[namedFloat]),
		caseOf(
			func(r *rand.Rand) namedHalf { return namedHalf(genHalf(r)) },
			func(op kernels.Op, v []namedHalf) namedHalf {
				w := make([]kernels.Float16, len(v))
				for i := range v {
					w[i] = kernels.Float16(v[i])
				}
				return namedHalf(refHalf(op, w))
			},
			func(a, b namedHalf) bool { return sameHalf(kernels.Float16(a), kernels.Float16(b)) }),
	}
}

type integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64
}
type float interface{ ~float32 | ~float64 }

func genInt[T integer](r *rand.Rand) T { return T(r.Uint64()) }

func genFloat[T float](r *rand.Rand) T {
	switch r.IntN(64) {
	case 0:
		return T(math.Inf(r.IntN(2)*2 - 1))
	case 1:
		return T(math.NaN())
	case 2:
		return T(math.Copysign(0, float64(r.IntN(2)*2-1)))
	}
	return T(r.NormFloat64())
}

func genHalf(r *rand.Rand) kernels.Float16   { return kernels.Float16FromBits(uint16(r.Uint32())) }
func genBrain(r *rand.Rand) kernels.BFloat16 { return kernels.BFloat16FromBits(uint16(r.Uint32())) }

// refReal is the plain loop over the ranks.
func refReal[T integer | float](op kernels.Op, v []T) T {
	acc := v[0]
	for _, x := range v[1:] {
		switch op {
		case kernels.Sum, kernels.Avg:
			acc = T(acc + x)
		case kernels.Prod:
			acc = T(acc * x)
		case kernels.Min:
			acc = min(acc, x)
		case kernels.Max:
			acc = max(acc, x)
		}
	}
	if op == kernels.Avg && len(v) > 1 {
		acc /= T(len(v))
	}
	return acc
}

// refSingle is the loop for types that are reduced as float32 and rounded once.
func refSingle(op kernels.Op, v []float32) float32 { return refReal(op, v) }

func refHalf(op kernels.Op, v []kernels.Float16) kernels.Float16 {
	if len(v) == 1 {
		return v[0]
	}
	w := make([]float32, len(v))
	for i := range v {
		w[i] = v[i].Float32()
	}
	return kernels.Float16FromFloat32(refSingle(op, w))
}

func refBrain(op kernels.Op, v []kernels.BFloat16) kernels.BFloat16 {
	if len(v) == 1 {
		return v[0]
	}
	w := make([]float32, len(v))
	for i := range v {
		w[i] = v[i].Float32()
	}
	return kernels.BFloat16FromFloat32(refSingle(op, w))
}

func same2[T integer](a, b T) bool { return a == b }

// sameFloat wants the same bits, or two NaNs: their payload is not promised.
func sameFloat[T float](a, b T) bool {
	return a == b && math.Signbit(float64(a)) == math.Signbit(float64(b)) || a != a && b != b
}
func sameHalf(a, b kernels.Float16) bool {
	return a == b || a.Float32() != a.Float32() && b.Float32() != b.Float32()
}
func sameBrain(a, b kernels.BFloat16) bool {
	return a == b || a.Float32() != a.Float32() && b.Float32() != b.Float32()
}

// guarded is a slice between two guards of random bytes.
type guarded[T kernels.Number] struct {
	all, before []T
	s           []T
}

const guardElems = 5 // odd, so that the slice is not aligned to more than its elements

func guard[T kernels.Number](n int, gen func(*rand.Rand) T, r *rand.Rand) *guarded[T] {
	g := &guarded[T]{all: make([]T, n+2*guardElems)}
	for i := range g.all {
		g.all[i] = gen(r)
	}
	g.before = append([]T(nil), g.all...)
	g.s = g.all[guardElems : guardElems+n : guardElems+n]
	return g
}

func (g *guarded[T]) intact() bool {
	n := len(g.all) - guardElems
	return bytes.Equal(kernels.Bytes(g.all[:guardElems]), kernels.Bytes(g.before[:guardElems])) &&
		bytes.Equal(kernels.Bytes(g.all[n:]), kernels.Bytes(g.before[n:]))
}

func (g *guarded[T]) untouched() bool {
	return bytes.Equal(kernels.Bytes(g.all), kernels.Bytes(g.before))
}

// exact runs every collective once per operator, out of place and in place, and
// compares every element with the loop.
func exact[T kernels.Number](ctx context.Context, c *comm.Communicator, count int, seed uint64, gen func(*rand.Rand) T, ref func(kernels.Op, []T) T, eq func(a, b T) bool) error {
	n, me := c.Size(), c.Rank()
	r := rand.New(rand.NewPCG(seed, uint64(me)+1000))
	in := make([][]T, n) // inputs of all ranks
	for p := range in {
		pr := rand.New(rand.NewPCG(seed, uint64(p)))
		in[p] = make([]T, count)
		for i := range in[p] {
			in[p][i] = gen(pr)
		}
	}
	root := int(seed % uint64(n))
	column := make([]T, n)
	want := make([]T, count)
	compare := func(what string, got, want []T) error {
		for i := range want {
			if !eq(got[i], want[i]) {
				return fmt.Errorf("%s: rank %d of %d, count %d, seed %d: element %d is %v, want %v", what, me, n, count, seed, i, got[i], want[i])
			}
		}
		return nil
	}
	both := func(what string, want []T, src []T, call func(dst, src []T) error) error {
		from := guard(len(src), gen, r)
		copy(from.s, src)
		copy(from.before, from.all)
		to := guard(len(want), gen, r)
		if err := call(to.s, from.s); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if err := compare(what, to.s, want); err != nil {
			return err
		}
		if !to.intact() || !from.untouched() {
			return fmt.Errorf("%s: rank %d of %d, count %d, seed %d: wrote outside dst", what, me, n, count, seed)
		}
		if len(src) != len(want) {
			return nil
		}
		if err := call(from.s, from.s); err != nil {
			return fmt.Errorf("%s in place: %w", what, err)
		}
		if !from.intact() {
			return fmt.Errorf("%s in place: wrote outside dst", what)
		}
		return compare(what+" in place", from.s, want)
	}

	for _, op := range ops {
		for i := range want {
			for p := range in {
				column[p] = in[p][i]
			}
			want[i] = ref(op, column)
		}
		if err := both("AllReduce "+op.String(), want, in[me], func(dst, src []T) error {
			return AllReduce(ctx, c, dst, src, op)
		}); err != nil {
			return err
		}
		err := both("Reduce "+op.String(), want, in[me], func(dst, src []T) error {
			if me == root {
				return Reduce(ctx, c, dst, src, op, root)
			}
			before := append([]T(nil), src...)
			if err := Reduce(ctx, c, nil, src, op, root); err != nil {
				return err
			}
			if !bytes.Equal(kernels.Bytes(before), kernels.Bytes(src)) {
				return fmt.Errorf("src changed")
			}
			copy(dst, want) // nothing to compare here
			return nil
		})
		if err != nil {
			return err
		}
	}

	buf := guard(count, gen, r)
	if me == root {
		copy(buf.s, in[root])
	}
	if err := Broadcast(ctx, c, buf.s, root); err != nil {
		return err
	}
	if err := compare("Broadcast", buf.s, in[root]); err != nil {
		return err
	}
	if !buf.intact() {
		return fmt.Errorf("Broadcast: wrote outside buf")
	}

	all := make([]T, 0, n*count)
	for p := range in {
		all = append(all, in[p]...)
	}
	if err := both("AllGather", all, in[me], func(dst, src []T) error {
		return AllGather(ctx, c, dst[:n*count], src)
	}); n > 1 && err != nil {
		return err
	}
	gather := guard(n*count, gen, r)
	own := gather.s[me*count : (me+1)*count]
	copy(own, in[me])
	if err := AllGather(ctx, c, gather.s, own); err != nil {
		return err
	}
	if err := compare("AllGather in place", gather.s, all); err != nil {
		return err
	}
	if !gather.intact() {
		return fmt.Errorf("AllGather in place: wrote outside dst")
	}

	// Block q of rank p is p's input turned by q places.
	send, expect := make([]T, 0, n*count), make([]T, 0, n*count)
	turned := func(s []T, by int) []T {
		if len(s) == 0 {
			return nil
		}
		by %= len(s)
		return append(append([]T(nil), s[by:]...), s[:by]...)
	}
	for q := range n {
		send = append(send, turned(in[me], q)...)
		expect = append(expect, turned(in[q], me)...)
	}
	if err := both("AllToAll", expect, send, func(dst, src []T) error { return AllToAll(ctx, c, dst, src) }); err != nil {
		return err
	}
	return Barrier(ctx, c)
}

// runRanks runs f on n ranks of this process and closes them.
func runRanks(t *testing.T, n int, f func(c *comm.Communicator) error) {
	t.Helper()
	cs, err := comm.Local(n, comm.WithTimeout(time.Minute))
	require.NoError(t, err)
	var g errgroup.Group
	for _, c := range cs {
		g.Go(func() error {
			err := f(c)
			if err != nil {
				c.Abort(err)
			}
			if cerr := c.Close(); err == nil {
				err = cerr
			}
			return err
		})
	}
	require.NoError(t, g.Wait())
}

func testSeed(t *testing.T) uint64 {
	seed := rand.Uint64N(1 << 32)
	t.Logf("seed %d", seed)
	return seed
}

func TestExactLocal(t *testing.T) {
	seed := testSeed(t)
	for n := 1; n <= 9; n++ {
		if raceEnabled && n > 4 {
			break // ten times slower, and the protocol is the same
		}
		t.Run(fmt.Sprintf("ranks=%d", n), func(t *testing.T) {
			runRanks(t, n, func(c *comm.Communicator) error { return exactAll(c, seed, raceEnabled) })
		})
	}
}

// exactAll runs all cases with all counts on one communicator; quick leaves
// the largest count out but for every sixth type.
func exactAll(c *comm.Communicator, seed uint64, quick bool) error {
	for i, k := range exactCases() {
		for j, count := range counts(c.Size()) {
			if quick && count > 1000 && i%6 != 3 {
				continue
			}
			if err := k.run(context.Background(), c, count, seed+uint64(100*i+j)); err != nil {
				return fmt.Errorf("%s: %w", k.name, err)
			}
		}
	}
	return nil
}

// exactProgram is a rank of the multi-process tests.
func exactProgram() error {
	c, err := comm.Init(context.Background(), comm.WithTimeout(time.Minute))
	if err != nil {
		return err
	}
	seed := uint64(len(os.Getenv("WEFT_TEST_SEED")))
	fmt.Sscan(os.Getenv("WEFT_TEST_SEED"), &seed)
	if err := exactAll(c, seed, true); err != nil {
		c.Abort(err)
		c.Close()
		return err
	}
	line := fmt.Sprintf("exact rank %d of %d by %s\n", c.Rank(), c.Size(), c.Source())
	if err := c.Close(); err != nil {
		return err
	}
	fmt.Print(line)
	return nil
}

func TestMain(m *testing.M) {
	ranktest.Main(m, map[string]func() error{
		"exact": exactProgram, "soak": soakProgram, "failure": failureProgram, "suicide": suicideProgram, "lastwords": lastWordsProgram, "closerace": closeRaceProgram, "algorithms": algorithmsProgram,
		"metamorphic": metamorphicProgram,
	})
}

// processCounts are the sizes of the multi-process tests. The race detector does
// not see shared memory; there it is about what a process does by itself.
func processCounts() []int {
	if raceEnabled {
		return []int{3}
	}
	return []int{1, 2, 3, 4, 8}
}

func TestExactProcesses(t *testing.T) {
	seed := testSeed(t)
	for _, n := range processCounts() {
		t.Run(fmt.Sprintf("ranks=%d", n), func(t *testing.T) {
			j := ranktest.Start(t, n, "exact", fmt.Sprintf("WEFT_TEST_SEED=%d", seed))
			j.Succeed(t, 2*time.Minute)
			for r := range n {
				require.Contains(t, j.Ranks[r].Output(), fmt.Sprintf("exact rank %d of %d by weft run", r, n))
			}
		})
	}
}

// TestExactMpirun runs the same program under mpirun: by the launcher's
// environment, or through MPI when this test is built with -tags mpi.
func TestExactMpirun(t *testing.T) {
	seed := testSeed(t)
	for _, n := range processCounts() {
		t.Run(fmt.Sprintf("ranks=%d", n), func(t *testing.T) {
			j := ranktest.Mpirun(t, n, "exact", nil, fmt.Sprintf("WEFT_TEST_SEED=%d", seed))
			j.Succeed(t, 2*time.Minute)
			for r := range n {
				require.Contains(t, j.Ranks[0].Output(), fmt.Sprintf("exact rank %d of %d by %s", r, n, mpirunSource))
			}
		})
	}
}
