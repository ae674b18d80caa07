package top

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/gdamore/tcell/v2"

	"zsched/mailq"
	"zsched/mailq/client"
)

// The columns and rows of each page.

var (
	nameColumn    = column{width: 20, flexible: true, middle: true}
	messageColumn = column{title: "MESSAGE", width: 22}
	reasonColumn  = column{title: "REASON", width: 20, flexible: true, drop: 1}
)

// titled returns a column with another title.
func (c column) titled(title string) column {
	c.title = title
	return c
}

func count(title string, drop int) column {
	return column{title: title, width: 6, right: true, drop: drop}
}

func span(title string, drop int) column {
	return column{title: title, width: 6, right: true, drop: drop}
}

// jobsThread is the index of THREAD among the columns of jobsPage.
const jobsThread = 1

// columns returns the columns of a list; the first one is never left out. Pages of
// text have none.
func (k kind) columns() []column {
	switch k {
	case threadsPage:
		return []column{nameColumn.titled("THREAD"), count("JOBS", 7), count("RCPTS", 3), count("RATE", 5), span("OLDEST", 4),
			count("WINDOW", 6), {title: "STATE", width: 13, most: 21}, reasonColumn}
	case ringsPage:
		return []column{nameColumn.titled("RING"), count("THREADS", 2).wide(7), count("JOBS", 1), count("AGENTS", 3), count("IDLE", 4),
			count("MAXRING", 5).wide(7), count("MAXTHR", 6), count("OVERFEED", 7).wide(8)}
	case agentsPage:
		return []column{{title: "AGENT", width: 8, right: true}, nameColumn.titled("THREAD"), {title: "STATE", width: 7},
			count("OPEN", 2), span("HUNGRY", 3), span("FED", 4)}
	case reasonsPage:
		return []column{reasonColumn, count("RCPTS", 3), count("JOBS", 4), nameColumn.titled("EXAMPLE").dropped(5)}
	case heldPage:
		return []column{messageColumn.dropped(5), nameColumn.titled("THREAD").wide(16), count("HOLDS", 7), span("SINCE", 3),
			span("ENDS IN", 4).wide(7), {title: "BY", width: 10, drop: 6}, reasonColumn.titled("BECAUSE").wide(14)}
	case jobsPage:
		return []column{messageColumn, nameColumn.titled("THREAD").wide(16).dropped(4), count("RCPTS", 7).wide(5), count("TRIES", 6).wide(5),
			span("AGE", 5), {title: "STATE", width: 10, drop: 2}, nameColumn.titled("SENDER").wide(16).dropped(3), reasonColumn.wide(14)}
	}
	return nil
}

func (c column) wide(width int) column {
	c.width = width
	return c
}

func (c column) dropped(drop int) column {
	c.drop = drop
	return c
}

// sorted returns the title of the column by which a page is sorted at first, or
// "" for the order of the server.
func (k kind) sorted() string {
	return [...]string{"RCPTS", "JOBS", "OPEN", "RCPTS", "SINCE", "", "", ""}[k]
}

// threadRows returns the rows of the threads, or of those in one ring.
func threadRows(threads []mailq.ThreadItem, ring *mailq.Ring, now time.Time) []row {
	rows := make([]row, 0, len(threads))
	for i := range threads {
		t := &threads[i]
		if ring != nil && t.Ring != ring.ID {
			continue
		}
		rate := cell{n: t.Rate}
		if t.Rate > 0 {
			rate.text = shortRate(t.Rate)
		}
		name := t.Channel + "/" + t.Host
		rows = append(rows, row{
			key: name, target: target{thread: &t.Name}, thread: &t.Name, style: styleOf(&t.Thread),
			cells: []cell{textCell(name), countCell(t.Jobs), countCell(t.Recipients), rate, sinceCell(t.OldestAt, now),
				windowCell(&t.Thread), textCell(stateText(&t.Thread, now)), textCell(mailq.LastReply(t.LastReason()))},
		})
	}
	return rows
}

// shortRate writes a rate in at most six characters.
func shortRate(rate float64) string {
	if rate < 1000 {
		return strconv.FormatFloat(rate, 'f', 1, 64)
	}
	return shortCount(int(rate))
}

// windowCell is the window of a thread, and its limit if the server reports it.
func windowCell(t *mailq.Thread) cell {
	if t.WindowLimit == 0 {
		return countCell(t.Window)
	}
	return cell{text: fmt.Sprintf("%d/%d", t.Window, t.WindowLimit), n: float64(t.Window)}
}

// stateText returns the state of a thread, with the number of its agents or the
// time until its retry or until the end of its suspension.
func stateText(t *mailq.Thread, now time.Time) string {
	switch {
	case t.Held:
		return "held"
	case t.Destination == mailq.Suspended && t.SuspendedUntil.IsZero():
		return "suspended"
	case t.Destination == mailq.Suspended:
		return "susp. " + shortSpan(max(0, t.SuspendedUntil.Sub(now)))
	case t.Destination == mailq.Probing:
		return "probing"
	case len(t.Agents) > 0:
		return "busy " + strconv.Itoa(len(t.Agents))
	case t.Pending != mailq.NotPending:
		return string(t.Pending)
	case !t.WakeAt.IsZero():
		return "in " + shortSpan(max(0, t.WakeAt.Sub(now)))
	}
	return "due"
}

func styleOf(t *mailq.Thread) tcell.Style {
	switch {
	case t.Held:
		return tcell.StyleDefault.Foreground(tcell.ColorOlive)
	case len(t.Agents) > 0:
		return tcell.StyleDefault.Foreground(tcell.ColorGreen)
	}
	return tcell.StyleDefault
}

func ringName(r *mailq.Ring) string {
	name := r.Channel + "/" + r.Host
	if r.WithHost {
		name += " ($host)"
	}
	return name
}

func ringRows(rings []mailq.Ring) []row {
	rows := make([]row, 0, len(rings))
	for i := range rings {
		r := &rings[i]
		rows = append(rows, row{
			key: strconv.FormatUint(r.ID, 10), ring: r,
			cells: []cell{textCell(ringName(r)), countCell(r.Threads), countCell(r.Jobs), countCell(r.Agents), countCell(r.Idle),
				countCell(r.MaxRing), countCell(r.MaxThr), countCell(r.Overfeed)},
		})
	}
	return rows
}

// agentRows returns a row for each agent at work, and one for the idle agents of
// each ring.
func agentRows(s *client.Snapshot, now time.Time) []row {
	var rows []row
	for i := range s.Threads {
		t := &s.Threads[i]
		name := t.Channel + "/" + t.Host
		for _, a := range t.Agents {
			pid := strconv.Itoa(a.PID)
			rows = append(rows, row{
				key: pid + " " + name, target: target{thread: &t.Name}, thread: &t.Name,
				cells: []cell{{text: pid, n: -float64(a.PID)}, textCell(name), textCell(a.State), countCell(a.Open),
					sinceCell(a.HungryAt, now), sinceCell(a.FedAt, now)},
			})
		}
	}
	for i := range s.Rings {
		if r := &s.Rings[i]; r.Idle > 0 {
			rows = append(rows, row{
				key: "idle " + strconv.FormatUint(r.ID, 10), ring: r,
				cells: []cell{textCell(strconv.Itoa(r.Idle) + " idle"), textCell("ring " + ringName(r)), textCell("idle"), {}, {}, {}},
			})
		}
	}
	return rows
}

func reasonRows(items []*mailq.ReasonItem) []row {
	rows := make([]row, 0, len(items))
	for _, r := range items {
		one := row{
			key:   r.Reason,
			cells: []cell{textCell(r.Reason), countCell(r.Recipients), countCell(r.Jobs), {}},
		}
		if !r.Others {
			one.cells[3] = textCell(r.Destination.Channel + "/" + r.Destination.Host)
			one.target = target{where: &mailq.Selection{Reason: r.Reason}}
			one.thread = &r.Destination
		}
		rows = append(rows, one)
	}
	return rows
}

func heldRows(items []*mailq.HeldItem, now time.Time) []row {
	rows := make([]row, 0, len(items))
	for _, h := range items {
		name := h.Channel + "/" + h.Host
		one := row{
			key: h.SpoolID + " " + name, target: target{message: h.SpoolID}, thread: &h.Name,
			cells: []cell{textCell(h.SpoolID), textCell(name), countCell(len(h.Recipients)), sinceCell(h.HeldAt, now), textCell("-"),
				textCell(cmp.Or(h.By, "?")), textCell(h.Why)},
		}
		if h.IsThread() {
			one.target = target{thread: &h.Name}
			one.cells[0], one.cells[2] = textCell("whole thread"), countCell(h.Messages)
		}
		if !h.Until.IsZero() {
			one.cells[4] = spanCell(max(time.Second, h.Until.Sub(now)))
		}
		rows = append(rows, one)
	}
	return rows
}

func jobRows(jobs []*mailq.Job, now time.Time) []row {
	rows := make([]row, 0, len(jobs))
	for _, job := range jobs {
		tries, reason, state := 0, "", textCell(job.State)
		for i := range job.Recipients {
			tries = max(tries, job.Recipients[i].Attempts)
			reason = cmp.Or(job.ReasonOf(&job.Recipients[i]), reason)
		}
		switch {
		case job.WakeAt.After(now):
			state = textCell("in " + shortSpan(job.WakeAt.Sub(now)))
		case job.PID > 0:
			state = textCell(fmt.Sprintf("%s %d", job.State, job.PID))
		}
		name := job.Channel + "/" + job.Host
		queued := job.State != mailq.StateHeld && job.State != mailq.StateParked && job.State != mailq.StateUnloaded
		rows = append(rows, row{
			key: job.SpoolID + " " + name, target: target{message: job.SpoolID, queued: queued}, thread: &job.Name,
			cells: []cell{textCell(job.SpoolID), textCell(name), countCell(len(job.Recipients)), countCell(tries), sinceCell(job.ArrivedAt, now),
				state, textCell(cmp.Or(job.Sender, "<>")), textCell(mailq.LastReply(reason))},
		})
	}
	return rows
}
