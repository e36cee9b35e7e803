package plan

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// An element of a picture that was read back.
type element struct {
	name string
	attr map[string]string
	text string
}

func (e element) number(t *testing.T, name string) float64 {
	t.Helper()
	x, err := strconv.ParseFloat(e.attr[name], 64)
	require.NoError(t, err, "%s of %v", name, e)
	require.False(t, math.IsNaN(x) || math.IsInf(x, 0))
	return x
}

// draw draws and reads back what was drawn.
func draw(t *testing.T, schedules []*Schedule, o DrawOptions) []element {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, SVG(&b, schedules, o))
	var all, open []element
	d := xml.NewDecoder(&b)
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			e := element{name: token.Name.Local, attr: map[string]string{}}
			for _, a := range token.Attr {
				e.attr[a.Name.Local] = a.Value
			}
			open = append(open, e)
		case xml.CharData:
			if len(open) > 0 {
				open[len(open)-1].text += string(token)
			}
		case xml.EndElement:
			all = append(all, open[len(open)-1])
			open = open[:len(open)-1]
		}
	}
}

func count(all []element, name string) int {
	n := 0
	for _, e := range all {
		if e.name == name {
			n++
		}
	}
	return n
}

// Each step has a box with a description and each message an arrow, all within
// the picture.
func TestSVG(t *testing.T) {
	for _, c := range Collectives() {
		for _, name := range Algorithms(c) {
			for _, n := range []int{1, 2, 5} {
				if raceDetector && n != 2 { // nothing happens at the same time
					continue
				}
				for _, o := range []DrawOptions{{}, {ByStep: true, Topology: Spread(n, 2)}} {
					o.MaxSteps = 10000
					schedules := all(t, name, costShape(c, n, 130))
					drawn := draw(t, schedules, o)
					sum := sum(schedules)
					require.Equal(t, sum.steps, count(drawn, "title"), "%v by %s among %d", c, name, n)
					require.Equal(t, sum.messages, count(drawn, "path"))
					var width, height float64
					for _, e := range drawn {
						if e.name == "svg" {
							width, height = e.number(t, "width"), e.number(t, "height")
						}
					}
					require.Positive(t, width)
					for _, e := range drawn {
						for _, a := range []string{"x", "x1", "x2"} {
							if _, ok := e.attr[a]; ok {
								require.True(t, 0 <= e.number(t, a) && e.number(t, a) <= width, e)
							}
						}
						for _, a := range []string{"y", "y1", "y2"} {
							if _, ok := e.attr[a]; ok {
								require.True(t, 0 <= e.number(t, a) && e.number(t, a) <= height, e)
							}
						}
					}
				}
			}
		}
	}
}

// Large schedules are drawn in part, and say so.
func TestSVGAbridged(t *testing.T) {
	s := costShape(AllReduce, 20, 20000)
	schedules := all(t, "ring", s)
	for _, byStep := range []bool{false, true} {
		drawn := draw(t, schedules, DrawOptions{ByStep: byStep, MaxRanks: 7, MaxSteps: 30})
		require.LessOrEqual(t, count(drawn, "title"), 7*30)
		require.Greater(t, count(drawn, "title"), 7*20)
		text := texts(drawn)
		require.Contains(t, text, "… 13 more ranks")
		require.Contains(t, text, "rank 6")
		require.NotContains(t, text, "rank 7\n")
		require.Contains(t, text, "to 7\n", "a message that leaves the picture")
		if byStep {
			require.Contains(t, text, "… more steps follow")
		} else {
			require.Contains(t, text, "… it goes on until")
		}
	}
	drawn := draw(t, schedules, DrawOptions{})
	require.LessOrEqual(t, count(drawn, "title"), 12*100)
}

func texts(drawn []element) string {
	var b strings.Builder
	for _, e := range drawn {
		if e.name == "text" {
			fmt.Fprintln(&b, e.text)
		}
	}
	return b.String()
}

func TestSVGLabels(t *testing.T) {
	drawn := draw(t, all(t, "ring", costShape(AllReduce, 3, 9)), DrawOptions{})
	text := texts(drawn)
	require.Contains(t, text, "ring: allreduce of 9 elements")
	require.Contains(t, text, "12 messages, 144 B")
	require.Contains(t, text, "\n3:6\n")
	require.NotContains(t, text, "segment")

	drawn = draw(t, all(t, "ring", costShape(AllReduce, 3, 900)), DrawOptions{Topology: Spread(3, 3)})
	require.Contains(t, texts(drawn), "segment 0")
	require.Contains(t, texts(drawn), "rank 2, node 2")
}

func TestSVGEscapes(t *testing.T) {
	schedules := byHand(1, []Step{handPut(1, 5)}, []Step{handWait(0, 5), handCopy(0, 5)})
	for _, s := range schedules {
		s.Algorithm = "<b a=\"1\" c='2'>&\x00\x1f\xff</b>"
	}
	drawn := draw(t, schedules, DrawOptions{})
	require.Contains(t, texts(drawn), `<b a="1" c='2'>&  ?</b>: broadcast`)
	require.Zero(t, count(drawn, "b"))
}

func TestSVGErrors(t *testing.T) {
	require.ErrorContains(t, SVG(io.Discard, nil, DrawOptions{}), "no schedules")
	stuck := byHand(1, []Step{handWait(1, 5)}, []Step{handWait(0, 5)})
	require.ErrorContains(t, SVG(io.Discard, stuck, DrawOptions{}), "deadlock")
	require.ErrorIs(t, SVG(brokenWriter{}, byHand(1, []Step{}), DrawOptions{}), io.ErrClosedPipe)
	require.ErrorIs(t, Print(brokenWriter{}, byHand(1, []Step{})[0]), io.ErrClosedPipe)
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestPrint(t *testing.T) {
	schedules := all(t, "ring", costShape(AllReduce, 4, 10))
	var b strings.Builder
	require.NoError(t, Print(&b, schedules[1]))
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	require.Len(t, lines, 2+len(schedules[1].Steps))
	require.Contains(t, lines[0], "ring, rank 1: allreduce of 10 elements of 4 bytes on 4 ranks")
	for i, st := range schedules[1].Steps {
		require.Equal(t, fmt.Sprintf("%5d %5d %7d  %v", i, st.Stage, st.Segment, st), lines[2+i])
	}
}

func TestFormatNs(t *testing.T) {
	for ns, want := range map[float64]string{0: "0 ns", 12.4: "12 ns", 999: "999 ns", 999.7: "1.00 µs", 1234: "1.23 µs",
		12345: "12.3 µs", 99960: "100 µs", 123456: "123 µs", 999600: "1.00 ms", 2.5e9: "2.50 s"} {
		require.Equal(t, want, FormatNs(ns), ns)
	}
}
