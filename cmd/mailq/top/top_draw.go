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

// topLine is a line of the screen: a text from the network, and perhaps one at
// the right edge.
type topLine struct {
	text, right string
	style       tcell.Style
}

// draw puts the view on a screen. Each cell is set once and not cleared
// before, so that what is there already is not sent again.
func (v *topView) draw(screen tcell.Screen, now time.Time) {
	width, height := screen.Size()
	screen.HideCursor()
	for y, line := range v.lines(width, height, now) {
		line.paint(screen, y, width)
	}
	if v.typing {
		screen.ShowCursor(min(width-1, 1+len([]rune(v.filter))), height-1)
	}
}

// lines are the whole screen:
//
//	mailq  52 threads, 64 jobs, 955 recipients, 27 agents (7 idle)      10:21:07
//	THREAD                    JOBS  RCPTS   RATE  OLDEST   STATE         REASON
//	smtp/smtp.example            8     24  120.0  22m40s   busy 1
//	smtp/one.example             3      3         2m36s    >MaxRing
//	sorted by size   ? help
func (v *topView) lines(width, height int, now time.Time) []topLine {
	lines := make([]topLine, max(0, height))
	if height < 4 {
		return lines
	}
	lines[0] = topLine{v.headline(), v.freshness(now), tcell.StyleDefault.Bold(true)}
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
		textLines(body, topHelp)
	}
	lines[1] = topLine{text: title, style: tcell.StyleDefault.Reverse(true)}
	lines[height-1] = v.foot()
	return lines
}

func textLines(body []topLine, text []string) {
	for y := range min(len(body), len(text)) {
		body[y].text = text[y]
	}
}

// paint sets every cell of a line.
func (l topLine) paint(screen tcell.Screen, y, width int) {
	p := pen{screen, y, l.style}
	edge := max(0, width-len([]rune(l.right)))
	x := p.write(0, edge, l.text)
	for ; x < edge; x++ {
		screen.Put(x, y, " ", l.style)
	}
	p.write(x, width, l.right)
}

// pen writes on a line of the screen.
type pen struct {
	screen tcell.Screen
	y      int
	style  tcell.Style
}

// write sets the cells of a text from x up to an edge and returns the next
// column.
func (p pen) write(x, edge int, text string) int {
	text = strings.ReplaceAll(client.Plain(text), "\t", " ")
	for text != "" && x < edge {
		rest, width := p.screen.Put(x, p.y, text, p.style)
		if width == 0 {
			break
		}
		text = rest
		x += width
	}
	return x
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
	text := fmt.Sprintf("mailq  %s, %s, %s", mailq.Plural(len(v.picture.Threads), "thread", "threads"),
		mailq.Plural(jobs, "job", "jobs"), mailq.Plural(recipients, "recipient", "recipients"))
	if t := v.picture.Totals; t != nil {
		text += fmt.Sprintf(", %s (%d idle)", mailq.Plural(t.Agents, "agent", "agents"), t.IdleAgents)
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
		return " " + mailq.FormatSpan(age) + " old"
	}
	return " " + v.asked.Format(time.TimeOnly)
}

// threadLines fills the body with threads and returns the names of the columns.
func (v *topView) threadLines(body []topLine, width int, now time.Time) string {
	wide := max(20, min(60, (width-51)*3/5))
	v.list.scroll(len(v.rows), len(body))
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
			oldest = mailq.FormatSpan(now.Sub(t.OldestAt))
		}
		body[y] = topLine{
			text: threadColumns(wide, [7]string{t.Channel + "/" + t.Host, strconv.Itoa(t.Jobs), strconv.Itoa(t.Recipients),
				rate, oldest, threadStateAt(t, now), lastLine(t.Reason)}),
			style: threadStyle(t).Reverse(i == v.list.at),
		}
	}
	switch {
	case v.picture == nil || len(v.rows) > 0:
	case v.filter != "":
		body[0].text = "nothing fits the filter"
	default:
		body[0].text = "the queue is empty"
	}
	return threadColumns(wide, [7]string{"THREAD", "JOBS", "RCPTS", "RATE", "OLDEST", "STATE", "REASON"})
}

func threadColumns(wide int, c [7]string) string {
	return fmt.Sprintf("%-*s %7s %7s %7s  %-8s %-15s %s", wide, cutTo(client.Plain(c[0]), wide), c[1], c[2], c[3], c[4], c[5], c[6])
}

// stateAt is the state with its number.
func threadStateAt(t *mailq.Thread, now time.Time) string {
	switch state := threadState(t); state {
	case "busy":
		return "busy " + strconv.Itoa(len(t.Agents))
	case "waits":
		return "in " + mailq.FormatSpan(max(0, t.WakeAt.Sub(now)))
	default:
		return cutTo(client.Plain(state), 15)
	}
}

func threadStyle(t *mailq.Thread) tcell.Style {
	switch threadState(t) {
	case "held":
		return tcell.StyleDefault.Foreground(tcell.ColorOlive)
	case "busy":
		return tcell.StyleDefault.Foreground(tcell.ColorGreen)
	}
	return tcell.StyleDefault
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

// jobLines fills the body with jobs and returns the names of the columns.
func (v *topView) jobLines(body []topLine, now time.Time) string {
	v.line.scroll(len(v.jobs), len(body))
	for y := range body {
		i := v.line.first + y
		if i >= len(v.jobs) {
			if v.more {
				body[y].text = "… and more"
			}
			break
		}
		body[y] = topLine{text: jobRow(v.jobs[i], now), style: tcell.StyleDefault.Reverse(i == v.line.at)}
	}
	return jobColumns([7]string{v.name.Channel + "/" + v.name.Host, "RCPTS", "TRIES", "AGE", "STATE", "SENDER", "REASON"})
}

func jobRow(job *mailq.Job, now time.Time) string {
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
	return jobColumns([7]string{job.SpoolID, strconv.Itoa(len(job.Recipients)), strconv.Itoa(tries), age, state, sender, lastLine(reason)})
}

func jobColumns(c [7]string) string {
	return fmt.Sprintf("%-26s %6s %5s  %-8s %-13s %-28s %s", cutTo(client.Plain(c[0]), 26), c[1], c[2], c[3],
		cutTo(client.Plain(c[4]), 13), cutTo(client.Plain(c[5]), 28), c[6])
}

// foot is the last line: a question first, then what went wrong, then where
// the user is.
func (v *topView) foot() topLine {
	switch {
	case v.typing:
		return topLine{text: "/" + v.filter}
	case v.pending != nil:
		return topLine{text: v.pending.String() + "? (y/n)", style: tcell.StyleDefault.Bold(true)}
	case v.note != "":
		return topLine{text: v.note}
	case v.trouble != nil:
		return topLine{text: v.trouble.Error(), style: tcell.StyleDefault.Bold(true)}
	case v.page != threadsPage:
		return topLine{text: "Esc back   ? help"}
	}
	text := "sorted by " + v.order.String()
	if v.reversed {
		text += ", the other way"
	}
	if v.filter != "" {
		text += "   filter " + v.filter
	}
	return topLine{text: text + "   ? help   q quit"}
}
