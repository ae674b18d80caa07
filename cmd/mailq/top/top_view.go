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

// topView is what the live view shows, and where the user is in it.
type topView struct {
	picture *client.Snapshot
	asked   time.Time // when the picture was asked for
	trouble error     // of the last picture
	every   time.Duration

	order    topOrder
	reversed bool
	filter   string
	rows     []*mailq.Thread // of the picture, filtered and sorted
	list     topList         // the place in rows

	page  topPage
	under []topPage  // the pages to come back to, the last first
	name  mailq.Name // of the thread on the page of jobs
	jobs  []*mailq.Job
	more  bool    // there are more jobs than these
	line  topList // the place in jobs
	title string  // of a text
	text  []string
	first int // line of the text that is shown at the top

	typing  bool         // the filter
	pending *mailq.Order // that waits for a yes
	note    string       // below: what came of the last order
	left    bool
}

// topPage is what the middle of the screen shows.
type topPage int

const (
	threadsPage topPage = iota
	jobsPage
	textPage
	helpPage
)

// topList is a place in a list: the row with the cursor and the first that is
// on the screen.
type topList struct {
	at, first int
}

// move keeps the cursor in the list.
func (l *topList) move(by, rows int) {
	l.at = max(0, min(l.at+by, rows-1))
}

// scroll brings the cursor onto a screen of so many lines.
func (l *topList) scroll(rows, height int) {
	l.at = max(0, min(l.at, rows-1))
	l.first = max(0, min(l.first, rows-height, l.at))
	l.first = max(l.first, l.at-height+1)
}

// topOrder is by what threads are sorted.
type topOrder int

const (
	bySize topOrder = iota
	byRate
	byAge
	byState
	byReason
	byName
	topOrders
)

func (o topOrder) String() string {
	return [...]string{"size", "rate", "oldest", "state", "reason", "name"}[o]
}

// compare sorts what wants attention to the front: the largest, the oldest.
func (o topOrder) compare(a, b *mailq.Thread) int {
	n := 0
	switch o {
	case bySize:
		n = cmp.Compare(b.Recipients, a.Recipients)
	case byRate:
		n = cmp.Compare(b.Rate, a.Rate)
	case byAge:
		n = a.OldestAt.Compare(b.OldestAt)
	case byState:
		n = strings.Compare(threadState(a), threadState(b))
	case byReason:
		n = strings.Compare(lastLine(a.Reason), lastLine(b.Reason))
	}
	return cmp.Or(n, strings.Compare(a.Channel, b.Channel), strings.Compare(a.Host, b.Host))
}

// state is a word for what a thread does.
func threadState(t *mailq.Thread) string {
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

// lastLine is the line of a diagnostic that says most: the last.
func lastLine(reason string) string {
	reason = strings.TrimRight(reason, "\r")
	return reason[strings.LastIndexByte(reason, '\r')+1:]
}

// turn opens a page over this one.
func (v *topView) turn(to topPage) {
	v.under = append(v.under, v.page)
	v.page = to
}

// refresh asks for the picture, and for the jobs where they are looked at.
func (v *topView) refresh() question {
	if v.page == jobsPage {
		return v.openThread(v.name)
	}
	return func(source Source) answer {
		at := time.Now()
		picture, err := source.Picture()
		return func(v *topView) question {
			v.trouble = err
			if err == nil {
				v.picture, v.asked = picture, at
				v.arrange()
			}
			return nil
		}
	}
}

// openThread asks for the jobs of a thread.
func (v *topView) openThread(name mailq.Name) question {
	return func(source Source) answer {
		jobs, more, err := source.Jobs(name)
		return func(v *topView) question {
			if v.page != jobsPage || v.name != name {
				return nil
			}
			v.trouble = err
			if err == nil {
				v.jobs, v.more = jobs, more
			}
			return nil
		}
	}
}

// openText asks for the lines of a command.
func (v *topView) openText(title, command string) question {
	return func(source Source) answer {
		lines, err := source.Text(command)
		return func(v *topView) question {
			if err != nil {
				v.note = err.Error()
				return nil
			}
			v.turn(textPage)
			v.title, v.text, v.first = title, lines, 0
			return nil
		}
	}
}

// give gives an order and then asks what the queue looks like.
func (v *topView) give(order *mailq.Order) question {
	return func(source Source) answer {
		said, err := source.Give(order)
		return func(v *topView) question {
			v.note = said
			if err != nil {
				v.note = string(order.Verb) + ": " + err.Error()
			}
			return v.refresh()
		}
	}
}

// arrange filters and sorts the picture and keeps the cursor on its thread.
func (v *topView) arrange() {
	selected, any := v.selected()
	v.rows = v.rows[:0]
	if v.picture == nil {
		return
	}
	for i := range v.picture.Threads {
		t := &v.picture.Threads[i]
		if v.fits(t) {
			v.rows = append(v.rows, t)
		}
	}
	slices.SortFunc(v.rows, func(a, b *mailq.Thread) int {
		if v.reversed {
			return v.order.compare(b, a)
		}
		return v.order.compare(a, b)
	})
	if i := slices.IndexFunc(v.rows, func(t *mailq.Thread) bool { return any && t.Name == selected }); i >= 0 {
		v.list.at = i
	}
	v.list.move(0, len(v.rows))
}

// fits reports whether the filter is part of what a row shows: a pattern with
// * and ? is for the name alone.
func (v *topView) fits(t *mailq.Thread) bool {
	if v.filter == "" {
		return true
	}
	name := t.Channel + "/" + t.Host
	if strings.ContainsAny(v.filter, "*?") {
		return pattern.Wildcard(v.filter, name)
	}
	needle := strings.ToLower(v.filter)
	return strings.Contains(strings.ToLower(name), needle) ||
		strings.Contains(threadState(t), needle) || strings.Contains(strings.ToLower(t.Reason), needle)
}

// selected is the thread under the cursor.
func (v *topView) selected() (mailq.Name, bool) {
	if v.list.at >= len(v.rows) {
		return mailq.Name{}, false
	}
	return v.rows[v.list.at].Name, true
}

// order is one for what is under the cursor.
func (v *topView) orderFor(verb mailq.Verb) *mailq.Order {
	if v.page == jobsPage {
		if v.line.at >= len(v.jobs) {
			return nil
		}
		return &mailq.Order{Verb: verb, Message: v.jobs[v.line.at].SpoolID}
	}
	name, ok := v.selected()
	if !ok {
		return nil
	}
	return &mailq.Order{Verb: verb, Thread: &name}
}
