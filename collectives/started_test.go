package collectives

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

// ended says whether a request is done.
func ended(r *Request) bool {
	select {
	case <-r.Done():
		return true
	default:
		return false
	}
}

// allNil joins errors for a test.
func allNil(t *testing.T, errs []error) {
	t.Helper()
	require.NoError(t, errors.Join(errs...))
}

// TestStartedOrder: calls run in the order of their start: each of these takes
// what the one before has left.
func TestStartedOrder(t *testing.T) {
	ctx := context.Background()
	for n := 1; n <= 4; n++ {
		cs := local(t, n)
		allNil(t, each(cs, func(c *comm.Communicator) error {
			const count = 40_000 // several messages
			x, y := make([]uint64, count), make([]uint64, count)
			for i := range x {
				x[i] = uint64(i + c.Rank())
			}
			// What one after the other would do.
			want := make([]uint64, count)
			for i := range want {
				for r := range n {
					want[i] += uint64(i + r)
				}
				for range 5 {
					want[i] = (want[i]*uint64(n) + uint64(i)) * uint64(n)
				}
			}
			add := func(acc, x []uint64) {
				for i := range acc {
					acc[i] += x[i]
				}
			}
			requests := []*Request{StartAllReduce(ctx, c, x, x, kernels.Sum)}
			for range 5 {
				requests = append(requests,
					StartAllReduceFunc(ctx, c, y, x, add), // y = n·x
					StartBroadcast(ctx, c, y, n-1),
					StartAllReduceFunc(ctx, c, x, y, add), // x = n·y
				)
				if err := requests[len(requests)-1].Wait(ctx); err != nil {
					return err
				}
				for i, r := range requests {
					if !ended(r) {
						return fmt.Errorf("request %d is not done, and a later one is", i)
					}
				}
				for i := range x { // x was n·n·x
					x[i] = (x[i]/uint64(n) + uint64(i)) * uint64(n)
				}
			}
			for i := range x {
				if x[i] != want[i] {
					return fmt.Errorf("rank %d of %d: element %d is %d, want %d", c.Rank(), n, i, x[i], want[i])
				}
			}
			return WaitAll(ctx, requests...)
		}))
	}
}

// TestStartedInTurn starts many calls on the same memory without waiting for any.
func TestStartedInTurn(t *testing.T) {
	ctx := context.Background()
	cs := local(t, 3)
	allNil(t, each(cs, func(c *comm.Communicator) error {
		x, blocks := []uint64{uint64(c.Rank() + 1)}, make([]uint64, 3)
		var requests []*Request
		for k := range 200 {
			switch k % 4 {
			case 0:
				requests = append(requests, StartAllReduce(ctx, c, x, x, kernels.Sum))
			case 1:
				requests = append(requests, StartAllGather(ctx, c, blocks, x))
			case 2:
				requests = append(requests, StartScan(ctx, c, blocks, blocks, kernels.Sum))
			case 3:
				requests = append(requests, StartReduceScatterBlock(ctx, c, x, blocks, kernels.Sum))
			}
		}
		want := uint64(1 + 2 + 3)
		for k := range 50 {
			if k > 0 {
				want *= 3 // AllReduce
			}
			want *= 1 + 2 + 3 // of what the ranks have of Scan
		}
		if err := WaitAll(ctx, requests...); err != nil {
			return err
		}
		if x[0] != want {
			return fmt.Errorf("rank %d: %d, want %d", c.Rank(), x[0], want)
		}
		return nil
	}))
}

// TestAfterStarted: whatever blocks goes after what was started before.
func TestAfterStarted(t *testing.T) {
	ctx := context.Background()
	calls := []struct {
		name string
		call func(c *comm.Communicator) error
	}{
		{"Barrier", func(c *comm.Communicator) error { return Barrier(ctx, c) }},
		{"AllReduce", func(c *comm.Communicator) error { return AllReduce(ctx, c, []int8{1}, []int8{1}, kernels.Sum) }},
		{"nothing", func(c *comm.Communicator) error { return Broadcast(ctx, c, []int8{}, 0) }},
		{"AllToAllV", func(c *comm.Communicator) error {
			counts := make([]int, c.Size())
			return AllToAllV(ctx, c, []int8{}, counts, []int8{}, counts)
		}},
		{"Group", func(c *comm.Communicator) error {
			return Group(ctx, c, func(g *GroupCalls) error {
				AddBarrier(g)
				return nil
			})
		}},
		{"Persistent", func(c *comm.Communicator) error {
			p, err := NewBarrier(c)
			return errors.Join(err, p.Run(ctx))
		}},
		{"Split", func(c *comm.Communicator) error {
			part, err := c.Split(ctx, c.Rank()%2, 0)
			return errors.Join(err, closed(part))
		}},
		{"Dup", func(c *comm.Communicator) error {
			dup, err := c.Dup(ctx)
			return errors.Join(err, closed(dup))
		}},
		{"Alloc", func(c *comm.Communicator) error {
			b, err := comm.Alloc[int8](ctx, c, 5)
			return errors.Join(err, b.Free())
		}},
	}
	for _, tt := range calls {
		t.Run(tt.name, func(t *testing.T) {
			cs := local(t, 3)
			allNil(t, each(cs, func(c *comm.Communicator) error {
				for range 20 {
					x := make([]int32, 3000)
					x[2999] = int32(c.Rank())
					requests := []*Request{StartAllReduce(ctx, c, x, x, kernels.Sum), StartBarrier(ctx, c), StartBroadcast(ctx, c, x, 1)}
					if err := tt.call(c); err != nil {
						return err
					}
					// The last one's Done may be a moment late; what it did is not.
					if x[2999] != 3 || !ended(requests[0]) || !ended(requests[1]) {
						return errors.New("went before what was started earlier")
					}
					if err := WaitAll(ctx, requests...); err != nil {
						return err
					}
				}
				return nil
			}))
		})
	}
}

// TestProgress: what one rank has started goes on for the others while it
// computes, also if there is one processor for all goroutines.
func TestProgress(t *testing.T) {
	ctx := context.Background()
	for _, procs := range []int{1, 2} {
		t.Run(fmt.Sprintf("GOMAXPROCS=%d", procs), func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
			cs := local(t, 3)
			for computes := range 3 {
				var others atomic.Int32
				allNil(t, each(cs, func(c *comm.Communicator) error {
					x := make([]int32, 100_000)
					x[99_999] = int32(c.Rank())
					if c.Rank() != computes {
						defer others.Add(1)
						if err := AllReduce(ctx, c, x, x, kernels.Sum); err != nil {
							return err
						}
						return Reduce(ctx, c, x, x, kernels.Sum, 0)
					}
					a, b := StartAllReduce(ctx, c, x, x, kernels.Sum), StartReduce(ctx, c, x, x, kernels.Sum, 0)
					sum := uint64(1)
					for begin := time.Now(); others.Load() != 2; sum = sum*6364136223846793005 + 1 {
						if sum%1024 == 0 && time.Since(begin) > 20*time.Second {
							return errors.New("the others did not get on")
						}
					}
					if err := WaitAll(ctx, a, b); err != nil {
						return err
					}
					if want := int32(3); c.Rank() != 0 && x[99_999] != want || c.Rank() == 0 && x[99_999] != 3*want {
						return fmt.Errorf("got %d", x[99_999])
					}
					return nil
				}))
			}
		})
	}
}

// TestWait: a wait ends with its own context; the call goes on.
func TestWait(t *testing.T) {
	ctx := context.Background()
	cs := local(t, 2)
	x := []int32{1}
	r := StartAllReduce(ctx, cs[0], x, x, kernels.Sum)
	later := StartBarrier(ctx, cs[0])
	done, cancel := context.WithCancel(ctx)
	cancel()
	for range 3 {
		require.ErrorIs(t, r.Wait(done), context.Canceled)
		require.ErrorIs(t, WaitAll(done, nil, r, later), context.Canceled)
		require.NoError(t, r.Err())
		require.False(t, ended(r))
	}
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	begin := time.Now()
	require.ErrorIs(t, WaitAll(short, r, later), context.DeadlineExceeded)
	require.Less(t, time.Since(begin), 10*time.Second)
	require.NoError(t, cs[0].AsyncErr())

	require.NoError(t, AllReduce(ctx, cs[1], []int32{2}, []int32{2}, kernels.Sum))
	require.NoError(t, Barrier(ctx, cs[1]))
	require.NoError(t, r.Wait(ctx))
	require.EqualValues(t, 3, x[0])
	require.NoError(t, r.Wait(ctx)) // again
	require.NoError(t, WaitAll(ctx, later, nil, r, r))
	require.NoError(t, r.Wait(done)) // it has ended, so that no context matters
	require.NoError(t, WaitAll(ctx))
	require.True(t, ended(r))
	require.NoError(t, r.Err())
}

// TestWaitErrors: of refused and failed calls.
func TestWaitErrors(t *testing.T) {
	ctx := context.Background()
	cs := local(t, 2)
	var noContext context.Context
	var none *Request
	require.ErrorIs(t, none.Wait(ctx), comm.ErrArgument)
	require.ErrorIs(t, none.Err(), comm.ErrArgument)
	require.True(t, ended(none))
	require.ErrorIs(t, StartBarrier(ctx, nil).Wait(ctx), comm.ErrNil)
	require.ErrorIs(t, StartBarrier(noContext, cs[0]).Wait(ctx), comm.ErrArgument)
	require.ErrorIs(t, StartBarrier(ctx, cs[0]).Wait(noContext), comm.ErrArgument)
	require.NoError(t, Barrier(ctx, cs[1]))
	var notSetUp *Persistent
	require.ErrorIs(t, notSetUp.Start(ctx).Wait(ctx), comm.ErrArgument)

	bad := StartAllReduce(ctx, cs[0], []int8{1, 2}, []int8{1}, kernels.Sum)
	require.True(t, ended(bad), "refused at once")
	require.ErrorIs(t, bad.Err(), ErrCount)
	worse := StartBroadcast(ctx, cs[0], []int8{1}, 7)
	good := StartBarrier(ctx, cs[0])
	require.NoError(t, Barrier(ctx, cs[1]))
	err := WaitAll(ctx, nil, bad, good, worse)
	require.ErrorIs(t, err, ErrCount)
	require.ErrorIs(t, err, ErrRoot)
	var op *comm.OpError
	require.ErrorAs(t, bad.Err(), &op)
	require.Equal(t, comm.OpAllReduce, op.Call.Collective)

	require.NoError(t, cs[0].Close())
	require.ErrorIs(t, StartBarrier(ctx, cs[0]).Wait(ctx), comm.ErrClosed)
}

// TestStartedContext: the context that a call was started with ends it, on all
// ranks, and what was started after it.
func TestStartedContext(t *testing.T) {
	ctx := context.Background()
	for _, tt := range []struct {
		name   string
		before int // calls that were started before, and end
	}{{"the first", 0}, {"behind others", 3}} {
		t.Run(tt.name, func(t *testing.T) {
			cs := local(t, 3)
			own, cancel := context.WithCancel(ctx)
			errs := make([][]error, 3)
			begin := time.Now()
			var earlier sync.WaitGroup
			earlier.Add(3 * tt.before)
			go func() {
				earlier.Wait()
				time.AfterFunc(30*time.Millisecond, cancel)
			}()
			each(cs, func(c *comm.Communicator) error {
				var requests []*Request
				for range tt.before {
					requests = append(requests, StartBarrier(ctx, c))
				}
				of := ctx
				if c.Rank() == 1 {
					of = own
				}
				if c.Rank() != 2 { // which does not come
					requests = append(requests, StartBarrier(of, c), StartBarrier(ctx, c))
				}
				for i, r := range requests {
					errs[c.Rank()] = append(errs[c.Rank()], r.Wait(ctx))
					if i < tt.before {
						earlier.Done()
					}
				}
				return nil
			})
			require.Less(t, time.Since(begin), 10*time.Second)
			for r := range 2 {
				allNil(t, errs[r][:tt.before])
				for _, err := range errs[r][tt.before:] {
					require.ErrorIs(t, err, comm.ErrAborted)
					require.ErrorContains(t, err, "cancelled on rank 1")
				}
			}
			require.ErrorIs(t, errs[1][tt.before], context.Canceled)
			require.NotErrorIs(t, errs[0][tt.before], context.Canceled)
		})
	}
	t.Run("a blocking call behind", func(t *testing.T) {
		cs := local(t, 2)
		first := StartBarrier(ctx, cs[0])
		short, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
		defer cancel()
		err := AllReduce(short, cs[0], []int8{1}, []int8{1}, kernels.Sum)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, comm.ErrAborted)
		require.ErrorContains(t, err, "behind calls that were started before")
		require.ErrorIs(t, first.Wait(ctx), comm.ErrAborted)
		require.Eventually(t, func() bool { return cs[1].AsyncErr() != nil }, bound, time.Millisecond)
		require.ErrorIs(t, Barrier(ctx, cs[1]), comm.ErrAborted)
	})
	t.Run("deadline of the communicator", func(t *testing.T) {
		cs := local(t, 2, comm.WithTimeout(200*time.Millisecond))
		a, b := StartBarrier(ctx, cs[0]), StartBarrier(ctx, cs[0])
		err := a.Wait(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "waiting for rank 1")
		require.ErrorIs(t, b.Wait(ctx), comm.ErrAborted)
	})
}

// settled waits until no more goroutines are there than before.
func settled(t *testing.T, before int) {
	t.Helper()
	for end := time.Now().Add(bound); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			stack := make([]byte, 1<<16)
			t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stack[:runtime.Stack(stack, true)])
		}
	}
}

// TestCloseStarted: Close ends what was started, and leaves nothing behind.
func TestCloseStarted(t *testing.T) {
	ctx := context.Background()
	before := runtime.NumGoroutine()
	for _, outstanding := range []int{1, 2, 1000} {
		cs, err := comm.Local(3, comm.WithTimeout(20*time.Second))
		require.NoError(t, err)
		errs := each(cs, func(c *comm.Communicator) error {
			if c.Rank() == 2 { // it does not come
				return nil
			}
			var requests []*Request
			for range outstanding {
				x := make([]int32, 10)
				requests = append(requests, StartAllReduce(ctx, c, x, x, kernels.Sum))
			}
			if c.Rank() == 1 {
				return WaitAll(ctx, requests...)
			}
			time.Sleep(10 * time.Millisecond)
			begin := time.Now()
			if err := c.Close(); err != nil {
				return err
			}
			if took := time.Since(begin); took > bound {
				return fmt.Errorf("Close took %v", took)
			}
			for i, r := range requests {
				if err := r.Wait(ctx); !errors.Is(err, comm.ErrClosed) {
					return fmt.Errorf("request %d of %d: %w", i, outstanding, err)
				}
			}
			return nil
		})
		require.NoError(t, errs[0])
		require.ErrorIs(t, errs[1], comm.ErrPeerClosed)
		allNil(t, each(cs, func(c *comm.Communicator) error { return c.Close() }))
	}
	settled(t, before)
}

// TestAbortStarted: an abort ends all that was started, on all ranks.
func TestAbortStarted(t *testing.T) {
	ctx := context.Background()
	before := runtime.NumGoroutine()
	cs, err := comm.Local(4, comm.WithTimeout(20*time.Second))
	require.NoError(t, err)
	time.AfterFunc(20*time.Millisecond, func() { cs[3].Abort(errors.New("disk full")) })
	errs := each(cs[:3], func(c *comm.Communicator) error {
		requests := make([]*Request, 100)
		for i := range requests {
			requests[i] = StartBarrier(ctx, c)
		}
		for i, r := range requests {
			if err := r.Wait(ctx); !errors.Is(err, comm.ErrAborted) {
				return fmt.Errorf("request %d: %w", i, err)
			}
		}
		return requests[99].Err()
	})
	for _, err := range errs {
		require.ErrorContains(t, err, "aborted by rank 3: disk full")
	}
	require.ErrorContains(t, StartBarrier(ctx, cs[3]).Wait(ctx), "disk full")
	allNil(t, each(cs, func(c *comm.Communicator) error { return c.Close() }))
	settled(t, before)
}

// TestManyStarted: what waits for its turn takes no goroutine, and goes in turn.
func TestManyStarted(t *testing.T) {
	const many = 10_000
	ctx := context.Background()
	for _, procs := range []int{1, 2} {
		t.Run(fmt.Sprintf("GOMAXPROCS=%d", procs), func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
			before := runtime.NumGoroutine()
			cs, err := comm.Local(2, comm.WithTimeout(20*time.Second))
			require.NoError(t, err)
			sums := [2][]int32{make([]int32, many), make([]int32, many)}
			var requests [2][]*Request
			start := func(c *comm.Communicator) {
				for i := range many {
					sums[c.Rank()][i] = int32(i + c.Rank())
					requests[c.Rank()] = append(requests[c.Rank()], StartAllReduce(ctx, c, sums[c.Rank()][i:i+1], sums[c.Rank()][i:i+1], kernels.Sum))
				}
			}
			start(cs[0]) // none of them can end
			require.False(t, ended(requests[0][0]))
			require.LessOrEqual(t, runtime.NumGoroutine(), before+20)
			start(cs[1])
			for r := range 2 {
				require.NoError(t, WaitAll(ctx, requests[r]...))
				for i, got := range sums[r] {
					require.EqualValues(t, 2*i+1, got)
				}
			}
			allNil(t, each(cs, func(c *comm.Communicator) error { return c.Close() }))
			settled(t, before)
		})
	}
}

// TestStartedApart: communicators are independent: goroutines of a rank start
// calls on theirs, in whatever order that happens.
func TestStartedApart(t *testing.T) {
	const apart = 6
	ctx := context.Background()
	cs := local(t, 3)
	allNil(t, each(cs, func(c *comm.Communicator) error {
		var dups []*comm.Communicator
		for range apart {
			dup, err := c.Dup(ctx)
			if err != nil {
				return err
			}
			dups = append(dups, dup)
		}
		return errors.Join(each(dups, func(dup *comm.Communicator) error {
			for k := range 30 {
				x := make([]int32, 1+k*300)
				x[len(x)-1] = int32(k + dup.Rank())
				r := StartAllReduce(ctx, dup, x, x, kernels.Sum)
				y := make([]int32, 3)
				s := StartAllGather(ctx, dup, y, []int32{int32(k)})
				if err := WaitAll(ctx, s, r); err != nil {
					return err
				}
				if got, want := x[len(x)-1], int32(3*k+3); got != want || y[2] != int32(k) {
					return fmt.Errorf("got %d, want %d; %v", got, want, y)
				}
			}
			return dup.Close()
		})...)
	}))
}

// TestStartedMeanwhile: goroutines that start calls on one communicator at the
// same time don't disturb each other. With one rank any order is right.
func TestStartedMeanwhile(t *testing.T) {
	ctx := context.Background()
	c := local(t, 1)[0]
	same := make([]*comm.Communicator, 8)
	for i := range same {
		same[i] = c
	}
	allNil(t, each(same, func(c *comm.Communicator) error {
		for range 300 {
			x := []int32{7}
			if err := StartAllReduce(ctx, c, x, x, kernels.Sum).Wait(ctx); err != nil {
				return err
			}
		}
		return nil
	}))
}

// TestCloseInOperator: Close returns although the call that it is made in can't end.
func TestCloseInOperator(t *testing.T) {
	cs, err := comm.Local(2)
	require.NoError(t, err)
	x := make([][]int32, 2)
	closed := make([]error, 2)
	each(cs, func(c *comm.Communicator) error {
		me := c.Rank()
		x[me] = []int32{1, 2}
		return AllReduceFunc(context.Background(), c, x[me], x[me], func(acc, y []int32) {
			if closed[me] == nil {
				closed[me] = c.Close()
			}
		})
	})
	for r, c := range cs {
		require.ErrorIs(t, closed[r], comm.ErrConcurrent)
		require.NoError(t, c.Close()) // the second
	}
}
