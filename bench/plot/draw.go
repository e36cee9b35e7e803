package main

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"math"
	"os"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	width, height = 7.5 * vg.Inch, 5 * vg.Inch
	legendWidth   = 3 * vg.Inch
	dpi           = 110
)

// Colours that are told apart by most eyes; ours come first, in the strong ones.
var (
	ourColors   = []color.Color{rgb(0x0072b2), rgb(0x009e73), rgb(0x56b4e9), rgb(0x004466), rgb(0x66c2a5)}
	otherColors = []color.Color{rgb(0xd55e00), rgb(0xe69f00), rgb(0xcc79a7), rgb(0x7f7f7f), rgb(0x8c564b), rgb(0x9467bd), rgb(0x000000)}
)

func rgb(c uint32) color.Color { return color.RGBA{uint8(c >> 16), uint8(c >> 8), uint8(c), 255} }

// A look is how a series is drawn: the same in all pictures.
type look struct {
	color  color.Color
	width  vg.Length
	dashes []vg.Length
	glyph  vgdraw.GlyphStyle
}

// looks gives every series of the charts a look of its own, while colours last.
func looks(charts []*chart) map[string]look {
	all := map[string]look{}
	ours, others := 0, 0
	for _, c := range charts {
		for _, s := range c.series {
			if _, known := all[s.name]; known {
				continue
			}
			var l look
			if s.ours {
				l = look{color: ourColors[ours%len(ourColors)], width: vg.Points(2.5)}
				l.glyph = vgdraw.GlyphStyle{Shape: vgdraw.CircleGlyph{}, Radius: vg.Points(2.5)}
				ours++
			} else {
				l = look{color: otherColors[others%len(otherColors)], width: vg.Points(1.5), dashes: []vg.Length{vg.Points(5), vg.Points(2)}}
				l.glyph = vgdraw.GlyphStyle{Shape: vgdraw.PyramidGlyph{}, Radius: vg.Points(2)}
				others++
			}
			l.glyph.Color = l.color
			all[s.name] = l
		}
	}
	return all
}

// draw makes the pictures.
func draw(dir string, charts []*chart) error {
	style := looks(charts)
	overview := map[int][]*chart{}
	var ranks []int
	for _, c := range charts {
		if c.coll == "barrier" { // it has one size
			continue
		}
		if err := save(dir, c.file(), []*chart{c}, style, 1); err != nil {
			return err
		}
		if c.typ == "float" {
			if overview[c.ranks] == nil {
				ranks = append(ranks, c.ranks)
			}
			overview[c.ranks] = append(overview[c.ranks], c.brief())
		}
	}
	for _, n := range ranks {
		columns := int(math.Ceil(math.Sqrt(float64(len(overview[n])))))
		if err := save(dir, fmt.Sprintf("overview-%dranks", n), overview[n], style, columns); err != nil {
			return err
		}
	}
	return nil
}

// save writes charts in so many columns, and what the lines mean on the right,
// as PNG and as SVG.
func save(dir, name string, charts []*chart, style map[string]look, columns int) error {
	rows := (len(charts) + columns - 1) / columns
	plots := make([][]*plot.Plot, rows)
	for i := range plots {
		plots[i] = make([]*plot.Plot, columns)
	}
	legend := plot.NewLegend()
	legend.Top, legend.Left = true, true
	legend.Padding = vg.Points(3)
	seen := map[string]bool{}
	for i, c := range charts {
		p, err := picture(c, style)
		if err != nil {
			return fmt.Errorf("%s: %w", c.title(), err)
		}
		plots[i/columns][i%columns] = p
		for _, s := range c.series {
			if !seen[s.name] {
				seen[s.name] = true
				line, marks, _ := lines(s, style[s.name])
				legend.Add(s.name, line, marks)
			}
		}
	}
	w, h := width*vg.Length(columns), height*vg.Length(rows)
	img := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(w+legendWidth, h), vgimg.UseDPI(dpi))}
	svg := vgsvg.New(w+legendWidth, h)
	for _, canvas := range []vg.CanvasSizer{img, svg} {
		dc := vgdraw.New(canvas)
		legend.Draw(vgdraw.Crop(dc, w, 0, 0, -vg.Points(36)))
		tiles := vgdraw.Tiles{Rows: rows, Cols: columns, PadX: vg.Points(8), PadY: vg.Points(8),
			PadTop: vg.Points(6), PadBottom: vg.Points(6), PadLeft: vg.Points(6), PadRight: vg.Points(14)}
		canvases := plot.Align(plots, tiles, vgdraw.Crop(dc, 0, -legendWidth, 0, 0))
		for i := range plots {
			for j, p := range plots[i] {
				if p != nil {
					p.Draw(canvases[i][j])
				}
			}
		}
	}
	for ext, canvas := range map[string]io.WriterTo{".png": img, ".svg": svg} {
		var buf bytes.Buffer
		if _, err := canvas.WriteTo(&buf); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name+ext), buf.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// lines draws one series.
func lines(s *series, l look) (*plotter.Line, *plotter.Scatter, error) {
	xy := make(plotter.XYs, len(s.points))
	for i, pt := range s.points {
		xy[i] = plotter.XY{X: float64(pt.bytes), Y: pt.us}
	}
	line, marks, err := plotter.NewLinePoints(xy)
	if err != nil {
		return nil, nil, err
	}
	line.Color, line.Width, line.Dashes = l.color, l.width, l.dashes
	marks.GlyphStyle = l.glyph
	return line, marks, nil
}

// picture is time against size, both on logarithmic axes.
func picture(c *chart, style map[string]look) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = c.title()
	p.Title.Padding = vg.Points(6)
	p.X.Label.Text = "size"
	p.Y.Label.Text = "time of a call (median)"
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(sizeTicks), plot.TickerFunc(timeTicks)
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{225}, color.Gray{225}
	p.Add(grid)
	for i := len(c.series) - 1; i >= 0; i-- { // ours on top
		line, marks, err := lines(c.series[i], style[c.series[i].name])
		if err != nil {
			return nil, err
		}
		p.Add(line, marks)
	}
	if p.X.Min == p.X.Max { // one size only
		p.X.Min, p.X.Max = p.X.Min/2, p.X.Max*2
	}
	// Whole decades.
	p.Y.Min = math.Pow(10, math.Floor(math.Log10(p.Y.Min)))
	p.Y.Max = math.Pow(10, math.Ceil(math.Log10(p.Y.Max)))
	return p, nil
}

// sizeTicks are powers of two, every third of them with its name.
func sizeTicks(lo, hi float64) []plot.Tick {
	var ticks []plot.Tick
	for e := math.Ceil(math.Log2(lo)); e <= math.Log2(hi); e++ {
		t := plot.Tick{Value: math.Exp2(e)}
		if int(e)%3 == 0 || hi/lo < 16 {
			t.Label = sizeText(int64(t.Value))
		}
		ticks = append(ticks, t)
	}
	return ticks
}

// timeTicks are powers of ten, and unlabelled those between.
func timeTicks(lo, hi float64) []plot.Tick {
	var ticks []plot.Tick
	for e := math.Floor(math.Log10(lo)); e <= math.Log10(hi); e++ {
		for m := 1.0; m < 10; m++ {
			t := plot.Tick{Value: m * math.Pow(10, e)}
			if t.Value < lo || t.Value > hi*1.0001 {
				continue
			}
			if m == 1 {
				t.Label = timeText(t.Value)
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
}

func sizeText(n int64) string {
	switch {
	case n >= 1<<30 && n%(1<<30) == 0:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

func timeText(us float64) string {
	switch {
	case us >= 1e6*0.999:
		return fmt.Sprintf("%.4g s", us/1e6)
	case us >= 1e3*0.999:
		return fmt.Sprintf("%.4g ms", us/1e3)
	case us >= 0.999:
		return fmt.Sprintf("%.4g µs", us)
	}
	return fmt.Sprintf("%.4g ns", us*1e3)
}
