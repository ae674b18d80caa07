package top

import (
	"time"

	"zsched/mailq"
	"zsched/mailq/client"
)

// view is what the screen shows, and where the user is.
type view struct {
	now    time.Time // of the last event
	every  time.Duration
	tracer func(id string) ([]string, error) // Top.Trace

	snapshot *client.Snapshot // nil: none yet
	askedAt  time.Time        // when the snapshot was requested
	departed departures       // recipients that had left the queue, at the last snapshots
	// err is why the last refresh failed, nil if it did not, and lostAt the time of
	// the first of several failures.
	err    error
	lostAt time.Time

	main  [mainPages]*page
	tab   int     // index in main
	stack []*page // pages opened over it; the last is shown

	height      int       // rows of a list on the screen
	prompt      *prompt   // the line that the user edits; nil: none
	proposal    *proposal // the order that the user prepares; nil: none
	unconfirmed string    // the question that the user answers with one key
	restOfYes   string    // what is left of the word yes, and Enter, after the answer y
	answeredAt  time.Time // when the user answered y
	note        string    // reply to the last order, or why a key does nothing
	suspend     bool      // the user wants to go back to the shell
	quit        bool
}

var zeroTime time.Time

func newView(every time.Duration, now time.Time) *view {
	v := &view{now: now, every: every, height: 10}
	for i := range v.main {
		v.main[i] = newPage(kind(i))
	}
	return v
}

// page returns the page that is shown.
func (v *view) page() *page {
	if n := len(v.stack); n > 0 {
		return v.stack[n-1]
	}
	return v.main[v.tab]
}

// push opens a page on top of this one.
func (v *view) push(p *page) { v.stack = append(v.stack, p) }

// switchTo shows one of the pages that have a key.
func (v *view) switchTo(tab int) question {
	v.tab, v.stack = (tab+mainPages)%mainPages, nil
	return v.refresh()
}

// refresh asks for a snapshot, and for what the page shows if the snapshot does
// not have it.
func (v *view) refresh() question {
	p := v.page()
	return func(source Source) answer {
		at := time.Now()
		snapshot, err := source.Snapshot()
		var show func(*view)
		if err == nil {
			show, err = p.load(source)
		}
		return func(v *view) question {
			if v.err = err; err != nil {
				if v.lostAt.IsZero() {
					v.lostAt = v.now
				}
			} else {
				v.lostAt = time.Time{}
			}
			if snapshot != nil {
				v.keep(snapshot, at)
			}
			if err == nil && show != nil {
				show(v)
			}
			return nil
		}
	}
}

// keep stores a new snapshot and shows it on the pages that are made from it.
func (v *view) keep(s *client.Snapshot, at time.Time) {
	if s.Totals != nil {
		v.departed = v.departed.add(departure{at, s.Totals.RecipientsOut})
	}
	v.snapshot, v.askedAt = s, at
	for _, p := range append(v.main[:], v.stack...) {
		v.fill(p)
	}
}

// fill shows the snapshot on a page that is made from it.
func (v *view) fill(p *page) {
	if v.snapshot == nil {
		return
	}
	switch p.kind {
	case threadsPage:
		p.show(threadRows(v.snapshot.Threads, p.ring, v.now), false)
	case ringsPage:
		p.show(ringRows(v.snapshot.Rings), false)
	case agentsPage:
		p.show(agentRows(v.snapshot, v.now), false)
	}
}

// load asks for what a page shows beyond the snapshot. It runs outside the loop;
// show runs inside.
func (p *page) load(source Source) (show func(*view), err error) {
	switch p.kind {
	case reasonsPage:
		items, err := source.Reasons()
		return func(v *view) { p.show(reasonRows(items), false) }, err
	case heldPage:
		items, more, err := source.Held()
		return func(v *view) { p.show(heldRows(items, v.now), more) }, err
	case jobsPage:
		var jobs []*mailq.Job
		var more bool
		if p.thread != nil {
			jobs, more, err = source.Jobs(*p.thread)
		} else {
			jobs, more, err = source.Select(*p.where)
		}
		return func(v *view) { p.show(jobRows(jobs, v.now), more) }, err
	}
	return nil, nil
}

// openThread opens the jobs of a thread.
func (v *view) openThread(name mailq.Name) question {
	p := newPage(jobsPage)
	p.thread, p.where = &name, selectionOf(name)
	p.title = name.Channel + "/" + name.Host
	v.push(p)
	return v.refresh()
}

// openJobs opens the jobs of a selection.
func (v *view) openJobs(title string, where mailq.Selection) question {
	p := newPage(jobsPage)
	p.where, p.title = &where, title
	v.push(p)
	return v.refresh()
}

// openRing opens the threads of a ring.
func (v *view) openRing(r *mailq.Ring) question {
	p := newPage(threadsPage)
	p.ring, p.title = r, "ring "+ringName(r)
	v.push(p)
	v.fill(p)
	return nil
}

// openText asks for lines of text and opens a page with them, unless the user
// has left this page meanwhile.
func (v *view) openText(title string, lines func(Source) ([]string, error)) question {
	from := v.page()
	v.note = "asking …"
	return func(source Source) answer {
		text, err := lines(source)
		return func(v *view) question {
			if v.note == "asking …" {
				v.note = ""
			}
			switch {
			case err != nil:
				v.note = err.Error()
			case v.page() == from:
				p := newPage(textPage)
				p.title, p.text = title, text
				v.push(p)
			}
			return nil
		}
	}
}
