package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tableShape is a shape as memory of one node has it.
func tableShape(c Collective, ranks int) Shape {
	message := 65520
	if ranks > 5 {
		message = max(1<<10, (1<<20/((ranks-1)*4))/256*256) - 16
	}
	return Shape{Collective: c, Ranks: ranks, ElemBytes: 4, MessageBytes: message, Cells: 4}
}

// Every collective has an algorithm for every number of ranks and bytes, and it
// can be built.
func TestTableHasNoHole(t *testing.T) {
	ranks := sizes()
	if raceDetector || testing.Short() {
		ranks = []int{1, 2, 3, 5, 8}
	}
	if raceDetector { // nothing happens at the same time
		ranks = []int{3}
	}
	spec, err := ParseSpec("ring") // nothing that all have
	require.NoError(t, err)
	for _, c := range Collectives() {
		for _, n := range ranks {
			options := []TableOptions{{}, {Multicast: MappedMulticast, Topology: Spread(n, 2)}, {Spec: spec}}
			if n > 9 {
				options = options[:1]
			}
			for _, o := range options {
				s := tableShape(c, n)
				table, err := NewTable(DefaultModel(), s, o)
				require.NoError(t, err)
				checkBands(t, table, c, o)
				for _, bytes := range tableBytes(table) {
					name := table.Choose(bytes)
					a, ok := Lookup(c, name)
					require.True(t, ok, "%d bytes: %q", bytes, name)
					require.True(t, o.Multicast != NoMulticast || !a.Multicast)
					if bytes > 1<<16 && (bytes < 1<<30 || n != 2 && n != 5) {
						continue // the schedule is the same but longer
					}
					if s.Count = bytes / s.ElemBytes; c == Barrier {
						s.Count = 0
					}
					_, err := Build(name, s, n-1)
					for tooLong := new(*LengthError); errors.As(err, tooLong) && s.Count > 1<<20; {
						s.Count /= 2 // callers divide such calls
						_, err = Build(name, s, n-1)
					}
					require.NoError(t, err, "%d bytes among %d", bytes, n)
				}
			}
		}
	}
}

// checkBands checks that a table goes from 0 upwards.
func checkBands(t *testing.T, table *Table, c Collective, o TableOptions) {
	t.Helper()
	bands := table.Bands()
	require.NotEmpty(t, bands)
	require.Zero(t, bands[0].FromBytes)
	for i := 1; i < len(bands); i++ {
		require.Greater(t, bands[i].FromBytes, bands[i-1].FromBytes, table)
		require.NotEqual(t, bands[i].Algorithm, bands[i-1].Algorithm, table)
	}
	for i, b := range bands {
		require.Equal(t, b.Algorithm, table.Choose(b.FromBytes))
		if i > 0 {
			require.Equal(t, bands[i-1].Algorithm, table.Choose(b.FromBytes-1))
		}
		require.Contains(t, table.String(), b.Algorithm)
	}
	require.LessOrEqual(t, len(bands), len(Algorithms(c))+2, "to and fro: %v", table)
}

// tableBytes are sizes from 0 to 2^30, and those around thresholds.
func tableBytes(table *Table) []int {
	all := []int{0, 1, 3, 12345, 1 << 30}
	for k := 2; k <= 30; k++ {
		all = append(all, 1<<k-1, 1<<k, 1<<k+4)
	}
	for _, b := range table.Bands() {
		all = append(all, max(0, b.FromBytes-1), b.FromBytes, b.FromBytes+1)
	}
	return all
}

// What a table chooses is hardly slower than anything else.
func TestTableChoosesTheFastest(t *testing.T) {
	if raceDetector {
		t.Skip("nothing happens at the same time")
	}
	m := DefaultModel()
	for _, c := range Collectives() {
		for _, n := range []int{2, 4, 7} {
			s := tableShape(c, n)
			table, err := NewTable(m, s, TableOptions{})
			require.NoError(t, err)
			for bytes := 4; bytes <= 1<<26; bytes *= 8 {
				if s.Count = bytes / s.ElemBytes; c == Barrier {
					s.Count = 0
				}
				chosen, err := m.Estimate(table.Choose(bytes), s, nil)
				require.NoError(t, err)
				for _, name := range Algorithms(c) {
					if a, _ := Lookup(c, name); a.Multicast {
						continue
					}
					ns, err := m.Estimate(name, s, nil)
					require.NoError(t, err)
					require.LessOrEqual(t, chosen, ns*1.08, "%v of %d bytes among %d: %s, not %s", c, bytes, n, table.Choose(bytes), name)
				}
			}
		}
	}
}

// Equal arguments give equal tables: ranks must not differ.
func TestTableIsDeterministic(t *testing.T) {
	for _, n := range []int{3, 8} {
		a, err := NewTable(DefaultModel(), tableShape(AllReduce, n), TableOptions{})
		require.NoError(t, err)
		b, err := NewTable(DefaultModel(), tableShape(AllReduce, n), TableOptions{})
		require.NoError(t, err)
		require.Equal(t, a, b)
	}
}

// With very many ranks a table is still made in bounded time.
func TestTableOfManyRanks(t *testing.T) {
	if raceDetector || testing.Short() {
		t.Skip("long")
	}
	for _, c := range []Collective{AllReduce, AllToAll} {
		table, err := NewTable(DefaultModel(), tableShape(c, 200), TableOptions{})
		require.NoError(t, err)
		checkBands(t, table, c, TableOptions{})
	}
	// Algorithms with a step for every pair of ranks are left out.
	names := affordable(Build, []string{"oneshot", "ring", "tree"}, tableShape(AllReduce, 1500))
	require.Equal(t, []string{"tree"}, names)
}

func TestTableOptions(t *testing.T) {
	m, s := DefaultModel(), tableShape(AllReduce, 4)
	only := func(text string, o TableOptions) []string {
		t.Helper()
		var err error
		o.Spec, err = ParseSpec(text)
		require.NoError(t, err)
		table, err := NewTable(m, s, o)
		require.NoError(t, err)
		var names []string
		for _, b := range table.Bands() {
			names = append(names, b.Algorithm)
		}
		return names
	}
	require.Equal(t, []string{"ring"}, only("allreduce:ring", TableOptions{}))
	require.Equal(t, []string{"multimem"}, only("multimem", TableOptions{Multicast: MappedMulticast}))
	require.NotContains(t, only("", TableOptions{}), "multimem")
	require.NotContains(t, only("multimem", TableOptions{}), "multimem", "a default list of what can't be used counts for nothing")
	require.NotContains(t, only("^twoshot", TableOptions{}), "twoshot")
	inOrder := only("", TableOptions{Allow: func(a Algorithm) bool { return a.RankOrder }})
	for _, name := range inOrder {
		a, _ := Lookup(AllReduce, name)
		require.True(t, a.RankOrder)
	}

	spec, err := ParseSpec("allreduce:multimem")
	require.NoError(t, err)
	_, err = NewTable(m, s, TableOptions{Spec: spec})
	require.ErrorContains(t, err, "allreduce:multimem allows nothing that can be used here")
	_, err = NewTable(m, s, TableOptions{Allow: func(Algorithm) bool { return false }})
	require.ErrorContains(t, err, "no algorithm for allreduce can be used")
	_, err = NewTable(m, Shape{Collective: 77, Ranks: 2}, TableOptions{})
	require.Error(t, err)
	s.MessageBytes = 0
	for _, text := range []string{"", "allreduce:ring"} {
		spec, err := ParseSpec(text)
		require.NoError(t, err)
		_, err = NewTable(m, s, TableOptions{Spec: spec})
		require.ErrorContains(t, err, "holds no element")
	}
}

func TestTableString(t *testing.T) {
	table := &Table{shape: Shape{Collective: Reduce, Ranks: 3}, bands: []Band{{0, "a"}, {4096, "b"}, {3 << 19, "c"}}}
	require.Equal(t, "reduce, 3 ranks: a < 4 KiB <= b < 1.5 MiB <= c", table.String())
	require.Equal(t, "a", table.Choose(-1))
	for n, text := range map[int]string{0: "0 B", 1023: "1023 B", 1024: "1 KiB", 65520: "64 KiB", 3 << 29: "1.5 GiB"} {
		require.Equal(t, text, FormatBytes(n))
	}
}

func TestParseSpec(t *testing.T) {
	for _, tc := range []struct{ text, canonical, allreduce, alltoall string }{
		{"", "", "*", "*"},
		{"  ", "", "*", "*"},
		{"ring,tree", "ring,tree", "ring tree", "*"},
		{" Ring , TREE ", "ring,tree", "ring tree", "*"},
		{"ring,ring", "ring", "ring", "*"},
		{"^ring", "^ring", "* but ring", "*"},
		{"^bruck", "^bruck", "*", "* but bruck"},
		{"ring;allreduce:tree", "ring;allreduce:tree", "tree", "*"},
		{"ring; AllReduce: ^tree,ring", "ring;allreduce:^tree,ring", "* but tree ring", "*"},
		{"alltoall:bruck;allreduce:ring", "allreduce:ring;alltoall:bruck", "ring", "bruck"},
		{"alltoall:^bruck", "alltoall:^bruck", "*", "* but bruck"},
	} {
		t.Run(tc.text, func(t *testing.T) {
			s, err := ParseSpec(tc.text)
			require.NoError(t, err)
			require.Equal(t, tc.canonical, s.String())
			for c, want := range map[Collective]string{AllReduce: tc.allreduce, AllToAll: tc.alltoall} {
				got, err := s.choose(c, Algorithms(c))
				require.NoError(t, err)
				var names []string
				include, exclude, _ := strings.Cut(want, " but ")
				for _, name := range Algorithms(c) {
					if (include == "*" || slices.Contains(strings.Fields(include), name)) && !slices.Contains(strings.Fields(exclude), name) {
						names = append(names, name)
					}
				}
				require.Equal(t, names, got, c)
			}
		})
	}
	all := strings.Join(Algorithms(AllToAll), ",")
	for _, tc := range []struct{ text, want string }{
		{"rign", `unknown algorithm "rign", known are oneshot, twoshot, ring`},
		{"allreduce:bruck", `unknown algorithm "bruck" for allreduce, known are oneshot`},
		{"allredcue:ring", `unknown collective "allredcue", known are allreduce, reduce, broadcast`},
		{"allreduce:ring;tree", `"tree" names no collective, as allreduce:tree would`},
		{"ring;tree", `"tree" names no collective`},
		{"allreduce:ring;allreduce:tree", "two lists for allreduce"},
		{"ring,^tree", `"^tree": only a whole list can be inverted`},
		{"^^ring", "only a whole list"},
		{"ring,,tree", "an empty name"},
		{"ring,", "an empty name"},
		{"^", "an empty name"},
		{";", "an empty name"},
		{"ring;", `"" names no collective`},
		{":ring", `unknown collective ""`},
		{"allreduce:", "an empty name in a list of algorithms for allreduce"},
		{"allreduce:ring:tree", `unknown algorithm "ring:tree"`},
		{"alltoall:^" + all, "leaves no algorithm for alltoall"},
		{"alltoall:ring", fmt.Sprintf("known are %s", strings.Join(Algorithms(AllToAll), ", "))},
	} {
		t.Run(tc.text, func(t *testing.T) {
			_, err := ParseSpec(tc.text)
			require.ErrorContains(t, err, tc.want)
		})
	}
	// A list for all that excludes everything a collective has leaves it alone.
	s, err := ParseSpec("^" + all)
	require.NoError(t, err)
	got, err := s.choose(AllToAll, Algorithms(AllToAll))
	require.NoError(t, err)
	require.Equal(t, Algorithms(AllToAll), got)
}

func FuzzParseSpec(f *testing.F) {
	for _, text := range []string{"", "ring,tree;allreduce:ring", "^tree;alltoall:^bruck", "allreduce:", ";;", "\xff:^,", "RING ; Reduce : tree"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSpec(text)
		if err != nil {
			require.Zero(t, s)
			require.True(t, strings.HasPrefix(err.Error(), "plan: "), err)
			return
		}
		again, err := ParseSpec(s.String())
		require.NoError(t, err, s.String())
		require.Equal(t, s, again)
		for _, c := range Collectives() {
			names, err := s.choose(c, Algorithms(c))
			require.NoError(t, err)
			require.NotEmpty(t, names)
		}
	})
}

func BenchmarkTable(b *testing.B) {
	for _, n := range []int{2, 4, 8, 16, 32, 64, 128} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				_, err := NewTable(DefaultModel(), tableShape(AllReduce, n), TableOptions{})
				require.NoError(b, err)
			}
		})
	}
}

// What reduces keeps rank order unless an algorithm is asked for by name, or all
// that keep it are excluded.
func TestSpecOptions(t *testing.T) {
	for _, c := range Collectives() {
		var ordered, others []string
		for _, name := range Algorithms(c) {
			if a, _ := Lookup(c, name); a.RankOrder {
				ordered = append(ordered, name)
			} else {
				others = append(others, name)
			}
		}
		chosen := func(text string) []string {
			s, err := ParseSpec(text)
			require.NoError(t, err)
			o := s.Options(c, MappedMulticast)
			names, err := o.candidates(c)
			require.NoError(t, err)
			return names
		}
		if !c.reduces() {
			require.Empty(t, ordered, c)
			require.Equal(t, others, chosen(""), c)
			continue
		}
		require.NotEmpty(t, ordered, c)
		require.Equal(t, ordered, chosen(""), c)
		require.Equal(t, ordered, chosen("^"+others[0]), c)
		require.Equal(t, others, chosen(fmt.Sprintf("%v:^%s", c, strings.Join(ordered, ","))), c)
		for _, name := range others {
			require.Equal(t, []string{name}, chosen(fmt.Sprintf("%v:%s", c, name)))
		}
	}
}

func TestSpecNames(t *testing.T) {
	s, err := ParseSpec("allreduce:multimem;broadcast:multimem,tree")
	require.NoError(t, err)
	require.False(t, s.Names(AllReduce, NoMulticast))
	require.True(t, s.Names(AllReduce, MappedMulticast))
	require.True(t, s.Names(Broadcast, NoMulticast))
	for text, want := range map[string][]Collective{
		"": nil, "^ring": nil, "bruck": {AllGather, AllToAll}, "bruck;allgather:^ring": {AllToAll}, "reduce:tree": {Reduce},
	} {
		s, err := ParseSpec(text)
		require.NoError(t, err)
		for _, c := range Collectives() {
			require.Equal(t, slices.Contains(want, c), s.Names(c, FabricMulticast), "%q, %v", text, c)
		}
	}
}
