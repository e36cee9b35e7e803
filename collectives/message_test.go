package collectives

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/internal/ranktest"
	"github.com/weft-go/weft/kernels"
)

// text is the content of message i with a tag from one rank to another.
func text(from, to, tag, i, n int) []int64 {
	s := make([]int64, n)
	for k := range s {
		s[k] = int64(from)<<48 | int64(to)<<40 | int64(tag)<<32 | int64(i)<<20 | int64(k&0xfffff)
	}
	return s
}

func checkText(got []int64, s, want Status, i, me int) error {
	if s != want {
		return fmt.Errorf("status %+v, want %+v", s, want)
	}
	if !slices.Equal(got[:s.Count], text(want.Source, me, want.Tag, i, want.Count)) {
		return fmt.Errorf("message %d from %d tag %d differs", i, want.Source, want.Tag)
	}
	for _, v := range got[s.Count:] {
		if v != -1 {
			return fmt.Errorf("message %d from %d tag %d: written beyond its end", i, want.Source, want.Tag)
		}
	}
	return nil
}

// blank is a buffer in which one sees what was written.
func blank(n int) []int64 {
	s := make([]int64, n)
	for i := range s {
		s[i] = -1
	}
	return s
}

// A point has padding in it.
type point struct {
	A int8
	B float64
}

// messageLengths are those around which something changes, in elements of 8 bytes.
func messageLengths(c *comm.Communicator) []int {
	l, _ := c.Lanes()
	eager := l.MailBytes() / 8
	return []int{0, 1, 2, 59, 60, 61, eager - 1, eager, eager + 1, 2*eager + 1, 10*eager + 3, 100_000}
}

// correspond is a program of all kinds of messages that all ranks run.
func correspond(ctx context.Context, c *comm.Communicator) error {
	n, me := c.Size(), c.Rank()
	next, last := (me+1)%n, (me+n-1)%n
	// Round a ring, all lengths, to itself too if it is alone.
	for i, count := range messageLengths(c) {
		got := blank(count + 1)
		s, err := SendRecv(ctx, c, got, last, 5, text(me, next, 5, i, count), next, 5)
		if err == nil {
			err = checkText(got, s, Status{last, 5, count}, i, me)
		}
		if err != nil {
			return fmt.Errorf("ring: %w", err)
		}
	}
	// Each rank tells every other, short ones first, and hears them in another order.
	for i, count := range []int{1, 3000} {
		var sends []*Request
		for p := range n {
			for tag := 10 * i; tag < 10*i+3; tag++ {
				sends = append(sends, StartSend(ctx, c, text(me, p, tag, 0, count), p, tag))
			}
		}
		for tag := 10*i + 2; tag >= 10*i; tag-- {
			seen := map[int]bool{}
			for range n {
				got := blank(count)
				s, err := Recv(ctx, c, got, AnySource, tag)
				if err == nil {
					err = checkText(got, s, Status{s.Source, tag, count}, 0, me)
				}
				if err != nil || seen[s.Source] {
					return fmt.Errorf("%d elements, tag %d: %w", count, tag, err)
				}
				seen[s.Source] = true
			}
		}
		if err := WaitAll(ctx, sends...); err != nil {
			return err
		}
	}
	// Messages from before a collective come after it.
	for i := range 20 {
		if err := Send(ctx, c, text(me, next, 7, i, i), next, 7); err != nil {
			return err
		}
	}
	if err := Barrier(ctx, c); err != nil {
		return err
	}
	for i := range 20 {
		got := blank(30)
		s, err := Recv(ctx, c, got, last, AnyTag)
		if err == nil {
			err = checkText(got, s, Status{last, 7, i}, i, me)
		}
		if err != nil {
			return fmt.Errorf("after a barrier: %w", err)
		}
	}
	return nil
}

func TestMessages(t *testing.T) {
	for n := 1; n <= 5; n++ {
		t.Run(fmt.Sprintf("ranks=%d", n), func(t *testing.T) {
			cs := local(t, n)
			for range 3 {
				require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error { return correspond(context.Background(), c) })...))
			}
		})
	}
}

func messagesProgram() error {
	ctx := context.Background()
	c, err := comm.Init(ctx)
	if err != nil {
		return err
	}
	seed, err := strconv.ParseUint(os.Getenv("WEFT_TEST_SEED"), 0, 64)
	if err != nil {
		return err
	}
	if err := correspond(ctx, c); err != nil {
		return err
	}
	if err := chatter(ctx, c, seed, max(8, 60/c.Size())); err != nil {
		return err
	}
	return c.Close()
}

func TestMessagesOfProcesses(t *testing.T) {
	for _, n := range processCounts() {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("ranks=%d,seed=%#x", n, seed), func(t *testing.T) {
			ranktest.Start(t, n, "messages", fmt.Sprintf("WEFT_TEST_SEED=%#x", seed)).Succeed(t, 60*time.Second)
		})
	}
}

// TestLargeBothWays: two ranks that both start to send and to receive much do not
// wait for each other, in any order and form.
func TestLargeBothWays(t *testing.T) {
	ctx := context.Background()
	const count = 8 << 20 // 64 MiB
	cs := local(t, 2)
	src, dst := make([]int64, count), [2][]int64{make([]int64, count), make([]int64, count)}
	for i := range src {
		src[i] = int64(i) * 3
	}
	for _, f := range []struct {
		name string
		call func(c *comm.Communicator, dst []int64) error
	}{
		{"send first", func(c *comm.Communicator, dst []int64) error {
			s := StartSend(ctx, c, src, 1-c.Rank(), 1)
			return WaitAll(ctx, s, StartRecv(ctx, c, dst, 1-c.Rank(), 1))
		}},
		{"wait for the send first", func(c *comm.Communicator, dst []int64) error {
			r := StartRecv(ctx, c, dst, AnySource, 1)
			return WaitAll(ctx, StartSend(ctx, c, src, 1-c.Rank(), 1), r)
		}},
		{"SendRecv", func(c *comm.Communicator, dst []int64) error {
			_, err := SendRecv(ctx, c, dst, 1-c.Rank(), 1, src, 1-c.Rank(), 1)
			return err
		}},
		{"nobody waits", func(c *comm.Communicator, dst []int64) error {
			s, r := StartSend(ctx, c, src, 1-c.Rank(), 1), StartRecv(ctx, c, dst, 1-c.Rank(), 1)
			<-s.Done()
			<-r.Done()
			return errors.Join(s.Err(), r.Err())
		}},
		{"in a barrier", func(c *comm.Communicator, dst []int64) error {
			r := StartRecv(ctx, c, dst, 1-c.Rank(), 1)
			if c.Rank() == 1 {
				if err := Send(ctx, c, src, 0, 1); err != nil {
					return err
				}
				return errors.Join(Barrier(ctx, c), WaitAll(ctx, r))
			}
			s := StartSend(ctx, c, src, 1, 1)
			return errors.Join(Barrier(ctx, c), WaitAll(ctx, s, r))
		}},
	} {
		for r := range dst {
			clear(dst[r])
		}
		require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error { return f.call(c, dst[c.Rank()]) })...), f.name)
		for r := range dst {
			require.True(t, slices.Equal(src, dst[r]), f.name)
		}
	}
}

// TestFlood: ranks that send many short messages to each other before they
// receive any get on, also if one is in some other call meanwhile.
func TestFlood(t *testing.T) {
	ctx := context.Background()
	const messages = 500
	others := []struct {
		name string
		call func(c *comm.Communicator) error
	}{
		{"nothing", func(*comm.Communicator) error { return nil }},
		{"Barrier", func(c *comm.Communicator) error { return Barrier(ctx, c) }},
		{"started", func(c *comm.Communicator) error { return StartBroadcast(ctx, c, make([]int, 100_000), 0).Wait(ctx) }},
		{"Dup", func(c *comm.Communicator) error {
			d, err := c.Dup(ctx)
			if err == nil {
				err = d.Close()
			}
			return err
		}},
	}
	for _, other := range others {
		for _, senders := range []string{"all", "one"} {
			t.Run(other.name+","+senders, func(t *testing.T) {
				cs := local(t, 3)
				sends := func(r int) bool { return senders == "all" || r == 1 }
				require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error {
					me := c.Rank()
					if sends(me) {
						for i := range messages {
							for p := range c.Size() {
								if err := Send(ctx, c, text(me, p, 1, i, i%9), p, 1); err != nil {
									return err
								}
							}
						}
					}
					if err := other.call(c); err != nil {
						return err
					}
					for i := range messages {
						for p := range c.Size() {
							if !sends(p) {
								continue
							}
							got := blank(10)
							s, err := Recv(ctx, c, got, p, 1)
							if err == nil {
								err = checkText(got, s, Status{p, 1, i % 9}, i, me)
							}
							if err != nil {
								return err
							}
						}
					}
					return nil
				})...))
			})
		}
	}
}

// chatter is a random program: several goroutines of each rank send and receive,
// in all forms, while one makes collectives. What is sent with a tag arrives in the
// order of the sends.
func chatter(ctx context.Context, c *comm.Communicator, seed uint64, messages int) error {
	n, me := c.Size(), c.Rank()
	const tags = 3
	ls := messageLengths(c)
	length := func(from, to, tag, i int) int { // both ends know it
		rng := rand.New(rand.NewPCG(seed, uint64(from)<<40|uint64(to)<<32|uint64(tag)<<24|uint64(i)))
		return ls[rng.IntN(len(ls))] + rng.IntN(3)
	}
	most := ls[len(ls)-1] + 3
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	for tag := range tags {
		rng := rand.New(rand.NewPCG(seed, uint64(me)<<16|uint64(tag)<<8))
		for to := range n {
			rng := rand.New(rand.NewPCG(rng.Uint64(), 1))
			g.Go(func() error { // sends to one rank with one tag
				var open []*Request
				for i := range messages {
					s := text(me, to, tag, i, length(me, to, tag, i))
					if rng.IntN(2) == 0 {
						open = append(open, StartSend(ctx, c, s, to, tag))
					} else if err := Send(ctx, c, s, to, tag); err != nil {
						return fmt.Errorf("rank %d: send %d: %w", me, i, err)
					}
					if rng.IntN(8) == 0 {
						if err := WaitAll(ctx, open...); err != nil {
							return err
						}
						open = nil
					}
				}
				return WaitAll(ctx, open...)
			})
		}
		g.Go(func() error { // receives what comes with one tag
			next := make([]int, n)
			check := func(got []int64, s Status) error {
				i := next[s.Source]
				next[s.Source]++
				return checkText(got, s, Status{s.Source, tag, length(s.Source, me, tag, i)}, i, me)
			}
			for left := n * messages; left > 0; {
				k := 1 + rng.IntN(min(4, left))
				left -= k
				var open []*Request
				bufs := make([][]int64, k)
				for j := range bufs {
					bufs[j] = blank(most)
					open = append(open, StartRecv(ctx, c, bufs[j], AnySource, tag))
				}
				if rng.IntN(2) == 0 {
					<-open[k-1].Done()
				}
				for j, r := range open { // in the order of their start, as MPI says
					err := r.Wait(ctx)
					if err == nil {
						err = check(bufs[j], r.Status())
					}
					if err != nil {
						return fmt.Errorf("rank %d: %w", me, err)
					}
				}
			}
			return nil
		})
	}
	g.Go(func() error {
		rng := rand.New(rand.NewPCG(seed, 0)) // the same on all ranks
		for range messages {
			count := ls[rng.IntN(len(ls))]
			sum := make([]int64, count)
			for i := range sum {
				sum[i] = int64(me + i)
			}
			if err := AllReduce(ctx, c, sum, sum, kernels.Sum); err != nil {
				return err
			}
			for i, v := range sum {
				if v != int64(n*(n-1)/2+n*i) {
					return fmt.Errorf("rank %d: sum[%d] is %d", me, i, v)
				}
			}
		}
		return nil
	})
	return g.Wait()
}

func TestChatter(t *testing.T) {
	messages := 40
	if raceEnabled {
		messages = 8
	}
	for n := 1; n <= 4; n++ {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("ranks=%d,seed=%#x", n, seed), func(t *testing.T) {
			cs := local(t, n, comm.WithTimeout(time.Minute))
			require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error { return chatter(context.Background(), c, seed, messages) })...))
		})
	}
}

// TestMatching: which message a receive takes.
func TestMatching(t *testing.T) {
	ctx := context.Background()
	cs := local(t, 2)
	send := func(tag int, s ...int32) { StartSend(ctx, cs[0], s, 1, tag) } // rank 1 makes no progress meanwhile
	recv := func(source, tag int) (Status, []int32) {
		buf := make([]int32, 4)
		s, err := Recv(ctx, cs[1], buf, source, tag)
		require.NoError(t, err)
		return s, buf[:s.Count]
	}
	want := func(tag int, content []int32) func(Status, []int32) {
		return func(s Status, got []int32) {
			t.Helper()
			require.Equal(t, Status{0, tag, len(content)}, s)
			require.Equal(t, content, got)
		}
	}
	send(1, 10)
	send(2, 20, 21)
	send(1, 11)
	send(0)
	send(MaxTag, 7)
	want(2, []int32{20, 21})(recv(0, 2))
	want(1, []int32{10})(recv(AnySource, AnyTag))
	want(0, []int32{})(recv(0, 0))
	want(1, []int32{11})(recv(0, AnyTag))
	want(MaxTag, []int32{7})(recv(AnySource, MaxTag))

	// Receives that were started match in the order of their start.
	var rs []*Request
	bufs := make([][]int32, 3)
	for i, tag := range []int{5, AnyTag, 5} {
		bufs[i] = make([]int32, 1)
		rs = append(rs, StartRecv(ctx, cs[1], bufs[i], AnySource, tag))
	}
	require.Equal(t, Status{}, rs[0].Status())
	for i := range int32(3) {
		send(5, i)
	}
	require.NoError(t, WaitAll(ctx, rs...))
	require.Equal(t, [][]int32{{0}, {1}, {2}}, bufs)
	require.Equal(t, Status{0, 5, 1}, rs[1].Status())
	require.Equal(t, Status{}, StartSend(ctx, cs[1], bufs[0], 1, 1).Status())

	// Its own.
	s, err := Recv(ctx, cs[1], bufs[1], AnySource, AnyTag)
	require.NoError(t, err)
	require.Equal(t, Status{1, 1, 1}, s)
	long := make([]point, 100_000)
	long[99_999].B = 4
	r := StartSend(ctx, cs[1], long, 1, 1)
	got := make([]point, len(long))
	s, err = Recv(ctx, cs[1], got, 1, 1)
	require.NoError(t, err)
	require.NoError(t, r.Wait(ctx))
	require.Equal(t, Status{1, 1, len(long)}, s)
	require.Equal(t, long, got)
	s, err = SendRecv(ctx, cs[1], got, 1, 3, long, 1, 3)
	require.NoError(t, err)
	require.Equal(t, Status{1, 3, len(long)}, s)
}

func TestWrongMessageArguments(t *testing.T) {
	ctx := context.Background()
	cs := local(t, 2)
	c := cs[0]
	var none *comm.Communicator
	var noContext context.Context
	s := make([]int, 10)
	for _, tt := range []struct {
		name string
		call func() error
		want error
	}{
		{"nil communicator", func() error { return Send(ctx, none, s, 0, 0) }, comm.ErrNil},
		{"nil communicator", func() error { _, err := Recv(ctx, none, s, 0, 0); return err }, comm.ErrNil},
		{"nil communicator", func() error { _, err := SendRecv(ctx, none, s[:2], 0, 0, s[2:], 0, 0); return err }, comm.ErrNil},
		{"nil communicator", func() error { return StartSend(ctx, none, s, 0, 0).Wait(ctx) }, comm.ErrNil},
		{"nil context", func() error { return Send(noContext, c, s, 0, 0) }, comm.ErrArgument},
		{"nil context", func() error { return StartRecv(noContext, c, s, 0, 0).Wait(ctx) }, comm.ErrArgument},
		{"nil context", func() error { _, err := SendRecv(noContext, c, s[:2], 0, 0, s[2:], 0, 0); return err }, comm.ErrArgument},
		{"destination", func() error { return Send(ctx, c, s, 2, 0) }, ErrPeer},
		{"destination", func() error { return Send(ctx, c, s, AnySource, 0) }, ErrPeer},
		{"source", func() error { _, err := Recv(ctx, c, s, 2, 0); return err }, ErrPeer},
		{"source", func() error { return StartRecv(ctx, c, s, -2, 0).Wait(ctx) }, ErrPeer},
		{"tag", func() error { return Send(ctx, c, s, 1, AnyTag) }, ErrTag},
		{"tag", func() error { return StartSend(ctx, c, s, 1, -7).Wait(ctx) }, ErrTag},
		{"tag", func() error { _, err := Recv(ctx, c, s, 1, -2); return err }, ErrTag},
		{"type", func() error { return Send(ctx, c, []string{"a"}, 1, 0) }, ErrType},
		{"type", func() error { _, err := Recv(ctx, c, []*int{nil}, 1, 0); return err }, ErrType},
		{"overlap", func() error { _, err := SendRecv(ctx, c, s[:5], 1, 0, s[4:], 1, 0); return err }, ErrOverlap},
		{"overlap", func() error { _, err := SendRecv(ctx, c, s, 1, 0, s, 1, 0); return err }, ErrOverlap},
	} {
		err := tt.call()
		require.ErrorIs(t, err, tt.want, tt.name)
		var op *comm.OpError
		require.ErrorAs(t, err, &op, tt.name)
	}
	if big := int64(MaxTag) + 1; int64(int(big)) == big {
		require.ErrorIs(t, Send(ctx, c, s, 1, int(big)), ErrTag)
	}
	if strconv.IntSize == 64 { // on other systems there is no such type
		huge := element{size: MaxTag}
		huge.size++
		require.ErrorIs(t, sendOf(c, huge, nil, 1, 0).err, ErrType)
		require.ErrorIs(t, recvOf(c, huge, nil, 1, 0).err, ErrType)
	}
	require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error { return correspond(ctx, c) })...))
}

// TestSendRecvDeadline: one deadline bounds both of its messages.
func TestSendRecvDeadline(t *testing.T) {
	ctx := context.Background()
	const timeout = time.Second
	cs := local(t, 2, comm.WithTimeout(timeout))
	late := make(chan error, 1)
	go func() { // takes the message late, and sends none
		time.Sleep(timeout / 4)
		_, err := Recv(ctx, cs[1], make([]int, 10_000), 0, 1)
		late <- err
	}()
	start := time.Now()
	_, err := SendRecv(ctx, cs[0], make([]int, 1), 1, 1, make([]int, 10_000), 1, 1)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "Recv from 1 tag 1 count 1 int64: rank 0 gave up waiting for rank 1")
	require.NoError(t, <-late)
	require.Less(t, time.Since(start), timeout+8*time.Second)
}

// TestMessageErrors: what goes wrong with a message ends the communicator for all,
// within two seconds, with an error that says what it was.
func TestMessageErrors(t *testing.T) {
	ctx := context.Background()
	long := make([]float32, 100_000)
	type calls func(ctx context.Context, c *comm.Communicator) error
	wait := func(ctx context.Context, c *comm.Communicator) error { // what a rank does that has nothing to do with it
		_, err := Recv(ctx, c, make([]byte, 1), AnySource, 99)
		return err
	}
	for _, tt := range []struct {
		name       string
		send, recv calls
		sentinel   error // on all ranks
		here       error // on rank 1, which receives
		text       string
	}{
		{"longer", func(ctx context.Context, c *comm.Communicator) error {
			return errors.Join(Send(ctx, c, long[:9], 1, 3), wait(ctx, c))
		}, func(ctx context.Context, c *comm.Communicator) error {
			_, err := Recv(ctx, c, make([]float32, 8), 0, 3)
			return err
		}, comm.ErrMismatch, ErrTruncated, "rank 0 sent 9 float32 with tag 3, rank 1 receives up to 8 float32"},
		{"long and longer", func(ctx context.Context, c *comm.Communicator) error { return Send(ctx, c, long, 1, 3) },
			func(ctx context.Context, c *comm.Communicator) error {
				return StartRecv(ctx, c, make([]float32, 8), AnySource, AnyTag).Wait(ctx)
			}, comm.ErrMismatch, ErrTruncated, "rank 0 sent 100000 float32 with tag 3"},
		{"type", func(ctx context.Context, c *comm.Communicator) error {
			return errors.Join(Send(ctx, c, long[:9], 1, 3), wait(ctx, c))
		}, func(ctx context.Context, c *comm.Communicator) error {
			_, err := Recv(ctx, c, make([]int32, 20), 0, 3)
			return err
		}, comm.ErrMismatch, comm.ErrMismatch, "rank 0 sent 9 float32 with tag 3, rank 1 receives up to 20 int32"},
		{"size, and nobody waits", func(ctx context.Context, c *comm.Communicator) error { return Send(ctx, c, long, 1, 3) },
			func(ctx context.Context, c *comm.Communicator) error {
				r := StartRecv(ctx, c, make([]point, 20), 0, 3)
				<-r.Done()
				return r.Err()
			}, comm.ErrMismatch, comm.ErrMismatch, "rank 1 receives up to 20 16-byte elements"},
		{"cancelled", wait, func(ctx context.Context, c *comm.Communicator) error {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(20*time.Millisecond, cancel)
			_, err := Recv(ctx, c, make([]int32, 20), 0, 3)
			return err
		}, comm.ErrAborted, context.Canceled, "cancelled on rank 1: in Recv from 0 tag 3 count 20 int32"},
		{"cancelled before", wait, func(ctx context.Context, c *comm.Communicator) error {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return Send(ctx, c, long, 0, 3)
		}, comm.ErrAborted, context.Canceled, "cancelled on rank 1: in Send to 0 tag 3"},
		{"cancelled after its start", wait, func(ctx context.Context, c *comm.Communicator) error {
			ctx, cancel := context.WithCancel(ctx)
			r := StartSend(ctx, c, long, 0, 3)
			cancel()
			<-r.Done()
			return r.Err()
		}, comm.ErrAborted, context.Canceled, "cancelled on rank 1: in Send to 0 tag 3"},
		{"deadline", wait, func(ctx context.Context, c *comm.Communicator) error {
			ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
			defer cancel()
			return Send(ctx, c, long, 0, 3)
		}, comm.ErrAborted, context.DeadlineExceeded, "rank 1 gave up waiting for rank 0: in Send to 0 tag 3 count 100000 float32"},
		{"deadline of any", wait, func(ctx context.Context, c *comm.Communicator) error {
			ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
			defer cancel()
			_, err := Recv(ctx, c, long, AnySource, 3)
			return err
		}, comm.ErrAborted, context.DeadlineExceeded, "rank 1 gave up waiting: in Recv from any tag 3 count 100000 float32"},
		{"abort", wait, func(ctx context.Context, c *comm.Communicator) error {
			time.AfterFunc(20*time.Millisecond, func() { c.Abort(errors.New("enough")) })
			return wait(ctx, c)
		}, comm.ErrAborted, comm.ErrAborted, "aborted by rank 1: enough"},
		{"abort by a collective", wait, func(ctx context.Context, c *comm.Communicator) error {
			ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
			defer cancel()
			return Barrier(ctx, c)
		}, comm.ErrAborted, context.DeadlineExceeded, "rank 1 gave up waiting"},
		{"gone", func(ctx context.Context, c *comm.Communicator) error {
			return Send(ctx, c, long, 1, 3)
		}, func(ctx context.Context, c *comm.Communicator) error {
			if err := c.Close(); err != nil {
				return err
			}
			_, err := Recv(ctx, c, long, 0, 3)
			return err
		}, nil, comm.ErrClosed, "communicator is closed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cs := local(t, 3)
			start := time.Now()
			errs := each(cs, func(c *comm.Communicator) error {
				defer func() { // nothing holds up who is done
					if c.Rank() == 1 && tt.sentinel != nil {
						require.NoError(t, c.Close())
					}
				}()
				call := []calls{tt.send, tt.recv, wait}[c.Rank()]
				if tt.sentinel == nil && c.Rank() == 2 {
					call = tt.send
				}
				err := call(ctx, c)
				if err == nil {
					err = wait(ctx, c)
				}
				return err
			})
			require.Less(t, time.Since(start), 10*time.Second)
			for rank, err := range errs {
				var op *comm.OpError
				require.ErrorAs(t, err, &op, "rank %d", rank)
				require.Equal(t, rank, op.Rank)
				switch {
				case rank == 1:
					require.ErrorIs(t, err, tt.here)
				case tt.sentinel == nil:
					require.ErrorIs(t, err, comm.ErrPeerClosed)
					continue
				}
				if tt.sentinel != nil {
					require.ErrorIs(t, err, tt.sentinel, "rank %d", rank)
				}
				require.ErrorContains(t, err, tt.text, "rank %d", rank)
			}
		})
	}
}

// TestMismatchAtClose: a rank that has made no call hears from Close that others
// did not agree about a message.
func TestMismatchAtClose(t *testing.T) {
	ctx := context.Background()
	cs := local(t, 3)
	sent := StartSend(ctx, cs[0], make([]int16, 1), 1, 0)
	_, err := Recv(ctx, cs[1], make([]int8, 1), 0, 0)
	require.ErrorIs(t, err, comm.ErrMismatch)
	require.NoError(t, sent.Wait(ctx))
	require.NoError(t, cs[1].Close(), "it was told")
	require.Eventually(t, func() bool { return cs[2].AsyncErr() != nil }, bound, time.Millisecond)
	err = cs[2].Close()
	require.ErrorIs(t, err, comm.ErrMismatch)
	require.Contains(t, err.Error(), "weft: rank 2: ranks disagree: sender and receiver differ")
}

// TestMessageTimeout: the communicator's timeout bounds every wait for a message,
// and no message for which nobody waits.
func TestMessageTimeout(t *testing.T) {
	ctx := context.Background()
	const timeout = 300 * time.Millisecond
	for _, started := range []bool{false, true} {
		cs := local(t, 2, comm.WithTimeout(timeout))
		buf := make([]int, 1)
		r := StartRecv(ctx, cs[0], buf, 1, 1)
		time.Sleep(2 * timeout)
		require.NoError(t, r.Err())
		require.NoError(t, cs[0].AsyncErr())
		short, cancel := context.WithTimeout(ctx, timeout/15)
		require.Equal(t, context.DeadlineExceeded, r.Wait(short), "that is of the wait only")
		cancel()
		require.NoError(t, cs[0].AsyncErr())
		start := time.Now()
		var err error
		if started {
			err = r.Wait(ctx)
		} else {
			_, err = Recv(ctx, cs[0], buf, 1, 2)
		}
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, comm.ErrAborted)
		require.ErrorContains(t, err, "gave up waiting for rank 1")
		require.GreaterOrEqual(t, time.Since(start), timeout)
		require.Less(t, time.Since(start), bound)
		<-r.Done()
		require.ErrorIs(t, r.Err(), comm.ErrAborted)
		require.Eventually(t, func() bool { return cs[1].AsyncErr() != nil }, bound, time.Millisecond)
		require.ErrorIs(t, Send(ctx, cs[1], buf, 1, 0), comm.ErrAborted)
	}
}

const bound = 10 * time.Second

// TestMessagesAndClose: what a rank sent before it closed the communicator is
// received after that; what it did not send is ErrPeerClosed.
func TestMessagesAndClose(t *testing.T) {
	ctx := context.Background()
	for _, waits := range []bool{false, true} {
		t.Run(fmt.Sprintf("waits=%v", waits), func(t *testing.T) {
			cs := local(t, 3)
			long := text(1, 0, 2, 0, 100_000)
			got := blank(len(long))
			r := StartRecv(ctx, cs[0], got, 1, 2)
			for i := range 3 {
				require.NoError(t, Send(ctx, cs[1], text(1, 0, 1, i, 5), 0, 1))
			}
			require.NoError(t, Send(ctx, cs[1], long, 0, 2))
			mine := StartRecv(ctx, cs[1], make([]int, 1), 0, 77) // never comes
			unsent := StartSend(ctx, cs[1], long, 0, 3)          // nobody receives it
			closed := make(chan error)
			go func() { closed <- cs[1].Close() }()
			if !waits {
				require.NoError(t, <-closed)
			}
			require.NoError(t, r.Wait(ctx))
			require.Equal(t, long, got)
			for i := range 3 {
				got := blank(6)
				s, err := Recv(ctx, cs[0], got, []int{1, AnySource}[i%2], AnyTag)
				require.NoError(t, err)
				require.NoError(t, checkText(got, s, Status{1, 1, 5}, i, 0))
			}
			if waits {
				require.NoError(t, <-closed)
			}
			require.ErrorIs(t, mine.Wait(ctx), comm.ErrClosed)
			require.ErrorIs(t, unsent.Wait(ctx), comm.ErrClosed)
			// The others are still there.
			require.NoError(t, Send(ctx, cs[2], []int{7}, 0, 9))
			one := make([]int, 1)
			s, err := Recv(ctx, cs[0], one, AnySource, 9)
			require.NoError(t, err)
			require.Equal(t, Status{2, 9, 1}, s)
			_, err = Recv(ctx, cs[0], got, 1, AnyTag)
			require.ErrorIs(t, err, comm.ErrPeerClosed)
			require.ErrorContains(t, err, "rank 1 closed the communicator: in Recv from 1 tag any")
			require.Eventually(t, func() bool { return cs[2].AsyncErr() != nil }, bound, time.Millisecond)
			require.ErrorIs(t, Send(ctx, cs[2], one, 0, 9), comm.ErrPeerClosed)
		})
	}
	t.Run("unsent", func(t *testing.T) {
		cs := local(t, 2)
		unsent := StartSend(ctx, cs[1], make([]int, 100_000), 0, 3)
		require.NoError(t, cs[1].Close())
		_, err := Recv(ctx, cs[0], make([]int, 100_000), 1, 3)
		require.ErrorIs(t, err, comm.ErrPeerClosed)
		require.ErrorIs(t, unsent.Wait(ctx), comm.ErrClosed)
	})
	t.Run("all gone", func(t *testing.T) {
		cs := local(t, 3)
		r := StartRecv(ctx, cs[0], make([]int, 1), AnySource, 3)
		require.NoError(t, cs[1].Close())
		require.NoError(t, r.Err())
		require.NoError(t, cs[2].Close())
		require.ErrorIs(t, r.Wait(ctx), comm.ErrPeerClosed)
	})
	t.Run("send to one that left", func(t *testing.T) {
		cs := local(t, 2)
		require.NoError(t, cs[1].Close())
		err := Send(ctx, cs[0], make([]int, 1), 1, 3)
		require.ErrorIs(t, err, comm.ErrPeerClosed)
		require.ErrorContains(t, err, "in Send to 1 tag 3")
	})
	t.Run("close under way", func(t *testing.T) {
		cs := local(t, 2)
		failed := make(chan error, 4)
		for i := range 2 {
			go func() { _, err := Recv(ctx, cs[0], make([]int, 1), 1, i); failed <- err }()
			r := StartSend(ctx, cs[0], make([]int, 100_000), 1, i)
			go func() { failed <- r.Wait(ctx) }()
		}
		time.Sleep(20 * time.Millisecond)
		require.NoError(t, cs[0].Close())
		for range 4 {
			require.ErrorIs(t, <-failed, comm.ErrClosed)
		}
		r := StartRecv(ctx, cs[0], make([]int, 1), 1, 1)
		require.ErrorIs(t, r.Wait(ctx), comm.ErrClosed)
	})
}

// TestMessagesLeaveNothing: the goroutine that makes progress ends with the
// messages, and without Close.
func TestMessagesLeaveNothing(t *testing.T) {
	ctx := context.Background()
	cs := local(t, 2)
	require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error { return Barrier(ctx, c) })...))
	before := runtime.NumGoroutine()
	for i := range 20 {
		r := StartRecv(ctx, cs[0], make([]int, 10_000), 1, 1)
		s := StartSend(ctx, cs[1], make([]int, 10_000), 0, 1)
		if i%2 == 0 {
			require.NoError(t, WaitAll(ctx, r, s))
		}
		<-r.Done()
		<-s.Done()
	}
	ok := false
	for end := time.Now().Add(bound); !ok && time.Now().Before(end); time.Sleep(time.Millisecond) {
		ok = runtime.NumGoroutine() <= before
	}
	if !ok {
		buf := make([]byte, 1<<16)
		require.Fail(t, string(buf[:runtime.Stack(buf, true)]))
	}
}

func TestMessagesAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Log("the race detector allocates; nothing measured")
		return
	}
	ctx := context.Background()
	cs := local(t, 2)
	for _, count := range []int{0, 3, 500, 20_000} {
		buf, other := make([]int64, count), make([]int64, count)
		back, otherBack := make([]int64, count), make([]int64, count)
		round := func(c *comm.Communicator, a, b []int64) error {
			if c.Rank() == 0 {
				if err := Send(ctx, c, a, 1, 1); err != nil {
					return err
				}
			} else if _, err := Recv(ctx, c, a, AnySource, 1); err != nil {
				return err
			}
			_, err := SendRecv(ctx, c, b, 1-c.Rank(), AnyTag, a, 1-c.Rank(), 2)
			return err
		}
		const runs = 100
		done := make(chan error, 1)
		go func() {
			for range 2*runs + 1 {
				if err := round(cs[1], other, otherBack); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
		var err error
		for range runs { // memory that is kept
			err = errors.Join(err, round(cs[0], buf, back))
		}
		allocs := testing.AllocsPerRun(runs, func() { err = errors.Join(err, round(cs[0], buf, back)) })
		require.NoError(t, err)
		require.NoError(t, <-done)
		require.Zero(t, allocs, "%d elements", count)
	}
}

// lastMessageProgram: rank 1 sends and is killed; rank 0 receives what it sent.
func lastMessageProgram() error {
	ctx := context.Background()
	c, err := comm.Init(ctx)
	if err != nil {
		return err
	}
	fmt.Println("connected")
	buf := make([]byte, 8)
	switch c.Rank() {
	case 1:
		for i := range 3 {
			binary.LittleEndian.PutUint64(buf, uint64(i))
			if err := Send(ctx, c, buf, 0, i); err != nil {
				return err
			}
		}
		fmt.Println("sent")
		r := StartSend(ctx, c, make([]byte, 1<<20), 0, 9) // only said to come
		_ = r.Wait(ctx)
		return errors.New("not killed")
	case 2:
		_, err := Recv(ctx, c, buf, AnySource, 0)
		if !errors.Is(err, comm.ErrPeerDead) || !strings.Contains(err.Error(), "rank 1 is dead") {
			return fmt.Errorf("rank 2: %w", err)
		}
		return c.Close()
	}
	for c.AsyncErr() == nil {
		time.Sleep(time.Millisecond)
	}
	for i := 2; i >= 0; i-- {
		s, err := Recv(ctx, c, buf, 1, i)
		if err != nil || s != (Status{1, i, 8}) || binary.LittleEndian.Uint64(buf) != uint64(i) {
			return fmt.Errorf("message %d: %v, %+v", i, err, s)
		}
	}
	if _, err := Recv(ctx, c, make([]byte, 1<<20), 1, 9); !errors.Is(err, comm.ErrPeerDead) {
		return fmt.Errorf("half a message: %w", err)
	}
	if err := Send(ctx, c, buf, 2, 0); !errors.Is(err, comm.ErrPeerDead) {
		return fmt.Errorf("send: %w", err)
	}
	return c.Close()
}

func TestLastMessages(t *testing.T) {
	j := ranktest.Start(t, 3, "lastmessage")
	for _, r := range j.Ranks {
		require.NoError(t, r.WaitFor("connected", time.Minute))
	}
	require.NoError(t, j.Ranks[1].WaitFor("sent", bound))
	time.Sleep(10 * time.Millisecond)
	require.NoError(t, j.Ranks[1].Signal(syscall.SIGKILL))
	for _, r := range []int{0, 2} {
		require.NoError(t, j.Ranks[r].Wait(bound), j.Ranks[r].Output())
	}
	require.Empty(t, j.Leftovers())
}
