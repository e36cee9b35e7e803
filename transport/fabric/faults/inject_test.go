package faults

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/transport"
)

func injector(t testing.TB, text string) *Injector {
	p, err := Parse(text)
	require.NoError(t, err)
	in, err := New(p)
	require.NoError(t, err)
	return in
}

// TestSplitMix has the known outputs for the seed 1234567.
func TestSplitMix(t *testing.T) {
	for i, want := range []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423} {
		require.Equal(t, want, splitMix(1234567, uint64(i)))
	}
}

// TestDecision has faults that another program computed, written from the
// package's page alone: plans must mean the same to all who implement them.
func TestDecision(t *testing.T) {
	for _, c := range []struct {
		plan string
		link Link
		want map[uint64]Fault // of phases 0…39
	}{
		{"seed=7,rate=0.1", Link{0, 1}, map[uint64]Fault{
			2: {Part, 9175642221985122935}, 16: {Ack, 15945793023953721238}, 21: {Part, 528951313234289498},
			29: {Drop, 2694937549417340417}, 30: {Late, 8533483640403623747}, 32: {Late, 11704232410900274373}}},
		{"seed=7,rate=0.1", Link{3, Multicast}, map[uint64]Fault{
			3: {Drop, 17146298948044360946}, 36: {Ack, 2867747925358764169}}},
		{"seed=7,rate=0.1,burst=3,from=5", Link{2, 0}, map[uint64]Fault{
			8: {Drop, 5419852927679553518}, 9: {Drop, 1336713494990069865}, 10: {Late, 10218025363179837247},
			15: {Late, 2307708666121282648}, 16: {Ack, 15420699684910582420}, 17: {Drop, 8069612315360088032},
			28: {Late, 18179454307821597352}, 29: {Ack, 4030791559400478375}, 30: {Drop, 14699704734593095314},
			32: {Ack, 16169531783295084551}, 33: {Late, 1293423255743797967}, 34: {Drop, 11193125544696044278}}},
	} {
		in := injector(t, c.plan)
		got := map[uint64]Fault{}
		for k := range uint64(40) {
			if f := in.Decide(c.link, 0, k, AllOps); f.Kind != None {
				got[k] = f
			}
		}
		require.Equal(t, c.want, got, "%s %v", c.plan, c.link)
	}
}

// near fails unless count, of n trials of probability p, is within five standard
// deviations of its mean.
func near(t *testing.T, count, n int, p float64, format string, args ...any) {
	t.Helper()
	mean, sigma := float64(n)*p, math.Sqrt(float64(n)*p*(1-p))
	require.InDelta(t, mean, float64(count), 5*sigma+1e-9, append([]any{format}, args...)...)
}

// TestRates: the share of faults, of their kinds, and of coincidences between
// phases, links and seeds is that of independent draws.
func TestRates(t *testing.T) {
	const n = 200_000
	ops := Ops(transport.OpPut)
	for _, rate := range []float64{0, 1e-4, 0.01, 0.3, 1} {
		for _, seed := range []uint64{0, 1, 2, 3, math.MaxUint64} {
			in, err := New(Plan{Seed: seed, Rate: rate})
			require.NoError(t, err)
			next, err := New(Plan{Seed: seed + 1, Rate: rate})
			require.NoError(t, err)
			var kinds [numKinds]int
			hits, inARow, onOther, reverse, otherSeed := 0, 0, 0, 0, 0
			last := false
			for k := range uint64(n) {
				f := in.Decide(Link{0, 1}, 0, k, ops)
				hit := f.Kind != None
				kinds[f.Kind]++
				if hit {
					hits++
					inARow += count(last)
					onOther += count(in.Decide(Link{0, 2}, 0, k, ops).Kind != None)
					reverse += count(in.Decide(Link{1, 0}, 0, k, ops).Kind != None)
					otherSeed += count(next.Decide(Link{0, 1}, 0, k, ops).Kind != None)
				}
				last = hit
			}
			near(t, hits, n, rate, "rate %v seed %d", rate, seed)
			for k := Drop; k <= Late; k++ {
				near(t, kinds[k], hits, 0.25, "%v, rate %v seed %d", k, rate, seed)
			}
			require.Zero(t, kinds[Dead])
			if rate < 1 {
				near(t, inARow, n, rate*rate, "two in a row, rate %v seed %d", rate, seed)
				near(t, onOther, n, rate*rate, "on two links, rate %v seed %d", rate, seed)
				near(t, reverse, n, rate*rate, "both ways, rate %v seed %d", rate, seed)
				near(t, otherSeed, n, rate*rate, "of two seeds, rate %v seed %d", rate, seed)
			}
		}
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestKindsOfPlan: all 15 sets of kinds are drawn from evenly, and nothing else is.
func TestKindsOfPlan(t *testing.T) {
	const n = 20_000
	for set := KindSet(2); set <= AllKinds; set += 2 {
		in, err := New(Plan{Seed: uint64(set), Rate: 1, Kinds: set})
		require.NoError(t, err)
		var got [numKinds]int
		size := 0
		for k := range uint64(n) {
			got[in.Decide(Link{1, 0}, 0, k, AllOps).Kind]++
		}
		for k := Drop; k <= Late; k++ {
			size += count(set.Has(k))
		}
		for k := None; k <= Dead; k++ {
			if set.Has(k) {
				near(t, got[k], n, 1/float64(size), "set %#x kind %v", set, k)
			} else {
				require.Zero(t, got[k], "set %#x kind %v", set, k)
			}
		}
	}
}

// TestFilters compares with the definition of each field, on all combinations of
// links and windows of a small world, for random plans of rate 1.
func TestFilters(t *testing.T) {
	const seed, ranks = 11, 4
	rng := rand.New(rand.NewPCG(seed, 0))
	hits, passes := 0, 0
	for range 300 {
		p := randomPlan(rng)
		p.Rate, p.Burst = 1, 1
		p.From %= 4
		if p.To != 0 {
			p.To = p.From + 1 + rng.Uint64N(4)
		}
		in, err := New(p)
		require.NoError(t, err)
		for from := range ranks {
			for to := Multicast; to < ranks; to++ {
				if to == Any {
					continue
				}
				covers := func(l Link) bool {
					return (l.From == from || l.From == Any) && (l.To == to || l.To == Any)
				}
				for phase := range uint64(10) {
					for op := transport.OpPut; op <= transport.OpAtom; op++ {
						want, alias := None, int(op)%3
						linked := len(p.Links) == 0
						for _, l := range p.Links {
							linked = linked || covers(l)
						}
						if linked && phase >= p.From && (p.To == 0 || phase < p.To) && (p.Ops == 0 || p.Ops.Has(op)) {
							want = Drop // or another
						}
						for _, d := range p.Dead {
							if covers(d.Link) && phase >= d.From && (d.Alias == 0 || d.Alias-1 == alias) {
								want = Dead
							}
						}
						got := in.Decide(Link{from, to}, alias, phase, Ops(op)).Kind
						if want == Drop {
							require.Contains(t, []Kind{Drop, Ack, Part, Late}, got, "seed %d: %s", seed, p)
						} else {
							require.Equal(t, want, got, "seed %d: %s %d>%d phase %d %v", seed, p, from, to, phase, op)
						}
						hits += count(got != None)
						passes += count(got == None)
					}
				}
			}
		}
	}
	require.NotZero(t, hits)
	require.NotZero(t, passes)
}

// TestOpsOfPhase: a phase is hit as soon as one of its operations is meant, and
// then as if all were.
func TestOpsOfPhase(t *testing.T) {
	all, some := injector(t, "seed=3,rate=0.5"), injector(t, "seed=3,rate=0.5,ops=get+counted")
	named := Ops(transport.OpGet, transport.OpPutCounted, transport.OpPutCountedMultimem, transport.OpRedCounted)
	for ops := range AllOps + 1 {
		want := Fault{}
		if ops&named != 0 {
			want = all.Decide(Link{0, 1}, 0, uint64(ops), AllOps)
		}
		require.Equal(t, want, some.Decide(Link{0, 1}, 0, uint64(ops), ops), "%#x", ops)
	}
	require.Equal(t, Fault{}, injector(t, "rate=1").Decide(Link{0, 1}, 0, 0, 0), "a phase without operations")
}

// TestBurst: exactly the phases up to burst−1 after a beginning are hit, whatever
// the operations at the beginning were, and none outside the bounds.
func TestBurst(t *testing.T) {
	const n = 3000
	for _, burst := range []int{1, 2, 5, 64} {
		for seed := range uint64(4) {
			p := Plan{Seed: seed, Rate: 0.01, From: 100, To: n - 100}
			single, err := New(p)
			require.NoError(t, err)
			p.Burst, p.Ops = burst, Ops(transport.OpGet)
			in, err := New(p)
			require.NoError(t, err)
			left, hits := 0, 0
			for k := range uint64(n) {
				if single.Decide(Link{0, 1}, 0, k, AllOps).Kind != None {
					left = burst
				}
				want := left > 0 && k >= p.From && k < p.To
				left--
				got := in.Decide(Link{0, 1}, 0, k, Ops(transport.OpGet))
				require.Equal(t, want, got.Kind != None, "burst %d seed %d phase %d", burst, seed, k)
				require.Equal(t, None, in.Decide(Link{0, 1}, 0, k, Ops(transport.OpPut)).Kind)
				hits += count(want)
			}
			require.NotZero(t, hits)
		}
	}
}

// TestBurstShare: bursts hit a share of 1−(1−rate)^burst, of all kinds.
func TestBurstShare(t *testing.T) {
	const n, rate, burst = 400_000, 0.01, 5
	in := injector(t, "seed=1,rate=0.01,burst=5")
	var kinds [numKinds]int
	for k := range uint64(n) {
		kinds[in.Decide(Link{4, 2}, 0, 1000+k, AllOps).Kind]++
	}
	// A burst's phases are not independent: the deviation is that of bursts.
	near(t, (n-kinds[None])/burst, n/burst, 1-math.Pow(1-rate, burst), "hits")
	for k := Drop; k <= Late; k++ {
		near(t, kinds[k], n-kinds[None], 0.25, "%v", k)
	}
}

func TestDead(t *testing.T) {
	in := injector(t, "rate=1,kinds=drop,ops=put,to=3,links=5>6,dead=0>1@500;2>*@0;*>3@7")
	for _, c := range []struct {
		link Link
		from uint64 // first dead phase
	}{
		{Link{0, 1}, 500}, {Link{0, Multicast}, math.MaxUint64}, {Link{1, 0}, math.MaxUint64}, {Link{0, 3}, 7},
		{Link{2, 3}, 0}, {Link{2, Multicast}, 0}, {Link{2, 0}, 0}, {Link{3, 3}, 7},
	} {
		for _, k := range []uint64{0, 1, 6, 7, 8, 499, 500, 501, 1 << 40, math.MaxUint64 - 1} {
			want := None
			if k >= c.from {
				want = Dead
			}
			f := in.Decide(c.link, 0, k, Ops(transport.OpAtom))
			require.Equal(t, want, f.Kind, "%v phase %d", c.link, k)
			require.Equal(t, want == Dead, f.Reported())
		}
	}
}

// TestLastPhases: nothing overflows at the end of the numbers.
func TestLastPhases(t *testing.T) {
	in := injector(t, "rate=1,burst=4096,from=18446744073709551610")
	for k := uint64(math.MaxUint64); k > math.MaxUint64-20; k-- {
		require.Equal(t, k >= 18446744073709551610, in.Decide(Link{math.MaxInt32, 0}, 0, k, AllOps).Reported())
	}
	near0 := injector(t, "rate=1e-9,burst=4096")
	for k := range uint64(10) {
		require.False(t, near0.Decide(Link{0, 1}, 0, k, AllOps).Reported())
	}
}

// TestOrderOfAsking: the answers are the same from another Injector, asked in
// another order, from several goroutines at once, about other links in between.
func TestOrderOfAsking(t *testing.T) {
	const seed, phases, ranks, askers = 21, 400, 4, 4
	for _, text := range []string{"seed=9,rate=0.2", "seed=9,rate=0.05,burst=7,from=30,to=350,dead=1>2@200"} {
		type question struct {
			link  Link
			phase uint64
		}
		want := map[question]Fault{}
		var questions []question
		first := injector(t, text)
		for from := range ranks {
			for to := range ranks {
				for k := range uint64(phases) {
					q := question{Link{from, to}, k}
					questions = append(questions, q)
					want[q] = first.Decide(q.link, 0, q.phase, AllOps)
				}
			}
		}
		second := injector(t, text)
		var wait sync.WaitGroup
		wrong := make([]int, askers)
		for a := range askers {
			wait.Go(func() {
				rng := rand.New(rand.NewPCG(seed, uint64(a)))
				for _, i := range rng.Perm(len(questions)) {
					q := questions[i]
					wrong[a] += count(second.Decide(q.link, 0, q.phase, AllOps) != want[q])
				}
			})
		}
		wait.Wait()
		require.Equal(t, make([]int, askers), wrong, "seed %d: %s", seed, text)
	}
}

// TestPlanIsCopied: an Injector does not follow later changes of its plan.
func TestPlanIsCopied(t *testing.T) {
	p := Plan{Rate: 1, Links: []Link{{0, 1}}, Dead: []DeadLink{{Link{2, 3}, 0, 0}}}
	in, err := New(p)
	require.NoError(t, err)
	p.Links[0], p.Dead[0].Link = Link{4, 4}, Link{4, 4}
	require.True(t, in.Decide(Link{0, 1}, 0, 0, AllOps).Reported())
	require.Equal(t, Dead, in.Decide(Link{2, 3}, 0, 0, AllOps).Kind)
	require.False(t, in.Decide(Link{4, 4}, 0, 0, AllOps).Reported())
}

func TestDecideAllocates(t *testing.T) {
	replay, err := NewReplay([]Record{{Link{0, 1}, 3, AllOps, Fault{Drop, 1}}})
	require.NoError(t, err)
	for name, d := range map[string]Decider{
		"injector": injector(t, "rate=0.1,burst=3,links=0>1;2>*,dead=1>2@500"),
		"recorder": NewRecorder(injector(t, "rate=0.1"), nil),
		"replay":   replay,
	} {
		var phase uint64
		allocs := testing.AllocsPerRun(2000, func() {
			d.Decide(Link{0, 1}, 0, phase, Ops(transport.OpPut, transport.OpGet)).When(2, 9)
			phase++
		})
		require.Zero(t, allocs, name)
	}
}

func BenchmarkDecide(b *testing.B) {
	for _, text := range []string{"", "rate=0.01", "rate=0.01,burst=5"} {
		b.Run("plan="+text, func(b *testing.B) {
			var d Decider = injector(b, text)
			var phase uint64
			for b.Loop() {
				d.Decide(Link{0, 1}, 0, phase, Ops(transport.OpPut))
				phase++
			}
		})
	}
}
