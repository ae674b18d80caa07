package simulate

import (
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"
)

// SVG: how a plot is drawn. No library is used, because the plots need only lines
// and words, and the same plot must always give the same bytes.

// Sizes in pixels.
const (
	plotWidth    = 760
	marginLeft   = 64
	marginRight  = 20
	markWidth    = 80 // for the names of marks, right of the axes
	titleHeight  = 34
	panelTitle   = 24
	panelGap     = 14
	bottomHeight = 48
	onePanel     = 260 // height of the only panel
	severalPanel = 120 // height of each of several
)

// colours of the lines in order, which people with all kinds of colour vision
// can distinguish (Okabe and Ito).
var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7"}

// drawing is an SVG document that is being written.
type drawing struct{ strings.Builder }

// SVG returns the plot as an SVG document.
func (p Plot) SVG() []byte {
	height := severalPanel
	if len(p.Panels) == 1 {
		height = onePanel
	}
	width := plotWidth - marginLeft - marginRight
	for _, panel := range p.Panels {
		if len(panel.Marks) > 0 {
			width = plotWidth - marginLeft - marginRight - markWidth
		}
	}
	total := titleHeight + len(p.Panels)*(panelTitle+height) + (len(p.Panels)-1)*panelGap + bottomHeight
	var d drawing
	fmt.Fprintf(&d, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img" `, plotWidth, total)
	fmt.Fprintf(&d, "font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n<title>%s</title>\n", escape(p.Title))
	fmt.Fprintf(&d, "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n", plotWidth, total)
	d.text(marginLeft, 22, "start", `font-size="15" font-weight="bold"`, p.Title)
	top := titleHeight
	for i, panel := range p.Panels {
		f := frame{top: top + panelTitle, width: width, height: height, xMax: p.XMax, yMax: panel.YMax}
		d.panel(panel, f, i == len(p.Panels)-1)
		top += panelTitle + height + panelGap
	}
	d.text(marginLeft+float64(width)/2, float64(total-10), "middle", "", p.X)
	d.WriteString("</svg>\n")
	return []byte(d.String())
}

// frame is where a panel is drawn, and its scales. A value above the end of the y
// axis is drawn at its end.
type frame struct {
	top, width, height int
	xMax, yMax         float64
}

func (f frame) x(x float64) float64 {
	return marginLeft + x/f.xMax*float64(f.width)
}

func (f frame) y(y float64) float64 {
	return float64(f.top+f.height) - min(y/f.yMax, 1)*float64(f.height)
}

func (d *drawing) panel(p Panel, f frame, last bool) {
	d.text(marginLeft, float64(f.top-8), "start", `font-weight="bold"`, p.Title)
	right := float64(marginLeft + f.width)
	for _, y := range ticks(f.yMax, 6) {
		d.line(marginLeft, f.y(y), right, f.y(y), `stroke="#ddd"`)
		d.text(marginLeft-8, f.y(y)+4, "end", "", label(y))
	}
	for _, x := range ticks(f.xMax, 12) {
		d.line(f.x(x), f.y(0), f.x(x), f.y(0)+5, `stroke="#222"`)
		if last {
			d.text(f.x(x), f.y(0)+19, "middle", "", label(x))
		}
	}
	fmt.Fprintf(d, "<text transform=\"translate(16 %s) rotate(-90)\" text-anchor=\"middle\">%s</text>\n",
		number(f.y(f.yMax/2)), escape(p.Y))
	for _, m := range p.Marks {
		d.line(marginLeft, f.y(m.Y), right, f.y(m.Y), `stroke="#666" stroke-dasharray="5 4"`)
		d.text(right+6, f.y(m.Y)+4, "start", `fill="#666"`, m.Name)
	}
	for i, l := range p.Lines {
		d.path(l, f, colours[i%len(colours)])
	}
	d.legend(p.Lines, f)
	d.line(marginLeft, f.y(0), right, f.y(0), `stroke="#222"`)
	d.line(marginLeft, f.y(0), marginLeft, f.y(f.yMax), `stroke="#222"`)
}

// legend writes the names of the lines above the axes, aligned with the right end
// of the x axis.
func (d *drawing) legend(lines []Line, f frame) {
	var names strings.Builder
	for i, l := range lines {
		if l.Name != "" {
			fmt.Fprintf(&names, `<tspan dx="%d" font-weight="bold" fill="%s">——</tspan><tspan dx="5">%s</tspan>`,
				min(i, 1)*14, colours[i%len(colours)], escape(l.Name))
		}
	}
	if names.Len() > 0 {
		fmt.Fprintf(d, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", marginLeft+f.width, f.top-8, names.String())
	}
}

func (d *drawing) path(l Line, f frame, colour string) {
	points := l.thin(f.xMax, f.xMax/float64(f.width))
	if len(points) == 0 {
		return
	}
	d.WriteString(`<path fill="none" stroke-width="1.5" stroke-linejoin="round" stroke="` + colour + `" d="`)
	fmt.Fprintf(d, "M%s %s", number(f.x(points[0].X)), number(f.y(points[0].Y)))
	for _, p := range points[1:] {
		if l.Step {
			fmt.Fprintf(d, "H%sV%s", number(f.x(p.X)), number(f.y(p.Y)))
		} else {
			fmt.Fprintf(d, "L%s %s", number(f.x(p.X)), number(f.y(p.Y)))
		}
	}
	d.WriteString("\"/>\n")
}

func (d *drawing) line(x1, y1, x2, y2 float64, attributes string) {
	fmt.Fprintf(d, "<line x1=\"%s\" y1=\"%s\" x2=\"%s\" y2=\"%s\" %s/>\n", number(x1), number(y1), number(x2), number(y2), attributes)
}

func (d *drawing) text(x, y float64, anchor, attributes, words string) {
	if words == "" {
		return
	}
	if attributes != "" {
		attributes = " " + attributes
	}
	fmt.Fprintf(d, "<text x=\"%s\" y=\"%s\" text-anchor=\"%s\"%s>%s</text>\n", number(x), number(y), anchor, attributes, escape(words))
}

// number writes a coordinate to a tenth of a pixel.
func number(x float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(x, 'f', 1, 64), ".0")
}

func escape(words string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(words)) // a Builder never fails
	return b.String()
}
