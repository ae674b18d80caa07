package top

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gdamore/tcell/v2"

	"zsched/mailq"
	"zsched/mailq/client"
)

// line is a line of the screen: text from the network at the left, and text at the
// right edge.
type line struct {
	text, right string
	style       tcell.Style
}

// draw draws the view. It sets each cell once and clears none, so that cells
// that do not change are not sent to the terminal.
func (v *view) draw(screen tcell.Screen, now time.Time) {
	width, height := screen.Size()
	screen.HideCursor()
	for y, line := range v.lines(width, height, now) {
		line.paint(screen, y, width)
	}
	if v.typing {
		screen.ShowCursor(min(width-1, 1+len([]rune(v.filter))), height-1)
	}
}

// lines returns the whole screen:
//
//	mailq  52 threads, 64 jobs, 955 recipients, 27 agents (7 idle)      10:21:07
//	THREAD                    JOBS  RCPTS   RATE  OLDEST   STATE         REASON
//	smtp/smtp.example            8     24  120.0  22m40s   busy 1
//	smtp/one.example             3      3         2m36s    >MaxRing
//	sorted by size   ? help
func (v *view) lines(width, height int, now time.Time) []line {
	lines := make([]line, max(0, height))
	if height < 4 {
		return lines
	}
	lines[0] = line{v.headline(), v.snapshotTime(now), tcell.StyleDefault.Bold(true)}
	body := lines[2 : height-1]
	title := "keys"
	switch v.page {
	case threadsPage:
		title = v.threadLines(body, width, now)
	case jobsPage:
		title = v.jobLines(body, now)
	case textPage:
		title = v.title
		textLines(body, v.text[min(v.first, len(v.text)):])
	case helpPage:
		textLines(body, helpText)
	}
	lines[1] = line{text: title, style: tcell.StyleDefault.Reverse(true)}
	lines[height-1] = v.foot()
	return lines
}

func textLines(body []line, text []string) {
	for y := range min(len(body), len(text)) {
		body[y].text = text[y]
	}
}

// paint sets every cell of a line.
func (l line) paint(screen tcell.Screen, y, width int) {
	c := cursor{screen, y, l.style}
	edge := max(0, width-len([]rune(l.right)))
	x := c.write(0, edge, l.text)
	for ; x < edge; x++ {
		screen.Put(x, y, " ", l.style)
	}
	c.write(x, width, l.right)
}

// cursor writes on a line of the screen.
type cursor struct {
	screen tcell.Screen
	y      int
	style  tcell.Style
}

// write writes text from column x up to edge and returns the next free column.
func (c cursor) write(x, edge int, text string) int {
	text = strings.ReplaceAll(client.Plain(text), "\t", " ")
	for text != "" && x < edge {
		rest, width := c.screen.Put(x, c.y, text, c.style)
		if width == 0 {
			break
		}
		text = rest
		x += width
	}
	return x
}

func (v *view) headline() string {
	if v.snapshot == nil {
		return "mailq  asking …"
	}
	jobs, recipients := 0, 0
	for i := range v.snapshot.Threads {
		jobs += v.snapshot.Threads[i].Jobs
		recipients += v.snapshot.Threads[i].Recipients
	}
	text := fmt.Sprintf("mailq  %s, %s, %s", mailq.Plural(len(v.snapshot.Threads), "thread", "threads"),
		mailq.Plural(jobs, "job", "jobs"), mailq.Plural(recipients, "recipient", "recipients"))
	if t := v.snapshot.Totals; t != nil {
		text += fmt.Sprintf(", %s (%d idle)", mailq.Plural(t.Agents, "agent", "agents"), t.IdleAgents)
	}
	return text
}

// snapshotTime returns the time of the snapshot, or its age if a newer one should
// have come.
func (v *view) snapshotTime(now time.Time) string {
	if v.snapshot == nil {
		return ""
	}
	if age := now.Sub(v.askedAt); age > 3*v.every {
		return " " + mailq.FormatSpan(age) + " old"
	}
	return " " + v.askedAt.Format(time.TimeOnly)
}

// threadLines fills the body with threads and returns the headings of the columns.
func (v *view) threadLines(body []line, width int, now time.Time) string {
	nameWidth := max(20, min(60, (width-51)*3/5))
	v.threadList.scroll(len(v.rows), len(body))
	for y := range body {
		i := v.threadList.first + y
		if i >= len(v.rows) {
			break
		}
		t := v.rows[i]
		rate, oldest := "", ""
		if t.Rate > 0 {
			rate = strconv.FormatFloat(t.Rate, 'f', 1, 64)
		}
		if !t.OldestAt.IsZero() {
			oldest = mailq.FormatSpan(now.Sub(t.OldestAt))
		}
		body[y] = line{
			text: threadColumns(nameWidth, [7]string{t.Channel + "/" + t.Host, strconv.Itoa(t.Jobs), strconv.Itoa(t.Recipients),
				rate, oldest, stateColumn(t, now), mailq.LastReply(t.Reason)}),
			style: styleOf(t).Reverse(i == v.threadList.at),
		}
	}
	switch {
	case v.snapshot == nil || len(v.rows) > 0:
	case v.filter != "":
		body[0].text = "nothing matches the filter"
	default:
		body[0].text = "the queue is empty"
	}
	return threadColumns(nameWidth, [7]string{"THREAD", "JOBS", "RCPTS", "RATE", "OLDEST", "STATE", "REASON"})
}

func threadColumns(nameWidth int, c [7]string) string {
	return fmt.Sprintf("%-*s %7s %7s %7s  %-8s %-15s %s", nameWidth, cutTo(client.Plain(c[0]), nameWidth), c[1], c[2], c[3], c[4], c[5], c[6])
}

// stateColumn returns the state of a thread, with the number of its agents or
// the time until its retry.
func stateColumn(t *mailq.Thread, now time.Time) string {
	switch state := stateOf(t); state {
	case "busy":
		return "busy " + strconv.Itoa(len(t.Agents))
	case "waits":
		return "in " + mailq.FormatSpan(max(0, t.WakeAt.Sub(now)))
	default:
		return cutTo(client.Plain(state), 15)
	}
}

func styleOf(t *mailq.Thread) tcell.Style {
	switch stateOf(t) {
	case "held":
		return tcell.StyleDefault.Foreground(tcell.ColorOlive)
	case "busy":
		return tcell.StyleDefault.Foreground(tcell.ColorGreen)
	}
	return tcell.StyleDefault
}

// cutTo shortens a text to at most n characters; "…" replaces its middle.
func cutTo(text string, n int) string {
	r := []rune(text)
	if len(r) <= n {
		return text
	}
	head := (n - 1) / 2
	return string(r[:head]) + "…" + string(r[len(r)-(n-1-head):])
}

// jobLines fills the body with jobs and returns the headings of the columns.
func (v *view) jobLines(body []line, now time.Time) string {
	v.jobList.scroll(len(v.jobs), len(body))
	for y := range body {
		i := v.jobList.first + y
		if i >= len(v.jobs) {
			if v.more {
				body[y].text = "… and more"
			}
			break
		}
		body[y] = line{text: jobLine(v.jobs[i], now), style: tcell.StyleDefault.Reverse(i == v.jobList.at)}
	}
	return jobColumns([7]string{v.name.Channel + "/" + v.name.Host, "RCPTS", "TRIES", "AGE", "STATE", "SENDER", "REASON"})
}

func jobLine(job *mailq.Job, now time.Time) string {
	tries, reason, age, state := 0, "", "", job.State
	for i := range job.Recipients {
		tries = max(tries, job.Recipients[i].Attempts)
		if r := job.Recipients[i].Reason; r != "" {
			reason = r
		}
	}
	if !job.ArrivedAt.IsZero() {
		age = mailq.FormatSpan(now.Sub(job.ArrivedAt))
	}
	switch {
	case job.WakeAt.After(now):
		state = "in " + mailq.FormatSpan(job.WakeAt.Sub(now))
	case job.PID > 0:
		state += " " + strconv.Itoa(job.PID)
	}
	sender := job.Sender
	if sender == "" {
		sender = "<>"
	}
	return jobColumns([7]string{job.SpoolID, strconv.Itoa(len(job.Recipients)), strconv.Itoa(tries), age, state, sender, mailq.LastReply(reason)})
}

func jobColumns(c [7]string) string {
	return fmt.Sprintf("%-26s %6s %5s  %-8s %-13s %-28s %s", cutTo(client.Plain(c[0]), 26), c[1], c[2], c[3],
		cutTo(client.Plain(c[4]), 13), cutTo(client.Plain(c[5]), 28), c[6])
}

// foot returns the last line: a question to the user, or else a reply, an error, or
// how the list is sorted and filtered.
func (v *view) foot() line {
	switch {
	case v.typing:
		return line{text: "/" + v.filter}
	case v.unconfirmed != nil:
		return line{text: v.unconfirmed.String() + "? (y/n)", style: tcell.StyleDefault.Bold(true)}
	case v.note != "":
		return line{text: v.note}
	case v.err != nil:
		return line{text: v.err.Error(), style: tcell.StyleDefault.Bold(true)}
	case v.page != threadsPage:
		return line{text: "Esc back   ? help"}
	}
	text := "sorted by " + v.sortedBy.String()
	if v.reversed {
		text += ", reversed"
	}
	if v.filter != "" {
		text += "   filter " + v.filter
	}
	return line{text: text + "   ? help   q quit"}
}
