package progress

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/transport"
)

// bound is how long a wait may take to notice its end on a machine that does
// much else.
const bound = 10 * time.Second

func TestWaitEnds(t *testing.T) {
	boom := errors.New("boom")
	for _, stage := range []struct {
		name   string
		before time.Duration // until the event; the stage that the wait is in by then
	}{{"before", 0}, {"spinning", 20 * time.Microsecond}, {"yielding", 300 * time.Microsecond}, {"asleep", 30 * time.Millisecond}} {
		for _, p := range []WaitPolicy{{}, {InProcess: true}, {Oversubscribed: true}, {InProcess: true, Oversubscribed: true}} {
			for _, end := range []string{"stop", "cancel", "deadline", "context's deadline", "word"} {
				t.Run(fmt.Sprintf("%s,%+v,%s", stage.name, p, end), func(t *testing.T) {
					es := open(t, tiny(2), func(c *Config) { c.Policy = p })
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					timeout := time.Duration(0)
					event := func() {}
					switch end {
					case "stop":
						event = func() { es[0].cfg.Stop.Set(boom) }
					case "cancel":
						event = cancel
					case "deadline":
						timeout = max(1, stage.before)
					case "context's deadline":
						ctx, cancel = context.WithTimeout(ctx, max(1, stage.before))
						defer cancel()
					case "word":
						es[1].Begin(t.Context(), 0, 1, 1)
						event = func() {
							if err := es[1].Send(0, []byte("hello")); err != nil {
								t.Error(err)
							}
						}
					}
					var wg sync.WaitGroup
					defer wg.Wait()
					if stage.before == 0 {
						event()
					} else {
						wg.Go(func() { time.Sleep(stage.before); event() })
					}
					start := time.Now()
					es[0].Begin(ctx, timeout, 1, 1)
					got, err := es[0].Recv(1, 5)
					took := time.Since(start)
					require.Less(t, took, bound)
					var w *WaitError
					switch end {
					case "stop":
						require.Equal(t, boom, err)
					case "word":
						require.NoError(t, err)
						require.Equal(t, "hello", string(got))
					case "cancel":
						require.ErrorIs(t, err, context.Canceled)
						require.ErrorAs(t, err, &w)
					default:
						require.ErrorIs(t, err, context.DeadlineExceeded)
						require.ErrorAs(t, err, &w)
						require.GreaterOrEqual(t, took, stage.before/2)
					}
					if w != nil {
						require.Equal(t, 1, w.Peer)
						require.EqualValues(t, 0, w.Got)
						require.EqualValues(t, 32, w.Want)
						require.Contains(t, w.Error(), "rank 1")
					}
				})
			}
		}
	}
}

// TestWaitPrefersTheWord: what is there is received, even if all has stopped.
func TestWaitPrefersTheWord(t *testing.T) {
	es := open(t, tiny(2), nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, e := range es {
		e.Begin(ctx, 1, 1, 1)
		e.cfg.Stop.Set(errors.New("boom"))
	}
	require.NoError(t, es[0].Send(1, []byte("x")))
	got, err := es[1].Recv(0, 1)
	require.NoError(t, err)
	require.Equal(t, "x", string(got))
	// The same once the wait sleeps.
	v, _, err := es[1].wait.anySlow([]word{{offset: es[1].lanes.counter(0, 0), want: 32}}, 0)
	require.NoError(t, err)
	require.EqualValues(t, 32, v)
}

// TestDeadlineIsOfTheCall: waits of a call share one deadline, the next call has
// its own.
func TestDeadlineIsOfTheCall(t *testing.T) {
	es := open(t, tiny(2), nil)
	const timeout = 50 * time.Millisecond
	for range 2 {
		start := time.Now()
		es[0].Begin(t.Context(), timeout, 1, 1)
		require.Zero(t, es[0].wait.deadline)
		_, err := es[0].Recv(1, 5)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.GreaterOrEqual(t, time.Since(start), timeout)
		first := es[0].wait.deadline
		_, err = es[0].Recv(1, 5)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, first, es[0].wait.deadline)
	}
}

func TestOnStall(t *testing.T) {
	var stalls []int
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	es := open(t, tiny(3), func(c *Config) {
		if c.Rank == 0 {
			c.OnStall = func(peer int) {
				if stalls = append(stalls, peer); len(stalls) == 2 {
					cancel()
				}
			}
		}
	})
	start := time.Now()
	es[0].Begin(ctx, 0, 1, 1)
	_, err := es[0].Recv(2, 5)
	require.ErrorIs(t, err, context.Canceled)
	require.GreaterOrEqual(t, time.Since(start), 2*StallAfter)
	require.Equal(t, []int{2, 2}, stalls)
}

func TestNap(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		left, want time.Duration
	}{{time.Hour, sleepMax}, {sleepMax, sleepMax}, {time.Millisecond, time.Millisecond}, {0, 0}, {-time.Second, 0}} {
		w := waiter{mem: new(space), deadline: now.Add(c.left)}
		require.Equal(t, c.want, w.nap(now))
	}
	require.Equal(t, sleepMax, (&waiter{mem: new(space)}).nap(now))
}

func TestStop(t *testing.T) {
	s := NewStop()
	require.NoError(t, s.Err())
	select {
	case <-s.Done():
		require.Fail(t, "done")
	default:
	}
	var rung, removed atomic.Int32
	remove := s.OnSet(func() { removed.Add(1) })
	s.OnSet(func() {
		if s.Err() == nil {
			t.Error("rung before the error is there")
		}
		rung.Add(1)
	})
	remove()
	const n = 8
	errs, firsts := make([]error, n), make([]bool, n)
	var wg sync.WaitGroup
	for i := range n {
		errs[i] = fmt.Errorf("error %d", i)
		wg.Go(func() { firsts[i] = s.Set(errs[i]) })
	}
	wg.Wait()
	<-s.Done()
	winners := 0
	for i, first := range firsts {
		if first {
			winners++
			require.Equal(t, errs[i], s.Err())
		}
	}
	require.Equal(t, 1, winners)
	require.EqualValues(t, 1, rung.Load())
	require.Zero(t, removed.Load())

	late := 0
	s.OnSet(func() { late++ })()
	require.Equal(t, 1, late, "whoever comes late is told at once")
}

// TestStopAfterClose: an engine that is gone is not rung.
func TestStopAfterClose(t *testing.T) {
	stop := NewStop()
	es := open(t, tiny(2), func(c *Config) { c.Stop = stop })
	for _, e := range es {
		require.NoError(t, e.Close())
	}
	for _, e := range es {
		e.wait.bell.Arm()
	}
	require.True(t, stop.Set(errors.New("boom")))
	for _, e := range es {
		start := time.Now()
		e.wait.bell.Sleep(0, 2*time.Millisecond)
		require.GreaterOrEqual(t, time.Since(start), 2*time.Millisecond)
		require.NoError(t, e.Close(), "again")
	}
}

// scripted is memory of one word whose doorbell does as it is told.
type scripted struct {
	transport.Memory
	word       uint64
	arm, sleep func()
	looked     func() // after each look
}

func (s *scripted) Load(uint64) uint64 {
	word := s.word
	if s.looked != nil {
		s.looked()
	}
	return word
}

func (s *scripted) Arm() uint32                 { s.arm(); return 0 }
func (s *scripted) Sleep(uint32, time.Duration) { s.sleep() }
func (s *scripted) Disarm()                     {}
func (s *scripted) Ring()                       {}

// TestSleepRechecks: the word is read between Arm and Sleep, and counts more
// than a stop that comes with it.
func TestSleepRechecks(t *testing.T) {
	for _, c := range []struct {
		name  string
		sleep bool // the word comes during the sleep, not before
	}{{"before", false}, {"during", true}} {
		stop := NewStop()
		s := &scripted{}
		come := func() {
			s.word = 7
			stop.Set(errors.New("boom"))
		}
		slept := 0
		s.arm, s.sleep = func() {}, func() { slept++; come() }
		if !c.sleep {
			s.arm = come
		}
		w := waiter{policy: local, mem: &space{first: s, size: 8}, bell: s, stop: stop, ctx: t.Context()}
		got, err := w.until(0, 5, 1)
		require.NoError(t, err, c.name)
		require.EqualValues(t, 7, got, c.name)
		require.Equal(t, c.sleep, slept == 1, c.name)
	}
}

// TestWordBeforeStop: a word that comes after a look at it, and before the stop that the
// look at Stop finds, counts, whatever the stage of the wait.
func TestWordBeforeStop(t *testing.T) {
	for _, p := range []WaitPolicy{{}, {InProcess: true}, {Oversubscribed: true}} {
		asleep := false
		for last := 1; !asleep; last++ { // the look before
			stop, looks := NewStop(), 0
			s := &scripted{arm: func() { asleep = true }, sleep: func() {}}
			s.looked = func() {
				if looks++; looks == last {
					s.word = 7
					stop.Set(errors.New("boom"))
				}
			}
			w := waiter{policy: p, mem: &space{first: s, size: 8}, bell: s, stop: stop, ctx: t.Context()}
			got, err := w.until(0, 5, 1)
			require.NoError(t, err, "%+v, look %d", p, last)
			require.EqualValues(t, 7, got)
		}
	}
}

// TestYieldsEnd: a rank that another program keeps from its processor each time it gives it
// away soon sleeps instead.
func TestYieldsEnd(t *testing.T) {
	looks := 0
	s := &scripted{looked: func() { looks++; time.Sleep(yieldMost) }, sleep: func() {}}
	s.arm = func() { s.word = 7 }
	w := waiter{policy: WaitPolicy{Oversubscribed: true}, mem: &space{first: s, size: 8}, bell: s, stop: NewStop(), ctx: t.Context()}
	_, err := w.until(0, 5, 1)
	require.NoError(t, err)
	require.Less(t, looks, 10)
}
