package top

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"zsched/internal/text"
	"zsched/mailq"
)

// column is a column of a list: its title and its place on the screen.
type column struct {
	title string
	// width is the number of characters, or for a flexible column how many it
	// needs. It gets more or fewer, as the screen has room.
	width    int
	most     int // the width on a screen that has room; 0: width
	flexible bool
	right    bool // aligned to the right
	middle   bool // a long text loses its middle, not its end
	hidden   bool
	// drop says which column is left out first on a narrow screen: the one with
	// the highest value. 0: the column is never left out.
	drop int
}

// cell is what a row has in a column. Rows are sorted by n, the largest first,
// and those with the same n by the text.
type cell struct {
	text string
	n    float64
}

func textCell(text string) cell { return cell{text: text} }

func countCell(n int) cell { return cell{text: shortCount(n), n: float64(n)} }

// spanCell is a time that has passed, or that is left. 0 is not shown.
func spanCell(d time.Duration) cell {
	if d == 0 {
		return cell{}
	}
	return cell{text: shortSpan(d), n: d.Seconds()}
}

// sinceCell is the time since t, if t is known.
func sinceCell(t, now time.Time) cell {
	if t.IsZero() {
		return cell{}
	}
	d := max(0, now.Sub(t))
	return cell{text: shortSpan(d), n: d.Seconds()}
}

// compare orders cells: numbers descending, texts ascending.
func (c cell) compare(d cell) int {
	return cmp.Or(cmp.Compare(d.n, c.n), strings.Compare(c.text, d.text))
}

// shortCount writes a number in at most five characters: 12345, 123k, 12M.
func shortCount(n int) string {
	switch {
	case n < 100_000:
		return strconv.Itoa(n)
	case n < 10_000_000:
		return strconv.Itoa(n/1000) + "k"
	}
	return strconv.Itoa(n/1_000_000) + "M"
}

// shortSpan writes the two largest units of a span: 5s, 22m40s, 3h5m, 12d3h.
func shortSpan(d time.Duration) string {
	switch {
	case d >= 100*24*time.Hour:
		d = d.Truncate(24 * time.Hour)
	case d >= time.Hour:
		d = d.Truncate(time.Minute)
	}
	return mailq.FormatSpan(d)
}

// place is where a column is on the screen, from x up to edge.
type place struct {
	column
	index   int // of the cells that it shows
	x, edge int
}

// layout places the columns of a list on a screen. It leaves columns out until the
// flexible ones have the room that they need. The first of these gets no more than
// widest, the longest text in it.
func layout(columns []column, width, widest int) []place {
	const left = 2 // for cursor and mark
	var places []place
	for i, c := range columns {
		if !c.hidden {
			places = append(places, place{column: c, index: i})
		}
	}
	for {
		needed, last := left-1, -1
		for i := range places {
			needed += places[i].width + 1
			if d := places[i].drop; d > 0 && (last < 0 || d > places[last].drop) {
				last = i
			}
		}
		if needed <= width || last < 0 {
			spread(places, width-needed, widest)
			break
		}
		places = slices.Delete(places, last, last+1)
	}
	x := left
	for i := range places {
		p := &places[i]
		p.x, p.edge = x, min(width, x+p.width)
		x = p.edge + 1
	}
	return places
}

// ample is how much room the flexible columns get before others become wider.
const ample = 40

// spread divides the room that is left. Columns that may be wider (most) get it first,
// until only ample is left. Of that, the first flexible column gets two thirds, and the
// last one what remains. If room is missing, the last one gets narrower.
func spread(places []place, room, widest int) {
	first, last := -1, -1
	for i := range places {
		if more := min(places[i].most-places[i].width, room-ample); more > 0 {
			places[i].width += more
			room -= more
		}
		if places[i].flexible {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	if first < 0 {
		return
	}
	if first != last {
		more := max(0, room*2/3)
		if places[first].middle {
			more = min(more, widest-places[first].width)
		}
		places[first].width += more
		room -= more
	}
	places[last].width = max(1, places[last].width+room)
}

// fit shortens a text to the width of the column, and aligns it.
func (p *place) fit(s string) string {
	s = cutTo(text.Escape(strings.ReplaceAll(s, "\t", " ")), p.edge-p.x, p.middle)
	if p.right {
		return fmt.Sprintf("%*s", p.edge-p.x, s)
	}
	return s
}

// cutTo shortens a text to at most n characters; "…" replaces its end, or its
// middle if names differ at both ends.
func cutTo(text string, n int, middle bool) string {
	r := []rune(text)
	if len(r) <= n {
		return text
	}
	if n < 1 {
		return ""
	}
	head := n - 1
	if middle {
		head /= 2
	}
	return string(r[:head]) + "…" + string(r[len(r)-(n-1-head):])
}
