package collectives

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/internal/ranktest"
	"github.com/weft-go/weft/kernels"
)

// counts are the awkward numbers of elements for n ranks.
func counts(n int) []int { return []int{0, 1, 2, n - 1, n, n + 1, 1000, 65537} }

// An exactCase checks every collective with one type of elements.
type exactCase struct {
	name string
	// prepare makes a [world], and returns what a rank does in it.
	prepare func(n, count int, seed uint64) func(ctx context.Context, c *comm.Communicator, set formSet) error
	large   bool // elements that are too large for the largest count
	moved   bool // nothing is reduced
}

// run does so on one rank, in the given forms.
func (k *exactCase) run(ctx context.Context, c *comm.Communicator, count int, seed uint64, set formSet) error {
	key := worldKey{k.name, c.Size(), count, seed}
	return worlds.get(key, func() rankProgram { return k.prepare(c.Size(), count, seed) })(ctx, c, set)
}

// worlds are those in use, and some that were: the ranks of a process share them.
var worlds = newShared[worldKey, rankProgram](3)

type worldKey struct {
	name     string
	n, count int
	seed     uint64
}

type rankProgram = func(ctx context.Context, c *comm.Communicator, set formSet) error

// shared keeps what was made last, by key. It is made once for all that ask for it at
// about the same time.
type shared[K comparable, V any] struct {
	mu   sync.Mutex
	keys []K
	made []func() V
	next int
}

func newShared[K comparable, V any](keep int) *shared[K, V] {
	return &shared[K, V]{keys: make([]K, keep), made: make([]func() V, keep)}
}

func (w *shared[K, V]) get(key K, prepare func() V) V {
	w.mu.Lock()
	for i, k := range w.keys {
		if k == key && w.made[i] != nil {
			made := w.made[i]
			w.mu.Unlock()
			return made()
		}
	}
	made := sync.OnceValue(prepare)
	w.keys[w.next], w.made[w.next] = key, made
	w.next = (w.next + 1) % len(w.keys)
	w.mu.Unlock()
	return made()
}

// numberCase is the case of a type of numbers: with all operators that it has,
// or a few in turn where there are many elements.
func numberCase[T kernels.Number](gen func(*rand.Rand) T) exactCase {
	var zero T
	return exactCase{name: fmt.Sprintf("%T", zero), prepare: func(n, count int, seed uint64) rankProgram {
		var reducers []reducer[T]
		for op := kernels.Sum; op.Valid(); op++ {
			if op.Supports(kernels.TypeOf[T]()) {
				reducers = append(reducers, byOp[T](op))
			}
		}
		if count > 2000 {
			k := int(seed % uint64(len(reducers)))
			reducers = reducers[k : k+1]
		}
		return newWorld(n, count, seed, gen, sameNumber[T], sampled(reducers, n+count)).run
	}}
}

// typeCase is the case of any type, with operators for the …Func forms.
func typeCase[T comparable](gen func(*rand.Rand) T, operators ...reducer[T]) exactCase {
	var zero T
	return exactCase{name: fmt.Sprintf("%T by functions", zero), large: unsafe.Sizeof(zero) > 100, moved: len(operators) == 0, prepare: func(n, count int, seed uint64) rankProgram {
		return newWorld(n, count, seed, gen, sameValue[T], sampled(operators, n+count)).run
	}}
}

type (
	named16    uint16
	namedHalf  kernels.Float16
	namedFloat float32
	namedLoc   kernels.Float32Loc

	flag   bool
	triple [3]byte
	padded struct { // with bytes that are no part of any field
		A int8
		B float64
		C [3]int16
	}
)

// The operators of the …Func forms are associative and do not commute.
type (
	// A matrix has its rows one after the other.
	matrix [4]uint32
	// An affine map is x → A·x + B.
	affine struct{ A, B uint16 }
	// A route is from one place to another.
	route struct {
		From   int8
		Length int64
		To     int8
	}
	// wide is many affine maps.
	wide [75]affine
)

func (a matrix) times(b matrix) matrix {
	return matrix{a[0]*b[0] + a[1]*b[2], a[0]*b[1] + a[1]*b[3], a[2]*b[0] + a[3]*b[2], a[2]*b[1] + a[3]*b[3]}
}

func (a affine) then(b affine) affine { return affine{b.A * a.A, b.A*a.B + b.B} }

func (a route) then(b route) route { return route{a.From, a.Length + b.Length, b.To} }

func (a wide) then(b wide) wide {
	for i := range a {
		a[i] = a[i].then(b[i])
	}
	return a
}

func exactCases() []exactCase {
	return []exactCase{
		numberCase(genBits[int64]), numberCase(genFloat[float32]), numberCase(genBits[uint8]), numberCase(genBits[kernels.Float16]),
		typeCase(genBits[matrix], byOperator("matrices", matrix.times)),
		numberCase(func(r *rand.Rand) kernels.Float32Loc {
			return kernels.Float32Loc{Value: genTiedFloat[float32](r), Index: genTied[int32](r)}
		}),
		numberCase(genBits[int]), numberCase(genBits[int8]), numberCase(genBits[int16]), numberCase(genBits[int32]),
		numberCase(genBits[uint]), numberCase(genBits[uint16]), numberCase(genBits[uint32]), numberCase(genBits[uint64]),
		numberCase(genFloat[float64]), numberCase(genBits[kernels.BFloat16]),
		numberCase(genBits[kernels.Float8E4M3]), numberCase(genBits[kernels.Float8E5M2]),
		numberCase(func(r *rand.Rand) complex64 { return complex(genFloat[float32](r), genFloat[float32](r)) }),
		numberCase(func(r *rand.Rand) complex128 { return complex(genFloat[float64](r), genFloat[float64](r)) }),
		numberCase(func(r *rand.Rand) kernels.Float64Loc {
			return kernels.Float64Loc{Value: genTiedFloat[float64](r), Index: genTied[int64](r)}
		}),
		numberCase(func(r *rand.Rand) kernels.Int32Loc {
			return kernels.Int32Loc{Value: genTied[int32](r), Index: genTied[int32](r)}
		}),
		numberCase(func(r *rand.Rand) kernels.Int64Loc {
			return kernels.Int64Loc{Value: genTied[int64](r), Index: genTied[int64](r)}
		}),
		numberCase(genBits[named16]), numberCase(genFloat[namedFloat]), numberCase(genBits[namedHalf]),
		numberCase(func(r *rand.Rand) namedLoc {
			return namedLoc{Value: genTiedFloat[float32](r), Index: genTied[int32](r)}
		}),
		typeCase(genBits[affine], byOperator("affine maps", affine.then), byOperator("last", func(_, b affine) affine { return b })),
		typeCase(func(r *rand.Rand) route { return route{genBits[int8](r), genBits[int64](r), genBits[int8](r)} }, byOperator("routes", route.then)),
		typeCase(genBits[wide], byOperator("wide", wide.then)),
		typeCase(genBits[int32], byOperator("first", func(a, _ int32) int32 { return a }), byOperator("last", func(_, b int32) int32 { return b })),
		typeCase(func(r *rand.Rand) flag { return r.IntN(2) == 0 }), typeCase(genBits[triple]),
		typeCase(func(r *rand.Rand) padded { return padded{genBits[int8](r), r.Float64(), genBits[[3]int16](r)} }),
	}
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

// TestExactLocal has all counts for 1 to 5 ranks, and a part of them for more;
// with WEFT_TEST_LONG=1 all as well.
func TestExactLocal(t *testing.T) {
	seed := testSeed(t)
	for n := 1; n <= 9; n++ {
		if raceEnabled && n > 4 {
			break // ten times slower, and the protocol is the same
		}
		t.Run(fmt.Sprintf("ranks=%d", n), func(t *testing.T) {
			quick := raceEnabled || testing.Short() || n > 5 && !testLong
			runRanks(t, n, func(c *comm.Communicator) error { return exactAll(c, seed, quick) })
		})
	}
}

// exactAll runs all cases with all counts on one communicator: the first in all
// forms, the others in all forms with one count and blocking with all. quick means
// two counts of each, and the largest for every sixth. Under the race detector it has every
// third of the others, since types differ by what kernels do, without goroutines, and the
// largest with a type of numbers and with one of functions.
func exactAll(c *comm.Communicator, seed uint64, quick bool) error {
	for i, k := range exactCases() {
		if raceEnabled && i >= 6 && i%3 != 0 {
			continue
		}
		all := counts(c.Size())
		for j, count := range all {
			set := blocking
			if i < 6 || j == (i+c.Size())%len(all) {
				set = allForms
			}
			if count > 2000 {
				if k.large || quick && i%6 != 3 || raceEnabled && i != 3 && i != 27 {
					continue
				}
				if i >= 2 {
					set = blocking
				}
				if i >= 6 && !k.moved {
					set |= onlyReductions
				}
			}
			if quick && count < 2000 && (i+j)%4 != 0 {
				continue
			}
			if err := k.run(context.Background(), c, count, seed+uint64(100*i+j), set); err != nil {
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
		"quiet":       quietProgram,
		"waiting":     waitingProgram,
		"metamorphic": metamorphicProgram,
		"fabricsoak":  fabricSoakProgram,
		"messages":    messagesProgram, "lastmessage": lastMessageProgram,
		"agreement": agreementProgram, "commit": commitProgram,
		"device": deviceProgram, "devicekill": deviceKillProgram,
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
		if n > 4 && !testLong { // it is about the start, and TestExactProcesses has them
			continue
		}
		t.Run(fmt.Sprintf("ranks=%d", n), func(t *testing.T) {
			j := ranktest.Mpirun(t, n, "exact", nil, fmt.Sprintf("WEFT_TEST_SEED=%d", seed))
			j.Succeed(t, 2*time.Minute)
			for r := range n {
				require.Contains(t, j.Ranks[0].Output(), fmt.Sprintf("exact rank %d of %d by %s", r, n, mpirunSource))
			}
		})
	}
}
