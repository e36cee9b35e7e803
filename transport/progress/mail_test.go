package progress

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/progress/lane"
)

func withMail(l Layout) Layout {
	l.MailCells, l.MailSlotBytes = 2, 1024
	return l
}

// letter is the i-th mail message from a to b.
func letter(seed uint64, a, b, i, max int) (head [MailHead]byte, body []byte) {
	binary.LittleEndian.PutUint64(head[:], uint64(a)<<32|uint64(b))
	binary.LittleEndian.PutUint64(head[8:], seed)
	binary.LittleEndian.PutUint64(head[16:], uint64(i))
	return head, message(seed^0x5555, a, b, i, max)
}

// correspond has a rank send letters to every other and receive theirs, until all
// are there, never waiting for anything but news.
func correspond(m *Mail, seed uint64, letters int) error {
	n, me := m.e.Ranks(), m.e.Rank()
	rng := rand.New(rand.NewPCG(seed, uint64(me)))
	sent, received := make([]int, n), make([]int, n)
	watch := m.NewWatch()
	watch.Begin(context.Background(), 30*time.Second, rng.IntN(2) == 0)
	for {
		done, news := true, false
		for p := range n {
			if p == me {
				continue
			}
			for range 1 + rng.IntN(3) {
				msg, ok, err := m.Poll(p)
				if err != nil {
					return err
				}
				if !ok {
					break
				}
				head, body := letter(seed, p, me, received[p], m.MailBytes())
				if string(msg) != string(head[:])+string(body) {
					return fmt.Errorf("letter %d from %d differs", received[p], p)
				}
				received[p]++
				news = true
			}
			if rng.IntN(4) > 0 {
				if err := m.Release(p); err != nil {
					return err
				}
			} else {
				news = true // to be released
			}
			if sent[p] < letters {
				head, body := letter(seed, me, p, sent[p], m.MailBytes())
				ok, err := m.TrySend(p, &head, body)
				if err != nil {
					return err
				}
				if ok {
					sent[p]++
					news = true
				}
			}
			done = done && sent[p] == letters && received[p] == letters
		}
		if done {
			for p := range n {
				if p != me {
					if err := m.Release(p); err != nil {
						return err
					}
				}
			}
			return nil
		}
		if !news {
			watch.Watch()
			if err := watch.Wait(-1); err != nil {
				return err
			}
		}
	}
}

// correspondAll has all ranks exchange letters and, at the same time, messages.
func correspondAll(t *testing.T, engines []*Engine, letters, calls int) {
	seed := newSeed(t)
	errs := make([]error, 2*len(engines))
	var wg sync.WaitGroup
	for r, e := range engines {
		wg.Go(func() { errs[2*r] = correspond(e.Mail(), seed, letters) })
		wg.Go(func() { errs[2*r+1] = talk(e, seed, calls) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
}

func TestMail(t *testing.T) {
	for n := 2; n <= 5; n++ {
		for _, cells := range []int{2, 3} {
			for _, slot := range []int{256, 1024, 2048} {
				t.Run(fmt.Sprintf("ranks=%d,cells=%d,slot=%d", n, cells, slot), func(t *testing.T) {
					l := tiny(n)
					l.MailCells, l.MailSlotBytes = cells, slot
					correspondAll(t, open(t, l, nil), 150, 40)
				})
			}
		}
	}
}

func TestMailPolicies(t *testing.T) {
	for _, procs := range []int{1, 2, 4} {
		for _, p := range []WaitPolicy{{}, {InProcess: true}, {Oversubscribed: true}, {InProcess: true, Oversubscribed: true}} {
			t.Run(fmt.Sprintf("procs=%d,%+v", procs, p), func(t *testing.T) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
				correspondAll(t, open(t, withMail(tiny(4)), func(c *Config) { c.Policy = p }), 60, 15)
			})
		}
	}
}

func TestNoMail(t *testing.T) {
	require.Nil(t, open(t, tiny(2), nil)[0].Mail())
}

// pieces is a transport whose counted puts are carried out in pieces of one unit,
// in a random order, each counted when it is there. look is called in between.
// Units are written by an operation that is atomic for each word, as a fabric
// writes at least.
type pieces struct {
	transport.Transport
	rng  *rand.Rand
	look func()
}

func (p *pieces) PutCounted(c transport.Completion, dst transport.Handle, src []byte, counter uint64) error {
	for _, i := range p.rng.Perm(len(src) / transport.Granule) {
		p.look()
		at := dst.Add(uint64(i) * transport.Granule)
		unit := src[i*transport.Granule : (i+1)*transport.Granule]
		for _, w := range []uint64{0, 8} {
			if err := p.Transport.Atom(c, make([]byte, 8), at.Add(w), unit[w:], transport.AtomExch, kernels.TypeUint64); err != nil {
				return err
			}
		}
		p.look()
		// Counts without a change.
		if err := p.Transport.RedCounted(c, at, make([]byte, transport.Granule), transport.RedOr, kernels.TypeUint64, counter); err != nil {
			return err
		}
	}
	return nil
}

// TestMailPieces wants no message before all of it is there, whatever lands
// first, and every message then; and every piece to be news.
func TestMailPieces(t *testing.T) {
	seed := newSeed(t)
	look := func() {}
	es := open(t, withMail(tiny(2)), func(c *Config) {
		if c.Rank == 0 {
			c.Transport = &pieces{c.Transport, rand.New(rand.NewPCG(seed, 1)), func() { look() }}
		}
	})
	from, to := es[0].Mail(), es[1].Mail()
	watch := to.NewWatch()
	for i := range 300 {
		head, body := letter(seed, 0, 1, i, from.MailBytes())
		looks := 0
		look = func() {
			looks++
			msg, ok, err := to.Poll(0)
			require.NoError(t, err)
			require.False(t, ok, "letter %d after %d looks: %d bytes", i, looks, len(msg))
			watch.Watch()
			_, news := watch.wait.look(watch.words)
			require.Negative(t, news, "letter %d: Poll has seen all there is", i)
		}
		ok, err := from.TrySend(1, &head, body)
		require.NoError(t, err)
		require.True(t, ok)
		require.GreaterOrEqual(t, looks, 4)
		_, news := watch.wait.look(watch.words)
		require.GreaterOrEqual(t, news, 0)
		msg, ok, err := to.Poll(0)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, string(head[:])+string(body), string(msg))
		require.NoError(t, to.Release(0))
	}
}

// TestMailPiecesConcurrent is the same with a receiver that looks when it likes.
func TestMailPiecesConcurrent(t *testing.T) {
	seed := newSeed(t)
	correspondAll(t, open(t, withMail(tiny(3)), func(c *Config) {
		c.Transport = &pieces{c.Transport, rand.New(rand.NewPCG(seed, uint64(c.Rank))), func() {}}
		c.Transport = &serial{Transport: c.Transport}
	}), 40, 10)
}

// serial lets one operation at a time through, for a transport below that has
// state.
type serial struct {
	transport.Transport
	mu sync.Mutex
}

func (s *serial) PutCounted(c transport.Completion, dst transport.Handle, src []byte, counter uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Transport.PutCounted(c, dst, src, counter)
}

func TestMailFlowControl(t *testing.T) {
	const cells = 3
	l := tiny(2)
	l.MailCells, l.MailSlotBytes = cells, 256
	es := open(t, l, nil)
	from, to := es[0].Mail(), es[1].Mail()
	var head [MailHead]byte
	for round := range 5 {
		for i := range cells {
			ok, err := from.TrySend(1, &head, []byte{byte(i)})
			require.NoError(t, err)
			require.True(t, ok, "round %d", round)
		}
		ok, err := from.TrySend(1, &head, []byte("one more"))
		require.NoError(t, err)
		require.False(t, ok)
		watch := from.NewWatch()
		watch.Watch()
		_, news := watch.wait.look(watch.words)
		require.Negative(t, news)
		for i := range cells {
			msg, ok, err := to.Poll(0)
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, []byte{byte(i)}, msg[MailHead:])
		}
		_, ok, err = to.Poll(0)
		require.NoError(t, err)
		require.False(t, ok, "no cell is free, so none has news")
		require.NoError(t, to.Release(0))
		require.NoError(t, to.Release(0), "nothing to release")
		_, news = watch.wait.look(watch.words)
		require.GreaterOrEqual(t, news, 0)
		for i, want := range []bool{true, false} { // once, though nobody sends
			watch.Watch()
			_, news = watch.wait.look(watch.words)
			require.Equal(t, want, news >= 0, "%d", i)
		}
	}
}

// TestMailWaitEnds: a wait for news ends as other waits do, and by a kick.
func TestMailWaitEnds(t *testing.T) {
	boom := errors.New("boom")
	for _, background := range []bool{false, true} {
		for _, p := range []WaitPolicy{{}, {InProcess: true}, {Oversubscribed: true}} {
			for _, end := range []string{"stop", "cancel", "deadline", "kick", "letter", "credit"} {
				t.Run(fmt.Sprintf("%s,%+v,background=%v", end, p, background), func(t *testing.T) {
					es := open(t, withMail(tiny(3)), func(c *Config) { c.Policy = p })
					m, other := es[0].Mail(), es[1].Mail()
					var head [MailHead]byte
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					timeout := time.Duration(0)
					event := func() error { return nil }
					var want error
					switch end {
					case "stop":
						event, want = func() error { es[0].cfg.Stop.Set(boom); return nil }, boom
					case "cancel":
						event, want = func() error { cancel(); return nil }, context.Canceled
					case "deadline":
						timeout, want = 30*time.Millisecond, context.DeadlineExceeded
					case "kick":
						event = func() error { m.Kick(); return nil }
					case "letter":
						event = func() error { _, err := other.TrySend(0, &head, nil); return err }
					case "credit":
						for {
							ok, err := m.TrySend(1, &head, nil)
							require.NoError(t, err)
							if !ok {
								break
							}
						}
						event = func() error {
							_, _, err := other.Poll(0)
							return errors.Join(err, other.Release(0))
						}
					}
					watch := m.NewWatch()
					start := time.Now()
					watch.Begin(ctx, timeout, background)
					watch.Watch()
					var wg sync.WaitGroup
					wg.Go(func() {
						time.Sleep(30 * time.Millisecond)
						if err := event(); err != nil {
							t.Error(err)
						}
					})
					err := watch.Wait(2)
					wg.Wait()
					require.Less(t, time.Since(start), bound)
					require.GreaterOrEqual(t, time.Since(start), 15*time.Millisecond)
					if want == nil {
						require.NoError(t, err)
						return
					}
					require.ErrorIs(t, err, want)
					var w *WaitError
					if errors.As(err, &w) {
						require.Equal(t, &WaitError{Peer: 2, Err: w.Err}, w)
					}
				})
			}
		}
	}
}

// TestMailWhileEngineSleeps: a wait for a message and a wait for mail sleep on one
// bell, and each ends with its own news.
func TestMailWhileEngineSleeps(t *testing.T) {
	es := open(t, withMail(tiny(2)), nil)
	for _, e := range es {
		e.Begin(t.Context(), time.Minute, 1, 1)
	}
	received, mailed := make(chan error, 1), make(chan error, 2)
	go func() { _, err := es[0].Recv(1, 5); received <- err }()
	for range 2 { // several may wait for mail
		watch := es[0].Mail().NewWatch()
		watch.Begin(t.Context(), time.Minute, false)
		watch.Watch()
		go func() { mailed <- watch.Wait(1) }()
	}
	time.Sleep(30 * time.Millisecond) // both sleep by now, most likely
	var head [MailHead]byte
	_, err := es[1].Mail().TrySend(0, &head, nil)
	require.NoError(t, err)
	require.NoError(t, <-mailed)
	require.NoError(t, <-mailed)
	require.Empty(t, received)
	require.NoError(t, es[1].Send(0, []byte("hello")))
	require.NoError(t, <-received)
}

// TestOnIdle: a wait that lasts lets others do their work, as soon as there is
// some.
func TestOnIdle(t *testing.T) {
	es := open(t, withMail(tiny(2)), nil)
	for _, e := range es {
		e.Begin(t.Context(), time.Minute, 1, 1)
	}
	m := es[0].Mail()
	got := make(chan int, 100)
	es[0].OnIdle(func() {
		if msg, ok, err := m.Poll(1); err != nil {
			t.Error(err)
		} else if ok {
			got <- int(msg[0])
			if err := m.Release(1); err != nil {
				t.Error(err)
			}
		}
	})
	received := make(chan error, 1)
	go func() { _, err := es[0].Recv(1, 5); received <- err }()
	for i := range 10 { // more than fit in the cells
		head := [MailHead]byte{byte(i)}
		ok, err := es[1].Mail().TrySend(0, &head, nil)
		require.NoError(t, err)
		require.True(t, ok)
		select {
		case n := <-got:
			require.Equal(t, i, n)
		case <-time.After(bound):
			require.Fail(t, "nobody looks")
		}
	}
	require.NoError(t, es[1].Send(0, []byte("hello")))
	require.NoError(t, <-received)
}

// TestMailNonsense: what a peer may have written is looked at before it is used.
func TestMailNonsense(t *testing.T) {
	for _, c := range []struct {
		name  string
		epoch uint64
		n     int
		count int
		bad   bool
	}{
		{"a message", 0, MailHead, 32, false},
		{"no header", 0, MailHead - 1, 32, true},
		{"empty", 0, 0, 16, true},
		{"larger than the slot", 0, 1024 - mailTag + 1, 1040, true},
		{"far too large", 0, math.MaxInt32, 16, true},
		{"counted twice", 0, MailHead, 64, true},
		{"counted beyond the slot", 1, MailHead, 1040, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			es := open(t, withMail(tiny(2)), nil)
			m := es[0].Mail()
			unit := make([]byte, transport.Granule)
			binary.NativeEndian.PutUint64(unit, mailTagOf(c.epoch, c.n))
			at := transport.Handle{ID: m.e.peers[1].ID(), Offset: m.lanes.slot(0, lane.Span{})}
			counter := m.lanes.counter(0, 0)
			for range c.count / transport.Granule {
				require.NoError(t, m.t.PutCounted(m.phase, at, unit, counter))
			}
			_, ok, err := es[1].Mail().Poll(0)
			require.Equal(t, c.bad, err != nil, "%v", err)
			require.Equal(t, !c.bad, ok)
		})
	}
	es := open(t, withMail(tiny(2)), nil)
	m := es[0].Mail()
	at := transport.Handle{ID: es[1].peers[0].ID(), Offset: m.lanes.credit(1)}
	require.NoError(t, es[1].raise(&lane.Word{}, 0, at.Offset, 5))
	var head [MailHead]byte
	for range m.lanes.primaries {
		_, err := m.TrySend(1, &head, nil)
		require.NoError(t, err)
	}
	_, err := m.TrySend(1, &head, nil)
	require.ErrorContains(t, err, "released 5")
}

func TestMailArguments(t *testing.T) {
	m := open(t, withMail(tiny(3)), nil)[1].Mail()
	var head [MailHead]byte
	for _, peer := range []int{-1, 1, 3, 1 << 20} {
		_, err := m.TrySend(peer, &head, nil)
		require.ErrorIs(t, err, transport.ErrBounds)
		_, _, err = m.Poll(peer)
		require.ErrorIs(t, err, transport.ErrBounds)
		require.ErrorIs(t, m.Release(peer), transport.ErrBounds)
	}
	_, err := m.TrySend(0, &head, make([]byte, m.MailBytes()+1))
	require.ErrorIs(t, err, transport.ErrBounds)
	ok, err := m.TrySend(0, &head, make([]byte, m.MailBytes()))
	require.NoError(t, err)
	require.True(t, ok)
}

func TestMailFailedReport(t *testing.T) {
	status := transport.Report{Status: transport.StatusFailed, Errors: 3, Code: 0x42}
	es := open(t, withMail(tiny(2)), func(c *Config) {
		c.Transport = &slow{Transport: c.Transport, tests: 2, report: status}
	})
	var head [MailHead]byte
	_, err := es[0].Mail().TrySend(1, &head, nil)
	var got *transport.FabricError
	require.ErrorAs(t, err, &got)
	require.Equal(t, transport.OpPutCounted, got.Op)
	_, ok, err := es[1].Mail().Poll(0)
	require.NoError(t, err)
	require.True(t, ok, "reported, and there all the same")
	require.ErrorAs(t, es[1].Mail().Release(0), &got)
	require.Equal(t, transport.OpRed, got.Op)
}

func TestMailAllocatesNothing(t *testing.T) {
	for _, n := range []int{0, 100, 900} {
		es := open(t, withMail(tiny(2)), nil)
		body := make([]byte, n)
		var head [MailHead]byte
		var watches [2]*MailWatch
		for i := range es {
			watches[i] = es[i].Mail().NewWatch()
			watches[i].Begin(t.Context(), time.Minute, false)
		}
		require.Zero(t, testing.AllocsPerRun(200, func() {
			for i := range es {
				if ok, err := es[i].Mail().TrySend(1-i, &head, body); err != nil || !ok {
					t.Fail()
				}
			}
			for i := range es {
				m := es[i].Mail()
				watches[i].Watch()
				if watches[i].Wait(-1) != nil {
					t.Fail()
				}
				if _, ok, err := m.Poll(1 - i); err != nil || !ok || m.Release(1-i) != nil {
					t.Fail()
				}
			}
		}), "%d bytes", n)
		require.Zero(t, watches[0].wait.deadline)
	}
}
