package top

// Pages: what each shows, and how the server is asked for it. A new page is a line of kinds.

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rivo/tview"

	"zsched/mailq"
	"zsched/mailq/client"
	"zsched/mailq/report"
)

// kind is a page that has a key of its own.
type kind struct {
	name string
	load loader
}

// loader asks the server for the table of a page. more says that there is more than the table
// has.
type loader func(*client.Client) (table *report.Table, more bool, err error)

// kinds are the pages with the keys 1, 2, 3…
var kinds = []kind{
	{"threads", list("SHOW QUEUE THREADS", report.Threads)},
	{"rings", list("SHOW QUEUE SHORT", report.Rings)},
	{"agents", list("SHOW QUEUE THREADS", report.Agents)},
	{"reasons", list("SHOW COUNT reason", report.Reasons)},
	{"held", list("SHOW HELD", report.Held)},
}

// maxRows is how many items of a list are shown.
const maxRows = 1000

// list loads the items of a command's answer.
func list[T any](command string, tabulate func([]*T, time.Time) *report.Table) loader {
	return func(c *client.Client) (*report.Table, bool, error) {
		limit := maxRows
		if command == "SHOW QUEUE THREADS" { // all, so that the largest are among them
			limit = -1
		}
		items, more, err := client.List[T](c, command, limit)
		return tabulate(items, time.Now()), more, err
	}
}

// threadsOf loads the threads of a ring.
func threadsOf(ring uint64) loader {
	return list("SHOW QUEUE THREADS", func(all []*mailq.Thread, now time.Time) *report.Table {
		return report.Threads(slices.DeleteFunc(all, func(t *mailq.Thread) bool { return t.Ring != ring }), now)
	})
}

// page is a table, or lines of text.
type page struct {
	title  string
	load   loader
	main   int             // index in kinds, of the page that this one was opened from
	shown  *tview.Table    // nil: a page of text
	text   *tview.TextView // nil: a table
	table  *report.Table   // as the server has it; nil: no answer yet
	more   bool
	rows   []report.Row // filtered and sorted
	sorted int          // column by which the user sorts
	byUser bool         // sorted counts
	filter string       // a part of the lines that are shown, in lower case
}

// newPage returns a page with a table.
func newPage(main int, title string, load loader) *page {
	p := &page{title: title, load: load, main: main, shown: tview.NewTable()}
	p.shown.SetFixed(1, 0).SetSelectable(true, false)
	p.shown.SetSelectedStyle(plain.Reverse(true))
	return p
}

// mainPage returns the page with the key of kinds[n].
func mainPage(n int) *page { return newPage(n, kinds[n].name, kinds[n].load) }

// primitive returns what is drawn.
func (p *page) primitive() tview.Primitive {
	if p.text != nil {
		return p.text
	}
	return p.shown
}

// arrange filters and sorts the rows and shows them. The cursor stays on its row.
func (p *page) arrange() {
	if p.table == nil {
		return
	}
	selected, found := p.selected()
	table := *p.table
	table.Rows = slices.DeleteFunc(slices.Clone(table.Rows), func(r report.Row) bool {
		return !slices.ContainsFunc(r.Cells, func(c report.Cell) bool { return strings.Contains(strings.ToLower(c.Text), p.filter) })
	})
	if !p.byUser {
		p.sorted = table.Sorted
	}
	table.Sort(p.sorted)
	p.rows = table.Rows
	p.shown.Clear()
	for i, c := range table.Columns {
		p.shown.SetCell(0, i, cell(c, c.Title).SetSelectable(false).SetStyle(plain.Reverse(true)))
		for j, r := range p.rows {
			p.shown.SetCell(j+1, i, cell(c, r.Cells[i].Text))
		}
	}
	at := slices.IndexFunc(p.rows, func(r report.Row) bool { return found && key(&r) == key(&selected) })
	if at < 0 {
		at, _ = p.shown.GetSelection()
		at = min(at, len(p.rows)) - 1
	}
	p.shown.Select(max(at, 0)+1, 0)
}

// cell returns a cell with text from outside.
func cell(c report.Column, text string) *tview.TableCell {
	align, expand := tview.AlignLeft, 0
	if c.Right {
		align = tview.AlignRight
	}
	if !c.Right && c.Most == 0 {
		expand = 1
	}
	return tview.NewTableCell(tview.Escape(report.Safe(text))).SetAlign(align).SetMaxWidth(c.Most).SetExpansion(expand).SetStyle(plain)
}

// key identifies a row on the next table.
func key(r *report.Row) string {
	text := r.Message + " " + r.Cells[0].Text
	if r.Thread != nil {
		text += " " + r.Thread.Channel + "/" + r.Thread.Host
	}
	return text + fmt.Sprint(r.Ring)
}

// selected returns the row under the cursor.
func (p *page) selected() (row report.Row, found bool) {
	if p.shown == nil {
		return row, false
	}
	at, _ := p.shown.GetSelection()
	if at < 1 || at > len(p.rows) {
		return row, false
	}
	return p.rows[at-1], true
}

// refresh asks for the totals and the table of the page, unless it is being asked.
func (v *view) refresh() {
	p := v.page()
	if p.load == nil || v.refreshing {
		return
	}
	v.refreshing = true
	var totals []*mailq.Totals
	var table *report.Table
	var more bool
	v.ask(func() error {
		return v.session(func(c *client.Client) (err error) {
			if totals, _, err = client.List[mailq.Totals](c, "SHOW SNMP", 1); err == nil {
				table, more, err = p.load(c)
			}
			return err
		})
	}, func(err error) {
		v.refreshing = false
		v.failed(err)
		if err == nil {
			p.table, p.more = table, more
			p.arrange()
			for _, t := range totals {
				v.totals = t
			}
		}
		v.writeHead()
		if v.page() != p {
			v.refresh()
		}
	})
}

// failed records whether the server has answered.
func (v *view) failed(err error) {
	v.err = err
	switch {
	case err == nil:
		v.answeredAt, v.lostAt = time.Now(), time.Time{}
	case v.lostAt.IsZero():
		v.lostAt = time.Now()
	}
}

// open opens a page over this one.
func (v *view) open(p *page) {
	v.stack = append(v.stack, p)
	v.layout()
	v.refresh()
}

// openText asks for lines of text and opens a page with them, unless the user has left this page
// meanwhile.
func (v *view) openText(title string, lines func() ([]string, error)) {
	from := v.page()
	var text []string
	v.note("asking …")
	v.ask(func() (err error) {
		text, err = lines()
		return err
	}, func(err error) {
		v.note("")
		switch {
		case err != nil:
			v.note(err.Error())
		case v.page() == from:
			v.open(textPage(from.main, title, text))
		}
	})
}

// textPage returns a page of text from outside.
func textPage(main int, title string, lines []string) *page {
	p := &page{title: title, main: main, text: tview.NewTextView()}
	for _, line := range lines {
		fmt.Fprintln(p.text, report.Safe(line))
	}
	return p
}

// describe returns the question for one object, which it describes in lines.
func describe[T any](v *view, command string, text func(*T, time.Time) []string) func() ([]string, error) {
	return func() (lines []string, err error) {
		err = v.session(func(c *client.Client) error {
			items, _, err := client.List[T](c, command, 1)
			for _, item := range items {
				lines = append(lines, text(item, time.Now())...)
			}
			return err
		})
		return lines, err
	}
}
