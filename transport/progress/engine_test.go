package progress

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/pointer"
	"github.com/weft-go/weft/transport/progress/lane"
	"github.com/weft-go/weft/transport/transporttest"
)

// tiny makes every cell be used again soon.
func tiny(n int) Layout { return Layout{Ranks: n, Cells: 2, SlotBytes: 1024} }

var local = WaitPolicy{InProcess: true}

// open makes the engines of n ranks of this process. change may change the
// configuration of each.
func open(t testing.TB, l Layout, change func(cfg *Config)) []*Engine {
	n := l.Ranks
	ends := transporttest.Exchanges(n)
	engines := make([]*Engine, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for r := range n {
		cfg := Config{Transport: pointer.NewLocal(), Rank: r, Layout: l, Policy: local, Stop: NewStop(), Exchange: ends[r]}
		if change != nil {
			change(&cfg)
		}
		wg.Go(func() { engines[r], errs[r] = New(t.Context(), cfg) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	t.Cleanup(func() {
		for _, e := range engines {
			require.NoError(t, e.Close())
		}
	})
	return engines
}

func newSeed(t testing.TB) uint64 {
	seed := rand.Uint64()
	t.Logf("seed %#x", seed)
	return seed
}

// message is the i-th message from a to b: both ends know what it must be.
func message(seed uint64, a, b, i, max int) []byte {
	rng := rand.New(rand.NewPCG(seed, uint64(a)<<40|uint64(b)<<32|uint64(i)))
	n := rng.IntN(max + 1)
	switch rng.IntN(8) {
	case 0:
		n = 0
	case 1:
		n = max
	case 2: // around the length up to which messages are staged
		n = min(max, stageBytes-tagBytes-17+rng.IntN(34))
	}
	m := make([]byte, n+8)
	for o := 0; o < n; o += 8 {
		binary.LittleEndian.PutUint64(m[o:], rng.Uint64())
	}
	return m[:n]
}

// talk has every rank send messages to every other and receive theirs, in calls
// of random numbers of messages, in an order that can't deadlock with any number
// of cells: the messages of a call fit in the cells.
func talk(e *Engine, seed uint64, calls int) error {
	me, n, max := e.Rank(), e.Ranks(), e.MessageBytes()
	sent, received := make([]int, n), make([]int, n)
	for call := range calls {
		rng := rand.New(rand.NewPCG(seed, uint64(call))) // the same on all ranks
		e.Begin(context.Background(), 30*time.Second, uint64(call), uint32(rng.Uint32()))
		parts := 1 + rng.IntN(e.Cells())
		order := rand.New(rand.NewPCG(seed, uint64(me)<<32|uint64(call))).Perm(n)
		for _, p := range order {
			for range parts {
				if p == me {
					continue
				}
				m := message(seed, me, p, sent[p], max)
				if err := e.Send(p, m); err != nil {
					return fmt.Errorf("send to %d: %w", p, err)
				}
				for i := range m {
					m[i] = 0xa5 // it may change now
				}
				sent[p]++
			}
		}
		for _, p := range order {
			if p == me {
				continue
			}
			var views [][]byte
			first := received[p]
			for range parts {
				want := message(seed, p, me, received[p], max)
				got, err := e.Recv(p, len(want))
				if err != nil {
					return fmt.Errorf("receive from %d: %w", p, err)
				}
				views = append(views, got)
				received[p]++
			}
			for i, got := range views { // all are valid until Release
				if want := message(seed, p, me, first+i, max); string(got) != string(want) {
					return fmt.Errorf("message %d from %d differs", first+i, p)
				}
			}
			if err := e.Release(p); err != nil {
				return fmt.Errorf("release: %w", err)
			}
		}
	}
	return nil
}

func talkAll(t *testing.T, engines []*Engine, calls int) {
	seed := newSeed(t)
	errs := make([]error, len(engines))
	var wg sync.WaitGroup
	for r, e := range engines {
		wg.Go(func() { errs[r] = talk(e, seed, calls) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
}

func TestMessages(t *testing.T) {
	for n := 2; n <= 5; n++ {
		for _, cells := range []int{2, 3} {
			for _, slot := range []int{256, 1024, 2048} {
				t.Run(fmt.Sprintf("ranks=%d,cells=%d,slot=%d", n, cells, slot), func(t *testing.T) {
					talkAll(t, open(t, Layout{Ranks: n, Cells: cells, SlotBytes: slot}, nil), 60)
				})
			}
		}
	}
}

func TestMessagesOneRank(t *testing.T) {
	e := open(t, tiny(1), nil)[0]
	require.NoError(t, talk(e, 1, 10))
	require.Equal(t, 1, e.Ranks())
}

// TestMessagesPolicies has the stages of a wait work whatever the number of
// processors.
func TestMessagesPolicies(t *testing.T) {
	for _, procs := range []int{1, 2, 4} {
		for _, p := range []WaitPolicy{{}, {InProcess: true}, {Oversubscribed: true}, {InProcess: true, Oversubscribed: true}} {
			t.Run(fmt.Sprintf("procs=%d,%+v", procs, p), func(t *testing.T) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
				talkAll(t, open(t, tiny(5), func(c *Config) { c.Policy = p }), 15)
			})
		}
	}
}

// TestFlowControl wants a sender to wait when all cells are used, and what is in
// them to stay as it is until Release.
func TestFlowControl(t *testing.T) {
	const cells = 3
	es := open(t, Layout{Ranks: 2, Cells: cells, SlotBytes: 512}, nil)
	for _, e := range es {
		e.Begin(t.Context(), 0, 1, 2)
	}
	sent := make(chan int, 100)
	failed := make(chan error, 1)
	const messages = 4 * cells
	go func() {
		for i := range messages {
			if err := es[0].Send(1, []byte(fmt.Sprintf("message %3d", i))); err != nil {
				failed <- err
				return
			}
			sent <- i
		}
		failed <- nil
	}()
	for first := 0; first < messages; first += cells {
		var views [][]byte
		for i := range cells {
			got, err := es[1].Recv(0, 11)
			require.NoError(t, err)
			views = append(views, got)
			require.Equal(t, first+i, <-sent)
		}
		time.Sleep(5 * time.Millisecond)
		require.Empty(t, sent, "sent into a cell that is in use")
		for i, v := range views {
			require.Equal(t, fmt.Sprintf("message %3d", first+i), string(v))
		}
		require.NoError(t, es[1].Release(0))
		require.NoError(t, es[1].Release(0), "nothing to release")
	}
	require.NoError(t, <-failed)
}

// TestReleaseLater: cells come back when more messages than may be kept were read, or with
// a release.
func TestReleaseLater(t *testing.T) {
	const cells, keep = 4, 2
	es := open(t, Layout{Ranks: 2, Cells: cells, SlotBytes: 512}, nil)
	for _, e := range es {
		e.Begin(t.Context(), 0, 1, 2)
	}
	sent := 0
	send := func() {
		require.NoError(t, es[0].Send(1, []byte{byte(sent)}))
		sent++
	}
	free := func() int { // cells that rank 0 has
		return cells - sent + int(es[0].mem.load(es[0].out[1].credit))
	}
	for i, want := range []int{cells - 1, cells - 2, cells, cells - 1, cells - 2, cells} {
		send()
		got, err := es[1].Recv(0, 1)
		require.NoError(t, err)
		require.Equal(t, byte(i), got[0])
		require.NoError(t, es[1].ReleaseLater(0, keep))
		require.Equal(t, want, free(), "after %d messages", i+1)
	}
	send()
	_, err := es[1].Recv(0, 1)
	require.NoError(t, err)
	require.NoError(t, es[1].ReleaseLater(0, keep))
	require.Equal(t, cells-1, free())
	require.NoError(t, es[1].Release(0))
	require.Equal(t, cells, free(), "released with those that were kept")
	require.Error(t, es[1].ReleaseLater(1, keep), "to itself")
}

func TestMismatch(t *testing.T) {
	base := Tag{Seq: 7, Signature: 99, Bytes: 100}
	for _, c := range []struct {
		name string
		got  Tag
	}{
		{"seq", Tag{Seq: 8, Signature: 99, Bytes: 100}},
		{"signature", Tag{Seq: 7, Signature: 98, Bytes: 100}},
		{"one byte longer", Tag{Seq: 7, Signature: 99, Bytes: 101}},
		{"one byte shorter", Tag{Seq: 7, Signature: 99, Bytes: 99}},
		{"longer", Tag{Seq: 7, Signature: 99, Bytes: 800}},
		{"shorter", Tag{Seq: 7, Signature: 99, Bytes: 1}},
		{"empty", Tag{Seq: 7, Signature: 99, Bytes: 0}},
		{"of another call, shorter", Tag{Seq: 6, Signature: 1, Bytes: 5}},
	} {
		for _, before := range []int{0, 1, 4} { // messages in the cells before
			t.Run(fmt.Sprintf("%s after %d", c.name, before), func(t *testing.T) {
				t.Parallel()
				es := open(t, tiny(2), nil)
				for i := range before {
					for _, e := range es {
						e.Begin(t.Context(), time.Minute, uint64(i), 5)
					}
					require.NoError(t, es[0].Send(1, make([]byte, 10*i)))
					_, err := es[1].Recv(0, 10*i)
					require.NoError(t, err)
					require.NoError(t, es[1].Release(0))
				}
				es[0].Begin(t.Context(), time.Minute, uint64(c.got.Seq), c.got.Signature)
				es[1].Begin(t.Context(), 0, uint64(base.Seq), base.Signature) // no timeout: it must be found out
				require.NoError(t, es[0].Send(1, make([]byte, c.got.Bytes)))
				_, err := es[1].Recv(0, int(base.Bytes))
				var m *MismatchError
				require.ErrorAs(t, err, &m)
				require.Equal(t, &MismatchError{Peer: 0, Got: c.got, Want: base}, m)
				require.NotEmpty(t, m.Error())
			})
		}
	}
}

func TestMismatchPart(t *testing.T) {
	es := open(t, tiny(2), nil)
	es[0].Begin(t.Context(), 0, 1, 1)
	require.NoError(t, es[0].Send(1, nil))
	require.NoError(t, es[0].Send(1, nil))
	es[1].Begin(t.Context(), 0, 1, 1)
	_, err := es[1].Recv(0, 0)
	require.NoError(t, err)
	es[1].Begin(t.Context(), 0, 1, 1) // as if in a call of its own, with the same number
	_, err = es[1].Recv(0, 0)
	var m *MismatchError
	require.ErrorAs(t, err, &m)
	require.EqualValues(t, 1, m.Got.Part)
	require.EqualValues(t, 0, m.Want.Part)
}

// TestMismatchOnExpiry wants a mismatch named rather than the deadline that a
// rank ran into because of it.
func TestMismatchOnExpiry(t *testing.T) {
	es := open(t, tiny(2), nil)
	es[0].Begin(t.Context(), 0, 1, 1)
	require.NoError(t, es[0].Send(1, make([]byte, 16)))
	es[1].Begin(t.Context(), 10*time.Millisecond, 1, 1)
	_, err := es[1].Recv(0, 500)
	var m *MismatchError
	require.ErrorAs(t, err, &m)
}

// TestNoMismatchInPart wants a message of which so much is there, without its tag, as
// the one before in its slot had to be taken for what it is, however long the rest takes.
func TestNoMismatchInPart(t *testing.T) {
	es := open(t, tiny(2), nil)
	for call := range 2 { // once in each cell
		for _, e := range es {
			e.Begin(t.Context(), time.Minute, uint64(call), 1)
		}
		require.NoError(t, es[0].Send(1, make([]byte, 16)))
		_, err := es[1].Recv(0, 16)
		require.NoError(t, err)
		require.NoError(t, es[1].Release(0))
	}
	es[1].Begin(t.Context(), time.Minute, 2, 1)
	tag := make([]byte, tagBytes)
	Tag{Seq: 2, Signature: 1, Bytes: 48}.put(tag)
	// As pieces of one phase land, in any order.
	c, err := es[0].t.NewCompletion(1)
	require.NoError(t, err)
	l := es[0].lanes
	land := func(offset uint64, data []byte) {
		at := transport.Handle{ID: es[0].peers[1].ID(), Offset: l.slot(0, lane.Span{}) + offset}
		if err := es[0].t.PutCounted(c, at, data, l.counter(0, 0)); err != nil {
			t.Error(err)
		}
	}
	land(16, make([]byte, 32))
	time.AfterFunc(2*StallAfter, func() {
		land(0, tag)
		land(48, make([]byte, 16))
	})
	got, err := es[1].Recv(0, 48)
	require.NoError(t, err)
	require.Len(t, got, 48)
}

func TestCounterBeyondTarget(t *testing.T) {
	es := open(t, tiny(2), nil)
	for _, e := range es {
		e.Begin(t.Context(), 0, 1, 1)
	}
	require.NoError(t, es[0].Send(1, make([]byte, 16)))
	// The same counter once more, as a repeated counted put would.
	c, err := es[0].t.NewCompletion(1)
	require.NoError(t, err)
	l := es[0].lanes
	at := transport.Handle{ID: es[0].peers[1].ID(), Offset: l.slot(0, lane.Span{}) + 512}
	require.NoError(t, es[0].t.PutCounted(c, at, make([]byte, 16), l.counter(0, 0)))
	_, err = es[1].Recv(0, 16)
	require.ErrorContains(t, err, "48 bytes counted")
}

func TestCreditBeyondSent(t *testing.T) {
	es := open(t, tiny(2), nil)
	for _, e := range es {
		e.Begin(t.Context(), 0, 1, 1)
	}
	// A peer that lies.
	at := transport.Handle{ID: es[1].peers[0].ID(), Offset: es[1].lanes.credit(1)}
	require.NoError(t, es[1].raise(&es[1].in[0].credit, 0, at.Offset, 100))
	require.NoError(t, es[0].Send(1, nil))
	require.NoError(t, es[0].Send(1, nil))
	require.ErrorContains(t, es[0].Send(1, nil), "released 100")
}

func TestArguments(t *testing.T) {
	es := open(t, tiny(3), nil)
	e := es[1]
	e.Begin(t.Context(), 0, 1, 1)
	for _, peer := range []int{-1, 1, 3, 1 << 20} {
		require.ErrorIs(t, e.Send(peer, nil), transport.ErrBounds, "peer %d", peer)
		_, err := e.Recv(peer, 0)
		require.ErrorIs(t, err, transport.ErrBounds, "peer %d", peer)
		require.ErrorIs(t, e.Release(peer), transport.ErrBounds, "peer %d", peer)
	}
	require.ErrorIs(t, e.Send(0, make([]byte, e.MessageBytes()+1)), transport.ErrBounds)
	for _, n := range []int{-1, e.MessageBytes() + 1} {
		_, err := e.Recv(0, n)
		require.ErrorIs(t, err, transport.ErrBounds)
	}
	require.NoError(t, talk(e, 1, 0))
	talkAll(t, es, 3) // nothing was sent
}

func TestNewRefuses(t *testing.T) {
	boom := errors.New("boom")
	good := func() Config {
		return Config{Transport: pointer.NewLocal(), Layout: tiny(2), Stop: NewStop(), Exchange: transporttest.Exchanges(1)[0]}
	}
	for _, c := range []struct {
		name   string
		change func(*Config)
		want   error
	}{
		{"layout", func(c *Config) { c.Layout.Cells = 1 }, transport.ErrBounds},
		{"rank", func(c *Config) { c.Rank = 2 }, transport.ErrBounds},
		{"negative rank", func(c *Config) { c.Rank = -1 }, transport.ErrBounds},
		{"exchange", func(c *Config) {
			c.Exchange = func(context.Context, transport.Exported) ([]transport.Exported, error) { return nil, boom }
		}, boom},
		{"too few", func(c *Config) {}, transport.ErrHandle},
		{"a handle of nothing", func(c *Config) {
			c.Exchange = func(_ context.Context, x transport.Exported) ([]transport.Exported, error) {
				return []transport.Exported{x, {}}, nil
			}
		}, transport.ErrHandle},
		{"another size", func(c *Config) {
			c.Exchange = func(_ context.Context, x transport.Exported) ([]transport.Exported, error) {
				tr := pointer.NewLocal()
				m, _ := tr.Alloc(256)
				e, _ := tr.Create(transport.EndpointConfig{Size: 256})
				if err := e.Bind(0, m); err != nil {
					return nil, err
				}
				other, err := e.Export()
				return []transport.Exported{x, other}, err
			}
		}, transport.ErrHandle},
		{"closed transport", func(c *Config) { c.Transport.Close() }, transport.ErrClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := good()
			c.change(&cfg)
			e, err := New(t.Context(), cfg)
			require.ErrorIs(t, err, c.want)
			require.Nil(t, e)
		})
	}
}

func TestHotPathAllocatesNothing(t *testing.T) {
	for _, n := range []int{0, 16, 100, stageBytes, 1000} {
		es := open(t, tiny(2), nil)
		data := make([]byte, n)
		for _, e := range es {
			e.Begin(t.Context(), time.Minute, 1, 1)
		}
		require.Zero(t, testing.AllocsPerRun(200, func() {
			for i := range es {
				if es[i].Send(1-i, data) != nil {
					t.Fail()
				}
			}
			for i := range es {
				if _, err := es[i].Recv(1-i, n); err != nil || es[i].Release(1-i) != nil {
					t.Fail()
				}
			}
		}), "%d bytes", n)
		// Nobody was late, so nobody looked at the clock.
		require.Zero(t, es[0].wait.deadline)
		require.Zero(t, es[1].wait.deadline)
	}
}

// slow is a transport whose operations are carried out when the completion is
// tested, some tests after Submit, last first, from the sources as they are then.
type slow struct {
	transport.Transport
	tests  int              // Test calls until an operation is carried out
	report transport.Report // of every phase
	stuck  *atomic.Bool     // phases don't end while set
}

type slowCompletion struct {
	transport.Completion
	t         *slow
	pending   []func() error
	submitted int
	tested    int
	err       error
}

func (s *slow) NewCompletion(n int) (transport.Completion, error) {
	c, err := s.Transport.NewCompletion(n)
	return &slowCompletion{Completion: c, t: s}, err
}

func (c *slowCompletion) Submit() error { c.submitted = len(c.pending); return nil }

func (c *slowCompletion) Test() bool {
	if c.t.stuck != nil && c.t.stuck.Load() {
		return false
	}
	if c.tested++; c.submitted > 0 && c.tested%c.t.tests == 0 {
		c.submitted--
		if err := c.pending[c.submitted](); err != nil {
			c.err = err
		}
		c.pending = c.pending[:c.submitted]
	}
	return len(c.pending) == 0
}

func (c *slowCompletion) Report() (transport.Report, error) {
	if err := errors.Join(c.err, c.Completion.Submit()); err != nil {
		return transport.Report{}, err
	}
	if _, err := c.Completion.Report(); err != nil {
		return transport.Report{}, err
	}
	return c.t.report, nil
}

// Arrive is made on the completion within when all is carried out: that one
// takes no operations after it.
func (c *slowCompletion) Arrive() error {
	c.pending = append([]func() error{c.Completion.Arrive}, c.pending...)
	c.submitted++
	return nil
}

func (s *slow) PutCounted(c transport.Completion, dst transport.Handle, src []byte, counter uint64) error {
	sc := c.(*slowCompletion)
	sc.pending = append(sc.pending, func() error { return s.Transport.PutCounted(sc.Completion, dst, src, counter) })
	return nil
}

func (s *slow) Red(c transport.Completion, dst transport.Handle, src []byte, op transport.RedOp, typ kernels.Type) error {
	sc := c.(*slowCompletion)
	sc.pending = append(sc.pending, func() error { return s.Transport.Red(sc.Completion, dst, src, op, typ) })
	return nil
}

// TestSlowTransport has operations take their time: sources must stay as they
// are until the phase is done, and the engine must wait for that.
func TestSlowTransport(t *testing.T) {
	for _, tests := range []int{1, 7, spinLocal + 100} {
		t.Run(fmt.Sprint(tests), func(t *testing.T) {
			talkAll(t, open(t, tiny(3), func(c *Config) { c.Transport = &slow{Transport: c.Transport, tests: tests} }), 20)
		})
	}
}

func TestFailedReport(t *testing.T) {
	status := transport.Report{Status: transport.StatusFailed, Errors: 3, Code: 0x42}
	es := open(t, tiny(2), func(c *Config) {
		if c.Rank == 0 {
			c.Transport = &slow{Transport: c.Transport, tests: 2, report: status}
		}
	})
	for _, e := range es {
		e.Begin(t.Context(), time.Minute, 1, 1)
	}
	l := es[0].lanes
	var got *transport.FabricError
	require.ErrorAs(t, es[0].Send(1, []byte("x")), &got)
	require.Equal(t, &transport.FabricError{Op: transport.OpPutCounted, Rank: 0, Peer: 1, Endpoint: es[0].peers[1].ID(),
		Offset: l.slot(0, lane.Span{}), Epoch: 0, Attempts: 1, Status: status}, got)
	require.NotEmpty(t, got.Error())

	require.NoError(t, es[1].Send(0, nil))
	_, err := es[0].Recv(1, 0)
	require.NoError(t, err)
	got = nil
	require.ErrorAs(t, es[0].Release(1), &got)
	require.Equal(t, transport.OpRed, got.Op)
	require.Equal(t, l.credit(0), got.Offset)
	require.EqualValues(t, 1, got.Epoch)
}

// TestStuckTransport has a phase that does not end: the wait for it does.
func TestStuckTransport(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		name    string
		timeout time.Duration
		end     func(stop *Stop, cancel func())
		want    error
	}{
		{"timeout", 20 * time.Millisecond, func(*Stop, func()) {}, context.DeadlineExceeded},
		{"cancel", 0, func(_ *Stop, cancel func()) { time.Sleep(20 * time.Millisecond); cancel() }, context.Canceled},
		{"stop", 0, func(s *Stop, _ func()) { time.Sleep(20 * time.Millisecond); s.Set(boom) }, boom},
	} {
		for _, p := range []WaitPolicy{{}, {InProcess: true}, {Oversubscribed: true}} {
			t.Run(fmt.Sprintf("%s,%+v", c.name, p), func(t *testing.T) {
				var stuck atomic.Bool
				stuck.Store(true)
				es := open(t, tiny(2), func(c *Config) {
					c.Policy = p
					c.Transport = &slow{Transport: c.Transport, tests: 1, stuck: &stuck}
				})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				start := time.Now()
				es[0].Begin(ctx, c.timeout, 1, 1)
				go c.end(es[0].cfg.Stop, cancel)
				err := es[0].Send(1, []byte("x"))
				require.ErrorIs(t, err, c.want)
				require.Less(t, time.Since(start), bound)
				require.GreaterOrEqual(t, time.Since(start), 15*time.Millisecond)
				var w *WaitError
				if c.want == boom {
					require.NotErrorAs(t, err, &w)
				} else {
					require.ErrorAs(t, err, &w)
					require.Equal(t, 1, w.Peer)
				}
			})
		}
	}
}

// TestLateCompletion: a phase that ends late but in time is no error.
func TestLateCompletion(t *testing.T) {
	var stuck atomic.Bool
	var stalls atomic.Int32
	stuck.Store(true)
	es := open(t, tiny(2), func(c *Config) {
		c.Transport = &slow{Transport: c.Transport, tests: 1, stuck: &stuck}
		c.OnStall = func(peer int) {
			if peer == 1 && stalls.Add(1) == 2 {
				stuck.Store(false)
			}
		}
	})
	es[0].Begin(t.Context(), time.Minute, 1, 1)
	require.NoError(t, es[0].Send(1, []byte("x")))
	require.EqualValues(t, 2, stalls.Load())
}
