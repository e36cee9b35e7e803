package harness

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/weft-go/weft/bench/internal/record"
)

// fit formats a number in at most width characters, with as many decimals as
// fit, but two at most; nccl-tests does the same.
func fit(x float64, width int) string {
	for decimals := 2; decimals >= 0; decimals-- {
		if s := strconv.FormatFloat(x, 'f', decimals, 64); len(s) <= width {
			return s
		}
	}
	for decimals := 3; decimals > 0; decimals-- {
		if s := strconv.FormatFloat(x, 'e', decimals, 64); len(s) <= width {
			return s
		}
	}
	return strconv.FormatFloat(x, 'e', 0, 64)
}

// A table prints rows as nccl-tests does, and behind them what it has not:
// spreads, the algorithm that ran, the peer's times and the ratios.
type table struct {
	w           io.Writer
	peer        bool
	ratioSpread bool // whether ratios have one
}

// heading prints the lines above the rows.
func (t table) heading(peerName string) {
	more := [3]string{"   spread (%)      algo", "  out     in", ""}
	switch {
	case t.peer && t.ratioSpread:
		more[0] += "  " + center(peerName, 49)
		more[1] += strings.Repeat(" ", 10) + "     out-of-place                  in-place      "
		more[2] = strings.Repeat(" ", 24) + "   time   ratio    (%)         time   ratio    (%)"
	case t.peer:
		more[0] += "  " + center(peerName, 35)
		more[1] += strings.Repeat(" ", 10) + "  out-of-place           in-place    "
		more[2] = strings.Repeat(" ", 24) + "   time   ratio         time   ratio"
	}
	fmt.Fprintln(t.w, "#")
	t.line("#                                                              out-of-place                       in-place          " + more[0])
	t.line("#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong" + more[1])
	t.line("#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)        " + more[2])
}

func (t table) line(s string) { fmt.Fprintln(t.w, strings.TrimRight(s, " ")) }

// row prints the two lines of one size; either may be missing.
func (t table) row(out, in *record.Line) {
	any := out
	if any == nil {
		any = in
	}
	root := strconv.Itoa(any.Root)
	if any.Root < 0 && rootedName(any.Coll) {
		root = "rot"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%12d  %12d  %8s  %6s  %6s", any.Bytes, any.Count, any.Type, any.Op, root)
	for _, l := range []*record.Line{out, in} {
		if l == nil {
			fmt.Fprintf(&b, "  %7s  %6s  %6s  %6s", "-", "-", "-", "-")
			continue
		}
		bus, wrong := "-", "N/A"
		if l.BusBW != nil {
			bus = fit(*l.BusBW, 6)
		}
		if l.Wrong != nil {
			wrong = fmt.Sprintf("%6g", float64(*l.Wrong))
		}
		fmt.Fprintf(&b, "  %7s  %6s  %6s  %6s", fit(l.TimeUS, 7), fit(l.AlgBW, 6), bus, wrong)
	}
	for _, l := range []*record.Line{out, in} {
		s := "-"
		if l != nil {
			s = "±" + fit(l.SpreadPct, 4)
		}
		fmt.Fprintf(&b, "  %5s", s)
	}
	fmt.Fprintf(&b, "  %8s", any.Algo)
	if t.peer {
		for _, l := range []*record.Line{out, in} {
			time, ratio, spread := "-", "-", "-"
			if l != nil && l.PeerP50US != nil {
				time, ratio = fit(*l.PeerP50US, 7), fit(*l.Ratio, 6)
				if l.RatioSpreadPct != nil {
					spread = "±" + fit(*l.RatioSpreadPct, 4)
				}
			}
			fmt.Fprintf(&b, "    %7s  %6s  ", time, ratio)
			if t.ratioSpread {
				fmt.Fprintf(&b, "%5s  ", spread)
			}
		}
	}
	t.line(b.String())
}

func rootedName(name string) bool {
	for _, c := range collectivesTable {
		if c.name == name {
			return c.rooted
		}
	}
	return false
}

func center(s string, width int) string {
	pad := max(0, width-len(s)) / 2
	return strings.Repeat(" ", pad) + s
}

// A tally is what is printed after the last row.
type tally struct {
	rows    int
	bus     float64
	wrong   int64
	checked bool
	ranks   int
}

func (t *tally) add(l *record.Line) {
	if l == nil {
		return
	}
	if l.BusBW != nil {
		t.bus += *l.BusBW
		t.rows++
	}
	if l.Wrong != nil {
		t.wrong += *l.Wrong
		t.checked = true
	}
}

func (t *tally) print(w io.Writer) {
	verdict := "OK"
	switch {
	case t.wrong > 0:
		verdict = "FAILED"
	case !t.checked:
		verdict = "not checked"
	}
	fmt.Fprintf(w, "# Out of bounds values : %d %s\n", t.wrong, verdict)
	avg := "-"
	if t.rows > 0 {
		avg = strconv.FormatFloat(t.bus/float64(t.rows), 'g', 6, 64)
	}
	fmt.Fprintf(w, "# Avg bus bandwidth    : %s\n#\n", avg)
}
