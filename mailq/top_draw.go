package mailq

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gdamore/tcell/v2"
)

// draw puts the view on a screen.
//
//	mailq  52 threads, 64 jobs, 955 recipients, 27 agents (7 idle)      10:21:07
//	THREAD                    JOBS  RCPTS   RATE  OLDEST   STATE         REASON
//	smtp/smtp.example            8     24  120.0  22m40s   busy 1
//	smtp/one.example             3      3         2m36s    >MaxRing
//	sorted by size   ? help
func (v *topView) draw(screen tcell.Screen, now time.Time) {
	c := canvas{Screen: screen}
	c.width, c.height = screen.Size()
	screen.Clear()
	screen.HideCursor()
	c.put(0, 0, tcell.StyleDefault.Bold(true), v.headline())
	c.right(0, tcell.StyleDefault, v.freshness(now))
	body := c.height - 3
	if body < 1 {
		return
	}
	switch v.page {
	case threadsPage:
		v.drawThreads(c, body, now)
	case jobsPage:
		v.drawJobs(c, body, now)
	case textPage:
		v.drawText(c, body, v.title, v.text[min(v.first, len(v.text)):])
	case helpPage:
		v.drawText(c, body, "keys", topHelp)
	}
	v.drawFoot(c)
}

// canvas is a screen to write texts on.
type canvas struct {
	tcell.Screen
	width, height int
}

// put writes a text from the network at a place, cut off at the edge.
func (c canvas) put(x, y int, style tcell.Style, text string) {
	text = strings.ReplaceAll(Plain(text), "\t", " ")
	for text != "" && x < c.width {
		var width int
		text, width = c.Put(x, y, text, style)
		if width == 0 {
			return
		}
		x += width
	}
}

// right writes a short text at the right edge.
func (c canvas) right(y int, style tcell.Style, text string) {
	c.put(max(0, c.width-len([]rune(text))), y, style, text)
}

// bar fills a line.
func (c canvas) bar(y int, style tcell.Style) {
	for x := range c.width {
		c.Put(x, y, " ", style)
	}
}

func (v *topView) headline() string {
	if v.picture == nil {
		return "mailq  asking …"
	}
	jobs, recipients := 0, 0
	for i := range v.picture.Threads {
		jobs += v.picture.Threads[i].Jobs
		recipients += v.picture.Threads[i].Recipients
	}
	text := fmt.Sprintf("mailq  %s, %s, %s", plural(len(v.picture.Threads), "thread", "threads"),
		plural(jobs, "job", "jobs"), plural(recipients, "recipient", "recipients"))
	if t := v.picture.Totals; t != nil {
		text += fmt.Sprintf(", %s (%d idle)", plural(t.Agents, "agent", "agents"), t.IdleAgents)
	}
	return text
}

// freshness is the time of the picture, or how old it is when it should be
// newer.
func (v *topView) freshness(now time.Time) string {
	if v.picture == nil {
		return ""
	}
	if age := now.Sub(v.asked); age > 3*v.every {
		return " " + SayTime(age) + " old"
	}
	return " " + v.asked.Format(time.TimeOnly)
}

var heading = tcell.StyleDefault.Reverse(true)

func (v *topView) drawThreads(c canvas, body int, now time.Time) {
	wide := max(20, min(60, (c.width-51)*3/5))
	c.bar(1, heading)
	c.put(0, 1, heading, threadColumns(wide, "THREAD", "JOBS", "RCPTS", "RATE", "OLDEST", "STATE", "REASON"))
	v.list.scroll(len(v.rows), body)
	for y := range body {
		i := v.list.first + y
		if i >= len(v.rows) {
			break
		}
		t := v.rows[i]
		rate, oldest := "", ""
		if t.Rate > 0 {
			rate = strconv.FormatFloat(t.Rate, 'f', 1, 64)
		}
		if !t.OldestAt.IsZero() {
			oldest = SayTime(now.Sub(t.OldestAt))
		}
		text := threadColumns(wide, t.Channel+"/"+t.Host, strconv.Itoa(t.Jobs), strconv.Itoa(t.Recipients),
			rate, oldest, t.stateAt(now), lastLine(t.Reason))
		c.row(2+y, i == v.list.at, t.style(), text)
	}
	if v.picture != nil && len(v.rows) == 0 {
		c.put(0, 2, tcell.StyleDefault, map[bool]string{true: "nothing fits the filter", false: "the queue is empty"}[v.filter != ""])
	}
}

func threadColumns(wide int, name, jobs, recipients, rate, oldest, state, reason string) string {
	return fmt.Sprintf("%-*s %7s %7s %7s  %-8s %-15s %s", wide, cutTo(Plain(name), wide), jobs, recipients, rate, oldest, state, reason)
}

// stateAt is the state with its number.
func (t *Thread) stateAt(now time.Time) string {
	switch state := t.state(); state {
	case "busy":
		return "busy " + strconv.Itoa(len(t.Agents))
	case "waits":
		return "in " + SayTime(max(0, t.WakeAt.Sub(now)))
	default:
		return cutTo(Plain(state), 15)
	}
}

func (t *Thread) style() tcell.Style {
	switch t.state() {
	case "held":
		return tcell.StyleDefault.Foreground(tcell.ColorOlive)
	case "busy":
		return tcell.StyleDefault.Foreground(tcell.ColorGreen)
	}
	return tcell.StyleDefault
}

// row writes a line of a list, set off where the cursor is.
func (c canvas) row(y int, cursor bool, style tcell.Style, text string) {
	if cursor {
		style = style.Reverse(true)
		c.bar(y, style)
	}
	c.put(0, y, style, text)
}

// cutTo is a text of at most some characters; "…" stands for the middle.
func cutTo(text string, most int) string {
	r := []rune(text)
	if len(r) <= most {
		return text
	}
	head := (most - 1) / 2
	return string(r[:head]) + "…" + string(r[len(r)-(most-1-head):])
}

func (v *topView) drawJobs(c canvas, body int, now time.Time) {
	c.bar(1, heading)
	c.put(0, 1, heading, jobColumns(v.name.Channel+"/"+v.name.Host, "RCPTS", "TRIES", "AGE", "STATE", "SENDER", "REASON"))
	v.line.scroll(len(v.jobs), body)
	for y := range body {
		i := v.line.first + y
		if i >= len(v.jobs) {
			if v.more {
				c.put(0, 2+y, tcell.StyleDefault, "… and more")
			}
			break
		}
		c.row(2+y, i == v.line.at, tcell.StyleDefault, v.jobs[i].columns(now))
	}
}

func (job *Job) columns(now time.Time) string {
	tries, reason, age, state := 0, "", "", job.State
	for i := range job.Recipients {
		tries = max(tries, job.Recipients[i].Attempts)
		if r := job.Recipients[i].Reason; r != "" {
			reason = r
		}
	}
	if !job.ArrivedAt.IsZero() {
		age = SayTime(now.Sub(job.ArrivedAt))
	}
	switch {
	case job.WakeAt.After(now):
		state = "in " + SayTime(job.WakeAt.Sub(now))
	case job.PID > 0:
		state += " " + strconv.Itoa(job.PID)
	}
	sender := job.Sender
	if sender == "" {
		sender = "<>"
	}
	return jobColumns(job.SpoolID, strconv.Itoa(len(job.Recipients)), strconv.Itoa(tries), age, state, sender, lastLine(reason))
}

func jobColumns(id, recipients, tries, age, state, sender, reason string) string {
	return fmt.Sprintf("%-26s %6s %5s  %-8s %-13s %-28s %s", cutTo(Plain(id), 26), recipients, tries, age,
		cutTo(Plain(state), 13), cutTo(Plain(sender), 28), reason)
}

func (v *topView) drawText(c canvas, body int, title string, lines []string) {
	c.bar(1, heading)
	c.put(0, 1, heading, title)
	for y, line := range lines[:min(body, len(lines))] {
		c.put(0, 2+y, tcell.StyleDefault, line)
	}
}

// drawFoot writes the last line: a question first, then what went wrong, then
// where the user is.
func (v *topView) drawFoot(c canvas) {
	y, text := c.height-1, ""
	switch {
	case v.typing:
		text = "/" + v.filter
		c.ShowCursor(min(c.width-1, 1+len([]rune(v.filter))), y)
	case v.pending != nil:
		text = v.pending.String() + "? (y/n)"
	case v.note != "":
		text = v.note
	case v.trouble != nil:
		text = v.trouble.Error()
	case v.page == threadsPage:
		text = "sorted by " + v.order.String()
		if v.reversed {
			text += ", the other way"
		}
		if v.filter != "" {
			text += "   filter " + v.filter
		}
		text += "   ? help   q quit"
	default:
		text = "Esc back   ? help"
	}
	style := tcell.StyleDefault
	if v.pending != nil || v.trouble != nil {
		style = style.Bold(true)
	}
	c.put(0, y, style, text)
}
