package top

import (
	"errors"
	"slices"
	"strings"

	"zsched/internal/pattern"
	"zsched/mailq"
)

// filter says which rows of a page are shown: those that have a text in a column
// or whose first column matches a pattern, or those of threads that a selection
// names.
type filter struct {
	text   string
	thread *mailq.Selection // with Channel and Host only; nil: the text counts
}

func (f filter) isZero() bool { return f.text == "" }

// matches reports whether a row is shown.
func (f filter) matches(r *row) bool {
	switch {
	case f.text == "":
		return true
	case f.thread != nil:
		return r.thread != nil && f.thread.Matches(&mailq.Job{Name: *r.thread}, zeroTime)
	case strings.ContainsAny(f.text, "*?"):
		return pattern.Wildcard(f.text, r.cells[0].text)
	}
	needle := strings.ToLower(f.text)
	return slices.ContainsFunc(r.cells, func(c cell) bool { return strings.Contains(strings.ToLower(c.text), needle) })
}

// isSelection reports whether the text is, or becomes, a selection: it has the
// form key=value.
func isSelection(text string) bool {
	key, _, found := strings.Cut(text, "=")
	return found && key != "" && !strings.ContainsAny(key, " \t/")
}

// namesThreads reports whether a selection has no keys but channel and host.
func namesThreads(where *mailq.Selection) bool {
	others := *where
	others.Channel, others.Host = "", ""
	return others.String() == ""
}

// filterBy filters the page by a text that the user has entered. A selection that
// is about messages opens a page of them.
func (v *view) filterBy(text string) (question, error) {
	p := v.page()
	if !isSelection(text) {
		v.setFilter(filter{text: text})
		return nil, nil
	}
	where, err := mailq.ParseSelection(text)
	if err != nil {
		return nil, err
	}
	if namesThreads(&where) && p.columns() != nil && p.kind != jobsPage && p.kind != ringsPage && p.kind != reasonsPage {
		v.setFilter(filter{text, &where})
		return nil, nil
	}
	if err := narrow(&where, p); err != nil {
		return nil, err
	}
	v.setFilter(filter{})
	return v.openJobs(where.String(), where), nil
}

// narrow restricts a selection to what the page shows, and to the threads that are marked.
func narrow(where *mailq.Selection, p *page) error {
	if p.kind == threadsPage {
		for _, t := range p.markedTargets() {
			where.Threads = append(where.Threads, *t.thread)
		}
	}
	if p.kind == heldPage && where.State == "" {
		where.State = mailq.StateHeld
	}
	if p.kind != jobsPage || p.where == nil {
		return nil
	}
	both, err := mailq.ParseSelection(p.where.String() + " " + where.String())
	if err != nil {
		return errors.New("this page is a selection already: " + err.Error())
	}
	*where = both
	return nil
}

func (v *view) setFilter(f filter) {
	v.page().filter = f
	v.page().arrange()
}
