package collectives

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/internal/ranktest"
	"github.com/weft-go/weft/kernels"
)

// soak runs random collectives of random sizes, on communicators that are split
// off and closed on the way; every result is checked. All ranks draw the same
// numbers.
type soak struct {
	rng   *rand.Rand
	world *comm.Communicator
	calls int
	buf   [3][]int32
}

// value is what rank r has at place i in call number k.
func value(k, r, i int) int32 { return int32(uint32(k)*2654435761 ^ uint32(r*40503+i*97)) }

func (s *soak) slices(n int) (a, b []int32) {
	for j := range s.buf {
		if cap(s.buf[j]) < n {
			s.buf[j] = make([]int32, n)
		}
	}
	return s.buf[0][:n], s.buf[1][:n]
}

func (s *soak) size() int {
	switch s.rng.IntN(20) {
	case 0:
		return s.rng.IntN(60000)
	case 1, 2, 3:
		return s.rng.IntN(3000)
	}
	return s.rng.IntN(40)
}

// one runs one random collective on c and checks it.
func (s *soak) one(ctx context.Context, c *comm.Communicator, ranks []int) error {
	s.calls++
	k, n, me := s.calls, c.Size(), c.Rank()
	kind, count, root, inPlace := s.rng.IntN(6), s.size(), s.rng.IntN(n), s.rng.IntN(2) == 0
	bad := func(name string, i int, got, want int32) error {
		return fmt.Errorf("call %d: %s of %d on rank %d of %d: element %d is %d, want %d", k, name, count, me, n, i, got, want)
	}
	switch kind {
	case 0, 1: // AllReduce, Reduce
		src, dst := s.slices(count)
		if inPlace {
			dst = src
		}
		for i := range src {
			src[i] = value(k, ranks[me], i)
		}
		var err error
		if kind == 0 {
			err = AllReduce(ctx, c, dst, src, kernels.Sum)
		} else {
			err = Reduce(ctx, c, dst, src, kernels.Sum, root)
		}
		if err != nil || kind == 1 && me != root {
			return err
		}
		for i := range dst {
			var want int32
			for _, r := range ranks {
				want += value(k, r, i)
			}
			if dst[i] != want {
				return bad("reduction", i, dst[i], want)
			}
		}
	case 2:
		buf, _ := s.slices(count)
		for i := range buf {
			buf[i] = value(k, ranks[me], i)
		}
		if err := Broadcast(ctx, c, buf, root); err != nil {
			return err
		}
		for i := range buf {
			if want := value(k, ranks[root], i); buf[i] != want {
				return bad("Broadcast", i, buf[i], want)
			}
		}
	case 3, 4:
		count /= n
		src, dst := s.slices(count * n)
		if kind == 3 {
			src = src[:count]
		} else if inPlace {
			dst = src
		}
		for i := range src {
			src[i] = value(k, ranks[me], i)
		}
		var err error
		if kind == 3 {
			err = AllGather(ctx, c, dst, src)
		} else {
			err = AllToAll(ctx, c, dst, src)
		}
		if err != nil {
			return err
		}
		for p := range n {
			for i := range count {
				want := value(k, ranks[p], i)
				if kind == 4 {
					want = value(k, ranks[p], me*count+i)
				}
				if got := dst[p*count+i]; got != want {
					return bad([]string{3: "AllGather", 4: "AllToAll"}[kind], p*count+i, got, want)
				}
			}
		}
	default:
		return Barrier(ctx, c)
	}
	return nil
}

// run makes calls collectives, with a communicator split off about every
// splitEvery calls.
func (s *soak) run(ctx context.Context, calls, splitEvery int) error {
	all := make([]int, s.world.Size())
	for i := range all {
		all[i] = i
	}
	for end := s.calls + calls; s.calls < end; {
		if s.rng.IntN(splitEvery) != 0 {
			if err := s.one(ctx, s.world, all); err != nil {
				return err
			}
			continue
		}
		if err := s.split(ctx); err != nil {
			return err
		}
	}
	return nil
}

// split divides the ranks at random, uses the part this rank is in, and some
// symmetric memory there, and closes it.
func (s *soak) split(ctx context.Context) error {
	n := s.world.Size()
	colors, keys := make([]int, n), make([]int, n)
	for r := range n {
		colors[r], keys[r] = s.rng.IntN(3)-1, s.rng.IntN(3)
	}
	seed, rounds, dup := s.rng.Uint64(), s.rng.IntN(30), s.rng.IntN(4) == 0
	me := s.world.Rank()
	var c *comm.Communicator
	var err error
	var ranks []int
	if dup {
		c, err = s.world.Dup(ctx)
		for r := range n {
			ranks = append(ranks, r)
		}
	} else {
		c, err = s.world.Split(ctx, colors[me], keys[me])
		for key := range 3 {
			for r := range n {
				if colors[r] == colors[me] && keys[r] == key {
					ranks = append(ranks, r)
				}
			}
		}
	}
	// The part draws its own numbers; the world's must stay the same on all ranks.
	part := &soak{world: s.world, calls: s.calls, rng: rand.New(rand.NewPCG(seed, 1)), buf: s.buf}
	s.calls += rounds
	if err != nil || c == nil {
		if err == nil && !dup && colors[me] != comm.Undefined {
			err = fmt.Errorf("no communicator")
		}
		return err
	}
	if c.Size() != len(ranks) || ranks[c.Rank()] != me {
		return fmt.Errorf("rank %d of %d in a part, want place of %d in %v", c.Rank(), c.Size(), me, ranks)
	}
	b, err := comm.Alloc[int32](ctx, c, 1000)
	if err != nil {
		return err
	}
	for range rounds {
		if err := part.one(ctx, c, ranks); err != nil {
			return err
		}
	}
	for i := range b.Slice() {
		b.Slice()[i] = value(part.calls, me, i)
	}
	if err := Barrier(ctx, c); err != nil {
		return err
	}
	for p, r := range ranks {
		if b.Peer(p) == nil && c.Route(p).Transport != "pointer" {
			continue // not mapped
		}
		if got, want := b.Peer(p)[999], value(part.calls, r, 999); got != want {
			return fmt.Errorf("symmetric memory of rank %d: %d, want %d", p, got, want)
		}
	}
	if err := Barrier(ctx, c); err != nil { // nobody reads any more
		return err
	}
	s.buf = part.buf
	if me%2 == 0 { // the others leave it to Close
		if err := b.Free(); err != nil {
			return err
		}
	}
	return c.Close()
}

// usage is what a process holds.
type usage struct{ rssKiB, goroutines, files int }

func measureUsage() (usage, error) {
	debug.FreeOSMemory() // what Go keeps for later is not held
	u := usage{goroutines: runtime.NumGoroutine()}
	stat, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return u, err
	}
	pages, err := strconv.Atoi(strings.Fields(string(stat))[1])
	if err != nil {
		return u, err
	}
	u.rssKiB = pages * os.Getpagesize() / 1024
	files, err := os.ReadDir("/proc/self/fd")
	u.files = len(files)
	return u, err
}

// soakProgram is a rank of the soak test. It measures what it holds after a
// tenth of the calls and at the end.
func soakProgram() error {
	calls, err := strconv.Atoi(os.Getenv("WEFT_TEST_CALLS"))
	if err != nil {
		return err
	}
	seed, err := strconv.ParseUint(os.Getenv("WEFT_TEST_SEED"), 10, 64)
	if err != nil {
		return err
	}
	ctx := context.Background()
	c, err := comm.Init(ctx, comm.WithTimeout(time.Minute))
	if err != nil {
		return err
	}
	fail := func(err error) error {
		c.Abort(err)
		c.Close()
		return err
	}
	s := &soak{rng: rand.New(rand.NewPCG(seed, 0)), world: c}
	s.slices(60000)
	if err := s.run(ctx, calls/3, 100); err != nil {
		return fail(err)
	}
	early, err := measureUsage()
	if err != nil {
		return fail(err)
	}
	if err := s.run(ctx, calls-calls/3, 100); err != nil {
		return fail(err)
	}
	late, err := measureUsage()
	if err != nil {
		return fail(err)
	}
	if late.goroutines > early.goroutines+2 || late.files > early.files+2 || late.rssKiB > early.rssKiB+8<<10 && !raceEnabled {
		return fail(fmt.Errorf("grew from %+v to %+v", early, late))
	}
	if err := c.Close(); err != nil {
		return err
	}
	fmt.Printf("soaked %d calls, from %+v to %+v\n", s.calls, early, late)
	return nil
}

// TestSoakProcesses: 5 ranks on what processors there are. WEFT_TEST_CALLS
// changes how many calls.
func TestSoakProcesses(t *testing.T) {
	calls := 100_000
	if raceEnabled {
		calls = 3_000
	}
	if s := os.Getenv("WEFT_TEST_CALLS"); s != "" {
		var err error
		calls, err = strconv.Atoi(s)
		require.NoError(t, err)
	}
	j := ranktest.Start(t, 5, "soak", fmt.Sprintf("WEFT_TEST_CALLS=%d", calls), fmt.Sprintf("WEFT_TEST_SEED=%d", testSeed(t)))
	j.Succeed(t, 10*time.Minute)
	t.Log(j.Ranks[0].Output())
}

// TestSoakLocal shows the same to the race detector.
func TestSoakLocal(t *testing.T) {
	seed := testSeed(t)
	runRanks(t, 5, func(c *comm.Communicator) error {
		s := &soak{rng: rand.New(rand.NewPCG(seed, 0)), world: c}
		return s.run(context.Background(), 3000, 50)
	})
}
