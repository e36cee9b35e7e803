package harness

import (
	"fmt"
	"io"
	"strings"

	"github.com/weft-go/weft/bench/internal/record"
	"github.com/weft-go/weft/kernels"
)

// A sheet is the table of one collective.
type sheet struct {
	coll      *collective
	entries   []*entry
	headed    bool  // whether the heading is printed
	sum       tally // of the rows that are
	use       usageTally
	peerWrong int64
}

// An entry is a row of a sheet, and what each cycle has measured of it.
type entry struct {
	typ      kernels.Type
	op       kernels.Op
	count    int64
	cycles   []result
	reported bool
}

// newSheets lists what is to be measured.
func newSheets(cfg *config, ranks int) []*sheet {
	var sheets []*sheet
	for _, coll := range cfg.colls {
		ops, types := coll.operators(cfg.ops), cfg.types
		if len(ops) == 0 {
			continue
		}
		if coll.kind == barrier {
			types = types[:1]
		}
		sh := &sheet{coll: coll, sum: tally{ranks: ranks}}
		for _, t := range types {
			for _, op := range ops {
				for _, count := range cfg.sizes.counts(coll, t.Size(), ranks) {
					sh.entries = append(sh.entries, &entry{typ: t, op: op, count: count})
				}
			}
		}
		sheets = append(sheets, sh)
	}
	return sheets
}

// merged is the row of all cycles so far.
func (s *job) merged(e *entry) result {
	r := e.cycles[0]
	if s.cfg.cycles > 1 {
		var out, in []*record.Line
		r.peerWrong = 0
		for _, c := range e.cycles {
			r.peerWrong += c.peerWrong
			if c.out != nil {
				out = append(out, c.out)
			}
			if c.in != nil {
				in = append(in, c.in)
			}
		}
		r.out, r.in = record.Merge(out), record.Merge(in)
	}
	if s.peer != nil && !s.peer.runs() {
		for _, l := range r.lines() {
			s.lookUp(l)
		}
	}
	return r
}

// report prints a row. If there is but one cycle it writes the lines too;
// otherwise save does.
func (s *job) report(sh *sheet, e *entry) error {
	r := s.merged(e)
	e.reported = true
	sh.sum.add(r.out)
	sh.sum.add(r.in)
	sh.use.add(r.out)
	sh.use.add(r.in)
	sh.peerWrong += r.peerWrong
	s.table().row(r.out, r.in)
	for _, l := range r.lines() {
		if s.cfg.verbose {
			explain(s.print, l)
		}
		if s.cfg.usage {
			explainUsage(s.print, l)
		}
		if s.cfg.cycles == 1 {
			if err := s.out.Write(l); err != nil {
				return err
			}
		}
	}
	return nil
}

func place(l *record.Line) string {
	if l.InPlace {
		return "in place"
	}
	return "out of place"
}

// explain prints how a line was measured.
func explain(w io.Writer, l *record.Line) {
	fmt.Fprintf(w, "#   %s: %d batches of %d calls, mean %.2f, p99 %.2f us", place(l), l.Batches, l.Batch, l.MeanUS, l.P99US)
	if l.Cycles > 0 {
		fmt.Fprintf(w, ", cycles %s", joined(l.CycleUS))
	}
	if len(l.PeerCycleUS) > 0 {
		fmt.Fprintf(w, ", the peer's %s", joined(l.PeerCycleUS))
	}
	fmt.Fprintln(w)
}

func joined(us []float64) string {
	words := make([]string, len(us))
	for i, x := range us {
		words[i] = fit(x, 7)
	}
	return strings.Join(words, " ")
}

// conclude prints what comes after the last row.
func (s *job) conclude(sh *sheet) {
	sh.sum.print(s.print)
	sh.use.print(s.print, s.peerName())
	printFaults(s.print, s.faults[sh.coll.name])
	if sh.peerWrong > 0 {
		fmt.Fprintf(s.print, "# The peer got %d elements wrong\n#\n", sh.peerWrong)
	}
}

// save writes the lines of all cycles so far.
func (s *job) save(last bool) error {
	var lines []*record.Line
	for _, sh := range s.sheets {
		for _, e := range sh.entries {
			if len(e.cycles) > 0 {
				lines = append(lines, s.merged(e).lines()...)
			}
		}
	}
	s.saved = last
	return s.out.Replace(lines, last)
}

// rest reports, after a failure, the rows of the cycles that were finished and
// are not reported yet.
func (s *job) rest() error {
	said := false
	for _, sh := range s.sheets {
		some := false
		for _, e := range sh.entries {
			if len(e.cycles) == 0 || e.reported {
				continue
			}
			if !sh.headed {
				s.heading(sh)
			}
			if !said {
				fmt.Fprintf(s.print, "# The run was stopped: from here on rows lack one cycle or more\n")
			}
			some, said = true, true
			if err := s.report(sh, e); err != nil {
				return err
			}
		}
		if some {
			s.conclude(sh)
		}
	}
	if s.cfg.cycles == 1 || s.saved {
		return nil
	}
	return s.save(true)
}
