package faults

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/transport"
)

func TestLogLine(t *testing.T) {
	var buf bytes.Buffer
	log := NewLog(&buf)
	log.Add(Record{Link{0, 1}, 17, Ops(transport.OpPutCounted), Fault{Late, 8717895732742165505}})
	log.Add(Record{Link{3, Multicast}, math.MaxUint64, Ops(transport.OpPut, transport.OpAtom), Fault{Dead, 0}})
	require.NoError(t, log.Err())
	require.Equal(t, `{"link":"0>1","phase":17,"ops":["counted put"],"kind":"late","seed":"8717895732742165505"}
{"link":"3>m","phase":18446744073709551615,"ops":["put","atom"],"kind":"dead","seed":"0"}
`, buf.String())
}

func TestReadLogRefuses(t *testing.T) {
	const good = `{"link":"0>1","phase":17,"ops":["put"],"kind":"late","seed":"5"}`
	for _, c := range []struct {
		line, why string
	}{
		{"x", "invalid character"},
		{good[:40], "unexpected end"},
		{good + good, "invalid character"},
		{"null", "missing"},
		{"{}", "missing"},
		{strings.Replace(good, `"link":"0>1",`, "", 1), "missing"},
		{strings.Replace(good, `"phase":17,`, "", 1), "missing"},
		{strings.Replace(good, `"ops":["put"],`, "", 1), "missing"},
		{strings.Replace(good, `"kind":"late",`, "", 1), "missing"},
		{strings.Replace(good, `,"seed":"5"`, "", 1), "missing"},
		{strings.Replace(good, "0>1", "*>1", 1), `"*>1" is not a link`},
		{strings.Replace(good, "0>1", "0>*", 1), `"0>*" is not a link`},
		{strings.Replace(good, "0>1", "m>1", 1), `"m>1" is not a link`},
		{strings.Replace(good, "0>1", "", 1), `"" is not a link`},
		{strings.Replace(good, "17", "-1", 1), "phase is a number below 2⁶⁴, not a JSON number -1"},
		{strings.Replace(good, "17", "1.5", 1), "phase is a number"},
		{strings.Replace(good, "17", "18446744073709551616", 1), "phase is a number"},
		{strings.Replace(good, "put", "counted", 1), `"counted" is not an operation`},
		{strings.Replace(good, "put", "unknown operation", 1), "is not an operation"},
		{strings.Replace(good, "late", "none", 1), `"none" is not a kind`},
		{strings.Replace(good, "late", "later", 1), `"later" is not a kind`},
		{strings.Replace(good, `"5"`, "5", 1), "seed is text, not a JSON number"},
		{"[]", "a line is an object, not a JSON array"},
		{strings.Replace(good, `["put"]`, "[]", 1), "ops is empty"},
		{strings.Replace(good, `["put"]`, "7", 1), "ops is a list of operations, not a JSON number"},
		{strings.Replace(good, `"5"`, `"-5"`, 1), `seed "-5" is not a number`},
		{strings.Repeat(" ", 1<<17), "too long"},
	} {
		records, err := ReadLog(strings.NewReader(good + "\n\n" + c.line + "\n" + good + "\n"))
		var logErr *LogError
		require.ErrorAs(t, err, &logErr, c.line)
		require.Equal(t, 3, logErr.Line, c.line)
		require.ErrorContains(t, err, c.why, c.line)
		require.Nil(t, records)
	}
	broken := errors.New("broken")
	_, err := ReadLog(io.MultiReader(strings.NewReader(good+"\n"), iotest.ErrReader(broken)))
	require.ErrorIs(t, err, broken)
	records, err := ReadLog(strings.NewReader(good)) // the last line's end is not needed
	require.NoError(t, err)
	require.Equal(t, []Record{{Link{0, 1}, 17, Ops(transport.OpPut), Fault{Late, 5}}}, records)
	records, err = ReadLog(strings.NewReader(""))
	require.NoError(t, err)
	require.Empty(t, records)
}

// failing fails from its second write on.
type failing struct{ writes int }

var errFull = errors.New("full")

func (w *failing) Write(p []byte) (int, error) {
	w.writes++
	if w.writes > 1 {
		return 0, fmt.Errorf("write %d: %w", w.writes, errFull)
	}
	return len(p), nil
}

func TestLogErr(t *testing.T) {
	w := &failing{}
	log := NewLog(w)
	r := Record{Link{0, 1}, 0, AllOps, Fault{Drop, 0}}
	log.Add(r)
	require.NoError(t, log.Err())
	for range 3 {
		log.Add(r)
		require.ErrorIs(t, log.Err(), errFull)
	}
	require.Equal(t, 2, w.writes)
}

// TestReplay runs a small world under a plan, ranks at once and one log for all,
// and again under the log: the same faults, and none besides.
func TestReplay(t *testing.T) {
	const ranks, phases = 4, 300
	opsOf := func(l Link, k uint64) OpSet {
		return Ops(transport.OpKind((uint64(l.From)+k)%uint64(numOps)), transport.OpKind(k%3))
	}
	run := func(d Decider) map[place]Fault {
		faults := map[place]Fault{}
		var mu sync.Mutex
		var wait sync.WaitGroup
		for from := range ranks {
			wait.Go(func() {
				for k := range uint64(phases) {
					for _, to := range []int{Multicast, 0, 1, 2, 3} {
						l := Link{from, to}
						if f := d.Decide(l, 0, k, opsOf(l, k)); f.Reported() {
							mu.Lock()
							faults[place{l, k}] = f
							mu.Unlock()
						}
					}
				}
			})
		}
		wait.Wait()
		return faults
	}
	var buf bytes.Buffer
	log := NewLog(&buf)
	recorder := NewRecorder(injector(t, "seed=13,rate=0.05,burst=2,ops=put+counted+red,dead=1>2@250"), log.Add)
	want := run(recorder)
	require.NoError(t, log.Err())
	records, err := ReadLog(&buf)
	require.NoError(t, err)
	require.Len(t, records, len(want))

	var stats Stats
	for _, r := range records {
		require.Equal(t, want[place{r.Link, r.Phase}], r.Fault)
		require.Equal(t, opsOf(r.Link, r.Phase), r.Ops)
		stats.Phases[r.Fault.Kind]++
		for op := transport.OpPut; op <= transport.OpAtom; op++ {
			stats.Ops[r.Fault.Kind][op] += uint64(count(r.Ops.Has(op)))
		}
	}
	require.Equal(t, stats, recorder.Stats())
	require.EqualValues(t, 50, stats.Phases[Dead])
	for k := Drop; k <= Late; k++ {
		require.NotZero(t, stats.Phases[k])
	}

	replay, err := NewReplay(records)
	require.NoError(t, err)
	require.Equal(t, len(records), replay.Left())
	again := NewRecorder(replay, nil)
	require.Equal(t, want, run(again))
	require.Equal(t, stats, again.Stats())
	require.Zero(t, replay.Left())
	require.Zero(t, replay.Diverged())
}

func TestReplayDiverges(t *testing.T) {
	put, get := Ops(transport.OpPut), Ops(transport.OpGet)
	replay, err := NewReplay([]Record{{Link{0, 1}, 3, put, Fault{Drop, 1}}, {Link{0, 1}, 4, put, Fault{Ack, 2}}})
	require.NoError(t, err)
	require.Equal(t, Fault{}, replay.Decide(Link{0, 1}, 0, 2, put))
	require.Equal(t, Fault{}, replay.Decide(Link{1, 0}, 0, 3, put))
	require.Equal(t, 2, replay.Left())
	for range 2 {
		require.Equal(t, Fault{Drop, 1}, replay.Decide(Link{0, 1}, 0, 3, put))
		require.Equal(t, 1, replay.Left())
		require.Zero(t, replay.Diverged())
	}
	require.Equal(t, Fault{Ack, 2}, replay.Decide(Link{0, 1}, 0, 4, get))
	require.Zero(t, replay.Left())
	require.Equal(t, 1, replay.Diverged())
}

func TestNewReplayRefuses(t *testing.T) {
	good := Record{Link{0, 1}, 3, AllOps, Fault{Drop, 1}}
	twice := []Record{good, good}
	twice[1].Fault.Kind = Ack
	for _, records := range [][]Record{
		twice,
		{{Link{0, 1}, 3, AllOps, Fault{}}},
		{{Link{0, 1}, 3, AllOps, Fault{Dead + 1, 1}}},
		{{Link{0, Any}, 3, AllOps, Fault{Drop, 1}}},
		{{Link{Any, 0}, 3, AllOps, Fault{Drop, 1}}},
	} {
		replay, err := NewReplay(records)
		require.ErrorContains(t, err, "replay: ")
		require.Nil(t, replay)
	}
}

func FuzzReadLog(f *testing.F) {
	f.Add([]byte(`{"link":"0>1","phase":17,"ops":["counted put"],"kind":"late","seed":"8717895732742165505"}`))
	f.Add([]byte(`{"link":"3>m","phase":18446744073709551615,"ops":["put","atom"],"kind":"dead","seed":"0"}` + "\r\n\n{}"))
	f.Add([]byte(`{"link":"*>1","ops":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		records, err := ReadLog(bytes.NewReader(data))
		if err != nil {
			var logErr *LogError
			require.ErrorAs(t, err, &logErr)
			require.Positive(t, logErr.Line)
			return
		}
		var buf bytes.Buffer
		log := NewLog(&buf)
		for _, r := range records {
			log.Add(r)
		}
		require.NoError(t, log.Err())
		back, err := ReadLog(&buf)
		require.NoError(t, err)
		require.Equal(t, records, back)
		replay, err := NewReplay(records)
		if err != nil {
			return // two faults for a phase
		}
		for _, r := range records {
			require.Equal(t, r.Fault, replay.Decide(r.Link, 0, r.Phase, r.Ops))
		}
		require.Zero(t, replay.Left())
	})
}
