package plan

import (
	"bufio"
	"fmt"
	"io"
	"math"
)

// DrawOptions say how SVG draws.
type DrawOptions struct {
	Model    *Model // nil: DefaultModel
	Topology Topology

	// ByStep gives every step the same height. Otherwise steps are as high as
	// they are long by the model.
	ByStep bool

	// MaxRanks and MaxSteps limit what is drawn of large schedules: lanes, and
	// steps of each. 0 stands for 12 and 100.
	MaxRanks, MaxSteps int
}

// SVG draws the schedules of all ranks: a lane for each rank, time downwards,
// boxes for steps and arrows for messages. Each segment has a colour.
func SVG(w io.Writer, schedules []*Schedule, o DrawOptions) error {
	p, err := newPicture(schedules, o)
	if err != nil {
		return err
	}
	p.lanes()
	p.axis()
	p.arrows()
	p.boxes()
	p.labels()
	p.head()
	return p.write(w)
}

// Sizes, in pixels.
const (
	axisWidth   = 76
	laneWidth   = 168
	boxWidth    = 78
	headHeight  = 104 // title, totals, legend, names of the lanes
	footHeight  = 30
	stepHeight  = 17 // by step
	meanHeight  = 22 // by time: of a step, on average
	minHeight   = 240
	maxHeight   = 3200
	fontSize    = 10
	textWidth   = 5.6 // of a character, about
	marginRight = 24
)

// A picture is being drawn: layers in this order, upwards.
type picture struct {
	schedules []*Schedule
	options   DrawOptions
	trace     *Trace
	totals    totals

	ranks  int     // drawn
	endNs  float64 // of what is drawn; with ByStep a nanosecond is a step
	cut    bool    // there is more after it
	scale  float64 // pixels per ns
	width  float64
	height float64

	layers [6]layer
	taken  []rect // where labels can't go
}

type layer []byte

const (
	layerBack = iota
	layerArrows
	layerBoxes
	layerLabels
	layerHead
)

type rect struct{ x0, y0, x1, y1 float64 }

func (r rect) overlaps(s rect) bool { return r.x0 < s.x1 && s.x0 < r.x1 && r.y0 < s.y1 && s.y0 < r.y1 }

func newPicture(schedules []*Schedule, o DrawOptions) (*picture, error) {
	if o.Model == nil {
		o.Model = DefaultModel()
	}
	if o.MaxRanks <= 0 {
		o.MaxRanks = 12
	}
	if o.MaxSteps <= 0 {
		o.MaxSteps = 100
	}
	m := o.Model
	if o.ByStep {
		m = unitModel()
	}
	tr, err := m.Trace(schedules, o.Topology)
	if err != nil {
		return nil, err
	}
	p := &picture{schedules: schedules, options: o, trace: tr, totals: sum(schedules)}
	p.ranks = min(len(schedules), o.MaxRanks)
	p.endNs = tr.TotalNs
	most := 1
	for _, steps := range tr.Steps[:p.ranks] {
		if len(steps) > o.MaxSteps {
			p.endNs, p.cut = min(p.endNs, steps[o.MaxSteps-1].EndNs), true
		}
		most = max(most, min(len(steps), o.MaxSteps))
	}
	p.endNs = max(p.endNs, 1)
	body := float64(min(max(minHeight, most*meanHeight), maxHeight))
	if p.scale = body / p.endNs; o.ByStep {
		p.scale = stepHeight
	}
	p.width = axisWidth + float64(p.ranks)*laneWidth + marginRight
	p.width = max(p.width, 720) // the legend's
	p.height = headHeight + p.endNs*p.scale + footHeight
	return p, nil
}

func (p *picture) x(rank int) float64   { return axisWidth + (float64(rank)+0.5)*laneWidth }
func (p *picture) y(ns float64) float64 { return headHeight + ns*p.scale }

func (l *layer) add(format string, args ...any) {
	*l = fmt.Appendf(*l, format+"\n", args...)
}

func (l *layer) text(x, y float64, attributes, text string) {
	l.add(`<text x="%.1f" y="%.1f" %s>%s</text>`, x, y, attributes, escape(text))
}

// colours has a light and a full tone for each segment, again after the last.
var colours = [...]struct{ light, full string }{
	{"#cfe2f7", "#4a90d9"}, {"#fde0bf", "#ee9132"}, {"#d3efcf", "#5cb551"}, {"#f8d0d4", "#dd5f6c"},
	{"#e2d6f3", "#9a78cf"}, {"#d5f0ef", "#3fb0ab"}, {"#f6d5ea", "#d46bb0"}, {"#ebe6b4", "#b3a52b"},
}

func (p *picture) lanes() {
	l := &p.layers[layerBack]
	t := p.options.Topology
	bottom := p.y(p.endNs)
	for r := range p.ranks {
		if t.node(r)%2 == 1 {
			l.add(`<rect x="%.1f" y="%d" width="%d" height="%.1f" fill="#f4f4f0"/>`, p.x(r)-laneWidth/2, headHeight-22, laneWidth, bottom-headHeight+22)
		}
		l.add(`<line x1="%.1f" y1="%d" x2="%.1f" y2="%.1f" stroke="#b8b8b8"/>`, p.x(r), headHeight, p.x(r), bottom)
		name := fmt.Sprintf("rank %d", r)
		if t != nil && t.several() {
			name += fmt.Sprintf(", node %d", t.node(r))
		}
		p.layers[layerHead].text(p.x(r), headHeight-8, `text-anchor="middle" font-weight="bold" font-size="12"`, name)
	}
	var more []string
	if hidden := len(p.schedules) - p.ranks; hidden > 0 {
		more = append(more, plural(hidden, "more rank"))
	}
	if p.cut {
		if p.options.ByStep {
			more = append(more, "more steps follow")
		} else {
			more = append(more, "it goes on until "+FormatNs(p.trace.TotalNs))
		}
	}
	for i, text := range more {
		p.layers[layerHead].text(axisWidth+float64(i)*160, bottom+20, `font-size="12" fill="#a03030"`, "… "+text)
	}
}

// axis draws the times at the left, and lines across.
func (p *picture) axis() {
	l := &p.layers[layerBack]
	stepNs := niceStep(46 / p.scale)
	if p.options.ByStep {
		stepNs = 5
	}
	right := axisWidth + float64(p.ranks)*laneWidth
	for i := 0; ; i++ {
		ns := float64(i) * stepNs
		if ns > p.endNs {
			return
		}
		l.add(`<line x1="%d" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#e6e6e6"/>`, axisWidth-6, p.y(ns), right, p.y(ns))
		name := FormatNs(ns)
		if p.options.ByStep {
			name = fmt.Sprintf("%.0f", ns)
		}
		l.text(axisWidth-10, p.y(ns)+3.5, `text-anchor="end" fill="#666"`, name)
	}
}

// niceStep is the smallest of 1, 2, 5, 10, … that is not below least.
func niceStep(least float64) float64 {
	for ten := math.Pow(10, math.Floor(math.Log10(max(least, 1)))); ; ten *= 10 {
		for _, k := range []float64{1, 2, 5} {
			if k*ten >= least {
				return k * ten
			}
		}
	}
}

// box is where a step is drawn; not where it only waits.
func (p *picture) box(rank, step int) rect {
	t := p.trace.Steps[rank][step]
	y0, y1 := p.y(t.ReadyNs), p.y(t.EndNs)
	if p.options.ByStep {
		y0, y1 = y0+1, y1-1
	}
	x := p.x(rank)
	return rect{x - boxWidth/2, y0, x + boxWidth/2, max(y1, y0+0.8)}
}

func (p *picture) visible(rank, step int) bool {
	return rank < p.ranks && step >= 0 && step < len(p.trace.Steps[rank]) && p.trace.Steps[rank][step].EndNs <= p.endNs*(1+1e-9)
}

func (p *picture) boxes() {
	l := &p.layers[layerBoxes]
	for r := range p.ranks {
		for i := range p.schedules[r].Steps {
			if !p.visible(r, i) {
				break
			}
			st, t := &p.schedules[r].Steps[i], p.trace.Steps[r][i]
			if from, to := p.y(t.StartNs), p.y(t.ReadyNs); to-from > 0.5 {
				l.add(`<rect x="%.1f" y="%.1f" width="8" height="%.1f" fill="#d9d9d9"/>`, p.x(r)-4, from, to-from)
			}
			b := p.box(r, i)
			fill, stroke, extra := boxStyle(st)
			l.add(`<rect x="%.1f" y="%.1f" width="%d" height="%.1f" rx="2" fill="%s" stroke="%s"%s><title>%s</title></rect>`,
				b.x0, b.y0, boxWidth, b.y1-b.y0, fill, stroke, extra,
				escape(fmt.Sprintf("rank %d, step %d, stage %d, segment %d: %v", r, i, st.Stage, st.Segment, *st)))
			if b.y1-b.y0 >= fontSize {
				colour := "#222"
				if st.Kind == Wait || st.Kind == Release {
					colour = "#777"
				}
				l.text(p.x(r), (b.y0+b.y1)/2+3.5, fmt.Sprintf(`text-anchor="middle" fill="%s"`, colour), boxText(st))
			}
			p.taken = append(p.taken, b)
		}
	}
}

// boxStyle is how a step looks, by its kind and segment.
func boxStyle(st *Step) (fill, stroke, extra string) {
	c := colours[max(st.Segment, 0)%len(colours)]
	switch st.Kind {
	case Copy:
		return c.light, c.full, ""
	case Combine, PullReduce:
		if st.Complete {
			return c.full, "#222", ""
		}
		return c.full, c.full, ""
	case Put, PutMulti:
		return "#ffffff", c.full, ` stroke-width="1.6"`
	case Release:
		return "#ffffff", "#cccccc", ""
	}
	return "#f2f2f2", "#bbbbbb", "" // Wait
}

// boxText is what stands in a box. Where elements take all the room, the fill
// alone says what is done to them.
func boxText(st *Step) string {
	const width = boxWidth - 4
	what := "copy "
	switch st.Kind {
	case Put:
		return fmt.Sprintf("put → %d", st.Peer)
	case Wait:
		return fmt.Sprintf("wait %d", st.Peer)
	case Release:
		return fmt.Sprintf("release %d", st.Peer)
	case PutMulti:
		return "put → all"
	case Combine, PullReduce:
		what = "reduce "
	}
	if text := what + elements(st.Dst); fit(text, width) == text {
		return text
	}
	return fit(elements(st.Dst), width)
}

// elements names a range as the legend says.
func elements(r Range) string {
	buf := ""
	switch r.Buf {
	case Scratch:
		buf = "s"
	case Multi:
		buf = "m"
	case Board:
		buf = "b"
	}
	return fmt.Sprintf("%s%d:%d", buf, r.From, r.To)
}

// fit shortens text that is too wide.
func fit(text string, width float64) string {
	runes := []rune(text)
	if most := int(width / textWidth); len(runes) > most {
		return string(runes[:max(1, most-1)]) + "…"
	}
	return text
}

// arrow is the line of a message.
type arrow struct {
	x0, y0, x1, y1 float64
	text           string
	colour         string
}

// at is a point of the line, from 0 to 1.
func (a arrow) at(f float64) (x, y float64) { return a.x0 + (a.x1-a.x0)*f, a.y0 + (a.y1-a.y0)*f }

// messageArrows lists the arrows of the messages whose Put is drawn.
func (p *picture) messageArrows() []arrow {
	var all []arrow
	for _, m := range p.trace.Messages {
		if !p.visible(m.From, m.FromStep) {
			continue
		}
		st := &p.schedules[m.From].Steps[m.FromStep]
		from := p.box(m.From, m.FromStep)
		a := arrow{x0: from.x1, y0: from.y1, x1: p.x(m.To) - boxWidth/2,
			colour: colours[max(st.Segment, 0)%len(colours)].full, text: p.messageName(st)}
		if m.To < m.From {
			a.x0, a.x1 = from.x0, p.x(m.To)+boxWidth/2
		}
		switch {
		case m.To >= p.ranks: // leaves the picture
			a.x1, a.y1 = a.x0+30, a.y0+4
			a.text = fmt.Sprintf("to %d", m.To)
		case p.visible(m.To, m.ToStep):
			to := p.box(m.To, m.ToStep)
			a.y1 = to.y0
			if p.options.ByStep {
				a.y0, a.y1 = (from.y0+from.y1)/2, (to.y0+to.y1)/2
			}
		default:
			a.y1 = min(p.y(m.ArriveNs), p.y(p.endNs)+4)
		}
		all = append(all, a)
	}
	return all
}

// messageName is the elements of the caller's buffers that a message has, or
// its bytes.
func (p *picture) messageName(st *Step) string {
	src := st.Srcs[0]
	switch {
	case src.Len() == 0:
		return ""
	case src.Buf == Send || src.Buf == Recv:
		return elements(src)
	}
	return FormatBytes(src.Len() * p.schedules[0].Shape.ElemBytes)
}

func (p *picture) arrows() {
	l := &p.layers[layerArrows]
	for _, a := range p.messageArrows() {
		dash := ""
		if a.text == "" {
			dash = ` stroke-dasharray="4 3"`
		}
		l.add(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="1.2"%s/>`, a.x0, a.y0, a.x1, a.y1, a.colour, dash)
		// The head: a marker would need one definition per colour.
		length := math.Hypot(a.x1-a.x0, a.y1-a.y0)
		if length < 1 {
			continue
		}
		ux, uy := (a.x1-a.x0)/length, (a.y1-a.y0)/length
		bx, by := a.x1-7*ux, a.y1-7*uy
		l.add(`<path d="M%.1f %.1fL%.1f %.1fL%.1f %.1fZ" fill="%s"/>`, a.x1, a.y1, bx-3*uy, by+3*ux, bx+3*uy, by-3*ux, a.colour)
	}
}

// labels writes what messages carry, where there is room.
func (p *picture) labels() {
	l := &p.layers[layerLabels]
	for _, a := range p.messageArrows() {
		if a.text == "" {
			continue
		}
		half := float64(len([]rune(a.text)))*textWidth/2 + 2
		places := []float64{0.5, 0.35, 0.65, 0.2, 0.8}
		if length := math.Abs(a.x1 - a.x0); length > laneWidth {
			// Next to the sender it is clear whose message it is.
			gap := (laneWidth - boxWidth) / 2 / length
			places = append([]float64{gap, gap * 0.6, 1 - gap}, places...)
		}
		for _, f := range places {
			x, y := a.at(f)
			r := rect{x - half, y - fontSize/2 - 1, x + half, y + fontSize/2 + 1}
			if p.free(r) {
				p.taken = append(p.taken, r)
				l.text(x, y+3.5, `text-anchor="middle" class="m"`, a.text)
				break
			}
		}
	}
}

func (p *picture) free(r rect) bool {
	for _, t := range p.taken {
		if t.overlaps(r) {
			return false
		}
	}
	return true
}

// head writes the title, the totals and the legend.
func (p *picture) head() {
	l := &p.layers[layerHead]
	s := p.schedules[0]
	l.text(12, 22, `font-size="16" font-weight="bold"`, fmt.Sprintf("%s: %v", s.Algorithm, s.Shape))
	text := p.totals.String()
	if p.totals.segments > 1 {
		text += fmt.Sprintf("; %d segments", p.totals.segments)
	}
	if p.options.ByStep {
		text += "; by step"
	} else {
		text += fmt.Sprintf("; %s by the model", FormatNs(p.trace.TotalNs))
	}
	l.text(12, 40, `font-size="12"`, text)

	x := 12.0
	entry := func(fill, stroke, name string, width float64) {
		l.add(`<rect x="%.1f" y="52" width="14" height="11" rx="2" fill="%s" stroke="%s"/>`, x, fill, stroke)
		l.text(x+19, 61, `font-size="11"`, name)
		x += width
	}
	c := colours[0]
	entry("#ffffff", c.full, "put", 52)
	entry(c.light, c.full, "copy", 58)
	entry(c.full, c.full, "reduce", 68)
	entry(c.full, "#222", "last reduce", 92)
	entry("#d9d9d9", "#d9d9d9", "blocked", 74)
	entry("#f2f2f2", "#bbbbbb", "wait", 56)
	for i := range min(p.totals.segments, len(colours)) {
		if p.totals.segments > 1 {
			name := fmt.Sprint(i)
			if i == 0 {
				name = "segment 0"
			}
			entry(colours[i].full, colours[i].full, name, 28+float64(len(name))*7)
		}
	}
	l.text(12, 76, `font-size="11" fill="#666"`, "i:j stands for elements i to j−1, si:j of scratch, mi:j of multicast memory; a dashed arrow carries none")
}

func (p *picture) write(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" font-family="DejaVu Sans, Verdana, sans-serif" font-size="%d">`+"\n",
		p.width, p.height, p.width, p.height, fontSize)
	fmt.Fprintf(b, "<style>.m{paint-order:stroke;stroke:#fff;stroke-width:3px;fill:#222}</style>\n")
	fmt.Fprintf(b, `<rect width="100%%" height="100%%" fill="#fff"/>`+"\n")
	for _, l := range p.layers {
		_, _ = b.Write(l) // Flush tells
	}
	fmt.Fprintf(b, "</svg>\n")
	return b.Flush()
}
