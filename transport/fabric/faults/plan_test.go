package faults

import (
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/transport"
)

func TestParse(t *testing.T) {
	const counted = 1<<transport.OpPutCounted | 1<<transport.OpPutCountedMultimem | 1<<transport.OpRedCounted
	for _, c := range []struct {
		text string
		want Plan
	}{
		{"", Plan{}},
		{"seed=0", Plan{}},
		{"seed=18446744073709551615", Plan{Seed: math.MaxUint64}},
		{"rate=0.01,seed=7", Plan{Seed: 7, Rate: 0.01}},
		{"rate=1e-4", Plan{Rate: 1e-4}},
		{"rate=1", Plan{Rate: 1}},
		{"rate=-0", Plan{}},
		{"kinds=late", Plan{Kinds: 1 << Late}},
		{"kinds=part+drop+part", Plan{Kinds: 1<<Drop | 1<<Part}},
		{"kinds=late+part+ack+drop", Plan{}},
		{"ops=put", Plan{Ops: 1<<transport.OpPut | 1<<transport.OpPutMasked | 1<<transport.OpPutMultimem}},
		{"ops=counted", Plan{Ops: counted}},
		{"ops=red", Plan{Ops: 1<<transport.OpRed | 1<<transport.OpRedCounted | 1<<transport.OpRedMultimem}},
		{"ops=red+counted", Plan{Ops: counted | 1<<transport.OpRed | 1<<transport.OpRedMultimem}},
		{"ops=get+pullred+atom", Plan{Ops: 1<<transport.OpGet | 1<<transport.OpPullRed | 1<<transport.OpAtom}},
		{"ops=put+counted+get+pullred+red+atom", Plan{}},
		{"links=0>1", Plan{Links: []Link{{0, 1}}}},
		{"links=2>*;0>1;0>m;2>*", Plan{Links: []Link{{0, Multicast}, {0, 1}, {2, Any}}}},
		{"links=0>1;*>*", Plan{}},
		{"links=2147483647>0", Plan{Links: []Link{{math.MaxInt32, 0}}}},
		{"from=100,to=900", Plan{From: 100, To: 900}},
		{"to=900,from=899", Plan{From: 899, To: 900}},
		{"burst=1", Plan{}},
		{"burst=4096", Plan{Burst: 4096}},
		{"dead=0>1@500", Plan{Dead: []DeadLink{{Link{0, 1}, 0, 500}}}},
		{"dead=0>m/1@7;0>1/0@500;0>1@9", Plan{Dead: []DeadLink{{Link{0, Multicast}, 2, 7}, {Link{0, 1}, 0, 9}, {Link{0, 1}, 1, 500}}}},
		{"dead=*>3@0;0>1@500;0>1@5", Plan{Dead: []DeadLink{{Link{Any, 3}, 0, 0}, {Link{0, 1}, 0, 5}, {Link{0, 1}, 0, 500}}}},
		{"seed=7,rate=0.01,kinds=drop+ack+part+late,ops=put+counted+get+pullred+red,links=0>1;2>*,from=100,to=900,burst=5,dead=0>1@500",
			Plan{Seed: 7, Rate: 0.01, Ops: AllOps &^ (1 << transport.OpAtom), Links: []Link{{0, 1}, {2, Any}},
				From: 100, To: 900, Burst: 5, Dead: []DeadLink{{Link{0, 1}, 0, 500}}}},
	} {
		p, err := Parse(c.text)
		require.NoError(t, err, c.text)
		require.Equal(t, c.want, p, c.text)
		back, err := Parse(p.String())
		require.NoError(t, err, c.text)
		require.Equal(t, p, back, c.text)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ text, field, why string }{
		{",", "", "nothing before or after a comma"},
		{"seed=1,", "", "nothing before or after a comma"},
		{"seed=1,,rate=1", "", "nothing before or after a comma"},
		{" seed=1", " seed", "no such field"},
		{"speed=1", "speed", "no such field"},
		{"SEED=1", "SEED", "no such field"},
		{"seed", "seed", "no value"},
		{"seed=", "seed", "no value"},
		{"seed=1,seed=1", "seed", "stands twice"},
		{"seed=-1", "seed", "not a number"},
		{"seed=+1", "seed", "not a number"},
		{"seed=0x10", "seed", "not a number"},
		{"seed=1_0", "seed", "not a number"},
		{"seed=1=1", "seed", "not a number"},
		{"seed=18446744073709551616", "seed", "not a number"},
		{"rate=1.5", "rate", "not between 0 and 1"},
		{"rate=-0.1", "rate", "not between 0 and 1"},
		{"rate=1e999", "rate", "not a decimal"},
		{"rate=NaN", "rate", "not a decimal"},
		{"rate=inf", "rate", "not a decimal"},
		{"rate=0x1p-4", "rate", "not a decimal"},
		{"rate=1%", "rate", "not a decimal"},
		{"kinds=dead", "kinds", `"dead" is none of`},
		{"kinds=none", "kinds", `"none" is none of`},
		{"kinds=drop+", "kinds", `"" is none of`},
		{"kinds=drop;ack", "kinds", `"drop;ack" is none of`},
		{"ops=put+puts", "ops", `"puts" is none of`},
		{"ops=counted put", "ops", `"counted put" is none of`},
		{"links=0", "links", `"0" is not a link`},
		{"links=0>1;", "links", `"" is not a link`},
		{"links=0>1>2", "links", `"0>1>2" is not a link`},
		{"links=0>-1", "links", `"0>-1" is not a link`},
		{"links=m>0", "links", `"m>0" is not a link`},
		{"links=0>2147483648", "links", "is not a link"},
		{"from=x", "from", "not a number"},
		{"to=0", "to", "less than 1"},
		{"from=9,to=9", "to", "not above from=9"},
		{"to=8,from=9", "to", "not above from=9"},
		{"burst=0", "burst", "less than 1"},
		{"burst=4097", "burst", "not between 1 and 4096"},
		{"burst=18446744073709551615", "burst", "not between 1 and 4096"},
		{"dead=0>1", "dead", `"0>1" is not a link and a phase`},
		{"dead=@5", "dead", `"@5" is not a link and a phase`},
		{"dead=0>1@", "dead", `"0>1@" is not a link and a phase`},
		{"dead=0>1@2@3", "dead", `"0>1@2@3" is not a link and a phase`},
		{"dead=0>1/@2", "dead", `"0>1/@2" is not a link and a phase`},
		{"dead=0>1/*@2", "dead", `"0>1/*@2" is not a link and a phase`},
		{"dead=0>1/2147483647@2", "dead", `"0>1/2147483647@2" is not a link and a phase`},
		{"links=0>1/0", "links", `"0>1/0" is not a link`},
	} {
		p, err := Parse(c.text)
		var planErr *PlanError
		require.ErrorAs(t, err, &planErr, c.text)
		require.Equal(t, c.field, planErr.Field, c.text)
		require.Contains(t, planErr.Why, c.why, c.text)
		require.ErrorContains(t, err, c.field)
		require.Equal(t, Plan{}, p, c.text)
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		field string
		plan  Plan
	}{
		{"", Plan{}},
		{"", Plan{Rate: 1, Kinds: AllKinds, Ops: AllOps, Links: []Link{{Any, Any}, {0, Multicast}}, To: 1, Burst: 1}},
		{"rate", Plan{Rate: math.NaN()}},
		{"rate", Plan{Rate: math.Inf(1)}},
		{"rate", Plan{Rate: math.Nextafter(1, 2)}},
		{"rate", Plan{Rate: -math.SmallestNonzeroFloat64}},
		{"kinds", Plan{Kinds: Kinds(Dead)}},
		{"kinds", Plan{Kinds: Kinds(Drop, None)}},
		{"ops", Plan{Ops: Ops(transport.OpPut)}},
		{"ops", Plan{Ops: Ops(transport.OpRedCounted)}},
		{"ops", Plan{Ops: AllOps + 1}},
		{"links", Plan{Links: []Link{{Multicast, 0}}}},
		{"links", Plan{Links: []Link{{0, 1}, {0, -3}}}},
		{"to", Plan{From: 5, To: 5}},
		{"burst", Plan{Burst: -1}},
		{"burst", Plan{Burst: MaxBurst + 1}},
		{"dead", Plan{Dead: []DeadLink{{Link{-3, 0}, 0, 0}}}},
		{"dead", Plan{Dead: []DeadLink{{Link{0, 1}, -1, 0}}}},
	} {
		err := c.plan.Validate()
		in, errNew := New(c.plan)
		require.Equal(t, err, errNew)
		if c.field == "" {
			require.NoError(t, err)
			require.NotNil(t, in)
			continue
		}
		var planErr *PlanError
		require.ErrorAs(t, err, &planErr, "%+v", c.plan)
		require.Equal(t, c.field, planErr.Field)
		require.Nil(t, in)
	}
}

// TestString goes through random valid plans, written in code rather than read.
func TestString(t *testing.T) {
	const seed = 5
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 5000 {
		p := randomPlan(rng)
		require.NoError(t, p.Validate(), "seed %d", seed)
		before := p
		back, err := Parse(p.String())
		require.NoError(t, err, "seed %d: %s", seed, p)
		require.Equal(t, p.normal(), back, "seed %d", seed)
		require.Equal(t, p.String(), back.String(), "seed %d", seed)
		require.Equal(t, before, p, "String changed the plan")
		a, errA := New(p)
		b, errB := New(back)
		require.NoError(t, errA)
		require.NoError(t, errB)
		require.Equal(t, a, b)
	}
}

func randomPlan(rng *rand.Rand) Plan {
	rank := func(least int) int { return least + rng.IntN(5-least) }
	p := Plan{
		Seed:  rng.Uint64() >> rng.IntN(65),
		Rate:  []float64{0, 1, rng.Float64(), rng.Float64() * 1e-9, math.SmallestNonzeroFloat64}[rng.IntN(5)],
		Kinds: KindSet(rng.IntN(16)) << 1,
		From:  rng.Uint64N(100),
		Burst: rng.IntN(MaxBurst + 1),
	}
	for _, g := range opGroups {
		if rng.IntN(2) == 0 {
			p.Ops |= g.set
		}
	}
	if rng.IntN(2) == 0 {
		p.To = p.From + 1 + rng.Uint64N(100)
	}
	for range rng.IntN(4) {
		p.Links = append(p.Links, Link{rank(Any), rank(Multicast)})
	}
	for range rng.IntN(4) {
		p.Dead = append(p.Dead, DeadLink{Link{rank(Any), rank(Multicast)}, rng.IntN(3), rng.Uint64N(3)})
	}
	return p
}

// TestOpGroups: every operation has a name in the grammar, counted reds have two.
func TestOpGroups(t *testing.T) {
	for k := transport.OpPut; k <= transport.OpAtom; k++ {
		names := 0
		for _, g := range opGroups {
			if g.set.Has(k) {
				names++
			}
		}
		want := 1
		if k == transport.OpRedCounted {
			want = 2
		}
		require.Equal(t, want, names, "%v", k)
	}
	require.Equal(t, Ops(transport.OpAtom), Ops(transport.OpAtom, transport.OpAtom+1), "unknown kinds are in no set")
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"", "seed=7,rate=0.01", "kinds=drop+ack+part+late,ops=put+counted+get+pullred+red", "links=0>1;2>*;*>m",
		"from=100,to=900,burst=5", "dead=0>1@500;*>2@0", "rate=1e-300,seed=18446744073709551615", "rate=,burst==", "links=>",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse(text)
		if err != nil {
			var planErr *PlanError
			require.ErrorAs(t, err, &planErr)
			require.NotEmpty(t, planErr.Why)
			return
		}
		require.NoError(t, p.Validate())
		canonical := p.String()
		back, err := Parse(canonical)
		require.NoError(t, err)
		require.True(t, reflect.DeepEqual(p, back), "%q → %q → %q", text, canonical, back)
		require.Equal(t, canonical, back.String())
		require.NotContains(t, strings.ToLower(canonical), "nan")
		in, err := New(p)
		require.NoError(t, err)
		in.Decide(Link{0, 1}, 0, 500, AllOps)
	})
}

// TestFits: plans name ranks of the job, wherever in them.
func TestFits(t *testing.T) {
	for _, c := range []struct {
		plan  string
		ranks int // least that it is for
	}{
		{"", 1}, {"rate=1", 1}, {"links=*>m", 1}, {"links=*>*;0>m", 1}, {"links=0>1", 2}, {"links=0>*;*>3", 4},
		{"links=5>0", 6}, {"dead=*>m@5", 1}, {"dead=0>1@3;2>m@7", 3}, {"links=0>1,dead=0>7@3", 8},
	} {
		p, err := Parse(c.plan)
		require.NoError(t, err)
		for ranks := 1; ranks < 10; ranks++ {
			err := p.Fits(ranks)
			if ranks >= c.ranks {
				require.NoError(t, err, "%q, %d ranks", c.plan, ranks)
				continue
			}
			var wrong *PlanError
			require.ErrorAs(t, err, &wrong, "%q, %d ranks", c.plan, ranks)
			require.Contains(t, []string{"links", "dead"}, wrong.Field)
		}
	}
	p, err := Parse("links=0>9")
	require.NoError(t, err)
	require.EqualError(t, p.Fits(4), "fault plan: links=0>9: there is no rank 9, ranks are 0 to 3")
	for _, text := range []string{"links=0>1;1>1", "dead=2>2@0"} {
		p, err := Parse(text)
		require.NoError(t, err)
		require.ErrorContains(t, p.Fits(4), "a rank has no link to itself", text)
	}
}
