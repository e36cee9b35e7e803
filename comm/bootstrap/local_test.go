package bootstrap

import (
	"context"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An event is what a recorder has been told.
type event struct {
	from int
	msg  Message
	gone bool
	err  error
	at   time.Time
}

// A recorder is a handler that remembers.
type recorder struct {
	mu      sync.Mutex
	events  []event
	changed chan struct{}
}

func newRecorder() *recorder { return &recorder{changed: make(chan struct{}, 1)} }

func (r *recorder) add(e event) {
	e.at = time.Now()
	r.mu.Lock()
	r.events = append(r.events, e)
	r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

func (r *recorder) HandleMessage(from int, m Message) { r.add(event{from: from, msg: m}) }
func (r *recorder) HandleGone(peer int, err error)    { r.add(event{from: peer, gone: true, err: err}) }

// of returns the events that concern a peer.
func (r *recorder) of(peer int) (events []event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.from == peer {
			events = append(events, e)
		}
	}
	return events
}

// await waits until n events concern the peer.
func (r *recorder) await(t testing.TB, peer, n int) []event {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		if e := r.of(peer); len(e) >= n {
			return e
		}
		select {
		case <-r.changed:
		case <-deadline:
			require.FailNow(t, "nothing came", "%d of %d events from rank %d: %v", len(r.of(peer)), n, peer, r.of(peer))
		}
	}
}

// awaitGone waits for the peer's end, which must be the last event.
func (r *recorder) awaitGone(t testing.TB, peer int) event {
	t.Helper()
	for n := 1; ; n++ {
		if e := r.await(t, peer, n); e[n-1].gone {
			require.Len(t, e, n, "something came after the end")
			return e[n-1]
		}
	}
}

func closeAll(t testing.TB, cs []Channel) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for _, c := range cs {
		wg.Go(func() {
			if err := c.Close(ctx); err != nil {
				t.Errorf("close of rank %d: %v", c.Rank(), err)
			}
		})
	}
	wg.Wait()
}

// testContract checks what every channel promises. wait must be true where
// everything sent arrives even when sender and receiver close at once.
func testContract(t *testing.T, cs []Channel, ref, files bool) {
	const count = 200
	n := len(cs)
	recs := make([]*recorder, n)
	for i := range recs {
		recs[i] = newRecorder()
		require.Equal(t, i, cs[i].Rank())
		require.Equal(t, n, cs[i].Size())
		for j := range n {
			p := cs[i].Peer(j)
			require.Equal(t, j, p.Rank)
			require.NotEmpty(t, p.Host)
			require.NotEmpty(t, p.Node)
			require.NotZero(t, p.PID)
			if runtime.GOOS == "linux" {
				require.NotEmpty(t, p.CPUs)
			}
		}
	}
	if n > 1 { // before anybody listens
		require.NoError(t, cs[0].Send(n-1, Message{Kind: 9, Data: []byte("early")}))
	}
	for i, c := range cs {
		c.Start(recs[i])
	}
	var wg sync.WaitGroup
	for i, c := range cs {
		wg.Go(func() {
			buf := make([]byte, 64)
			for s := range count {
				for to := range n {
					buf[0] = byte(s)
					m := Message{Kind: 1, Comm: uint64(i), Seq: uint64(s), Data: buf[:1+s%64]}
					if ref {
						m.Ref = &recs[to]
					}
					if err := c.Send(to, m); err != nil {
						t.Errorf("%d to %d: %v", i, to, err)
					}
					buf[0] = 0xff // the channel must have a copy
				}
			}
		})
	}
	wg.Wait()
	for i := range cs {
		for from := range n {
			want := count
			early := n > 1 && from == 0 && i == n-1
			if early {
				want++
			}
			events := recs[i].await(t, from, want)
			if early {
				require.Equal(t, "early", string(events[0].msg.Data))
				events = events[1:]
			}
			for s, e := range events {
				require.False(t, e.gone)
				require.Equal(t, uint64(s), e.msg.Seq)
				require.Equal(t, uint64(from), e.msg.Comm)
				require.Len(t, e.msg.Data, 1+s%64)
				require.Equal(t, byte(s), e.msg.Data[0])
				if ref {
					require.Same(t, &recs[i], e.msg.Ref)
				}
			}
		}
	}
	if !ref && n > 1 {
		require.ErrorIs(t, cs[0].Send(1, Message{Ref: 1}), ErrMessage)
	}
	require.ErrorIs(t, cs[0].Send(n, Message{}), ErrMessage)
	require.ErrorIs(t, cs[0].Send(-1, Message{}), ErrMessage)
	require.ErrorIs(t, cs[0].Send(0, Message{Data: make([]byte, MaxData+1)}), ErrMessage)
	require.ErrorIs(t, cs[0].Send(0, Message{Files: make([]*os.File, MaxFiles+1)}), ErrMessage)
	if files {
		testFiles(t, cs, recs)
	} else if n > 1 {
		require.ErrorIs(t, cs[0].Send(1, Message{Files: []*os.File{os.Stdin}}), ErrMessage)
	}
	if n > 1 { // one leaves first
		require.NoError(t, cs[0].Send(1, Message{Kind: 2, Data: []byte("last words")}))
		closeAll(t, cs[:1])
		for i := 1; i < n; i++ {
			gone := recs[i].awaitGone(t, 0)
			require.NoError(t, gone.err)
			require.ErrorIs(t, cs[i].Send(0, Message{}), ErrGone)
			require.NoError(t, recs[0].awaitGone(t, i).err)
		}
		events := recs[1].of(0)
		require.Equal(t, "last words", string(events[len(events)-2].msg.Data))
	}
	require.NoError(t, cs[n-1].Send(n-1, Message{}))
	closeAll(t, cs)
	for i, c := range cs {
		require.ErrorIs(t, c.Send(0, Message{}), ErrChannelClosed)
		for j := range n {
			if j != i {
				recs[i].awaitGone(t, j)
			}
		}
		for _, e := range recs[i].of(i) {
			require.False(t, e.gone, "a rank is not its own peer")
		}
	}
}

// testFiles sends pipes to everyone. The sender closes its descriptor at once.
func testFiles(t *testing.T, cs []Channel, recs []*recorder) {
	for to := range cs {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		before := len(recs[to].of(0))
		require.NoError(t, cs[0].Send(to, Message{Kind: 3, Files: []*os.File{w}}))
		require.NoError(t, w.Close())
		e := recs[to].await(t, 0, before+1)[before]
		require.Len(t, e.msg.Files, 1)
		_, err = e.msg.Files[0].WriteString("hi")
		require.NoError(t, err)
		require.NoError(t, e.msg.Files[0].Close())
		buf := make([]byte, 2)
		_, err = r.Read(buf)
		require.NoError(t, err)
		require.Equal(t, "hi", string(buf))
		n, err := r.Read(buf) // all copies of w are closed
		require.Zero(t, n, err)
		require.NoError(t, r.Close())
	}
}

func TestLocal(t *testing.T) {
	require.Nil(t, Local(0))
	for _, n := range []int{1, 2, 5} {
		cs := Local(n)
		require.Equal(t, "local", cs[0].Source())
		testContract(t, cs, true, multiProcess)
	}
}

func TestLocalUnresponsive(t *testing.T) {
	cs := Local(2)
	recs := []*recorder{newRecorder(), newRecorder()}
	cs[0].Start(recs[0]) // rank 1 takes nothing
	var err error
	data := make([]byte, MaxData)
	for range 2 * maxQueue / MaxData {
		if err = cs[0].Send(1, Message{Data: data}); err != nil {
			break
		}
	}
	require.ErrorIs(t, err, ErrUnresponsive)
	require.ErrorIs(t, err, ErrGone)
	require.ErrorIs(t, recs[0].awaitGone(t, 1).err, ErrUnresponsive)
	require.ErrorIs(t, cs[0].Send(1, Message{}), ErrGone)
	cs[1].Start(recs[1])
	require.ErrorIs(t, recs[1].awaitGone(t, 0).err, ErrGone)
	closeAll(t, cs)
}

// blocker is a handler that doesn't come back.
type blocker chan struct{}

func (b blocker) HandleMessage(int, Message) { <-b }
func (b blocker) HandleGone(int, error)      {}

func TestLocalCloseIsBounded(t *testing.T) {
	cs := Local(2)
	b := make(blocker)
	cs[1].Start(b)
	require.NoError(t, cs[0].Send(1, Message{}))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, cs[1].Close(ctx), context.DeadlineExceeded)
	require.NoError(t, cs[1].Close(ctx), "the second call does nothing")
	close(b)
	closeAll(t, cs[:1])
}
