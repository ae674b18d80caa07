package top

// The keys, and the line that the user enters.

import (
	"strings"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"zsched/mailq"
	"zsched/mailq/report"
)

// helpText is the page of keys. mailq(1) has it too.
var helpText = []string{
	"1 2 3 4 5        threads, rings, agents, reasons, held mail",
	"arrows j k g G   move; PgUp PgDn: by screens",
	"Enter            open a ring, a reason, a thread, a message",
	"Esc, q           go back; on a first page, Esc clears the filter and q quits",
	"s                sort by the next column",
	"/                show only lines that have a text",
	"",
	"Orders are for the line under the cursor. The server counts first; then y and",
	"Enter give the order, above 100 messages the word yes.",
	"h r t            hold (for a time if you like); release; retry now",
	"X K              expire, with a notice to the sender; kill, without one",
	"Q R              requeue: back to the router; reroute to another thread",
	"e T              explain what mail waits for; trace a message (event log)",
	"space            ask the server now",
	"^Z ^C            suspend; quit",
}

// key handles a key. It returns nil if the key is not for the library.
func (v *view) key(event *tcell.EventKey) *tcell.EventKey {
	switch {
	case event.Key() == tcell.KeyCtrlZ:
		v.suspend()
		return nil
	case v.entering || event.Key() == tcell.KeyCtrlC:
		return event
	}
	v.note("")
	switch event.Key() {
	case tcell.KeyEnter:
		v.enter()
		return nil
	case tcell.KeyEscape, tcell.KeyBackspace, tcell.KeyBackspace2:
		v.back()
		return nil
	case tcell.KeyRune:
		if v.letter(event.Rune()) {
			return nil
		}
	}
	return event
}

// letter handles a letter. It returns false if it is for the library.
func (v *view) letter(r rune) bool {
	p := v.page()
	for i := range mailq.Verbs {
		if verb := &mailq.Verbs[i]; r != 0 && verb.Key == r {
			v.propose(verb)
			return true
		}
	}
	if n := int(r - '1'); n >= 0 && n < len(kinds) {
		v.stack = []*page{mainPage(n)}
		v.layout()
		v.refresh()
		return true
	}
	switch r {
	case 'q':
		if len(v.stack) == 1 {
			v.app.Stop()
			return true
		}
		v.back()
	case '?':
		v.open(textPage(p.main, "keys", helpText))
	case ' ':
		v.refresh()
	case 's':
		if p.table != nil {
			p.sorted, p.byUser = (p.sorted+1)%len(p.table.Columns), true
			p.arrange()
			v.writeHead()
		}
	case '/':
		if p.shown != nil {
			v.read("/", func(text string) { v.filter(text) })
		}
	case 'e':
		v.explain()
	case 'T':
		v.trace()
	default:
		return false
	}
	return true
}

func (v *view) filter(text string) {
	v.page().filter = strings.ToLower(text)
	v.page().arrange()
	v.writeHead()
}

// enter opens what is under the cursor.
func (v *view) enter() {
	p := v.page()
	r, found := p.selected()
	switch {
	case !found:
	case r.Ring != 0:
		v.open(newPage(p.main, "ring "+r.Cells[0].Text, threadsOf(r.Ring)))
	case r.Message != "":
		v.openText("message "+r.Message, describe(v, mailq.ShowMessage(r.Message), report.Message))
	case r.Where != nil:
		v.open(newPage(p.main, r.Where.String(), list("SHOW WHERE "+r.Where.String(), report.Jobs)))
	case r.Thread != nil:
		v.open(newPage(p.main, r.Thread.Channel+"/"+r.Thread.Host, list(mailq.ShowThread(*r.Thread), report.Jobs)))
	}
}

// back closes a page. On the first one it clears the filter.
func (v *view) back() {
	if len(v.stack) == 1 {
		v.filter("")
		return
	}
	v.stack = v.stack[:len(v.stack)-1]
	v.note("")
	v.layout()
	v.refresh()
}

// explain asks what the thread under the cursor waits for.
func (v *view) explain() {
	r, found := v.page().selected()
	if !found || r.Thread == nil {
		v.note("no thread is selected")
		return
	}
	v.openText(r.Thread.Channel+"/"+r.Thread.Host, describe(v, mailq.Explain(*r.Thread), report.Explanation))
}

// trace shows what happened to the message under the cursor.
func (v *view) trace() {
	r, found := v.page().selected()
	if !found || r.Message == "" {
		v.note("no message is selected")
		return
	}
	v.openText("trace of "+r.Message, func() ([]string, error) { return v.Trace(r.Message) })
}

// read lets the user enter a line, and then calls done. Esc drops it.
func (v *view) read(label string, done func(text string)) {
	v.entering = true
	v.prompt.SetLabel(tview.Escape(label)).SetText("")
	v.prompt.SetDoneFunc(func(key tcell.Key) {
		v.entering = false
		v.note("")
		if key == tcell.KeyEnter {
			done(strings.TrimSpace(v.prompt.GetText()))
		}
		v.layout()
	})
	v.layout()
}
