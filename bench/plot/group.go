package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weft-go/weft/bench/internal/record"
)

// A chart is one collective on a number of ranks with one type.
type chart struct {
	coll   string
	ranks  int
	typ    string
	series []*series
}

// A series is the times of one library.
type series struct {
	name   string
	ours   bool
	points []point // by size
}

type point struct {
	bytes     int64
	us        float64
	spreadPct float64

	// Of a library that took turns with ours: its time by ours, as that run has
	// it, and the series that ours belongs to.
	ratio   float64
	ratioTo string
}

// order is that of the collectives in what is made.
var order = []string{"allreduce", "broadcast", "alltoall", "reduce", "allgather", "reducescatter", "gather", "scatter", "scan", "barrier"}

// group puts lines in charts: times out of place, or in place where there is
// nothing else. A peer that was measured along is a series of its own; of
// several points at one size the one with the least spread counts, so that a
// run that was disturbed does not.
func group(lines []record.Line) []*chart {
	outOfPlace := map[string]bool{} // by collective
	for _, l := range lines {
		if !l.InPlace {
			outOfPlace[l.Coll] = true
		}
	}
	var charts []*chart
	for i := range lines {
		l := &lines[i]
		if l.InPlace && outOfPlace[l.Coll] || l.P50US <= 0 {
			continue
		}
		c := chartOf(&charts, l)
		c.add(seriesName(l), l.Library == "weft", point{bytes: l.Bytes, us: l.P50US, spreadPct: l.SpreadPct})
		if l.PeerP50US != nil && *l.PeerP50US > 0 {
			p := point{bytes: l.Bytes, us: *l.PeerP50US}
			if l.PeerSpreadPct != nil {
				p.spreadPct = *l.PeerSpreadPct
			}
			if l.Ratio != nil {
				p.ratio, p.ratioTo = *l.Ratio, seriesName(l)
			}
			c.add(l.Peer+sameProcess, false, p)
		}
	}
	for _, c := range charts {
		for _, s := range c.series {
			slices.SortFunc(s.points, func(a, b point) int { return cmp.Compare(a.bytes, b.bytes) })
		}
		slices.SortStableFunc(c.series, func(a, b *series) int {
			return cmp.Or(cmp.Compare(rank(b.ours), rank(a.ours)), cmp.Compare(a.name, b.name))
		})
	}
	slices.SortStableFunc(charts, func(a, b *chart) int {
		return cmp.Or(cmp.Compare(a.ranks, b.ranks), cmp.Compare(slices.Index(order, a.coll), slices.Index(order, b.coll)), cmp.Compare(a.typ, b.typ))
	})
	return charts
}

// sameProcess marks times of a peer that was measured with ours, block by block.
const sameProcess = ", same process"

// brief is the chart without what would crowd the overview: single algorithms,
// and measurements of a library alone where there is one of it next to ours.
func (c *chart) brief() *chart {
	b := *c
	b.series = nil
	for _, s := range c.series {
		along := slices.ContainsFunc(c.series, func(o *series) bool { return o.name == s.name+sameProcess })
		if !along && !strings.HasSuffix(s.name, ", ring") && !strings.HasSuffix(s.name, ", tree") {
			b.series = append(b.series, s)
		}
	}
	return &b
}

func rank(b bool) int {
	if b {
		return 1
	}
	return 0
}

func chartOf(charts *[]*chart, l *record.Line) *chart {
	for _, c := range *charts {
		if c.coll == l.Coll && c.ranks == l.Ranks && c.typ == l.Type {
			return c
		}
	}
	c := &chart{coll: l.Coll, ranks: l.Ranks, typ: l.Type}
	*charts = append(*charts, c)
	return c
}

// seriesName names whose times a line has: what ran goes into it only where it
// was asked for, since what is chosen may change with the size.
func seriesName(l *record.Line) string {
	if l.Library != "weft" {
		return l.Library
	}
	name := "weft"
	if l.Memory == "symmetric" {
		name += ", symmetric memory"
	}
	if program, _, _ := strings.Cut(l.Env.Command, " "); program == "ring" || program == "tree" {
		name += ", " + program
	}
	if l.Form != "blocking" {
		name += ", " + l.Form
	}
	if l.Warm {
		name += ", warm"
	}
	return name
}

func (c *chart) add(name string, ours bool, p point) {
	i := slices.IndexFunc(c.series, func(s *series) bool { return s.name == name })
	if i < 0 {
		i = len(c.series)
		c.series = append(c.series, &series{name: name, ours: ours})
	}
	s := c.series[i]
	for j := range s.points {
		if s.points[j].bytes == p.bytes {
			if p.spreadPct < s.points[j].spreadPct {
				s.points[j] = p
			}
			return
		}
	}
	s.points = append(s.points, p)
}

func (c *chart) title() string {
	title := fmt.Sprintf("%s, %d ranks", c.coll, c.ranks)
	if c.typ != "float" {
		title += ", " + c.typ
	}
	return title
}

func (c *chart) file() string {
	name := fmt.Sprintf("%s-%dranks", c.coll, c.ranks)
	if c.typ != "float" {
		name += "-" + c.typ
	}
	return name
}
