package top

import (
	"slices"
	"strings"

	"github.com/gdamore/tcell/v2"

	"zsched/mailq"
)

// page is a page of the view: a list whose rows can be filtered, sorted and marked,
// or lines of text.
type page struct {
	kind
	list
	sortedBy int // index of a column; -1: the order of the server
	reversed bool
	filter   filter
	all      []row // as the server has them
	rows     []row // filtered and sorted
	loaded   bool  // all is an answer of the server
	more     bool  // the server has more than all
	// marks has the keys of the rows that are marked. everything says that the
	// whole list is marked, including what is not among its rows.
	marks      map[string]bool
	everything bool

	ring   *mailq.Ring      // of threadsPage: only its threads; nil: all
	thread *mailq.Name      // of jobsPage; nil: where has more than one
	where  *mailq.Selection // of jobsPage; nil: no selection matches only the thread
	title  string           // of textPage
	text   []string         // of textPage
}

// kind says what a page shows.
type kind int

const (
	threadsPage kind = iota
	ringsPage
	agentsPage
	reasonsPage
	heldPage
	jobsPage
	textPage
	helpPage
)

// mainPages is how many pages have a key of their own: those up to heldPage.
const mainPages = int(heldPage) + 1

func (k kind) String() string {
	return [...]string{"threads", "rings", "agents", "reasons", "held", "jobs", "text", "help"}[k]
}

// row is a row of a list.
type row struct {
	key    string // identifies it on the next list
	cells  []cell // one for each column
	style  tcell.Style
	target target
	thread *mailq.Name // what Enter opens, e explains; nil: none
	ring   *mailq.Ring // what Enter opens on the page of rings
}

// list is a position in a list: the row of the cursor, and the first row on the
// screen.
type list struct {
	at, first int
}

// move moves the cursor and keeps it in the list.
func (l *list) move(by, rows int) {
	l.at = max(0, min(l.at+by, rows-1))
}

// scroll keeps the cursor on a screen of height lines.
func (l *list) scroll(rows, height int) {
	l.at = max(0, min(l.at, rows-1))
	l.first = max(0, min(l.first, rows-height, l.at))
	l.first = max(l.first, l.at-height+1)
}

func newPage(k kind) *page {
	p := &page{kind: k, sortedBy: -1, marks: make(map[string]bool)}
	for i, c := range k.columns() {
		if c.title == k.sorted() {
			p.sortedBy = i
		}
	}
	return p
}

// show puts new rows on the page. The cursor and the marks stay on their rows;
// marks of rows that are gone go with them.
func (p *page) show(rows []row, more bool) {
	p.all, p.more, p.loaded = rows, more, true
	if len(p.marks) > 0 {
		kept := make(map[string]bool)
		for i := range rows {
			if p.marks[rows[i].key] {
				kept[rows[i].key] = true
			}
		}
		p.marks = kept
	}
	p.arrange()
}

// arrange filters and sorts the rows. The cursor stays on its row.
func (p *page) arrange() {
	selected, any := p.selected()
	p.rows = p.rows[:0:0]
	for i := range p.all {
		if p.filter.matches(&p.all[i]) {
			p.rows = append(p.rows, p.all[i])
		}
	}
	if by := p.sortedBy; by >= 0 {
		slices.SortStableFunc(p.rows, func(a, b row) int {
			n := a.cells[by].compare(b.cells[by])
			if n == 0 {
				n = strings.Compare(a.key, b.key)
			}
			return n
		})
	}
	if p.reversed {
		slices.Reverse(p.rows)
	}
	if i := slices.IndexFunc(p.rows, func(r row) bool { return any && r.key == selected.key }); i >= 0 {
		p.at = i
	}
	p.move(0, len(p.rows))
}

// sortBy sorts by the next column, or reverses the order.
func (p *page) sortBy(r rune) {
	switch columns := len(p.columns()); {
	case columns == 0:
		return
	case r == 'S':
		p.reversed = !p.reversed
	default:
		p.reversed = false
		p.sortedBy++
		if p.sortedBy == columns {
			p.sortedBy = 0
			if p.kind == jobsPage {
				p.sortedBy = -1
			}
		}
	}
	p.arrange()
}

// selected returns the row under the cursor.
func (p *page) selected() (row, bool) {
	if p.at >= len(p.rows) {
		return row{}, false
	}
	return p.rows[p.at], true
}

// isMarked reports whether a row is marked.
func (p *page) isMarked(r *row) bool { return p.everything || p.marks[r.key] }

// mark marks the row under the cursor, or takes its mark away, and moves on.
func (p *page) mark() {
	r, ok := p.selected()
	if !ok || r.target.isZero() {
		return
	}
	if p.everything {
		p.everything = false
		p.markShown()
	}
	if p.marks[r.key] {
		delete(p.marks, r.key)
	} else {
		p.marks[r.key] = true
	}
	p.move(1, len(p.rows))
}

// markAll marks all rows that the filter shows. Without a filter, a list of
// messages is marked as a whole, even if it is longer than what is shown.
func (p *page) markAll() {
	if p.kind == jobsPage && p.where != nil && p.filter.isZero() {
		p.everything = true
		return
	}
	p.markShown()
}

func (p *page) markShown() {
	for i := range p.rows {
		if !p.rows[i].target.isZero() {
			p.marks[p.rows[i].key] = true
		}
	}
}

func (p *page) clearMarks() {
	p.everything = false
	clear(p.marks)
}

// marked says how many rows are marked; "" if none is.
func (p *page) marked() string {
	switch {
	case p.everything && p.more:
		return "all marked"
	case p.everything:
		return mailq.Plural(len(p.all), "line", "lines") + " marked"
	case len(p.marks) > 0:
		return mailq.Plural(len(p.marks), "line", "lines") + " marked"
	}
	return ""
}

// targets returns what an order is for: the marked rows, or else the row under the
// cursor.
func (p *page) targets() (targets []target) {
	if p.everything {
		return []target{{where: p.where}}
	}
	targets = p.markedTargets()
	if r, ok := p.selected(); ok && len(targets) == 0 && !r.target.isZero() {
		targets = append(targets, r.target)
	}
	return targets
}

// markedTargets returns what an order for the marked rows is for.
func (p *page) markedTargets() (targets []target) {
	for i := range p.all {
		if p.marks[p.all[i].key] {
			targets = append(targets, p.all[i].target)
		}
	}
	return targets
}
