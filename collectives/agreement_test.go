package collectives

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/internal/ranktest"
	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
)

// A reportedRecord is all that a rank can see of why its communicator ended.
type reportedRecord struct {
	comm.AbortError
	Text     string
	Fabric   *transport.FabricError
	Isolated bool
}

// reported reads the record of an error.
func reported(err error) (reportedRecord, error) {
	var abort *comm.AbortError
	if !errors.As(err, &abort) {
		return reportedRecord{}, fmt.Errorf("no record: %w", err)
	}
	r := reportedRecord{Text: abort.Error(), Isolated: errors.Is(err, comm.ErrIsolated)}
	r.Origin, r.Reason, r.Ranks, r.Call, r.Seq, r.Detail = abort.Origin, abort.Reason, abort.Ranks, abort.Call, abort.Seq, abort.Detail
	errors.As(err, &r.Fabric)
	return r, nil
}

// stays returns the record of err, which what a rank does next must return as well.
func stays(c *comm.Communicator, err error) (reportedRecord, error) {
	first, err := reported(err)
	for i := range 6 {
		var next error
		switch i {
		case 0, 4:
			next = AllReduce(context.Background(), c, []int8{1}, []int8{1}, kernels.Sum)
		case 1:
			next = c.AsyncErr()
		case 2:
			next = StartBarrier(context.Background(), c).Wait(context.Background())
		case 3:
			_, next = Recv(context.Background(), c, make([]int8, 1), comm.AnySource, 0)
		case 5:
			time.Sleep(10 * time.Millisecond)
			next = Send(context.Background(), c, []int8{1}, 0, 0)
		}
		again, nextErr := reported(next)
		if nextErr != nil || !sameRecord(first, again) {
			return first, errors.Join(err, nextErr, fmt.Errorf("first %+v, then (%d) %+v", first, i, again))
		}
	}
	return first, err
}

func sameRecord(a, b reportedRecord) bool {
	x, err := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err == nil && err2 == nil && string(x) == string(y)
}

// A failing is a way in which a rank ends a communicator in which the others wait
// for it.
type failing struct {
	name string
	fail func(c *comm.Communicator) error
	want func(r reportedRecord, origin int) bool
	// leaves: the origin has no record itself.
	leaves bool
}

func failings() []failing {
	ctx := context.Background()
	return []failing{
		{name: "canceled", fail: func(c *comm.Communicator) error {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(2*time.Millisecond, cancel)
			_, err := Recv(ctx, c, make([]int8, 1), comm.AnySource, 1)
			return err
		}, want: func(r reportedRecord, origin int) bool { return r.Reason == comm.ReasonCanceled && r.Origin == origin }},
		{name: "canceled before", fail: func(c *comm.Communicator) error {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return Barrier(ctx, c)
		}, want: func(r reportedRecord, origin int) bool {
			return r.Reason == comm.ReasonCanceled && r.Origin == origin && r.Seq == 1
		}},
		{name: "timeout", fail: func(c *comm.Communicator) error {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
			defer cancel()
			_, err := Recv(ctx, c, make([]int8, 1), comm.AnySource, 1)
			return err
		}, want: func(r reportedRecord, origin int) bool { return r.Reason == comm.ReasonTimeout && r.Origin == origin }},
		{name: "abort", fail: func(c *comm.Communicator) error {
			c.Abort(errors.New("disk full \xff"))
			return c.AsyncErr()
		}, want: func(r reportedRecord, origin int) bool {
			return r.Reason == comm.ReasonAbort && r.Origin == origin && r.Detail == "disk full \uFFFD"
		}},
		{name: "long abort", fail: func(c *comm.Communicator) error {
			c.Abort(errors.New(strings.Repeat("äö", 3<<10)))
			return c.AsyncErr()
		}, want: func(r reportedRecord, origin int) bool { return r.Reason == comm.ReasonAbort && r.Origin == origin }},
		{name: "mismatch", fail: func(c *comm.Communicator) error {
			return AllReduce(ctx, c, make([]int8, 5), make([]int8, 5), kernels.Sum)
		}, want: func(r reportedRecord, origin int) bool {
			return r.Reason == comm.ReasonMismatch && slices.Contains(r.Ranks, origin)
		}},
		{name: "closed", fail: func(c *comm.Communicator) error { return c.Close() },
			want: func(r reportedRecord, origin int) bool {
				return r.Reason == comm.ReasonClosed && slices.Equal(r.Ranks, []int{origin})
			}, leaves: true},
		{name: "panic", fail: func(c *comm.Communicator) error {
			return AllReduceFunc(ctx, c, make([]int32, 3), make([]int32, 3), func(acc, x []int32) { panic("operator") })
		}, want: func(r reportedRecord, origin int) bool {
			return r.Reason == comm.ReasonFailed && r.Origin == origin || r.Reason == comm.ReasonMismatch
		}},
	}
}

// agreeOn has some ranks of a new communicator fail, each in its way, while the others
// wait in a barrier. It returns the record, which all must have.
func agreeOn(n int, ways map[int]failing, opts ...comm.Option) (reportedRecord, error) {
	cs, err := comm.Local(n, append([]comm.Option{comm.WithTimeout(20 * time.Second)}, opts...)...)
	if err != nil {
		return reportedRecord{}, err
	}
	defer each(cs, func(c *comm.Communicator) error { return c.Close() })
	starved := ranktest.Gauge()
	records := make([]reportedRecord, n)
	errs := each(cs, func(c *comm.Communicator) error {
		k, fails := ways[c.Rank()]
		if !fails {
			k.fail = func(c *comm.Communicator) error { return Barrier(context.Background(), c) }
		}
		err := k.fail(c)
		if fails && k.leaves {
			if errors.Is(err, comm.ErrAborted) { // ended before, or Close says that ranks disagreed
				return nil
			}
			return err
		}
		records[c.Rank()], err = stays(c, err)
		return err
	})
	slow := starved() > ranktest.Starved || raceEnabled || n > 8
	if err := errors.Join(errs...); err != nil {
		return reportedRecord{}, err
	}
	first := -1
	for r := range records {
		if slow { // so that a rank may not answer in time
			records[r].Isolated, records[r].Text = false, strings.TrimSuffix(records[r].Text, "; "+comm.ErrIsolated.Error())
		}
		switch {
		case ways[r].leaves:
		case records[r].Isolated:
			return records[r], fmt.Errorf("rank %d was excluded", r)
		case first < 0:
			first = r
		case !sameRecord(records[first], records[r]):
			return records[r], fmt.Errorf("rank %d has %+v, rank %d has %+v", first, records[first], r, records[r])
		}
	}
	if first < 0 {
		return reportedRecord{}, nil
	}
	return records[first], nil
}

// TestOneRecord has every rank end a communicator in every way: all have the same
// record of it, for ever.
func TestOneRecord(t *testing.T) {
	for _, k := range failings() {
		t.Run(k.name, func(t *testing.T) {
			for n := 2; n <= 5; n++ {
				for origin := range n {
					for _, commit := range []bool{false, true} {
						var opts []comm.Option
						if commit {
							opts = append(opts, comm.WithCommit())
						}
						r, err := agreeOn(n, map[int]failing{origin: k}, opts...)
						require.NoError(t, err, "%d ranks, origin %d, commit %v", n, origin, commit)
						require.True(t, k.want(r, origin), "%d ranks, origin %d: %+v", n, origin, r)
					}
				}
			}
		})
	}
}

// TestOneRecordOfTwo has two ranks fail at once, in different ways: the record is that
// of one of them.
func TestOneRecordOfTwo(t *testing.T) {
	all := failings()
	for i, a := range all {
		for n := 2; n <= 5; n++ {
			for first := range n {
				for second := range n {
					b := all[(i+1+first+second)%len(all)]
					if first == second || a.name == b.name || raceEnabled && n > 3 {
						continue
					}
					r, err := agreeOn(n, map[int]failing{first: a, second: b})
					name := fmt.Sprintf("%d ranks: %s on %d, %s on %d", n, a.name, first, b.name, second)
					require.NoError(t, err, name)
					if a.leaves && b.leaves || n == 2 && (a.leaves || b.leaves) {
						continue
					}
					// Two that call different things may find that before anything else.
					require.True(t, a.want(r, first) || b.want(r, second) || r.Reason == comm.ReasonMismatch ||
						r.Reason == comm.ReasonClosed, "%s: %+v", name, r)
				}
			}
		}
	}
}

// TestRandomFailures has many communicators end by random ranks in random ways at
// random times, in the middle of calls.
func TestRandomFailures(t *testing.T) {
	seed := testSeed(t)
	rng := rand.New(rand.NewPCG(seed, 1))
	rounds := 60
	if testLong {
		rounds = 3000
	}
	all := failings()
	for round := range rounds {
		n := 2 + rng.IntN(5)
		ways := map[int]failing{}
		for range 1 + rng.IntN(n) {
			k := all[rng.IntN(len(all))]
			fail, calls, pause := k.fail, rng.IntN(4), time.Duration(rng.IntN(300))*time.Microsecond
			k.fail = func(c *comm.Communicator) error {
				for range calls {
					if err := AllReduce(context.Background(), c, make([]int8, 3), make([]int8, 3), kernels.Sum); err != nil {
						return err
					}
				}
				time.Sleep(pause)
				return fail(c)
			}
			ways[rng.IntN(n)] = k
		}
		_, err := agreeOn(n, ways)
		require.NoError(t, err, "seed %d, round %d", seed, round)
	}
}

// TestManyRanks: more than fit in a word.
func TestManyRanks(t *testing.T) {
	for _, commit := range []bool{false, true} {
		opts := []comm.Option{}
		if commit {
			opts = append(opts, comm.WithCommit())
		}
		const n = 70
		r, err := agreeOn(n, map[int]failing{67: failings()[1]}, opts...)
		require.NoError(t, err)
		require.Equal(t, 67, r.Origin)
		cs := local(t, n, opts...)
		require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error { return Barrier(context.Background(), c) })...))
	}
}

// agreementProgram waits in a loop of calls for what happens, and reports its record.
// By a signal it fails. Once it runs, a call has WEFT_TEST_DEADLINE.
func agreementProgram() error {
	starved := ranktest.Gauge()
	deadline, err := time.ParseDuration(os.Getenv("WEFT_TEST_DEADLINE"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c, err := comm.Init(context.Background())
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	aborted := make(chan struct{})
	go func() {
		<-signals
		if os.Getenv("WEFT_TEST_WAY") == "abort" {
			c.Abort(errors.New("disk full"))
		} else {
			cancel()
		}
		close(aborted)
	}()
	for k := 0; err == nil; k++ {
		call, done := ctx, context.CancelFunc(func() {})
		if k == 20 {
			fmt.Println("running")
		}
		if k >= 20 {
			call, done = context.WithTimeout(ctx, deadline)
		}
		err = AllReduce(call, c, make([]int8, 9), make([]int8, 9), kernels.Sum)
		done()
	}
	r, err := stays(c, err)
	if err != nil {
		return err
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	fmt.Printf("record %s;\n", line)
	err = c.Close()
	fmt.Printf("starved for %d ms\n", starved().Milliseconds())
	return err
}

// recordIn reads the record that a rank reported.
func recordIn(t *testing.T, r *ranktest.Rank, d time.Duration) reportedRecord {
	t.Helper()
	require.NoError(t, r.WaitFor(";\n", d))
	_, line, _ := strings.Cut(r.Output(), "record ")
	line, _, _ = strings.Cut(line, ";\n")
	var record reportedRecord
	require.NoError(t, json.Unmarshal([]byte(line), &record), r.Output())
	return record
}

// TestOneRecordProcesses kills or stops a rank, or rank 0, which registers failures,
// in the moment in which another fails.
func TestOneRecordProcesses(t *testing.T) {
	var limit = make(chan struct{}, 4)
	for n := 2; n <= 5; n++ {
		for origin := range n {
			for _, tt := range []struct {
				victim int
				how    syscall.Signal
				way    string // "": the origin is the victim
			}{
				{origin, syscall.SIGKILL, ""}, {origin, syscall.SIGSTOP, ""},
				{0, syscall.SIGKILL, "abort"}, {0, syscall.SIGSTOP, "cancel"}, {n - 1, syscall.SIGKILL, "cancel"},
				{n - 1, syscall.SIGSTOP, "abort"},
			} {
				if tt.way != "" && (tt.victim == origin || n == 2) || raceEnabled && n != 3 {
					continue
				}
				t.Run(fmt.Sprintf("ranks=%d/origin=%d/%s/%v=%d", n, origin, tt.way, tt.how, tt.victim), func(t *testing.T) {
					t.Parallel()
					limit <- struct{}{}
					defer func() { <-limit }()
					deadline := "20s"
					if tt.way == "" && tt.how == syscall.SIGSTOP {
						deadline = "1s"
					}
					j := ranktest.Start(t, n, "agreement", "WEFT_TEST_WAY="+tt.way, "WEFT_TEST_DEADLINE="+deadline)
					for _, r := range j.Ranks {
						require.NoError(t, r.WaitFor("running", 30*time.Second))
					}
					hit := []func(){func() { j.Ranks[tt.victim].Signal(tt.how) }}
					if tt.way != "" {
						hit = append(hit, func() { j.Ranks[origin].Signal(syscall.SIGUSR1) })
					}
					rand.Shuffle(len(hit), func(a, b int) { hit[a], hit[b] = hit[b], hit[a] })
					for _, f := range hit {
						f()
						time.Sleep(time.Duration(rand.IntN(1500)) * time.Microsecond)
					}
					var first *reportedRecord
					for r, rank := range j.Ranks {
						if r == tt.victim {
							continue
						}
						record := recordIn(t, rank, 20*time.Second)
						require.NoError(t, rank.Wait(20*time.Second), rank.Output())
						if record.Isolated { // on a machine this busy a rank may be too slow to answer
							t.Logf("rank %d was excluded", r)
							record.Isolated, record.Text = false, strings.TrimSuffix(record.Text, "; "+comm.ErrIsolated.Error())
						}
						if first == nil {
							first = &record
						}
						require.Equal(t, *first, record, "rank %d", r)
					}
					if tt.way == "" {
						require.Contains(t, first.Ranks, tt.victim)
						return
					}
					require.True(t, first.Origin == origin && (first.Reason == comm.ReasonAbort || first.Reason == comm.ReasonCanceled) ||
						slices.Contains(first.Ranks, tt.victim), "%+v", first)
				})
			}
		}
	}
}

// stop stops a rank, and returns when it stands still.
func stop(t *testing.T, r *ranktest.Rank) {
	t.Helper()
	require.NoError(t, r.Signal(syscall.SIGSTOP))
	require.Eventually(t, func() bool {
		stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", r.Cmd.Process.Pid))
		if err != nil || len(stats) == 0 {
			return false
		}
		for _, path := range stats {
			b, err := os.ReadFile(path)
			if _, state, ok := strings.Cut(string(b), ") "); err != nil || !ok || state[0] != 'T' {
				return false
			}
		}
		return true
	}, 10*time.Second, time.Millisecond)
}

// TestIsolated: a rank that was stopped, and goes on when the others have ended the
// communicator without it, hears why, and that it was excluded.
func TestIsolated(t *testing.T) {
	for n := 2; n <= 4; n++ {
		for victim := range n {
			for _, way := range []string{"", "abort"} {
				if raceEnabled && n != 3 {
					continue
				}
				t.Run(fmt.Sprintf("ranks=%d/victim=%d/%s", n, victim, way), func(t *testing.T) {
					t.Parallel()
					ranktest.UnlessStarved(t, func() (time.Duration, error) { return isolate(t, n, victim, way) })
				})
			}
		}
	}
}

// isolate makes the job of TestIsolated.
func isolate(t *testing.T, n, victim int, way string) (starved time.Duration, wrong error) {
	j := ranktest.Start(t, n, "agreement", "WEFT_TEST_WAY="+way, "WEFT_TEST_DEADLINE=1s")
	for _, r := range j.Ranks {
		require.NoError(t, r.WaitFor("running", time.Minute))
	}
	stop(t, j.Ranks[victim])
	if way != "" {
		require.NoError(t, j.Ranks[(victim+1)%n].Signal(syscall.SIGUSR1))
	}
	var others reportedRecord
	for r, rank := range j.Ranks {
		if r != victim {
			if others = recordIn(t, rank, 20*time.Second); others.Isolated {
				wrong = fmt.Errorf("rank %d was excluded: %+v", r, others)
			}
		}
	}
	require.NoError(t, j.Ranks[victim].Signal(syscall.SIGCONT))
	record := recordIn(t, j.Ranks[victim], 20*time.Second)
	for r, rank := range j.Ranks {
		require.NoError(t, rank.Wait(20*time.Second), rank.Output())
		if r != victim {
			starved = max(starved, milliseconds(t, rank.Output(), "starved for"))
		}
	}
	if wrong != nil {
		return starved, wrong
	}
	if !record.Isolated {
		return starved, fmt.Errorf("the victim was not excluded: %+v", record)
	}
	require.Equal(t, others.Text+"; "+comm.ErrIsolated.Error(), record.Text)
	record.Isolated, record.Text = false, others.Text
	require.Equal(t, others, record)
	return starved, nil
}

// TestFabricErrorTravels: the phase that failed for good on one rank is in the error
// of all.
func TestFabricErrorTravels(t *testing.T) {
	for _, commit := range []bool{false, true} {
		for n := 2; n <= 4; n++ {
			for dead := range n {
				opts := []comm.Option{comm.WithTransport("fabric:fast"), comm.WithAlgorithm("allreduce:multimem"), comm.WithReroute(false),
					comm.WithFaults(fmt.Sprintf("dead=%d>*@30", dead)), comm.WithTimeout(20 * time.Second)}
				if commit {
					opts = append(opts, comm.WithCommit())
				}
				cs := local(t, n, opts...)
				records := make([]reportedRecord, n)
				calls := make([]int, n)
				require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error {
					x := make([]float32, 4096)
					var err error
					for err == nil && calls[c.Rank()] < 500 {
						calls[c.Rank()]++
						err = AllReduce(context.Background(), c, x, x, kernels.Sum)
					}
					records[c.Rank()], err = stays(c, err)
					return err
				})...))
				for r := range n {
					require.NotNil(t, records[r].Fabric)
					require.Equal(t, dead, records[r].Fabric.Rank)
					require.Equal(t, comm.ReasonFailed, records[r].Reason)
					require.Equal(t, records[0], records[r])
					if commit {
						require.Equal(t, calls[0], calls[r], "one call, one outcome")
						require.EqualValues(t, calls[r], records[r].Seq)
					}
				}
			}
		}
	}
}

// commitForms make a call with a context, and wait until it has ended.
var commitForms = []struct {
	name string
	make func(ctx context.Context, c *comm.Communicator, k testCall) error
}{
	{"blocking", func(ctx context.Context, c *comm.Communicator, k testCall) error {
		o := k.op(c)
		return o.run(ctx)
	}},
	{"started", func(ctx context.Context, c *comm.Communicator, k testCall) error {
		return start(ctx, k.op(c)).Wait(context.Background())
	}},
	{"persistent", func(ctx context.Context, c *comm.Communicator, k testCall) error {
		p, err := newPersistent(k.op(c))
		if err != nil {
			return err
		}
		return p.Run(ctx)
	}},
	{"started persistent", func(ctx context.Context, c *comm.Communicator, k testCall) error {
		p, err := newPersistent(k.op(c))
		if err != nil {
			return err
		}
		return p.Start(ctx).Wait(context.Background())
	}},
	{"group", func(ctx context.Context, c *comm.Communicator, k testCall) error {
		return Group(ctx, c, func(g *GroupCalls) error { g.add(k.op(c)); return nil })
	}},
	{"started group", func(ctx context.Context, c *comm.Communicator, k testCall) error {
		return StartGroup(ctx, c, func(g *GroupCalls) error { g.add(k.op(c)); return nil }).Wait(context.Background())
	}},
}

// TestCommit: a call that one rank gives up fails on all, also on those that need
// nothing of that rank; in every form.
func TestCommit(t *testing.T) {
	ctx := context.Background()
	gone, cancel := context.WithCancel(ctx)
	cancel()
	for _, form := range commitForms {
		for n := 2; n <= 4; n++ {
			for loser := 1; loser < n; loser++ {
				// The root of a Broadcast waits for nobody.
				call := broadcasted(int32s, 10, 0)
				for _, on := range []string{"world", "split", "dup"} {
					cs := local(t, n, comm.WithCommit())
					errs := each(cs, func(c *comm.Communicator) error {
						d, err := c, error(nil)
						switch on {
						case "split":
							d, err = c.Split(ctx, 0, 0)
						case "dup":
							d, err = c.Dup(ctx)
						}
						if err != nil {
							return err
						}
						if err := form.make(ctx, d, call); err != nil {
							return err
						}
						mine := ctx
						if c.Rank() == loser {
							mine = gone
						}
						err = form.make(mine, d, call)
						if err == nil {
							return fmt.Errorf("success")
						}
						r, err := stays(d, err)
						if err == nil && (r.Origin != loser || r.Reason != comm.ReasonCanceled) {
							err = fmt.Errorf("%+v", r)
						}
						return err
					})
					require.NoError(t, errors.Join(errs...), "%s, %d ranks, rank %d, %s", form.name, n, loser, on)
				}
			}
		}
	}
}

// TestCommitRandom cancels random ranks in random calls: each call has one outcome.
func TestCommitRandom(t *testing.T) {
	seed := testSeed(t)
	rounds := 40
	if testLong {
		rounds = 2000
	}
	rng := rand.New(rand.NewPCG(seed, 2))
	for round := range rounds {
		n := 2 + rng.IntN(4)
		transportName := []string{"pointer", "fabric:fast"}[rng.IntN(2)]
		cs, err := comm.Local(n, comm.WithCommit(), comm.WithTimeout(20*time.Second), comm.WithTransport(transportName))
		require.NoError(t, err)
		well := make([][2]int, n) // calls that went well, on the communicator and on its duplicate
		losers := map[int]time.Duration{}
		for range 1 + rng.IntN(2) {
			losers[rng.IntN(n)] = time.Duration(rng.IntN(3000)) * time.Microsecond
		}
		first := rng.IntN(2)
		errs := each(cs, func(c *comm.Communicator) error {
			d, err := c.Dup(context.Background())
			if err != nil {
				return err
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			if after, loses := losers[c.Rank()]; loses {
				time.AfterFunc(after, cancel)
			}
			both := []*comm.Communicator{c, d}
			k := 0
			for ; err == nil; k++ {
				which := (first + k) % 2
				form := commitForms[k/2%len(commitForms)]
				if err = form.make(ctx, both[which], broadcasted(int32s, 1+k%5000, k%n)); err == nil {
					well[c.Rank()][which]++
				}
			}
			// The other ends as well, so that nobody is left in it.
			for _, x := range both {
				x.Abort(errors.New("over"))
			}
			_, err = reported(err)
			return err
		})
		require.NoError(t, errors.Join(errs...), "seed %d, round %d", seed, round)
		for r := range n {
			require.Equal(t, well[0], well[r], "seed %d, round %d: ranks 0 and %d", seed, round, r)
		}
		each(cs, func(c *comm.Communicator) error { return c.Close() })
	}
}

// TestCommitMismatch: the vote finds that ranks made different calls, of which each
// went well.
func TestCommitMismatch(t *testing.T) {
	ctx := context.Background()
	for n := 2; n <= 5; n++ {
		for odd := range n {
			cs := local(t, n, comm.WithCommit())
			for r, err := range each(cs, func(c *comm.Communicator) error {
				x := []int8{}
				if c.Rank() == odd {
					return Broadcast(ctx, c, x, 0)
				}
				return AllReduce(ctx, c, x, x, kernels.Sum)
			}) {
				require.ErrorIs(t, err, comm.ErrMismatch, "%d ranks, odd %d, rank %d", n, odd, r)
				require.ErrorContains(t, err, fmt.Sprintf("rank %d: Broadcast #1", odd))
				require.ErrorContains(t, err, "AllReduce #1")
			}
		}
	}
}

// TestCommitDeadline: a rank that does not come is named, although the others'
// parts of the call are done.
func TestCommitDeadline(t *testing.T) {
	for late := 1; late < 3; late++ {
		cs := local(t, 3, comm.WithCommit(), comm.WithTimeout(200*time.Millisecond))
		some := false
		for r, err := range each(cs, func(c *comm.Communicator) error {
			if c.Rank() == late {
				return nil
			}
			return Gather(context.Background(), c, make([]int8, 0), make([]int8, 0), 0)
		}) {
			if r == late {
				continue
			}
			some = some || errors.Is(err, context.DeadlineExceeded)
			require.ErrorContains(t, err, fmt.Sprintf("gave up waiting for rank %d", late)+" (rank ")
		}
		require.True(t, some)
	}
}

// TestCommitProcesses: where real processes are killed in the middle of calls, the
// others' calls have one outcome each.
func TestCommitProcesses(t *testing.T) {
	for n := 3; n <= 5; n++ {
		for victim := range n {
			if raceEnabled && n != 3 {
				continue
			}
			t.Run(fmt.Sprintf("ranks=%d/victim=%d", n, victim), func(t *testing.T) {
				j := ranktest.Start(t, n, "commit", "WEFT_COMMIT=1")
				for _, r := range j.Ranks {
					require.NoError(t, r.WaitFor("running", 30*time.Second))
				}
				time.Sleep(time.Duration(rand.IntN(5000)) * time.Microsecond)
				require.NoError(t, j.Ranks[victim].Signal(syscall.SIGKILL))
				calls := -1
				for r, rank := range j.Ranks {
					if r == victim {
						continue
					}
					require.NoError(t, rank.Wait(20*time.Second), rank.Output())
					_, text, _ := strings.Cut(rank.Output(), "calls ")
					text, _, _ = strings.Cut(text, " ")
					k, err := strconv.Atoi(text)
					require.NoError(t, err, rank.Output())
					if calls < 0 {
						calls = k
					}
					require.Equal(t, calls, k, "rank %d", r)
					require.Contains(t, rank.Output(), fmt.Sprintf("rank %d is dead", victim))
				}
			})
		}
	}
}

// commitProgram counts the calls that go well. The root needs nobody.
func commitProgram() error {
	c, err := comm.Init(context.Background())
	if err != nil {
		return err
	}
	k := 0
	for ; ; k++ {
		if k == 20 {
			fmt.Println("running")
		}
		if err = Broadcast(context.Background(), c, make([]int64, 100), k%c.Size()); err != nil {
			break
		}
	}
	fmt.Printf("calls %d well, then %v\n", k, err)
	return c.Close()
}
