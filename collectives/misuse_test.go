package collectives

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

// local returns n ranks of this process that the test closes.
func local(t *testing.T, n int, opts ...comm.Option) []*comm.Communicator {
	t.Helper()
	cs, err := comm.Local(n, append([]comm.Option{comm.WithTimeout(20 * time.Second)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() {
		each(cs, func(c *comm.Communicator) error { return c.Close() })
	})
	return cs
}

// each runs f on all ranks at once and returns their errors.
func each(cs []*comm.Communicator, f func(c *comm.Communicator) error) []error {
	errs := make([]error, len(cs))
	var wg sync.WaitGroup
	for i, c := range cs {
		wg.Go(func() { errs[i] = f(c) })
	}
	wg.Wait()
	return errs
}

// TestWrongArguments: refused with a typed error before anything happens, and
// the communicator works afterwards.
func TestWrongArguments(t *testing.T) {
	ctx := context.Background()
	cs := local(t, 3)
	c := cs[1]
	s := make([]float32, 64)
	var none *comm.Communicator
	var noContext context.Context
	tests := []struct {
		name string
		call func() error
		want error
	}{
		{"AllReduce nil communicator", func() error { return AllReduce(ctx, none, s, s, kernels.Sum) }, comm.ErrNil},
		{"Barrier nil communicator", func() error { return Barrier(ctx, none) }, comm.ErrNil},
		{"Broadcast nil communicator", func() error { return Broadcast(ctx, none, s, 0) }, comm.ErrNil},
		{"AllGather nil communicator", func() error { return AllGather(ctx, none, s, s[:1]) }, comm.ErrNil},
		{"AllToAll nil communicator", func() error { return AllToAll(ctx, none, s, s) }, comm.ErrNil},
		{"Reduce nil communicator", func() error { return Reduce(ctx, none, s, s, kernels.Sum, 0) }, comm.ErrNil},
		{"AllReduce nil context", func() error { return AllReduce(noContext, c, s, s, kernels.Sum) }, comm.ErrArgument},
		{"AllReduce lengths", func() error { return AllReduce(ctx, c, s[:3], s[8:12], kernels.Sum) }, ErrCount},
		{"AllReduce nil dst", func() error { return AllReduce(ctx, c, nil, s, kernels.Sum) }, ErrCount},
		{"AllReduce overlap", func() error { return AllReduce(ctx, c, s[1:9], s[0:8], kernels.Sum) }, ErrOverlap},
		{"AllReduce operator", func() error { return AllReduce(ctx, c, s, s, kernels.Op(200)) }, ErrOperator},
		{"Reduce root", func() error { return Reduce(ctx, c, s, s, kernels.Sum, 3) }, ErrRoot},
		{"Reduce negative root", func() error { return Reduce(ctx, c, s, s, kernels.Sum, -1) }, ErrRoot},
		{"Reduce operator", func() error { return Reduce(ctx, c, s, s, kernels.Op(99), 0) }, ErrOperator},
		{"Reduce lengths at root", func() error { return Reduce(ctx, c, s[:2], s[8:], kernels.Sum, 1) }, ErrCount},
		{"Reduce overlap at root", func() error { return Reduce(ctx, c, s[1:9], s[0:8], kernels.Sum, 1) }, ErrOverlap},
		{"Broadcast root", func() error { return Broadcast(ctx, c, s, 17) }, ErrRoot},
		{"AllGather lengths", func() error { return AllGather(ctx, c, s[:8], s[10:13]) }, ErrCount},
		{"AllGather wrong block", func() error { return AllGather(ctx, c, s[:9], s[:3]) }, ErrOverlap},
		{"AllGather across its block", func() error { return AllGather(ctx, c, s[:9], s[4:7]) }, ErrOverlap},
		{"AllToAll lengths", func() error { return AllToAll(ctx, c, s[:6], s[10:13]) }, ErrCount},
		{"AllToAll not blocks", func() error { return AllToAll(ctx, c, s[:4], s[10:14]) }, ErrCount},
		{"AllToAll overlap", func() error { return AllToAll(ctx, c, s[1:10], s[0:9]) }, ErrOverlap},
		{"Split color", func() error { _, err := c.Split(ctx, -2, 0); return err }, comm.ErrArgument},
		{"Alloc negative", func() error { _, err := comm.Alloc[int8](ctx, c, -1); return err }, comm.ErrArgument},
		{"Alloc too large", func() error { _, err := comm.Alloc[float64](ctx, c, math.MaxInt); return err }, comm.ErrArgument},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.call()
			require.ErrorIs(t, err, tt.want)
			var op *comm.OpError
			require.ErrorAs(t, err, &op)
			require.NotEmpty(t, op.Call.Collective.String())
		})
	}
	require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error { return Barrier(ctx, c) })...))
}

// TestCancelled: a cancelled context ends the call here with its error, and the
// others' with an abort that names this rank.
func TestCancelled(t *testing.T) {
	cs := local(t, 3)
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(50*time.Millisecond, cancel)
	errs := each(cs, func(c *comm.Communicator) error {
		switch c.Rank() {
		case 0:
			return Barrier(ctx, c)
		case 1:
			return Barrier(context.Background(), c)
		}
		return nil // does not come
	})
	require.ErrorIs(t, errs[0], context.Canceled)
	require.ErrorIs(t, errs[0], comm.ErrAborted)
	require.ErrorIs(t, errs[1], comm.ErrAborted)
	require.NotErrorIs(t, errs[1], context.Canceled)
	var abort *comm.AbortError
	require.ErrorAs(t, errs[1], &abort)
	require.Equal(t, 0, abort.Origin)
	require.Equal(t, comm.ReasonCanceled, abort.Reason)
	require.Contains(t, abort.Call, "Barrier #1")
	for _, c := range cs { // and for ever
		require.Eventually(t, func() bool { return c.AsyncErr() != nil }, bound, time.Millisecond)
		require.ErrorIs(t, Barrier(context.Background(), c), comm.ErrAborted)
		require.ErrorIs(t, c.AsyncErr(), comm.ErrAborted)
	}
}

// TestDoneBefore: a call with a context that is done is one that ended.
func TestDoneBefore(t *testing.T) {
	cs := local(t, 3)
	done, cancel := context.WithCancel(context.Background())
	cancel()
	begin := time.Now()
	errs := each(cs, func(c *comm.Communicator) error {
		if c.Rank() == 1 {
			return Barrier(done, c)
		}
		return Barrier(context.Background(), c)
	})
	require.Less(t, time.Since(begin), 10*time.Second)
	require.ErrorIs(t, errs[1], context.Canceled)
	for _, r := range []int{0, 2} {
		require.ErrorIs(t, errs[r], comm.ErrAborted)
		require.ErrorContains(t, errs[r], "cancelled on rank 1")
	}
}

// TestBothDeadlines: each rank whose own context has expired gets to know so,
// whoever was first.
func TestBothDeadlines(t *testing.T) {
	cs := local(t, 3)
	deadline := time.Now().Add(100 * time.Millisecond)
	for _, err := range each(cs[:2], func(c *comm.Communicator) error {
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		defer cancel()
		return Barrier(ctx, c)
	}) {
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, comm.ErrAborted)
	}
}

// TestMismatchAfterClose: ranks that disagreed about calls that wait for nobody,
// and have left since, are found out.
func TestMismatchAfterClose(t *testing.T) {
	ctx := context.Background()
	t.Run("nothing and something", func(t *testing.T) {
		cs := local(t, 2)
		require.NoError(t, AllReduce(ctx, cs[1], []int8{}, []int8{}, kernels.Sum))
		require.NoError(t, cs[1].Close())
		begin := time.Now()
		err := AllReduce(ctx, cs[0], make([]int8, 10), make([]int8, 10), kernels.Sum)
		require.ErrorIs(t, err, comm.ErrMismatch)
		require.ErrorContains(t, err, "rank 1: AllReduce #1 count 0 int8 sum; rank 0: AllReduce #1 count 10 int8 sum")
		require.Less(t, time.Since(begin), 10*time.Second)
	})
	t.Run("numbers for two ranks to agree on", func(t *testing.T) {
		cs := local(t, 2)
		require.NoError(t, GatherV(ctx, cs[1], nil, nil, make([]int8, 4), 0))
		require.NoError(t, cs[1].Close())
		begin := time.Now()
		err := GatherV(ctx, cs[0], make([]int8, 6), []int{1, 5}, []int8{1}, 0)
		require.ErrorIs(t, err, comm.ErrMismatch)
		require.ErrorContains(t, err, "rank 1: GatherV #1 root 0 count 4 int8; rank 0: GatherV #1 root 0 count 1 int8 (rank 0 expects 5 elements from rank 1)")
		require.Less(t, time.Since(begin), 10*time.Second)
	})
	t.Run("found by the other, no call since", func(t *testing.T) {
		cs := local(t, 2)
		require.NoError(t, Broadcast(ctx, cs[0], make([]int8, 4), 0))
		require.ErrorIs(t, Broadcast(ctx, cs[1], make([]int8, 5), 0), comm.ErrMismatch)
		require.Eventually(t, func() bool { return cs[0].AsyncErr() != nil }, bound, time.Millisecond)
		require.ErrorIs(t, cs[0].Close(), comm.ErrMismatch)
		require.NoError(t, cs[1].Close(), "told before")
	})
	t.Run("last call", func(t *testing.T) {
		cs := local(t, 2)
		require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error {
			return Broadcast(ctx, c, make([]int8, 4), c.Rank()) // each thinks it is the root
		})...))
		require.ErrorIs(t, errors.Join(each(cs, func(c *comm.Communicator) error { return c.Close() })...), comm.ErrMismatch)
	})
}

// TestAbortedChildren: what is said about communicators that failed is forgotten.
func TestAbortedChildren(t *testing.T) {
	ctx := context.Background()
	cs := local(t, 3)
	for range 300 {
		require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error {
			child, err := c.Dup(ctx)
			if err != nil {
				return err
			}
			if c.Rank() == 1 {
				child.Abort(errors.New("enough"))
			}
			return child.Close()
		})...))
	}
	require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error { return Barrier(ctx, c) })...))
}

// TestDeadline: the error names the rank that did not come.
func TestDeadline(t *testing.T) {
	const late = 400 * time.Millisecond // so that the others have come, on any machine
	for _, tt := range []struct {
		name string
		opts []comm.Option
		ctx  func() (context.Context, context.CancelFunc)
	}{
		{"of the communicator", []comm.Option{comm.WithTimeout(late)}, func() (context.Context, context.CancelFunc) {
			return context.Background(), func() {}
		}},
		{"of the context", nil, func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), late)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cs := local(t, 3, tt.opts...)
			begin := time.Now()
			errs := each(cs[:2], func(c *comm.Communicator) error {
				ctx, cancel := tt.ctx()
				defer cancel()
				return AllReduce(ctx, c, make([]int8, 5), make([]int8, 5), kernels.Sum)
			})
			require.Less(t, time.Since(begin), 10*time.Second)
			some := false
			for _, err := range errs {
				var abort *comm.AbortError
				require.ErrorAs(t, err, &abort)
				require.Equal(t, comm.ReasonTimeout, abort.Reason)
				require.Equal(t, []int{2}, abort.Ranks)
				require.Contains(t, err.Error(), "waiting for rank 2")
				require.Contains(t, err.Error(), "not in the call yet")
				some = some || errors.Is(err, context.DeadlineExceeded)
			}
			require.True(t, some)
		})
	}
}

func TestAbort(t *testing.T) {
	cs := local(t, 4)
	mine := errors.New("disk full")
	time.AfterFunc(30*time.Millisecond, func() {
		cs[3].Abort(mine)
		cs[3].Abort(errors.New("a second time"))
	})
	errs := each(cs[:3], func(c *comm.Communicator) error { return Barrier(context.Background(), c) })
	for _, err := range errs {
		require.ErrorIs(t, err, comm.ErrAborted)
		require.Contains(t, err.Error(), "aborted by rank 3: disk full")
	}
	require.ErrorIs(t, Barrier(context.Background(), cs[3]), mine)
	var none *comm.Communicator
	none.Abort(mine) // does nothing
	require.ErrorIs(t, none.AsyncErr(), comm.ErrNil)
}

// waitsIn says whether a goroutine waits for data in a function of some package.
func waitsIn(function string) bool {
	stacks := make([]byte, 1<<20)
	for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		if strings.Contains(stack, function+"(") && strings.Contains(stack, "progress.(*") {
			return true
		}
	}
	return false
}

// TestConcurrent: a second collective at the same time is refused; the first goes on.
func TestConcurrent(t *testing.T) {
	ctx := context.Background()
	cs := local(t, 2)
	first := make(chan error, 1)
	go func() { first <- Barrier(ctx, cs[0]) }()
	require.Eventually(t, func() bool { return waitsIn("collectives.Barrier") }, bound, time.Millisecond) // it has begun
	require.ErrorIs(t, AllReduce(ctx, cs[0], []int{0}, []int{0}, kernels.Sum), comm.ErrConcurrent)
	require.NoError(t, Barrier(ctx, cs[1]))
	require.NoError(t, <-first)
	require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error { return Barrier(ctx, c) })...))
}

// TestClosedByPeer: a rank that closes while others need it is named; one that
// closes after its last call disturbs nobody.
func TestClosedByPeer(t *testing.T) {
	ctx := context.Background()
	t.Run("in a call", func(t *testing.T) {
		cs := local(t, 3)
		time.AfterFunc(30*time.Millisecond, func() { cs[2].Close() })
		for _, err := range each(cs[:2], func(c *comm.Communicator) error { return Barrier(ctx, c) }) {
			require.ErrorIs(t, err, comm.ErrPeerClosed)
			require.Contains(t, err.Error(), "rank 2 closed")
		}
	})
	t.Run("before a call", func(t *testing.T) {
		cs := local(t, 3)
		require.NoError(t, cs[2].Close())
		for _, err := range each(cs[:2], func(c *comm.Communicator) error { return Barrier(ctx, c) }) {
			require.ErrorIs(t, err, comm.ErrPeerClosed)
		}
		require.ErrorIs(t, Barrier(ctx, cs[2]), comm.ErrClosed)
		require.NoError(t, cs[2].Close())
	})
	t.Run("running ahead", func(t *testing.T) {
		cs := local(t, 2)
		buf := make([]int32, 100)
		buf[99] = 7
		require.NoError(t, Broadcast(ctx, cs[0], buf, 0))
		closed := make(chan error, 1)
		go func() { closed <- cs[0].Close() }() // the root has done its part
		time.Sleep(20 * time.Millisecond)
		got := make([]int32, 100)
		require.NoError(t, Broadcast(ctx, cs[1], got, 0))
		require.EqualValues(t, 7, got[99])
		require.NoError(t, <-closed)
	})
	t.Run("own call of another goroutine", func(t *testing.T) {
		cs := local(t, 2)
		done := make(chan error, 1)
		go func() { done <- Barrier(ctx, cs[0]) }()
		time.Sleep(20 * time.Millisecond)
		require.NoError(t, cs[0].Close())
		require.ErrorIs(t, <-done, comm.ErrClosed)
		require.ErrorIs(t, Barrier(ctx, cs[1]), comm.ErrPeerClosed)
	})
	t.Run("in any order", func(t *testing.T) {
		cs := local(t, 2)
		var a, b [2]*comm.Communicator
		require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) (err error) {
			if a[c.Rank()], err = c.Dup(ctx); err != nil {
				return err
			}
			b[c.Rank()], err = c.Dup(ctx)
			return err
		})...))
		begin := time.Now()
		require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error {
			first, second := a[0], b[0]
			if c.Rank() == 1 {
				first, second = b[1], a[1]
			}
			return errors.Join(first.Close(), second.Close())
		})...))
		require.Less(t, time.Since(begin), 10*time.Second)
	})
}

// TestSplitDup: groups, their order, and that they fail apart.
func TestSplitDup(t *testing.T) {
	ctx := context.Background()
	cs := local(t, 5)
	errs := each(cs, func(c *comm.Communicator) error {
		color := c.Rank() % 2
		if c.Rank() == 4 {
			color = comm.Undefined
		}
		part, err := c.Split(ctx, color, -c.Rank()) // keys turn the order round
		if err != nil {
			return err
		}
		if c.Rank() == 4 {
			if part != nil {
				return fmt.Errorf("Undefined got a communicator")
			}
			return Barrier(ctx, c)
		}
		got := make([]int32, 2)
		if err := AllGather(ctx, part, got, []int32{int32(c.Rank())}); err != nil {
			return err
		}
		if want := [][]int32{{2, 0}, {3, 1}}[color]; got[0] != want[0] || got[1] != want[1] || part.Size() != 2 || got[part.Rank()] != int32(c.Rank()) {
			return fmt.Errorf("color %d: got %v, want %v", color, got, want)
		}
		dup, err := part.Dup(ctx)
		if err != nil {
			return err
		}
		if dup.Rank() != part.Rank() || dup.Size() != part.Size() {
			return fmt.Errorf("Dup changed the ranks")
		}
		dup.Abort(errors.New("only the duplicate"))
		if err := Barrier(ctx, dup); !errors.Is(err, comm.ErrAborted) {
			return fmt.Errorf("aborted duplicate: %v", err)
		}
		if err := Barrier(ctx, part); err != nil {
			return fmt.Errorf("the duplicate's abort reached its parent: %w", err)
		}
		return Barrier(ctx, c)
	})
	require.NoError(t, errors.Join(errs...))
}

// TestSymmetricMemory: zeroed, seen by the peers, usable as any slice.
func TestSymmetricMemory(t *testing.T) {
	ctx := context.Background()
	cs := local(t, 3)
	errs := each(cs, func(c *comm.Communicator) error {
		for _, n := range []int{0, 1, 7, 5000} {
			b, err := comm.Alloc[float64](ctx, c, n)
			if err != nil {
				return err
			}
			if len(b.Slice()) != n || b.Len() != n || b.Peer(-1) != nil || b.Peer(3) != nil {
				return fmt.Errorf("%d elements: slice of %d", n, len(b.Slice()))
			}
			for i, x := range b.Slice() {
				if x != 0 {
					return fmt.Errorf("not zero")
				}
				b.Slice()[i] = float64(c.Rank()*10000 + i)
			}
			if err := Barrier(ctx, c); err != nil {
				return err
			}
			for p := range 3 {
				for i, x := range b.Peer(p) {
					if x != float64(p*10000+i) {
						return fmt.Errorf("rank %d at %d: %v", p, i, x)
					}
				}
			}
			if err := AllReduce(ctx, c, b.Slice(), b.Slice(), kernels.Sum); err != nil {
				return err
			}
			for i, x := range b.Slice() {
				if x != float64(30000+3*i) {
					return fmt.Errorf("sum at %d: %v", i, x)
				}
			}
			if err := errors.Join(b.Free(), b.Free()); err != nil {
				return err
			}
			if b.Slice() != nil || b.Peer(0) != nil {
				return fmt.Errorf("memory after Free")
			}
		}
		return nil
	})
	require.NoError(t, errors.Join(errs...))
	var none *comm.Buffer[int8]
	require.Nil(t, none.Slice())
	require.Nil(t, none.Peer(0))
	require.Zero(t, none.Len())
	require.NoError(t, none.Free())
}
