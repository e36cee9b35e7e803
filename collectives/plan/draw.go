package plan

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// Print writes a schedule as text, a line for each step: its number, the stage
// and the segment that it belongs to, and what it does.
func Print(w io.Writer, s *Schedule) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "%s, rank %d: %v; %d steps, %d elements of scratch", s.Algorithm, s.Rank, s.Shape, len(s.Steps), s.ScratchElems)
	if s.CellElems > 0 {
		fmt.Fprintf(b, ", in multicast memory %d of its own and boards of %d cells of %d", s.MultiElems, Slots, s.CellElems)
	}
	fmt.Fprintf(b, "\n%5s %5s %7s  step\n", "", "stage", "segment")
	for i := range s.Steps {
		st := &s.Steps[i]
		fmt.Fprintf(b, "%5d %5d %7d  %v\n", i, st.Stage, st.Segment, *st)
	}
	return b.Flush()
}

// totals is what the schedules of all ranks move and do.
type totals struct {
	steps, messages, bytes int
	mostSteps, mostBytes   int // of one rank
	segments               int
}

func sum(schedules []*Schedule) totals {
	var t totals
	for _, s := range schedules {
		sent := 0
		for i := range s.Steps {
			st := &s.Steps[i]
			t.segments = max(t.segments, st.Segment+1)
			if st.Kind == Put {
				t.messages++
			}
			if (st.Kind == Put || st.Kind == PutMulti) && len(st.Srcs) > 0 {
				sent += st.Srcs[0].Len() * s.Shape.ElemBytes
			}
		}
		t.steps += len(s.Steps)
		t.bytes += sent
		t.mostSteps = max(t.mostSteps, len(s.Steps))
		t.mostBytes = max(t.mostBytes, sent)
	}
	return t
}

// String is like "40 messages, 640 B; a rank sends 128 B in 48 steps at most".
func (t totals) String() string {
	return fmt.Sprintf("%s, %s; a rank sends %s and takes %s at most", plural(t.messages, "message"),
		FormatBytes(t.bytes), FormatBytes(t.mostBytes), plural(t.mostSteps, "step"))
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// FormatNs writes a time with three digits.
func FormatNs(ns float64) string {
	for _, u := range []struct {
		name string
		ns   float64
	}{{"s", 1e9}, {"ms", 1e6}, {"µs", 1e3}} {
		if ns >= u.ns*0.9995 {
			return digits(ns/u.ns) + " " + u.name
		}
	}
	return fmt.Sprintf("%.0f ns", ns)
}

func digits(x float64) string {
	switch {
	case x >= 99.95:
		return fmt.Sprintf("%.0f", x)
	case x >= 9.995:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}

// escape makes text safe within XML, in attributes too.
func escape(text string) string { return xmlEscaper.Replace(strings.ToValidUTF8(text, "?")) }

var xmlEscaper = func() *strings.Replacer {
	pairs := []string{"&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;"}
	for c := range rune(0x20) { // not allowed in XML, or folded to spaces
		pairs = append(pairs, string(c), " ")
	}
	return strings.NewReplacer(pairs...)
}()
