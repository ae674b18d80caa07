package top

// The view, and the lines above and below the page.

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rivo/tview"

	"zsched/internal/text"
	"zsched/mailq"
	"zsched/mailq/client"
	"zsched/mailq/report"
)

// view is what the screen shows, and where the user is.
type view struct {
	*Top
	app    *tview.Application
	rows   *tview.Flex // the whole screen
	head   *tview.TextView
	foot   *tview.TextView
	prompt *tview.InputField // shown below foot while the user enters something

	asking     sync.Mutex // held while the server is asked
	refreshing bool
	stack      []*page // the last one is shown
	entering   bool    // the prompt is shown

	totals     *mailq.Totals // nil: none yet
	answeredAt time.Time     // when the server last answered
	// err is why the last refresh failed, nil if it did not, and lostAt the time of
	// the first of several failures.
	err    error
	lostAt time.Time
}

// page returns the page that is shown.
func (v *view) page() *page { return v.stack[len(v.stack)-1] }

// layout puts the lines above the page, the page and the last line on the screen.
func (v *view) layout() {
	v.rows.Clear()
	v.rows.AddItem(v.head, 4, 0, false)
	v.rows.AddItem(v.page().primitive(), 0, 1, true)
	if v.entering {
		v.rows.AddItem(v.foot, 2, 0, false) // a question may be long
		v.rows.AddItem(v.prompt, 1, 0, false)
	} else {
		v.rows.AddItem(v.foot, 1, 0, false)
	}
	v.writeHead()
	if v.entering {
		v.app.SetFocus(v.prompt)
	} else {
		v.app.SetFocus(v.page().primitive())
	}
}

// note shows a text in the last line; "": the most important keys.
func (v *view) note(line string) {
	if line == "" {
		line = "? help   q quit"
		if len(v.stack) > 1 {
			line = "Esc back   ? help"
		}
	}
	v.foot.SetText(text.Escape(line))
}

// writeHead writes the lines above the page:
//
//	mailq  2 threads, 183 recipients, 15 agents (11 idle)  10:21:07
//	due 27, fed 36, waiting 120, 3 messages held
//	! no answer for 1m: connection refused
//	[1 threads]  2 rings  3 agents  4 reasons  5 held  by RCPTS
func (v *view) writeHead() {
	totals, states := "asking …", ""
	if t := v.totals; t != nil {
		totals = fmt.Sprintf("%s, %s, %s (%d idle)  %s", mailq.Plural(t.Threads, "thread", "threads"), mailq.Plural(t.Recipients, "recipient", "recipients"),
			mailq.Plural(t.Agents, "agent", "agents"), t.IdleAgents, v.answeredAt.Format(time.TimeOnly))
		states = report.States(t)
	}
	v.head.SetText(text.EscapeExcept(strings.Join([]string{"mailq  " + totals, states, v.alert(), v.tabs()}, "\n"), "\n"))
}

// alert says that the server does not answer, or what needs attention.
func (v *view) alert() string {
	switch {
	case v.err != nil && client.KindOf(v.err) == client.Refused:
		return "! " + v.err.Error()
	case v.err != nil:
		return fmt.Sprintf("! no answer for %s: %v", mailq.FormatAge(time.Now(), v.lostAt), v.err)
	case v.totals != nil:
		notes, kept := v.totals.Notes(time.Now()), v.totals.KeptText(time.Now())
		if notes = slices.DeleteFunc(notes, func(note string) bool { return note == kept }); len(notes) > 0 {
			return "! " + strings.Join(notes, "; ")
		}
	}
	return ""
}

// tabs returns the names of the pages, with brackets around the page that is
// shown, and says how its rows are chosen.
func (v *view) tabs() string {
	p := v.page()
	var tabs []string
	for i, k := range kinds {
		name := fmt.Sprintf("%d %s", i+1, k.name)
		if i == p.main {
			name = "[" + name + "]"
		}
		tabs = append(tabs, name)
	}
	line := strings.Join(tabs, "  ")
	if len(v.stack) > 1 {
		line = fmt.Sprintf("[%d %s] > %s", p.main+1, kinds[p.main].name, p.title)
	}
	if p.table != nil && p.sorted >= 0 {
		line += "  by " + p.table.Columns[p.sorted].Title
	}
	if p.filter != "" {
		line += "  filter " + p.filter
	}
	if p.more {
		line += fmt.Sprintf("  the first %d", maxRows)
	}
	return line
}
