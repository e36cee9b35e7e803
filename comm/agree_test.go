package comm

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/comm/bootstrap"
	"github.com/weft-go/weft/internal/ranktest"
	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/progress/lane"
)

// TestNotices: what one rank encodes another decodes, with the FabricError.
func TestNotices(t *testing.T) {
	fabric := &transport.FabricError{Op: transport.OpPutCounted, Rank: 2, Peer: 1, Endpoint: 7, Offset: 1 << 40, Epoch: 9, Attempts: 8,
		Status: transport.Report{Status: transport.StatusFailed}}
	e := &AbortError{Origin: 2, Reason: ReasonFailed, Ranks: []int{1, 2}, Call: "Barrier #3", Seq: 3, Detail: "text",
		cause: fmt.Errorf("in the middle: %w", fabric)}
	for kind := lane.NoticePropose; kind <= lane.NoticeRefuse; kind++ {
		sent := lane.Notice[*record]{Kind: kind, Ballot: 3, Out: lane.Ranks{1 << 63, 5}, By: 2, Committed: 1 << 50}
		if kind != lane.NoticeAck && kind != lane.NoticeRefuse {
			sent.Holds, sent.Failure = true, &record{2, e}
		}
		data, err := encodeNotice(&sent)
		require.NoError(t, err)
		require.Less(t, len(data), bootstrap.MaxData)
		got, err := decodeNotice(data, 70)
		require.NoError(t, err)
		if sent.Holds {
			var f *transport.FabricError
			require.ErrorAs(t, got.Failure.abort, &f)
			require.Equal(t, fabric, f)
			require.Equal(t, e.Error(), got.Failure.abort.Error())
			require.Equal(t, 2, got.Failure.by)
			got.Failure, sent.Failure = nil, nil
		}
		require.Equal(t, sent, got)
	}
	_, err := decodeNotice([]byte(`{"Kind":3}`), 3)
	require.Error(t, err, "tells nothing")
}

// FuzzNotice: whatever a peer sends, a rank does not panic and goes on to agree with
// those that answer.
func FuzzNotice(f *testing.F) {
	for _, s := range []string{`{"Kind":0,"Abort":{"Origin":1,"Reason":"dead"}}`, `{"Kind":1,"Ballot":1,"Out":[1],"Abort":{}}`,
		`{"Kind":2,"By":-1}`, `{"Kind":3,"Ballot":99,"Abort":{"Fabric":{"Op":255,"Status":{"Status":77}}}}`,
		`{"Kind":5,"Out":[18446744073709551615,1],"Abort":{}}`, `{"Kind":7}`, `null`} {
		f.Add([]byte(s), uint8(1))
	}
	f.Fuzz(func(t *testing.T, b []byte, from uint8) {
		m, err := decodeNotice(b, 3)
		if err != nil {
			return
		}
		a := lane.NewAgreement[*record](1, 3)
		a.Hear(int(from%5)-1, m)
		a.Fail(&record{1, &AbortError{Origin: 1}})
		a.Hear(int(from%5)-1, m)
		a.Out(0, 2)
		e, final, _ := a.Failure()
		require.True(t, final, "nobody else is left")
		_ = e.abort.Error()
		if cause := errors.Unwrap(e.abort); cause != nil {
			_ = cause.Error()
		}
		for _, s := range a.Take() {
			_, err := encodeNotice(&s.Notice)
			require.NoError(t, err)
		}
	})
}

// deaf is the channel of a rank that hears nothing for a while, and says nothing.
type deaf struct {
	bootstrap.Channel
	mu    sync.Mutex
	cond  *sync.Cond
	stops bool
}

func (d *deaf) set(stops bool) {
	d.mu.Lock()
	d.stops = stops
	d.mu.Unlock()
	d.cond.Broadcast()
}

func (d *deaf) wait() {
	d.mu.Lock()
	for d.stops {
		d.cond.Wait()
	}
	d.mu.Unlock()
}

func (d *deaf) Start(h bootstrap.Handler) { d.Channel.Start(&deafHandler{h, d}) }

func (d *deaf) Send(to int, m bootstrap.Message) error {
	d.wait()
	return d.Channel.Send(to, m)
}

type deafHandler struct {
	bootstrap.Handler
	d *deaf
}

func (h *deafHandler) HandleMessage(from int, m bootstrap.Message) {
	h.d.wait()
	h.Handler.HandleMessage(from, m)
}

// TestDeafRanks has some ranks not answer while another ends the communicator: those
// that answer agree in time, also when all that could register are deaf, and the deaf
// hear that they were excluded, and have the same record.
func TestDeafRanks(t *testing.T) {
	for _, tt := range []struct {
		ranks, origin int
		deaf          []int
	}{{2, 1, []int{0}}, {3, 2, []int{0}}, {3, 0, []int{1}}, {4, 3, []int{0, 1, 2}}, {5, 2, []int{0, 4}}, {8, 7, []int{0, 1, 2, 3, 4}}, {70, 3, []int{0, 1, 2, 66}}} {
		t.Run(fmt.Sprintf("%d ranks, %v deaf", tt.ranks, tt.deaf), func(t *testing.T) {
			t.Parallel()
			ranktest.UnlessStarved(t, func() (time.Duration, error) { return deafRanks(t, tt.ranks, tt.origin, tt.deaf) })
		})
	}
}

// deafRanks makes the job of TestDeafRanks. What is wrong may be so since a rank got no
// processor.
func deafRanks(t *testing.T, n, origin int, silent []int) (starved time.Duration, wrong error) {
	s, err := configure(nil, func(string) string { return "" })
	require.NoError(t, err)
	channels := make([]*deaf, n)
	cs := make([]*Communicator, n)
	var wg sync.WaitGroup
	for r, ch := range bootstrap.Local(n) {
		channels[r] = &deaf{Channel: ch}
		channels[r].cond = sync.NewCond(&channels[r].mu)
		wg.Go(func() { cs[r], _ = start(context.Background(), channels[r], true, s) })
	}
	wg.Wait()
	isDeaf := make([]bool, n)
	for _, r := range silent {
		channels[r].set(true)
		isDeaf[r] = true
	}
	gauge, begin := ranktest.Gauge(), time.Now()
	cs[origin].Abort(errors.New("disk full"))
	took := time.Since(begin)
	text := fmt.Sprintf("aborted by rank %d: disk full", origin)
	for r, c := range cs {
		if isDeaf[r] {
			require.NoError(t, c.AsyncErr())
			continue
		}
		<-c.stop.Done()
		if err := c.AsyncErr(); err.Error() != text {
			wrong = errors.Join(wrong, fmt.Errorf("rank %d: %w", r, err))
		}
	}
	starved = gauge()
	for _, r := range silent {
		channels[r].set(false)
		<-cs[r].stop.Done()
		require.ErrorIs(t, cs[r].AsyncErr(), ErrIsolated)
		require.ErrorIs(t, cs[r].AsyncErr(), ErrAborted)
		require.Equal(t, text+"; "+ErrIsolated.Error(), cs[r].AsyncErr().Error())
	}
	for _, c := range cs {
		wg.Go(func() { c.Close() })
	}
	wg.Wait()
	var abort *AbortError
	require.ErrorAs(t, cs[origin].stop.Err(), &abort)
	require.GreaterOrEqual(t, took, answerTime)
	if took >= 40*answerTime {
		wrong = errors.Join(wrong, fmt.Errorf("it took %v", took))
	}
	return starved, wrong
}

// TestOwnContext: a rank whose context ended while the ranks agreed on another record
// has its context's error behind the record, in every later call.
func TestOwnContext(t *testing.T) {
	s, err := configure(nil, func(string) string { return "" })
	require.NoError(t, err)
	channels := make([]*deaf, 3)
	cs := make([]*Communicator, 3)
	var wg sync.WaitGroup
	for r, ch := range bootstrap.Local(3) {
		channels[r] = &deaf{Channel: ch}
		channels[r].cond = sync.NewCond(&channels[r].mu)
		wg.Go(func() { cs[r], _ = start(context.Background(), channels[r], true, s) })
	}
	wg.Wait()
	channels[1].set(true)
	fabric := &transport.FabricError{Rank: 0, Peer: 2, Attempts: 7}
	cs[0].propose(&AbortError{Origin: 0, Reason: ReasonFailed, cause: fabric}) // it registers that
	wg.Go(func() { cs[1].abort(&AbortError{Origin: 1, Reason: ReasonCanceled, cause: context.Canceled}) })
	for cs[1].agreement.mu.TryLock() { // until it is about to propose
		cs[1].agreement.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
	channels[1].set(false)
	for r, c := range cs {
		<-c.stop.Done()
		err := c.AsyncErr()
		require.Equal(t, "failed on rank 0", err.Error())
		var behind *transport.FabricError
		require.ErrorAs(t, err, &behind)
		require.Equal(t, 7, behind.Attempts)
		require.Equal(t, r == 1, errors.Is(err, context.Canceled), "rank %d", r)
		_, err = c.Begin(t.Context(), Call{})
		require.Equal(t, r == 1, errors.Is(err, context.Canceled), "a later call, rank %d", r)
	}
	for _, c := range cs {
		wg.Go(func() { c.Close() })
	}
	wg.Wait()
}

// TestBothDeaf: where each finds the other silent, each is alone, and no wait lasts.
func TestBothDeaf(t *testing.T) {
	s, err := configure(nil, func(string) string { return "" })
	require.NoError(t, err)
	channels := make([]*deaf, 2)
	cs := make([]*Communicator, 2)
	var wg sync.WaitGroup
	for r, ch := range bootstrap.Local(2) {
		channels[r] = &deaf{Channel: ch}
		channels[r].cond = sync.NewCond(&channels[r].mu)
		wg.Go(func() { cs[r], _ = start(context.Background(), &mute{channels[r]}, true, s) })
	}
	wg.Wait()
	for _, ch := range channels {
		ch.set(true)
	}
	for r, c := range cs {
		wg.Go(func() { c.Abort(fmt.Errorf("reason %d", r)) })
	}
	wg.Wait()
	for r, c := range cs {
		require.ErrorContains(t, c.AsyncErr(), fmt.Sprintf("aborted by rank %d: reason %d", r, r))
		channels[r].set(false)
	}
	for _, c := range cs {
		wg.Go(func() { c.Close() })
	}
	wg.Wait()
}

// mute loses what is sent while the rank is deaf.
type mute struct{ *deaf }

func (m *mute) Send(to int, msg bootstrap.Message) error {
	m.mu.Lock()
	stops := m.stops
	m.mu.Unlock()
	if stops {
		return nil
	}
	return m.Channel.Send(to, msg)
}

// TestCloseEndsInquiry: no goroutine of a rank that has closed still waits for answers.
func TestCloseEndsInquiry(t *testing.T) {
	roots, err := Local(3)
	require.NoError(t, err)
	cs := make([]*Communicator, 3)
	var wg sync.WaitGroup
	for r, c := range roots {
		wg.Go(func() { cs[r], _ = c.Dup(t.Context()) })
	}
	wg.Wait()
	cs[0].agreement.mu.Lock() // rank 0 hears nothing
	wg.Go(func() { cs[1].Abort(nil) })
	time.Sleep(tickTime / 2)
	cs[2].Abort(nil) // its inquiry begins later than that of rank 1, which ends it all
	require.NoError(t, cs[2].Close())
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	wg.Wait()
	cs[0].agreement.mu.Unlock()
	require.NotContains(t, string(stacks), ").inquire(")
	for _, c := range roots {
		wg.Go(func() { c.Close() })
	}
	wg.Wait()
}
