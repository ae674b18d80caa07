package top

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"zsched/internal/pattern"
	"zsched/mailq"
	"zsched/mailq/client"
)

// view is what the screen shows, and where the user is.
type view struct {
	snapshot *client.Snapshot // nil: none yet
	askedAt  time.Time        // when the snapshot was requested
	err      error            // of the last question
	every    time.Duration

	sortedBy   sortKey
	reversed   bool
	filter     string
	rows       []*mailq.Thread // the threads, filtered and sorted
	threadList list            // position in rows

	page     page
	previous []page     // the pages to go back to; the last is the next one
	name     mailq.Name // the thread of the page of jobs
	jobs     []*mailq.Job
	more     bool // there are more jobs than these
	jobList  list // position in jobs
	title    string
	text     []string // the page of text, under title
	first    int      // first line of the text on the screen

	typing      bool         // the user edits the filter
	unconfirmed *mailq.Order // the user has not confirmed it yet; nil: none
	note        string       // reply to the last order
	quit        bool
}

// page says what the middle of the screen shows.
type page int

const (
	threadsPage page = iota
	jobsPage
	textPage
	helpPage
)

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

// sortKey says how threads are sorted.
type sortKey int

const (
	bySize sortKey = iota
	byRate
	byAge
	byState
	byReason
	byName
	sortKeys // how many there are
)

func (k sortKey) String() string {
	return [...]string{"size", "rate", "oldest", "state", "reason", "name"}[k]
}

// compare puts first the threads that need attention: the largest or the oldest.
func (k sortKey) compare(a, b *mailq.Thread) int {
	n := 0
	switch k {
	case bySize:
		n = cmp.Compare(b.Recipients, a.Recipients)
	case byRate:
		n = cmp.Compare(b.Rate, a.Rate)
	case byAge:
		n = a.OldestAt.Compare(b.OldestAt)
	case byState:
		n = strings.Compare(stateOf(a), stateOf(b))
	case byReason:
		n = strings.Compare(mailq.LastReply(a.Reason), mailq.LastReply(b.Reason))
	}
	return cmp.Or(n, strings.Compare(a.Channel, b.Channel), strings.Compare(a.Host, b.Host))
}

// stateOf returns the state of a thread as one word.
func stateOf(t *mailq.Thread) string {
	switch {
	case t.Held:
		return "held"
	case len(t.Agents) > 0:
		return "busy"
	case t.Pending != mailq.NotPending:
		return string(t.Pending)
	case !t.WakeAt.IsZero():
		return "waits"
	}
	return "due"
}

// push opens a page on top of this one.
func (v *view) push(to page) {
	v.previous = append(v.previous, v.page)
	v.page = to
}

// refresh asks for a snapshot, or for the jobs on the page of jobs.
func (v *view) refresh() question {
	if v.page == jobsPage {
		return v.openThread(v.name)
	}
	return func(source Source) answer {
		at := time.Now()
		snapshot, err := source.Snapshot()
		return func(v *view) question {
			v.err = err
			if err == nil {
				v.snapshot, v.askedAt = snapshot, at
				v.arrange()
			}
			return nil
		}
	}
}

// openThread asks for the jobs of a thread.
func (v *view) openThread(name mailq.Name) question {
	return func(source Source) answer {
		jobs, more, err := source.Jobs(name)
		return func(v *view) question {
			if v.page != jobsPage || v.name != name {
				return nil
			}
			v.err = err
			if err == nil {
				v.jobs, v.more = jobs, more
			}
			return nil
		}
	}
}

// openText asks for the lines of a report and opens a page with them.
func (v *view) openText(title, command string) question {
	return func(source Source) answer {
		lines, err := source.Report(command)
		return func(v *view) question {
			if err != nil {
				v.note = err.Error()
				return nil
			}
			v.push(textPage)
			v.title, v.text, v.first = title, lines, 0
			return nil
		}
	}
}

// give gives an order and then refreshes the view.
func (v *view) give(order *mailq.Order) question {
	return func(source Source) answer {
		reply, err := source.Order(order)
		return func(v *view) question {
			v.note = reply
			if err != nil {
				v.note = string(order.Verb) + ": " + err.Error()
			}
			return v.refresh()
		}
	}
}

// arrange filters and sorts the threads. The cursor stays on its thread.
func (v *view) arrange() {
	selected, any := v.selected()
	v.rows = v.rows[:0]
	if v.snapshot == nil {
		return
	}
	for i := range v.snapshot.Threads {
		t := &v.snapshot.Threads[i]
		if v.matches(t) {
			v.rows = append(v.rows, t)
		}
	}
	slices.SortFunc(v.rows, func(a, b *mailq.Thread) int {
		if v.reversed {
			return v.sortedBy.compare(b, a)
		}
		return v.sortedBy.compare(a, b)
	})
	if i := slices.IndexFunc(v.rows, func(t *mailq.Thread) bool { return any && t.Name == selected }); i >= 0 {
		v.threadList.at = i
	}
	v.threadList.move(0, len(v.rows))
}

// matches reports whether a thread matches the filter: a pattern with * and ? for
// its name, or a part of its name, state or diagnostic.
func (v *view) matches(t *mailq.Thread) bool {
	if v.filter == "" {
		return true
	}
	name := t.Channel + "/" + t.Host
	if strings.ContainsAny(v.filter, "*?") {
		return pattern.Wildcard(v.filter, name)
	}
	needle := strings.ToLower(v.filter)
	return strings.Contains(strings.ToLower(name), needle) ||
		strings.Contains(stateOf(t), needle) || strings.Contains(strings.ToLower(t.Reason), needle)
}

// selected returns the thread under the cursor.
func (v *view) selected() (mailq.Name, bool) {
	if v.threadList.at >= len(v.rows) {
		return mailq.Name{}, false
	}
	return v.rows[v.threadList.at].Name, true
}

// orderFor returns an order for the thread or message under the cursor, or nil.
func (v *view) orderFor(verb mailq.Verb) *mailq.Order {
	if v.page == jobsPage {
		if v.jobList.at >= len(v.jobs) {
			return nil
		}
		return &mailq.Order{Verb: verb, Message: v.jobs[v.jobList.at].SpoolID}
	}
	name, ok := v.selected()
	if !ok {
		return nil
	}
	return &mailq.Order{Verb: verb, Thread: &name}
}
