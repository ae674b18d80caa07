package top

import (
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gdamore/tcell/v2"

	"zsched/mailq"
)

// helpText is the page of keys. mailq(1) has it too.
var helpText = []string{
	"1 2 3 4 5, Tab   threads, rings, agents, reasons, held mail; the next page",
	"up down j k      move;  PgUp PgDn g G: by screens, to the first, to the last",
	"Enter, right     open a ring, a reason, a thread, a message",
	"Esc, left, q     go back; Esc on a first page clears its filter, q quits",
	"s S              sort by the next column; reverse the order",
	"/                filter: a part of a line, a pattern for the name (smtp/*.se),",
	"                 or a selection: channel= host= sender= recipient= reason=",
	"                 message-id= state= older=3d younger= larger=10M smaller=",
	"m M c            mark a line; mark all that are shown; clear all marks",
	"",
	"Orders are for the marked lines, or else for the line under the cursor. The",
	"server counts first; then y gives the order, above 100 messages the word yes.",
	"h r t            hold (for a time if you like); release; retry now",
	"X K              expire, with a notice to the sender; kill, without one",
	"Q R              requeue: back to the router; reroute to another thread",
	"e T              explain what mail waits for; trace a message (event log)",
	"space ^L         ask the server now; redraw the screen",
	"^Z ^C            suspend; quit",
}

// key handles a key.
func (v *view) key(event *tcell.EventKey) question {
	if event.Modifiers()&tcell.ModAlt != 0 {
		// Esc and the next key have arrived together.
		first := v.key(tcell.NewEventKey(tcell.KeyEscape, 0, 0))
		if next := v.key(tcell.NewEventKey(event.Key(), event.Rune(), event.Modifiers()&^tcell.ModAlt)); next != nil {
			return next
		}
		return first
	}
	switch {
	case event.Key() == tcell.KeyCtrlC:
		v.quit = true
		return nil
	case event.Key() == tcell.KeyCtrlZ:
		v.suspend = true
		return nil
	case v.prompt != nil:
		return v.edit(event)
	case v.unconfirmed != "":
		return v.answer(event)
	case v.endsYes(event):
		return nil
	case v.proposal != nil: // the server is counting
		if event.Key() == tcell.KeyEscape {
			v.cancelOrder()
		}
		return nil
	}
	v.note = ""
	switch event.Key() {
	case tcell.KeyEnter, tcell.KeyRight:
		return v.open()
	case tcell.KeyEscape, tcell.KeyBackspace, tcell.KeyBackspace2, tcell.KeyLeft:
		return v.back()
	case tcell.KeyTab:
		return v.switchTo(v.tab + 1)
	case tcell.KeyBacktab:
		return v.switchTo(v.tab - 1)
	case tcell.KeyRune:
		return v.letter(event.Rune())
	}
	v.moveBy(event.Key())
	return nil
}

func (v *view) moveBy(key tcell.Key) {
	const far = 1 << 30
	screen := max(1, v.height-1)
	by, ok := map[tcell.Key]int{
		tcell.KeyUp: -1, tcell.KeyDown: 1, tcell.KeyPgUp: -screen, tcell.KeyPgDn: screen,
		tcell.KeyHome: -far, tcell.KeyEnd: far,
	}[key]
	if !ok {
		return
	}
	p := v.page()
	if p.kind == textPage {
		// The cursor of a text is its first line on the screen.
		p.first = max(0, min(p.first+by, len(p.text)-1))
		return
	}
	p.move(by, len(p.rows))
}

func (v *view) letter(r rune) question {
	p := v.page()
	if verb, ok := orderKeys[r]; ok {
		return v.propose(verb)
	}
	switch r {
	case '1', '2', '3', '4', '5':
		return v.switchTo(int(r - '1'))
	case 'q':
		if len(v.stack) == 0 {
			v.quit = true
			return nil
		}
		return v.back()
	case '?':
		if p.kind != helpPage {
			v.push(newPage(helpPage))
		}
	case 'j':
		v.moveBy(tcell.KeyDown)
	case 'k':
		v.moveBy(tcell.KeyUp)
	case 'g':
		v.moveBy(tcell.KeyHome)
	case 'G':
		v.moveBy(tcell.KeyEnd)
	case ' ':
		return v.refresh()
	case 's', 'S':
		p.sortBy(r)
	case 'm':
		p.mark()
	case 'M':
		p.markAll()
	case 'c':
		p.clearMarks()
	case '/':
		v.editFilter()
	case 'e':
		return v.explain()
	case 'T':
		return v.trace()
	}
	return nil
}

// open opens what is under the cursor.
func (v *view) open() question {
	p := v.page()
	r, ok := p.selected()
	switch {
	case !ok:
	case r.ring != nil:
		return v.openRing(r.ring)
	case r.target.message != "":
		id := r.target.message
		return v.openText("message "+id, func(source Source) ([]string, error) { return source.Report(mailq.ShowMessage(id)) })
	case r.target.where != nil:
		return v.openJobs(r.target.where.String(), *r.target.where)
	case r.thread != nil:
		return v.openThread(*r.thread)
	}
	return nil
}

// back closes a page. On the first one it clears the filter.
func (v *view) back() question {
	if len(v.stack) == 0 || !v.page().filter.isZero() {
		v.setFilter(filter{})
		return nil
	}
	v.stack = v.stack[:len(v.stack)-1]
	if v.page().columns() == nil {
		return nil
	}
	return v.refresh()
}

// explain asks what the thread under the cursor waits for.
func (v *view) explain() question {
	name := v.page().thread
	if r, ok := v.page().selected(); ok && r.thread != nil {
		name = r.thread
	}
	if name == nil {
		v.note = "no thread is selected"
		return nil
	}
	command := mailq.Explain(*name)
	return v.openText(name.Channel+"/"+name.Host, func(source Source) ([]string, error) { return source.Report(command) })
}

// trace shows what happened to the message under the cursor.
func (v *view) trace() question {
	r, ok := v.page().selected()
	switch {
	case !ok || r.target.message == "":
		v.note = "no message is selected"
		return nil
	case v.tracer == nil:
		v.note = "there is no event log to read"
		return nil
	}
	id, tracer := r.target.message, v.tracer
	return v.openText("trace of "+id, func(Source) ([]string, error) { return tracer(id) })
}

// answer handles the answer to a question: y gives the order, any other key drops
// it.
func (v *view) answer(event *tcell.EventKey) question {
	if event.Key() == tcell.KeyRune && (event.Rune() == 'y' || event.Rune() == 'Y') {
		v.restOfYes, v.answeredAt = "es\n", event.When()
		return v.give(v.proposal)
	}
	v.cancelOrder()
	return nil
}

// maxTyping is the time in which somebody who types "yes" instead of y is through with it.
const maxTyping = 2 * time.Second

// endsYes reports whether a key belongs to the word yes, whose first letter has given the
// order: it is not a command then.
func (v *view) endsYes(event *tcell.EventKey) bool {
	if v.restOfYes == "" {
		return false
	}
	next := rune(v.restOfYes[0])
	isNext := event.Key() == tcell.KeyEnter && next == '\n' ||
		event.Key() == tcell.KeyRune && unicode.ToLower(event.Rune()) == next
	if !isNext || event.When().Sub(v.answeredAt) > maxTyping {
		v.restOfYes = ""
		return false
	}
	v.restOfYes = v.restOfYes[1:]
	return true
}

// editFilter lets the user enter a filter. A text takes effect with each key, a
// selection at the end.
func (v *view) editFilter() {
	p := v.page()
	if p.columns() == nil {
		return
	}
	v.prompt = &prompt{
		label: "/", text: p.filter.text,
		changed: func(text string) {
			if isSelection(text) {
				text = ""
			}
			v.setFilter(filter{text: text})
		},
		done: func(text string) (question, error) {
			v.prompt = nil
			return v.filterBy(text)
		},
		canceled: func() { v.setFilter(filter{}) },
	}
}

// edit edits the line at the foot of the screen.
func (v *view) edit(event *tcell.EventKey) question {
	p := v.prompt
	switch event.Key() {
	case tcell.KeyEnter:
		q, err := p.done(p.text)
		if err != nil {
			v.prompt, v.note = p, err.Error()
		}
		return q
	case tcell.KeyEscape:
		v.prompt, v.note = nil, ""
		if p.canceled != nil {
			p.canceled()
		}
		return nil
	case tcell.KeyBackspace, tcell.KeyBackspace2:
		_, size := utf8.DecodeLastRuneInString(p.text)
		p.text = p.text[:len(p.text)-size]
	case tcell.KeyCtrlU:
		p.text = ""
	case tcell.KeyRune:
		p.text += string(event.Rune())
	}
	v.note = ""
	if p.changed != nil {
		p.changed(p.text)
	}
	return nil
}
