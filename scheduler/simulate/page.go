package simulate

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Page: figures and plots as Markdown, which is also readable in a terminal.

// Print writes the figures of a scene as a table, and the plots as images if
// withPlots is set.
func (s Scene) Print(w io.Writer, r Result, withPlots bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s (%s)\n\n", s.Title, s.Name)
	b.WriteString(wrap(s.Setting) + "\n" + wrap("Reference: "+s.Reference+".") + "\n")
	rows := [][]string{{"figure", "ours", "reference", "must be", "is", "note"}}
	var notes []string
	for _, f := range r.Figures {
		verdict, note := "", ""
		if f.Bound != "" {
			verdict = "yes"
		}
		if !f.Holds {
			verdict = "**NO**"
		}
		if f.Why != "" {
			if !slices.Contains(notes, f.Why) {
				notes = append(notes, f.Why)
			}
			note = fmt.Sprint(slices.Index(notes, f.Why) + 1)
		}
		rows = append(rows, []string{f.Name, f.Ours, f.Reference, f.Bound, verdict, note})
	}
	b.WriteString(table(rows))
	if len(notes) > 0 {
		b.WriteString("\nWhy our figures differ from the reference:\n\n")
	}
	for i, note := range notes {
		fmt.Fprintf(&b, "%d. %s.\n", i+1, note)
	}
	if withPlots {
		for _, p := range r.Plots {
			fmt.Fprintf(&b, "\n![%s](%s.svg)\n", p.Title, p.Name)
		}
	}
	_, err := io.WriteString(w, b.String()+"\n")
	return err
}

// table returns a Markdown table with aligned columns. It leaves out columns that
// have only a heading.
func table(rows [][]string) string {
	widths := make([]int, len(rows[0]))
	for column := range widths {
		for i, row := range rows {
			if i > 0 && row[column] != "" {
				widths[column] = max(widths[column], utf8.RuneCountInString(rows[0][column]))
			}
			if i > 0 {
				widths[column] = max(widths[column], utf8.RuneCountInString(row[column]))
			}
		}
	}
	var b strings.Builder
	for i, row := range rows {
		for column, cell := range row {
			if widths[column] > 0 {
				b.WriteString("| " + cell + strings.Repeat(" ", widths[column]-utf8.RuneCountInString(cell)+1))
			}
		}
		b.WriteString("|\n")
		if i > 0 {
			continue
		}
		for _, width := range widths {
			if width > 0 {
				b.WriteString("|" + strings.Repeat("-", width+2))
			}
		}
		b.WriteString("|\n")
	}
	return b.String()
}

// wrap breaks a text into lines of at most 100 characters.
func wrap(text string) string {
	var b strings.Builder
	width := 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case width == 0:
		case width+1+len(word) > 100:
			b.WriteByte('\n')
			width = 0
		default:
			b.WriteByte(' ')
			width++
		}
		b.WriteString(word)
		width += len(word)
	}
	return b.String() + "\n"
}
