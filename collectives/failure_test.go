package collectives

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/internal/ranktest"
	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
)

// loopCalls are the collectives that the failure tests run in a loop, with
// roots that go round.
var loopCalls = []struct {
	name string
	call func(ctx context.Context, c *comm.Communicator, k int, a, b []int64) error
}{
	{"AllReduce", func(ctx context.Context, c *comm.Communicator, k int, a, b []int64) error {
		return AllReduce(ctx, c, a, b, kernels.Sum)
	}},
	{"Reduce", func(ctx context.Context, c *comm.Communicator, k int, a, b []int64) error {
		return Reduce(ctx, c, a, b, kernels.Max, k%c.Size())
	}},
	{"Broadcast", func(ctx context.Context, c *comm.Communicator, k int, a, b []int64) error {
		return Broadcast(ctx, c, a, k%c.Size())
	}},
	{"AllGather", func(ctx context.Context, c *comm.Communicator, k int, a, b []int64) error {
		return AllGather(ctx, c, a, b[:len(a)/c.Size()])
	}},
	{"AllToAll", func(ctx context.Context, c *comm.Communicator, k int, a, b []int64) error {
		return AllToAll(ctx, c, a, b)
	}},
	{"SendRecv", func(ctx context.Context, c *comm.Communicator, k int, a, b []int64) error {
		n := c.Size()
		_, err := SendRecv(ctx, c, a, (c.Rank()+n-1)%n, k%7, b[:len(a)], (c.Rank()+1)%n, k%7)
		return err
	}},
	{"Barrier", func(ctx context.Context, c *comm.Communicator, k int, a, b []int64) error {
		return Barrier(ctx, c)
	}},
	{"Split", func(ctx context.Context, c *comm.Communicator, k int, a, b []int64) error {
		part, err := c.Split(ctx, c.Rank()%2, 0)
		if err != nil {
			return err
		}
		return part.Close()
	}},

	// Of the following, one rank each is the victim.

	{"ReduceScatterBlock", func(ctx context.Context, c *comm.Communicator, k int, a, b []int64) error {
		return ReduceScatterBlock(ctx, c, a[:len(b)/c.Size()], b, kernels.Sum)
	}},
	{"ReduceScatter", func(ctx context.Context, c *comm.Communicator, k int, a, b []int64) error {
		counts := unequal(len(b), c.Size())
		return ReduceScatter(ctx, c, a[:counts[c.Rank()]], b, counts, kernels.Sum)
	}},
	{"Gather", func(ctx context.Context, c *comm.Communicator, k int, a, b []int64) error {
		return Gather(ctx, c, a, b[:len(a)/c.Size()], k%c.Size())
	}},
	{"GatherV", func(ctx context.Context, c *comm.Communicator, k int, a, b []int64) error {
		counts := unequal(len(a), c.Size())
		return GatherV(ctx, c, a, counts, b[:counts[c.Rank()]], k%c.Size())
	}},
	{"Scatter", func(ctx context.Context, c *comm.Communicator, k int, a, b []int64) error {
		return Scatter(ctx, c, a[:len(b)/c.Size()], b, k%c.Size())
	}},
	{"ScatterV", func(ctx context.Context, c *comm.Communicator, k int, a, b []int64) error {
		counts := unequal(len(b), c.Size())
		return ScatterV(ctx, c, a[:counts[c.Rank()]], b, counts, k%c.Size())
	}},
	{"AllGatherV", func(ctx context.Context, c *comm.Communicator, k int, a, b []int64) error {
		counts := unequal(len(a), c.Size())
		return AllGatherV(ctx, c, a, counts, b[:counts[c.Rank()]])
	}},
	{"AllToAllV", func(ctx context.Context, c *comm.Communicator, k int, a, b []int64) error {
		out, in := unequal(len(b), c.Size()), make([]int, c.Size())
		for p := range in {
			in[p] = out[c.Rank()]
		}
		return AllToAllV(ctx, c, make([]int64, sum(in)), in, b, out)
	}},
	{"Scan", func(ctx context.Context, c *comm.Communicator, k int, a, b []int64) error {
		return Scan(ctx, c, a, b, kernels.Sum)
	}},
	{"Exscan", func(ctx context.Context, c *comm.Communicator, k int, a, b []int64) error {
		return Exscan(ctx, c, a, b, kernels.Sum)
	}},
	{"AllReduceFunc", func(ctx context.Context, c *comm.Communicator, k int, a, b []int64) error {
		return AllReduceFunc(ctx, c, a, b, func(acc, x []int64) { copy(acc, x) })
	}},
	{"started", func(ctx context.Context, c *comm.Communicator, k int, a, b []int64) error {
		all := make([]*Request, 8)
		for i := range all {
			switch i % 3 {
			case 0:
				all[i] = StartAllReduce(ctx, c, a, b, kernels.Sum)
			case 1:
				all[i] = StartScan(ctx, c, a, a, kernels.Max)
			case 2:
				all[i] = StartGather(ctx, c, b, a[:len(b)/c.Size()], i%c.Size())
			}
		}
		err := WaitAll(ctx, all...)
		if last := all[len(all)-1]; err != nil && !errors.Is(last.Err(), comm.ErrAborted) {
			return fmt.Errorf("the last request: %w", last.Err())
		}
		return err
	}},
	{"computing", func(ctx context.Context, c *comm.Communicator, k int, a, b []int64) error {
		r := StartAllReduce(ctx, c, a, b, kernels.Sum)
		for n := uint64(1); !ended(r); n = n*6364136223846793005 + 1 {
			if n == 0 {
				return errors.New("not an odd number")
			}
		}
		return r.Err()
	}},
	{"persistent", func(ctx context.Context, c *comm.Communicator, k int, a, b []int64) error {
		p, err := NewAllGather(c, a, b[:len(a)/c.Size()])
		for range 10 {
			if err == nil {
				err = p.Run(ctx)
			}
		}
		return err
	}},
	{"started persistent", func(ctx context.Context, c *comm.Communicator, k int, a, b []int64) error {
		p, err := NewAllToAll(c, a, b)
		if err != nil {
			return err
		}
		return WaitAll(ctx, p.Start(ctx), p.Start(ctx), p.Start(ctx))
	}},
	{"Group", func(ctx context.Context, c *comm.Communicator, k int, a, b []int64) error {
		return Group(ctx, c, func(g *GroupCalls) error {
			AddAllReduce(g, a, b, kernels.Sum)
			for i := range 10 {
				AddReduce(g, a[i:i+1], b[i:i+1], kernels.Sum, i%c.Size())
			}
			AddBroadcast(g, a, k%c.Size())
			AddBarrier(g)
			return nil
		})
	}},
	{"StartGroup", func(ctx context.Context, c *comm.Communicator, k int, a, b []int64) error {
		all := make([]*Request, 4)
		for i := range all {
			all[i] = StartGroup(ctx, c, func(g *GroupCalls) error {
				for j := range 20 {
					AddAllReduce(g, a[j:j+1], b[j:j+1], kernels.Sum)
				}
				AddAllGather(g, a, b[:len(a)/c.Size()])
				return nil
			})
		}
		return WaitAll(ctx, all...)
	}},
}

// eachVictim is how many of loopCalls are tried with each rank.
const eachVictim = 8

// unequal divides count elements among n ranks.
func unequal(count, n int) []int {
	counts := make([]int, n)
	for i := range counts {
		counts[i] = count / n
	}
	counts[0], counts[n-1] = counts[0]-count/n/2, counts[n-1]+count/n/2
	return counts
}

// failureProgram calls one collective until it fails, and then does what a
// program does: tries again, and closes.
func failureProgram() error {
	starved := ranktest.Gauge()
	defer func() { fmt.Printf("starved for %d ms\n", starved().Milliseconds()) }()
	ctx := context.Background()
	c, err := comm.Init(ctx)
	if err != nil {
		return err
	}
	which, err := strconv.Atoi(os.Getenv("WEFT_TEST_CALL"))
	if err != nil {
		return err
	}
	sizes := []int{40, 2000, 80000}
	a, b := make([]int64, 80000), make([]int64, 80000)
	for k := 0; ; k++ {
		if k == 20 {
			fmt.Println("running")
			if os.Getenv("WEFT_TEST_VICTIM") == strconv.Itoa(c.Rank()) {
				time.AfterFunc(50*time.Millisecond, func() { syscall.Kill(os.Getpid(), syscall.SIGKILL) })
			}
		}
		n := sizes[k%len(sizes)] / c.Size() * c.Size()
		begin := time.Now()
		err := loopCalls[which].call(ctx, c, k, a[:n], b[:n])
		if err == nil {
			continue
		}
		var fabric *transport.FabricError
		fmt.Printf("failed after %d ms: dead=%v deadline=%v fabric=%v aborted=%v: %v\n", time.Since(begin).Milliseconds(),
			errors.Is(err, comm.ErrPeerDead), errors.Is(err, context.DeadlineExceeded), errors.As(err, &fabric), errors.Is(err, comm.ErrAborted), err)
		break
	}
	begin := time.Now()
	err = AllReduce(ctx, c, a[:1], b[:1], kernels.Sum)
	if err == nil || c.AsyncErr() == nil || time.Since(begin) > 10*time.Second {
		return fmt.Errorf("a later call gave %v after %v, AsyncErr %v", err, time.Since(begin), c.AsyncErr())
	}
	begin = time.Now()
	if err := c.Close(); err != nil {
		return err
	}
	fmt.Printf("closed after %d ms\n", time.Since(begin).Milliseconds())
	return nil
}

// milliseconds finds how many ms follow text.
func milliseconds(t *testing.T, out, text string) time.Duration {
	m := regexp.MustCompile(text + ` (\d+) ms`).FindStringSubmatch(out)
	require.NotNil(t, m, out)
	n, err := strconv.Atoi(m[1])
	require.NoError(t, err)
	return time.Duration(n) * time.Millisecond
}

// TestKilledRank kills each rank in turn at a random moment of each collective:
// every other returns within 2 seconds, names it, and ends well.
func TestKilledRank(t *testing.T) {
	const n = 4
	testEachVictim(t, n, func(t *testing.T, which, victim int) {
		j := startLoop(t, n, which)
		require.NoError(t, j.Ranks[victim].Signal(syscall.SIGKILL))
		killed := time.Now()
		for r, rank := range j.Ranks {
			if r == victim {
				continue
			}
			require.NoError(t, rank.Wait(20*time.Second), rank.Output())
			require.Less(t, time.Since(killed), 20*time.Second, rank.Output())
			require.Regexp(t, fmt.Sprintf(`dead=true .*rank %d is dead`, victim), rank.Output())
			require.Contains(t, rank.Output(), "closed after")
		}
		require.NoError(t, ignoreKill(j.Ranks[victim].Wait(10*time.Second)))
		require.Empty(t, j.Leftovers())
	})
}

// TestStoppedRank stops each rank in turn: the others return by the deadline
// and name it. Where a machine is so busy that one of the others got no processor for
// about as long as a rank has to answer, it may be named as well, which proves nothing:
// then it is tried again. So it is if the ranks come to nothing by that deadline.
func TestStoppedRank(t *testing.T) {
	const n = 3
	const deadline = 600 * time.Millisecond
	testEachVictim(t, n, func(t *testing.T, which, victim int) {
		named := regexp.MustCompile(fmt.Sprintf(`aborted=true.*gave up waiting for rank %d\b`, victim))
		ranktest.UnlessStarved(t, func() (starved time.Duration, wrong error) {
			j := ranktest.Start(t, n, "failure", "WEFT_TIMEOUT="+deadline.String(), fmt.Sprintf("WEFT_TEST_CALL=%d", which))
			for _, rank := range j.Ranks {
				require.NoError(t, rank.WaitFor("\n", time.Minute)) // that it runs, or why it does not
			}
			for _, rank := range j.Ranks {
				if strings.HasPrefix(rank.Output(), "running\n") {
					continue
				}
				for _, rank := range j.Ranks {
					require.NotErrorIs(t, rank.Wait(20*time.Second), ranktest.ErrRunning, rank.Output())
					starved = max(starved, milliseconds(t, rank.Output(), "starved for"))
				}
				return starved, fmt.Errorf("not running: %s", rank.Output())
			}
			time.Sleep(time.Duration(rand.IntN(20_000)) * time.Microsecond)
			require.NoError(t, j.Ranks[victim].Signal(syscall.SIGSTOP))
			for r, rank := range j.Ranks {
				if r == victim {
					continue
				}
				require.NoError(t, rank.Wait(20*time.Second), rank.Output())
				// The deadline, then the question who is still there.
				require.Less(t, milliseconds(t, rank.Output(), "failed after"), deadline+8*time.Second, rank.Output())
				require.Less(t, milliseconds(t, rank.Output(), "closed after"), 9*time.Second, rank.Output())
				starved = max(starved, milliseconds(t, rank.Output(), "starved for"))
				if !named.MatchString(rank.Output()) {
					wrong = fmt.Errorf("rank %d does not name rank %d: %s", r, victim, rank.Output())
				}
			}
			require.NoError(t, j.Ranks[victim].Signal(syscall.SIGKILL))
			return starved, wrong
		})
	})
}

func ignoreKill(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

// raceCalls are those of loopCalls with which failures are tried under the race detector:
// one of each form, as each meets an error on goroutines of its own; the rest of a
// collective is in its schedule.
var raceCalls = []string{"AllReduce", "SendRecv", "Split", "AllToAllV", "started", "persistent", "started persistent", "Group", "StartGroup"}

func testEachVictim(t *testing.T, n int, f func(t *testing.T, which, victim int)) {
	for which, k := range loopCalls {
		if raceEnabled && !slices.Contains(raceCalls, k.name) {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			for victim := range n {
				if few := which >= eachVictim; raceEnabled && victim > 0 || few && victim != which%n && !raceEnabled {
					continue
				}
				t.Run(fmt.Sprintf("rank=%d", victim), func(t *testing.T) {
					t.Parallel() // most of it is waiting
					f(t, which, victim)
				})
			}
		})
	}
}

// startLoop starts n ranks and returns when they have run for a random time.
func startLoop(t *testing.T, n, which int, env ...string) *ranktest.Job {
	j := ranktest.Start(t, n, "failure", append(env, fmt.Sprintf("WEFT_TEST_CALL=%d", which))...)
	for _, r := range j.Ranks {
		require.NoError(t, r.WaitFor("running", time.Minute))
	}
	time.Sleep(time.Duration(rand.IntN(20_000)) * time.Microsecond)
	return j
}

// TestKilledRankMpirun: mpirun ends the job when a rank dies, unless it is told
// to let it recover.
func TestKilledRankMpirun(t *testing.T) {
	const n = 3
	for victim := range n {
		t.Run(fmt.Sprintf("rank=%d", victim), func(t *testing.T) {
			j := ranktest.Mpirun(t, n, "suicide", []string{"--enable-recovery"}, fmt.Sprintf("WEFT_TEST_VICTIM=%d", victim))
			_ = j.Ranks[0].Wait(30 * time.Second)
			out := j.Ranks[0].Output()
			require.Equal(t, n-1, strings.Count(out, "closed after"), out)
			require.Equal(t, n-1, strings.Count(out, fmt.Sprintf("rank %d is dead", victim)), out)
		})
	}
}

// suicideProgram is failureProgram in which one rank kills itself.
func suicideProgram() error {
	os.Setenv("WEFT_TEST_CALL", "0")
	return failureProgram()
}

// lastWordsProgram ends at once after it has said why.
func lastWordsProgram() error {
	c, err := comm.Init(context.Background())
	if err != nil {
		return err
	}
	if c.Rank() == 1 {
		if err := Barrier(context.Background(), c); err != nil {
			return err
		}
		c.Abort(errors.New("disk full"))
		os.Exit(3)
	}
	for err == nil {
		err = Barrier(context.Background(), c)
	}
	fmt.Println(err)
	return c.Close()
}

// TestLastWords: the reason reaches the others although the process is gone.
func TestLastWords(t *testing.T) {
	for range 10 {
		j := ranktest.Start(t, 3, "lastwords")
		for _, r := range []int{0, 2} {
			require.NoError(t, j.Ranks[r].Wait(20*time.Second), j.Ranks[r].Output())
			require.Contains(t, j.Ranks[r].Output(), "aborted by rank 1")
			require.Contains(t, j.Ranks[r].Output(), "disk full")
		}
	}
}

// closeRaceProgram closes communicators while another goroutine calls on them:
// their memory is unmapped then.
func closeRaceProgram() error {
	ctx := context.Background()
	c, err := comm.Init(ctx)
	if err != nil {
		return err
	}
	for range 200 {
		d, err := c.Dup(ctx)
		if err != nil {
			return err
		}
		done := make(chan error)
		go func() {
			var err error
			for err == nil || errors.Is(err, comm.ErrConcurrent) {
				err = Broadcast(ctx, d, make([]int8, 8), 0)
			}
			done <- err
		}()
		talked := make(chan error)
		go func() {
			var err error
			for err == nil {
				a, b := make([]int8, 20_000), make([]int8, 20_000)
				StartRecv(ctx, d, make([]int8, 8), AnySource, 1) // never comes
				_, err = SendRecv(ctx, d, a, 1-d.Rank(), 0, b, 1-d.Rank(), 0)
			}
			talked <- err
		}()
		if c.Rank() == 0 {
			time.Sleep(time.Duration(rand.IntN(200)) * time.Microsecond)
		}
		if err := d.Close(); err != nil && !errors.Is(err, comm.ErrMismatch) {
			return err
		}
		for _, err := range []error{<-done, <-talked} {
			if !errors.Is(err, comm.ErrClosed) && !errors.Is(err, comm.ErrAborted) {
				return err
			}
		}
	}
	return c.Close()
}

func TestCloseRace(t *testing.T) {
	ranktest.Start(t, 2, "closerace").Succeed(t, time.Minute)
}
