package collectives

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/internal/ranktest"
	"github.com/weft-go/weft/kernels"
)

// lateTime is how long a rank computes while the others wait for it.
const lateTime = 300 * time.Millisecond

// waitingProgram makes calls as ranks of a job, or as goroutines of one process, with
// garbage to collect between calls if asked for, and then one that a rank is late
// for, if that is.
func waitingProgram() error {
	ctx := context.Background()
	cs := make([]*comm.Communicator, 1)
	var err error
	if n, _ := strconv.Atoi(os.Getenv("WEFT_TEST_LOCAL")); n > 0 {
		cs, err = comm.Local(n)
	} else {
		cs[0], err = comm.Init(ctx)
	}
	if err != nil {
		return err
	}
	calls, err := strconv.Atoi(os.Getenv("WEFT_TEST_CALLS"))
	if err != nil {
		return err
	}
	crowded, garbage := os.Getenv("WEFT_TEST_CROWDED") == "true", os.Getenv("WEFT_TEST_GARBAGE") != ""
	err = errors.Join(each(cs, func(c *comm.Communicator) error {
		if got := c.WaitPolicy().Oversubscribed; got != crowded {
			return fmt.Errorf("rank %d is told that ranks share processors: %v", c.Rank(), got)
		}
		for i := range calls {
			if garbage {
				makeGarbage()
			}
			if err := waitingCalls(ctx, c, i); err != nil {
				return fmt.Errorf("rank %d, round %d: %w", c.Rank(), i, err)
			}
		}
		return nil
	})...)
	if err == nil && os.Getenv("WEFT_TEST_LATE") != "" {
		err = waitLong(ctx, cs)
	}
	if err != nil {
		return err
	}
	return errors.Join(each(cs, func(c *comm.Communicator) error { return c.Close() })...)
}

// waitLong has the others wait until rank 0 has computed for a while. A machine that does
// much else may have them come late or do what has waited until then: that is tried again.
func waitLong(ctx context.Context, cs []*comm.Communicator) error {
	for try := 1; ; try++ {
		err := waitOnce(ctx, cs)
		var worst int32 // of all ranks
		failed := errors.Join(each(cs, func(c *comm.Communicator) error {
			bad := []int32{0}
			if err != nil {
				bad[0] = 1
			}
			failed := AllReduce(ctx, c, bad, bad, kernels.Max)
			if c == cs[0] {
				worst = bad[0]
			}
			return failed
		})...)
		if failed != nil || worst == 0 || try == 5 {
			return errors.Join(err, failed)
		}
	}
}

func waitOnce(ctx context.Context, cs []*comm.Communicator) error {
	used, begin := processorTime(), time.Now()
	var computed, atEnd time.Duration // by rank 0
	err := errors.Join(each(cs, func(c *comm.Communicator) error {
		if c.Rank() == 0 {
			for time.Since(begin) < lateTime { // it computes
			}
			computed, atEnd = time.Since(begin), processorTime()-used
		}
		return Barrier(ctx, c)
	})...)
	took := time.Since(begin)
	used = processorTime() - used
	// Of a process it is known how much it used, but not which of its goroutines.
	if cs[0].Rank() != 0 && took < lateTime/2 {
		err = errors.Join(err, fmt.Errorf("rank %d came late, and waited for %v only", cs[0].Rank(), took))
	}
	if cs[0].Rank() != 0 && used > took/2 {
		err = errors.Join(err, fmt.Errorf("rank %d waited for %v, and used %v of a processor", cs[0].Rank(), took, used))
	}
	if atEnd > computed*3/2 {
		err = errors.Join(err, fmt.Errorf("%d ranks used %v of processors while one computed for %v", len(cs), atEnd, computed))
	}
	return err
}

func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

var garbage sync.Pool // what the compiler can't leave out

func makeGarbage() {
	for i := range 50 {
		garbage.Put(&[]*[]byte{new([]byte), new(make([]byte, 100*i))})
	}
}

// waitingCalls makes calls of a few bytes, with short slices and long ones, with and
// without a root.
func waitingCalls(ctx context.Context, c *comm.Communicator, round int) error {
	n, me := c.Size(), c.Rank()
	for _, count := range []int{1, 100, 3000, 20_000} {
		value := func(rank, i int) int64 { return int64(rank*1000 + round + i%7) }
		src, dst := make([]int64, count), make([]int64, count)
		for i := range src {
			src[i] = value(me, i)
		}
		if err := AllReduce(ctx, c, dst, src, kernels.Sum); err != nil {
			return err
		}
		for i, got := range dst {
			if want := int64(n*(n-1)/2*1000 + n*(round+i%7)); got != want {
				return fmt.Errorf("element %d of %d is %d, must be %d", i, count, got, want)
			}
		}
		root := round % n
		if err := Broadcast(ctx, c, src, root); err != nil {
			return err
		}
		for i, got := range src {
			if got != value(root, i) {
				return fmt.Errorf("element %d of rank %d's %d is %d", i, root, count, got)
			}
		}
	}
	blocks, all := make([]int32, 3*n), make([]int32, 3*n)
	for i := range blocks {
		blocks[i] = int32(1000*me + i)
	}
	if err := AllToAll(ctx, c, all, blocks); err != nil {
		return err
	}
	for i, got := range all {
		if want := int32(1000*(i/3) + 3*me + i%3); got != want {
			return fmt.Errorf("block %d: %d, must be %d", i/3, got, want)
		}
	}
	return Barrier(ctx, c)
}

// TestWaiting: however many ranks share a processor, all ends and is right.
func TestWaiting(t *testing.T) {
	for _, c := range []struct {
		name        string
		ranks, cpus int
		calls       int
		env         []string
	}{
		{"a processor each", 2, 2, 30, nil},
		{"two on one", 2, 1, 30, nil},
		{"three on two", 3, 2, 30, nil},
		{"sixteen on one", 16, 1, 3, nil},
		{"one P each", 2, 2, 30, []string{"GOMAXPROCS=1"}},
		{"one P each, three on one", 3, 1, 20, []string{"GOMAXPROCS=1"}},
		{"a collector", 2, 2, 20, []string{"GOGC=1", "WEFT_TEST_GARBAGE=1"}},
		{"a collector, four on one", 4, 1, 10, []string{"GOGC=1", "WEFT_TEST_GARBAGE=1"}},
		{"a collector and one P, four on one", 4, 1, 10, []string{"GOGC=1", "WEFT_TEST_GARBAGE=1", "GOMAXPROCS=1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if raceEnabled && c.env == nil {
				t.Skip("the race detector does not see what processes share, and is slow to start")
			}
			crowded := c.ranks > c.cpus
			env := append(slices.Clone(c.env), fmt.Sprintf("WEFT_TEST_CALLS=%d", c.calls), fmt.Sprintf("WEFT_TEST_CROWDED=%v", crowded))
			var j *ranktest.Job
			if !onProcessors(t, c.cpus, func() { j = ranktest.Start(t, c.ranks, "waiting", env...) }) {
				t.Skip("too few processors")
			}
			j.Succeed(t, time.Minute)
		})
	}
}

// TestWaitingLocal: the same for ranks that are goroutines of one process.
func TestWaitingLocal(t *testing.T) {
	for _, c := range []struct {
		name         string
		ranks, procs int
		calls        int
		env          []string
	}{
		{"a P each", 2, 2, 30, nil},
		{"two on one", 2, 1, 30, nil},
		{"sixteen on one", 16, 1, 3, nil},
		{"a collector", 2, 2, 20, []string{"GOGC=1", "WEFT_TEST_GARBAGE=1"}},
		{"a collector, four on one", 4, 1, 10, []string{"GOGC=1", "WEFT_TEST_GARBAGE=1"}},
		{"a collector, one thread of many", 4, 8, 10, []string{"GOGC=1", "WEFT_TEST_GARBAGE=1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if raceEnabled && c.env == nil && c.ranks < 16 {
				t.Skip("the others do the same")
			}
			env := append(slices.Clone(c.env), fmt.Sprintf("WEFT_TEST_LOCAL=%d", c.ranks), fmt.Sprintf("GOMAXPROCS=%d", c.procs),
				fmt.Sprintf("WEFT_TEST_CALLS=%d", c.calls), fmt.Sprintf("WEFT_TEST_CROWDED=%v", c.ranks > c.procs))
			ranktest.Start(t, 1, "waiting", env...).Succeed(t, time.Minute)
		})
	}
}

// TestWaitingLong: who waits for long sleeps, and uses no processor. (On a machine
// with much else to do, one that only yields would not either.)
func TestWaitingLong(t *testing.T) {
	if raceEnabled {
		t.Skip("it is about processor time")
	}
	env := []string{"WEFT_TEST_CALLS=1", "WEFT_TEST_LATE=1", "WEFT_TEST_CROWDED=false"}
	if onProcessors(t, 2, func() { ranktest.Start(t, 2, "waiting", env...).Succeed(t, time.Minute) }) {
		ranktest.Start(t, 1, "waiting", append(env, "WEFT_TEST_LOCAL=2", "GOMAXPROCS=2")...).Succeed(t, time.Minute)
	}
	env[2] = "WEFT_TEST_CROWDED=true"
	onProcessors(t, 1, func() { ranktest.Start(t, 3, "waiting", env...).Succeed(t, time.Minute) })
}
