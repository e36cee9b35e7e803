package main

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/weft-go/weft/bench/internal/record"
)

// An interval is a value and how far around it another run's may be.
type interval struct {
	value     float64
	spreadPct float64 // of the value
}

// agrees says whether the two have a point in common.
func (a interval) agrees(b interval) bool {
	reach := (a.value*a.spreadPct + b.value*b.spreadPct) / 100
	return math.Abs(a.value-b.value) <= reach
}

// A pair is one thing in both runs.
type pair struct{ a, b interval }

// A row is what both runs have of one key.
type row struct {
	key    record.Key
	times  pair
	ratios *pair // nil if a run has none, or none with a spread
	turns  []float64
	means  [2]float64 // times, µs
}

// A comparison is all that two runs have in common, in the order of the first.
type comparison struct {
	rows         []row
	onlyA, onlyB int // rows that the other has not
}

// compare pairs lines with equal keys; of several in one run the last counts.
func compare(a, b []record.Line) comparison {
	of := func(lines []record.Line) map[record.Key]*record.Line {
		m := map[record.Key]*record.Line{}
		for i := range lines {
			m[lines[i].Key()] = &lines[i]
		}
		return m
	}
	inA, inB := of(a), of(b)
	c := comparison{onlyB: len(inB)}
	for i := range a {
		key := a[i].Key()
		la, lb := inA[key], inB[key]
		switch {
		case la != &a[i]: // a later one counts
		case lb == nil:
			c.onlyA++
		default:
			c.onlyB--
			c.rows = append(c.rows, row{
				key: key, times: pair{timeOf(la), timeOf(lb)}, ratios: ratiosOf(la, lb),
				turns: turnsOf(la, lb), means: [2]float64{la.MeanUS, lb.MeanUS},
			})
		}
	}
	return c
}

func timeOf(l *record.Line) interval { return interval{l.P50US, l.SpreadPct} }

// ratiosOf returns nil if a ratio has no spread, which takes several cycles of
// both libraries.
func ratiosOf(a, b *record.Line) *pair {
	if a.Ratio == nil || b.Ratio == nil || a.RatioSpreadPct == nil || b.RatioSpreadPct == nil {
		return nil
	}
	return &pair{interval{*a.Ratio, *a.RatioSpreadPct}, interval{*b.Ratio, *b.RatioSpreadPct}}
}

// turns are B's time by A's in each of the cycles in which the two took turns, nil if
// they did not.
func turnsOf(a, b *record.Line) []float64 {
	if len(a.CycleUS) == 0 || len(a.CycleUS) != len(b.CycleUS) {
		return nil
	}
	var r []float64
	for i, t := range a.CycleUS {
		r = append(r, b.CycleUS[i]/t)
	}
	slices.Sort(r)
	return r
}

// printTurns writes a line for each row whose cycles are of one number in both.
func (c comparison) printTurns(w io.Writer, nameA, nameB string) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "# A: %s\n# B: %s\n", nameA, nameB)
	fmt.Fprintln(b, "#                                                   time (us)             B by A in the same cycle      mean (us)")
	fmt.Fprintln(b, "#        coll ranks         size place          A            B     median    least     most         A            B")
	for _, r := range c.rows {
		if r.turns == nil {
			continue
		}
		place := "out"
		if r.key.InPlace {
			place = "in"
		}
		n := len(r.turns)
		fmt.Fprintf(b, "%13s %5d %12d %5s %10.2f %12.2f %10.2f %8.2f %8.2f %10.2f %12.2f\n", r.key.Coll, r.key.Ranks, r.key.Bytes, place,
			r.times.a.value, r.times.b.value, middle(r.turns), r.turns[0], r.turns[n-1], r.means[0], r.means[1])
	}
	return b.Flush()
}

// print writes a line for each row, and then how many agree.
func (c comparison) print(w io.Writer, nameA, nameB string) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "# A: %s\n# B: %s\n", nameA, nameB)
	fmt.Fprintln(b, "#                                                                  time (us)                                 peer's time by ours")
	fmt.Fprintln(b, "#        coll ranks         size      type     op place          A      (%)          B      (%) agree         A     (%)         B     (%) agree")
	var times, ratios []pair
	for _, r := range c.rows {
		k := r.key
		place := "out"
		if k.InPlace {
			place = "in"
		}
		times = append(times, r.times)
		line := fmt.Sprintf("%13s %5d %12d %9s %6s %5s %s", k.Coll, k.Ranks, k.Bytes, k.Type, k.Op, place, r.times.text(10, 7))
		if r.ratios != nil {
			ratios = append(ratios, *r.ratios)
			line += "  " + r.ratios.text(8, 6)
		}
		// What most runs have in common is not worth columns.
		for _, more := range []struct {
			is   bool
			text string
		}{{k.Library != "weft", k.Library}, {k.Memory == "symmetric", k.Memory}, {k.Form != "blocking", k.Form}, {k.Root >= 0, fmt.Sprint("root ", k.Root)}, {k.Warm, "warm"}} {
			if more.is {
				line += "  " + more.text
			}
		}
		fmt.Fprintln(b, line)
	}
	if c.onlyA > 0 || c.onlyB > 0 {
		fmt.Fprintf(b, "# %d rows are only in A, %d only in B\n", c.onlyA, c.onlyB)
	}
	fmt.Fprintf(b, "# times: %s\n", verdict(times))
	if len(ratios) == 0 {
		fmt.Fprintf(b, "# ratios: none with a spread; that takes -N and a peer in the same process\n")
	} else {
		fmt.Fprintf(b, "# ratios: %s\n", verdict(ratios))
	}
	return b.Flush()
}

// text is both values, both spreads, and whether they agree.
func (p pair) text(valueWidth, spreadWidth int) string {
	s := ""
	for _, i := range []interval{p.a, p.b} {
		pct := fmt.Sprintf("±%.1f", i.spreadPct)
		s += fmt.Sprintf("%*.2f %s%s ", valueWidth, i.value, strings.Repeat(" ", max(0, spreadWidth+1-len([]rune(pct)))), pct)
	}
	if p.a.agrees(p.b) {
		return s + "  yes"
	}
	return s + "   NO"
}

// verdict counts the pairs that agree, and says how much that means: large
// spreads agree with anything.
func verdict(pairs []pair) string {
	agree := 0
	var spreads, apart []float64
	for _, p := range pairs {
		if p.a.agrees(p.b) {
			agree++
		}
		spreads = append(spreads, p.a.spreadPct, p.b.spreadPct)
		if mean := (p.a.value + p.b.value) / 2; mean > 0 {
			apart = append(apart, 100*math.Abs(p.a.value-p.b.value)/mean)
		}
	}
	return fmt.Sprintf("%d of %d rows agree (half of the spreads are below ±%.1f %%, half of the rows differ by less than %.1f %%)",
		agree, len(pairs), middle(spreads), middle(apart))
}

func middle(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/2]
}
