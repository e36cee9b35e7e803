package collectives

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/internal/ranktest"
	"github.com/weft-go/weft/transport"
)

// oneKind is a program of calls of one collective, in one batch.
func oneKind(seed uint64, n int, kind comm.Collective, steps int) soakScript {
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	p := &metaProgram{n: n, ends: []int{steps}}
	for i := range steps {
		p.draw(r, kind, false, i > 0)
	}
	return soakScript{p, p.reference()}
}

// deadLinks are links that die.
var deadLinks = [][]string{{"0>1"}, {"1>0"}, {"2>1", "0>2"}, {"*>2"}}

// deadWays are how they die, and what ways there are around them.
var deadWays = []struct {
	aliases []int // of these, one after the other; none: of all at once
	ways    []comm.Way
	used    []comm.Way
}{
	{nil, []comm.Way{comm.ByAlias, comm.ByPointer, comm.ByChannel}, []comm.Way{comm.ByPointer}},
	{nil, []comm.Way{comm.ByChannel}, []comm.Way{comm.ByChannel}},
	{[]int{0}, []comm.Way{comm.ByAlias}, []comm.Way{comm.ByAlias}},
	{[]int{0, 1}, []comm.Way{comm.ByAlias, comm.ByPointer}, []comm.Way{comm.ByAlias, comm.ByPointer}},
	{nil, []comm.Way{comm.ByPointer}, []comm.Way{comm.ByPointer}},
	{[]int{0, 1}, []comm.Way{comm.ByAlias, comm.ByChannel}, []comm.Way{comm.ByAlias, comm.ByChannel}},
}

// deadPlan has links die at a phase, the second alias some phases later.
func deadPlan(links []string, aliases []int, phase int) string {
	var dead []string
	for _, l := range links {
		if len(aliases) == 0 {
			dead = append(dead, fmt.Sprintf("%s@%d", l, phase))
		}
		for _, a := range aliases {
			dead = append(dead, fmt.Sprintf("%s/%d@%d", l, a, phase+60*a))
		}
	}
	return "dead=" + strings.Join(dead, ";")
}

// requireWays wants what went another way to have gone by the given ones only, and by
// each of them.
func requireWays(t *testing.T, n soakCount, used []comm.Way) {
	t.Helper()
	for w, count := range map[comm.Way]uint64{comm.ByAlias: n.Alias, comm.ByPointer: n.Pointer, comm.ByChannel: n.Reroutes - n.Alias - n.Pointer} {
		require.Equal(t, slices.Contains(used, w), count > 0, "%s: %+v", w, n)
	}
}

// TestFabricDeadLink has links die for good in the middle of each collective in each
// form: what can't go over them goes around them, by each of the ways, and the results
// are exact.
func TestFabricDeadLink(t *testing.T) {
	const n, steps = 3, 12
	seed := metaSeed(t)
	at := []int{0, 1, 2, 5, 9, 20}
	reroutes, ways := make([]uint64, len(metaForms)), make([]soakCount, len(deadWays))
	for i, kind := range metaKinds {
		t.Run(kind.String(), func(t *testing.T) {
			tally := soakTally{}
			for form := range metaForms {
				var plans []string
				which := (i + 2*form) % len(deadWays)
				how := deadWays[which]
				for j, k := range at {
					if testLong || j == (i+form)%len(at) {
						plans = append(plans, deadPlan(deadLinks[(i+form+j)%len(deadLinks)], how.aliases, k))
					}
				}
				if raceEnabled && form%4 != i%4 {
					continue
				}
				for _, plan := range plans {
					seed := seed + uint64(1000*i+10*form)
					p := oneKind(seed, n, kind, steps)
					log := filepath.Join(t.TempDir(), "faults")
					cs, err := comm.Local(n, comm.WithTransport([]string{"fabric", "fabric:fast"}[form%2]), comm.WithTimeout(time.Minute),
						comm.WithRerouteBy(how.ways...), comm.WithFaults(fmt.Sprintf("seed=%d,rate=0.02,%s", seed, plan)), comm.WithFaultLog(log))
					require.NoError(t, err)
					tallies := make([]soakTally, n)
					err = errors.Join(each(cs, func(c *comm.Communicator) error {
						s, err := newSoakRank(c, plan, log, seed)
						if err == nil {
							err = s.program(context.Background(), c, p, form)
						}
						if err == nil {
							err = s.memory.checkAll()
						}
						if err != nil {
							c.Abort(err)
						}
						tallies[c.Rank()] = s.tally
						return errors.Join(err, c.Close(), s.log.Close())
					})...)
					require.NoError(t, err, "seed %d, %s, %s", seed, metaForms[form].name, plan)
					for _, part := range tallies {
						tally.addAll(part)
						reroutes[form] += part.sum().Reroutes
						ways[which].add(part.sum())
					}
				}
			}
			require.NotZero(t, tally.sum().Reroutes)
		})
	}
	for form, n := range reroutes {
		require.NotZero(t, n, metaForms[form].name)
	}
	for which, n := range ways {
		requireWays(t, n, deadWays[which].used)
	}
}

// agreed says that all ranks find in what they get the error of the one whose phase
// failed. Now they all get its text; that rank alone finds it, unless it learns of it
// from another one first.
const agreed = true

// TestFabricDeadLinkProcesses has the same between processes.
func TestFabricDeadLinkProcesses(t *testing.T) {
	const n = 3
	seed := metaSeed(t)
	at := []int{0, 1, 20, 70}
	for i, k := range at {
		if !testLong && uint64(i) != seed%uint64(len(at)) {
			continue
		}
		for j, transport := range []string{"fabric", "fabric:fast"} {
			how := deadWays[(i+3*j)%len(deadWays)]
			plan := fmt.Sprintf("seed=%d,rate=0.02,", seed) + deadPlan(deadLinks[i], how.aliases, k)
			ways := ""
			for _, w := range how.ways {
				ways += "," + string(w)
			}
			t.Run(transport+"/"+plan, func(t *testing.T) {
				j := startSoak(t, n, 6*soakSteps, seed, "mixture", transport, plan, "", "WEFT_REROUTE="+ways[1:])
				requireWays(t, soaked(t, j).sum(), how.used)
			})
		}
	}
}

// requireFailed wants the errors that ranks get when one fails in a way that is told
// by an error of type E.
func requireFailed[E error](t *testing.T, errs []error, text string) {
	t.Helper()
	found := 0
	for r, err := range errs {
		require.ErrorIs(t, err, comm.ErrAborted, "rank %d: %s", r, text)
		if _, ok := errors.AsType[E](err); ok {
			found++
		}
	}
	require.NotZero(t, found, "%s: %v", text, errs)
	if agreed {
		require.Equal(t, len(errs), found, "%s: %v", text, errs)
	}
}

// TestFabricNoReroute has links die where there are no detours: every rank gets the
// error within the deadline, can close, and holds nothing any more.
func TestFabricNoReroute(t *testing.T) {
	const n, deadline = 3, 20 * time.Second
	seed := metaSeed(t)
	fail := func(t *testing.T, seed uint64, i, k int) {
		kind := metaKinds[i]
		p := oneKind(seed, n, kind, 16)
		plan := fmt.Sprintf("seed=%d,rate=0.02,dead=*>%d@%d", seed, i%n, k)
		cs, err := comm.Local(n, comm.WithTransport([]string{"fabric", "fabric:fast"}[i%2]), comm.WithTimeout(deadline), comm.WithFaults(plan), comm.WithReroute(false))
		require.NoError(t, err)
		begin := time.Now()
		errs := each(cs, func(c *comm.Communicator) error {
			s := &soakRank{world: c, own: rand.New(rand.NewPCG(seed, uint64(c.Rank())))}
			for round := 0; ; round++ {
				if err := s.batch(context.Background(), c, p, 0, len(p.steps), round%len(metaForms)); err != nil {
					return err
				}
			}
		})
		text := fmt.Sprintf("seed %d, %v, %s", seed, kind, plan)
		require.Less(t, time.Since(begin), deadline, text)
		requireFailed[*transport.FabricError](t, errs, text)
		for r, err := range each(cs, func(c *comm.Communicator) error { return Barrier(context.Background(), c) }) {
			require.ErrorIs(t, err, comm.ErrAborted, "rank %d: %s", r, text)
		}
		begin = time.Now()
		require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error { return c.Close() })...), text)
		require.Less(t, time.Since(begin), 10*time.Second, text)
	}
	fail(t, seed, 0, 10) // what is made once is there
	held := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	goroutines, bytes := runtime.NumGoroutine(), held()
	for i, kind := range metaKinds {
		t.Run(kind.String(), func(t *testing.T) {
			for j, k := range []int{0, 1, 7, 30} {
				if testLong || j == i%4 {
					fail(t, seed+uint64(10*i+j), i, k)
				}
			}
		})
	}
	// One is that of the condition.
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= goroutines+1 }, 10*time.Second, 10*time.Millisecond, "goroutines stay")
	// Each communicator had 64 MiB on each rank.
	require.Eventually(t, func() bool { return held() < bytes+64<<20 }, 10*time.Second, 10*time.Millisecond, "memory stays")
}

// TestFabricNoRerouteProcesses has the same between processes, for everything that a
// program may be in: for a part of it in turn, for all with WEFT_TEST_LONG=1.
func TestFabricNoRerouteProcesses(t *testing.T) {
	seed := metaSeed(t)
	for which, k := range loopCalls {
		if k.name == "Split" { // nothing of it goes over the fabric
			continue
		}
		if !testLong && (uint64(which)+seed)%4 != 0 {
			continue
		}
		n := 2 + which%3
		t.Run(fmt.Sprintf("%s/ranks=%d", k.name, n), func(t *testing.T) {
			t.Parallel()
			plan := fmt.Sprintf("seed=%d,rate=0.02,dead=*>%d@300", seed, which%n)
			j := ranktest.Start(t, n, "failure", fmt.Sprintf("WEFT_TEST_CALL=%d", which), "WEFT_TRANSPORT=fabric:fast", "WEFT_FAULTS="+plan,
				"WEFT_REROUTE=0", "WEFT_TIMEOUT=20s")
			found := 0
			for _, rank := range j.Ranks {
				require.NoError(t, rank.Wait(30*time.Second), rank.Output())
				require.Regexp(t, "aborted=true.* after .* attempts", rank.Output(), plan)
				require.Less(t, milliseconds(t, rank.Output(), "failed after"), 20*time.Second, rank.Output())
				require.Less(t, milliseconds(t, rank.Output(), "closed after"), 9*time.Second, rank.Output())
				found += strings.Count(rank.Output(), "fabric=true")
			}
			if agreed {
				require.Equal(t, n, found, plan)
			}
			require.Empty(t, j.Leftovers())
		})
	}
}

// TestFabricKilledRank kills a rank in the middle of everything while every tenth
// phase fails: the others name it, and end well. WEFT_TEST_LONG=1 has all of it, and
// every number of ranks.
func TestFabricKilledRank(t *testing.T) {
	seed := metaSeed(t)
	for which, k := range loopCalls {
		for n := 2; n <= 5; n++ {
			if !testLong && (n != 2+which%4 || (uint64(which/4)+seed)%4 != 0) {
				continue
			}
			if k.name == "computing" && n > 2 {
				continue // ranks that take the processors from each other get nowhere
			}
			victim := which % n
			t.Run(fmt.Sprintf("%s/ranks=%d/rank=%d", k.name, n, victim), func(t *testing.T) {
				t.Parallel()
				j := startLoop(t, n, which, "WEFT_TRANSPORT="+[]string{"fabric:fast", "fabric"}[which%2], fmt.Sprintf("WEFT_FAULTS=seed=%d,rate=0.1", seed))
				require.NoError(t, j.Ranks[victim].Signal(syscall.SIGKILL))
				for r, rank := range j.Ranks {
					if r == victim {
						continue
					}
					require.NoError(t, rank.Wait(20*time.Second), rank.Output())
					require.Regexp(t, fmt.Sprintf(`dead=true .*rank %d is dead`, victim), rank.Output())
					require.Less(t, milliseconds(t, rank.Output(), "closed after"), 9*time.Second, rank.Output())
				}
				require.NoError(t, ignoreKill(j.Ranks[victim].Wait(10*time.Second)))
				require.Empty(t, j.Leftovers())
			})
		}
	}
}

// TestFabricRenewed has lanes use more slots than they begin with: they are renewed, and
// messages go on by the fabric.
func TestFabricRenewed(t *testing.T) {
	const n, count = 2, 8000 // nearly a slot
	seed := metaSeed(t)
	for _, reroute := range []bool{true, false} {
		for _, mode := range []string{"fabric", "fabric:fast"} {
			if raceEnabled && reroute != (mode == "fabric") { // each once
				continue
			}
			t.Run(fmt.Sprintf("%s/reroute=%v", mode, reroute), func(t *testing.T) {
				cs := local(t, n, comm.WithTransport(mode), comm.WithTimeout(time.Minute), comm.WithReroute(reroute),
					comm.WithFaults(fmt.Sprintf("seed=%d,rate=0.5", seed)))
				require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error {
					me := int64(c.Rank())
					x, all := make([]int64, count), make([]int64, n*count)
					for k := range int64(1000) {
						for i := range x {
							x[i] = k + int64(i) + me<<32
						}
						if err := AllGather(context.Background(), c, all, x); err != nil {
							return err
						}
						for i, got := range all {
							if want := k + int64(i%count) + int64(i/count)<<32; got != want {
								return fmt.Errorf("call %d: element %d is %d, not %d", k, i, got, want)
							}
						}
					}
					stats, err := c.Stats()
					if err != nil {
						return err
					}
					// 48 MiB are less than 350 slots of lanes and mail lanes at each rank.
					if s := stats[1-me]; s.Replaced < 400 || s.Reroutes.All() != 0 {
						return fmt.Errorf("not renewed: %+v", s)
					}
					return nil
				})...), "seed %d", seed)
			})
		}
	}
}
