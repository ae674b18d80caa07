// Package report is what mailq shows of the answers in JSON: tables, and texts about one message
// or one destination. tables.go has the columns of every table; message.go and explain.go have the texts. What is one line of text
// has a method Text in package mailq.
package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"zsched/internal/text"
	"zsched/mailq"
)

// Table is what is shown of a list.
type Table struct {
	Columns []Column
	// Sorted is the index of the column by which the rows are sorted at first; -1: they are in
	// the order of the server.
	Sorted int
	Rows   []Row
}

// Column is a column of a table.
type Column struct {
	Title string
	Right bool // aligned to the right
}

// Row is a row of a table: one item of the list.
type Row struct {
	Cells []Cell // one for each column
	Line  string // the item as JSON, if a program wants that
	// Last: the row stands below the others, however they are sorted.
	Last bool
}

// Cell is what a row has in a column. Rows are sorted by N, the largest first,
// and those with the same N by the text.
type Cell struct {
	Text string
	N    float64
}

func str(text string) Cell { return Cell{Text: text} }

// count is a number, in at most five characters: 12345, 123k, 12M.
func count(n int) Cell {
	c := Cell{strconv.Itoa(n), float64(n)}
	switch {
	case n >= 10_000_000:
		c.Text = strconv.Itoa(n/1_000_000) + "M"
	case n >= 100_000:
		c.Text = strconv.Itoa(n/1000) + "k"
	}
	return c
}

// since is the time since at, if at is known.
func since(at, now time.Time) Cell {
	if at.IsZero() {
		return Cell{}
	}
	return Cell{mailq.FormatAge(now, at), now.Sub(at).Seconds()}
}

// Column returns the index of a column by its title, regardless of case.
func (t *Table) Column(title string) (index int, found bool) {
	index = slices.IndexFunc(t.Columns, func(c Column) bool { return strings.EqualFold(c.Title, title) })
	return index, index >= 0
}

// Titles returns the titles in lower case.
func (t *Table) Titles() (titles []string) {
	for _, c := range t.Columns {
		titles = append(titles, strings.ToLower(c.Title))
	}
	return titles
}

// Sort sorts the rows by a column; -1: not at all.
func (t *Table) Sort(column int) {
	if column < 0 {
		return
	}
	slices.SortStableFunc(t.Rows, func(a, b Row) int {
		c, d := a.Cells[column], b.Cells[column]
		switch {
		case a.Last && b.Last:
			return 0
		case a.Last || b.Last:
			return map[bool]int{true: 1, false: -1}[a.Last]
		}
		return cmp.Or(cmp.Compare(d.N, c.N), strings.Compare(c.Text, d.Text))
	})
}

// Limit leaves the first rows, and those that are the last anyway. It returns how many others
// there were.
func (t *Table) Limit(limit int) (all int) {
	shown := t.Rows[:0]
	for _, r := range t.Rows {
		if !r.Last {
			all++
		}
		if r.Last || limit == 0 || all <= limit {
			shown = append(shown, r)
		}
	}
	t.Rows = shown
	return all
}

// Write writes the titles and the rows. Text from outside is made safe for a terminal.
func (t *Table) Write(out io.Writer) error {
	titles := make([]Cell, len(t.Columns))
	widths := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		titles[i] = str(c.Title)
	}
	lines := [][]Cell{titles}
	for _, r := range t.Rows {
		lines = append(lines, r.Cells)
	}
	for _, cells := range lines {
		for i, c := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(Safe(c.Text)))
		}
	}
	for _, cells := range lines {
		var b strings.Builder
		for i, c := range cells {
			width := widths[i]
			if !t.Columns[i].Right {
				width = -width
			}
			fmt.Fprintf(&b, "%*s  ", width, Safe(c.Text))
		}
		if _, err := fmt.Fprintln(out, strings.TrimRight(b.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

// Safe returns text from outside as it is shown in one line.
func Safe(s string) string { return text.Escape(mailq.Field(s)) }
