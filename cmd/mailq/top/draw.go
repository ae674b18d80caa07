package top

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gdamore/tcell/v2"

	"zsched/internal/text"
)

// line is a line of the screen: pieces of text from left to right, and text at the
// right edge.
type line struct {
	pieces []piece
	right  string
	style  tcell.Style
}

// piece is a text from column x up to edge.
type piece struct {
	x, edge int
	text    string
}

const farRight = 1 << 20

func textLine(text string) line { return line{pieces: []piece{{0, farRight, text}}} }

func (l line) styled(style tcell.Style) line {
	l.style = style
	return l
}

var (
	plain  = tcell.StyleDefault
	strong = tcell.StyleDefault.Bold(true)
)

// draw draws the view. It sets each cell once and clears none, so that cells
// that do not change are not sent to the terminal.
func (v *view) draw(screen tcell.Screen) {
	width, height := screen.Size()
	screen.HideCursor()
	for y, line := range v.lines(width, height) {
		line.paint(screen, y, width)
	}
	if v.prompt != nil {
		screen.ShowCursor(min(width-1, len([]rune(text.Escape(v.prompt.label+v.prompt.text)))), height-1)
	}
}

// lines returns the whole screen:
//
//	mailq  2 threads, 183 recipients, 15 agents (11 idle), 44.9/min            10:21:07
//	due 27  waiting 120  with agents 36  held 3  quarantined 1          reloaded 3h ago
//	[1 threads]  2 rings  3 agents  4 reasons  5 held            by RCPTS  2 lines marked
//	  THREAD                RCPTS OLDEST STATE         REASON
//	> smtp/busy.example.net   173    39s busy 4        deferred on request
//	 *smtp/down.example.com    10    38s in 18s        destination is out of order
//	? help  q quit
//
// A failure of the server or of a reload has a line of its own after the second one.
// A screen with few lines has fewer of them above the list.
func (v *view) lines(width, height int) []line {
	if height < 1 {
		return nil
	}
	top := []line{{pieces: []piece{{0, farRight, v.headline(width)}}, right: v.snapshotTime(), style: strong}}
	if height >= 10 {
		top = append(top, v.countsLine(width))
	}
	if alert := v.alert(); alert != "" && height >= 5 {
		top = append(top, textLine("! "+alert).styled(strong))
	}
	if height >= 7 {
		top = append(top, v.tabsLine(width))
	}
	v.height = max(1, height-len(top)-2)
	body := v.body(width, v.height)
	lines := append(top, body...)
	for len(lines) < height-1 {
		lines = append(lines, line{})
	}
	return append(lines[:height-1], v.foot())
}

// body returns the titles of the page and its list or text.
func (v *view) body(width, height int) []line {
	p := v.page()
	reverse := plain.Reverse(true)
	switch p.kind {
	case helpPage:
		return append([]line{textLine("keys").styled(reverse)}, textLines(helpText)...)
	case textPage:
		wrapped := wrap(p.text, width)
		return append([]line{textLine(p.title).styled(reverse)}, textLines(wrapped[min(p.first, len(wrapped)-1):])...)
	}
	p.scroll(len(p.rows), height)
	columns := p.columns()
	if p.kind == jobsPage && p.thread != nil {
		columns[jobsThread].hidden = true
	}
	places := layout(columns, width, p.widest(columns))
	titles := line{style: reverse}
	for _, at := range places {
		titles.pieces = append(titles.pieces, piece{at.x, at.edge, at.fit(at.title)})
	}
	lines := []line{titles}
	for i := p.first; i < min(len(p.rows), p.first+height); i++ {
		lines = append(lines, p.rowLine(i, places))
	}
	if len(p.rows) == 0 && height > 0 {
		lines = append(lines, textLine("  "+v.emptyText()))
	}
	return lines
}

// widest returns the length of the longest text in the first flexible column.
func (p *page) widest(columns []column) (n int) {
	at := slices.IndexFunc(columns, func(c column) bool { return c.flexible && !c.hidden })
	n = len(columns[at].title)
	for i := range p.rows {
		n = max(n, utf8.RuneCountInString(p.rows[i].cells[at].text))
	}
	return n
}

// rowLine returns a row with its marks: ">" is the cursor, "*" a mark.
func (p *page) rowLine(i int, places []place) line {
	r := &p.rows[i]
	signs := []byte("  ")
	if i == p.at {
		signs[0] = '>'
	}
	if p.isMarked(r) {
		signs[1] = '*'
	}
	l := line{pieces: []piece{{0, 2, string(signs)}}, style: r.style.Reverse(i == p.at)}
	for _, at := range places {
		l.pieces = append(l.pieces, piece{at.x, at.edge, at.fit(r.cells[at.index].text)})
	}
	return l
}

// emptyText says why a list has no rows.
func (v *view) emptyText() string {
	p := v.page()
	switch {
	case !p.loaded && v.err != nil:
		return "no answer yet"
	case !p.loaded:
		return "asking …"
	case len(p.all) > 0:
		return "nothing matches the filter " + p.filter.text
	}
	switch p.kind {
	case heldPage:
		return "nothing is held"
	case reasonsPage:
		return "no mail has a diagnostic"
	case agentsPage:
		return "no agent is running"
	case ringsPage:
		return "there are no rings, or you have no right to see them"
	case jobsPage:
		return "no mail matches"
	}
	return "the queue is empty"
}

func textLines(text []string) []line {
	lines := make([]line, len(text))
	for i := range text {
		lines[i] = textLine(text[i])
	}
	return lines
}

// wrap breaks lines that are longer than the screen is wide. There is at least one
// line.
func wrap(lines []string, width int) []string {
	const indent = "        "
	wrapped := make([]string, 0, len(lines))
	for _, t := range lines {
		r := []rune(text.Escape(strings.ReplaceAll(t, "\t", "    ")))
		for len(r) > width && width > 2*len(indent) {
			wrapped = append(wrapped, string(r[:width]))
			r = append([]rune(indent), r[width:]...)
		}
		wrapped = append(wrapped, string(r))
	}
	if len(wrapped) == 0 {
		return []string{"nothing"}
	}
	return wrapped
}

// paint sets every cell of a line.
func (l line) paint(screen tcell.Screen, y, width int) {
	c := cursor{screen, y, l.style}
	right := []rune(text.Escape(l.right))
	edge := max(0, width-len(right))
	x := 0
	for _, p := range l.pieces {
		x = c.blank(x, min(p.x, edge))
		x = c.write(x, min(p.edge, edge), p.text)
	}
	x = c.blank(x, edge)
	c.write(x, width, string(right))
}

// cursor writes on a line of the screen.
type cursor struct {
	screen tcell.Screen
	y      int
	style  tcell.Style
}

// blank writes blanks from column x up to edge and returns the next free column.
func (c cursor) blank(x, edge int) int {
	for ; x < edge; x++ {
		c.screen.Put(x, c.y, " ", c.style)
	}
	return x
}

// write writes text from column x up to edge and returns the next free column. A
// wide character that would cross the edge is left out.
func (c cursor) write(x, edge int, s string) int {
	s = strings.ReplaceAll(text.Escape(s), "\t", " ")
	for s != "" && x < edge {
		rest, width := c.screen.Put(x, c.y, s, c.style)
		if width == 0 {
			break
		}
		s = rest
		x += width
	}
	return x
}
