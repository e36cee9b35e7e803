package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weft-go/weft/bench/internal/record"
)

// markdown is a page with a table for each chart: median times, with their
// spread, and for other libraries how many times ours, the first series, is faster.
func markdown(charts []*chart, lines []record.Line) string {
	var b strings.Builder
	b.WriteString("# Results\n\nMedian time of a call ± spread, in µs; in parentheses by how much weft, the first column, is\n" +
		"faster (above 1) or slower (below), as found in the same process where there is one. Out of\n" +
		"place, but for Broadcast and Barrier. How this is measured, and what it is worth:\n" +
		"[README](../README.md).\n")
	b.WriteString("\n## Where\n\n")
	for _, e := range environments(lines) {
		fmt.Fprintf(&b, "- %s\n", e)
	}
	for _, c := range charts {
		fmt.Fprintf(&b, "\n## %s\n\n| size |", c.title())
		for _, s := range c.series {
			fmt.Fprintf(&b, " %s |", s.name)
		}
		b.WriteString("\n|--:|" + strings.Repeat("--:|", len(c.series)) + "\n")
		for _, size := range c.sizes() {
			fmt.Fprintf(&b, "| %s |", sizeText(size))
			ours := c.series[0].at(size)
			for i, s := range c.series {
				p := s.at(size)
				switch {
				case p == nil:
					b.WriteString(" – |")
				case i == 0 || ours == nil || !c.series[0].ours:
					fmt.Fprintf(&b, " %s ± %.0f %% |", number(p.us), p.spreadPct)
				default:
					ratio := p.us / ours.us
					if p.ratioTo == c.series[0].name {
						ratio = p.ratio
					}
					fmt.Fprintf(&b, " %s ± %.0f %% (%s) |", number(p.us), p.spreadPct, number(ratio))
				}
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

// number has three significant digits.
func number(x float64) string {
	switch {
	case x >= 100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}

func (c *chart) sizes() []int64 {
	var all []int64
	for _, s := range c.series {
		for _, p := range s.points {
			all = append(all, p.bytes)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (s *series) at(bytes int64) *point {
	for i := range s.points {
		if s.points[i].bytes == bytes {
			return &s.points[i]
		}
	}
	return nil
}

// environments lists what the lines were measured on and with, once each.
func environments(lines []record.Line) []string {
	var all []string
	for _, l := range lines {
		e := l.Env
		text := fmt.Sprintf("%s: %d ranks on %s (%d cores, ranks on %s), Linux %s", l.Library, l.Ranks, e.Machine, e.Cores, e.Affinity, e.Kernel)
		if e.Go != "" {
			text += ", " + e.Go
		}
		if e.MPI != "" && e.MPI != "none" {
			text += ", MPI: " + e.MPI
		}
		text += fmt.Sprintf(", weft %s: `%s`", e.Revision, e.Command)
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}
