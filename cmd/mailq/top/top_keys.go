package top

import (
	"unicode/utf8"

	"github.com/gdamore/tcell/v2"

	"zsched/mailq"
)

// topHelp is the page of keys. mailq(1) has it too.
var topHelp = []string{
	"up, down, j, k     move            PgUp, PgDn, g, G   by pages, first, last",
	"Enter              open a thread, then a message",
	"Esc, Backspace     back",
	"s                  sort by the next column: size, rate, oldest, state, reason, name",
	"S                  sort the other way",
	"/                  filter by name, state or reason; * and ? match names; Enter keeps it",
	"e                  explain what the thread waits for",
	"h                  hold the thread or message",
	"r                  release it",
	"t                  try it now",
	"space              ask the server now",
	"?                  this page",
	"q                  leave",
}

// key does what a key asks for.
func (v *topView) key(event *tcell.EventKey) question {
	switch {
	case event.Key() == tcell.KeyCtrlC:
		v.left = true
		return nil
	case v.typing:
		v.typeFilter(event)
		return nil
	case v.pending != nil:
		return v.decide(event)
	}
	v.note = ""
	switch event.Key() {
	case tcell.KeyEnter, tcell.KeyRight:
		return v.open()
	case tcell.KeyEscape, tcell.KeyBackspace, tcell.KeyBackspace2, tcell.KeyLeft:
		return v.back()
	case tcell.KeyRune:
		return v.letter(event.Rune())
	}
	v.moveBy(event.Key())
	return nil
}

// topStep is how far PgUp and PgDn go.
const topStep = 10

func (v *topView) moveBy(key tcell.Key) {
	const far = 1 << 30
	by, ok := map[tcell.Key]int{
		tcell.KeyUp: -1, tcell.KeyDown: 1, tcell.KeyPgUp: -topStep, tcell.KeyPgDn: topStep,
		tcell.KeyHome: -far, tcell.KeyEnd: far,
	}[key]
	if !ok {
		return
	}
	switch v.page {
	case threadsPage:
		v.list.move(by, len(v.rows))
	case jobsPage:
		v.line.move(by, len(v.jobs))
	case textPage:
		v.first = max(0, min(v.first+by, len(v.text)-1))
	}
}

func (v *topView) letter(r rune) question {
	switch r {
	case 'q':
		v.left = v.page == threadsPage
		return v.back()
	case '?':
		if v.page != helpPage {
			v.turn(helpPage)
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
	case 's', 'S', '/':
		if v.page == threadsPage {
			v.arrangeBy(r)
		}
	case 'e':
		return v.explain()
	case 'h':
		v.propose(mailq.Hold)
	case 'r':
		v.propose(mailq.Release)
	case 't':
		v.propose(mailq.Retry)
	}
	return nil
}

// arrangeBy changes which threads stand where.
func (v *topView) arrangeBy(r rune) {
	switch r {
	case 's':
		v.order = (v.order + 1) % topOrders
		v.reversed = false
	case 'S':
		v.reversed = !v.reversed
	case '/':
		v.typing = true
	}
	v.arrange()
}

// open opens the thread or the message under the cursor.
func (v *topView) open() question {
	switch v.page {
	case threadsPage:
		name, ok := v.selected()
		if !ok {
			return nil
		}
		v.turn(jobsPage)
		v.name, v.jobs, v.more, v.line = name, nil, false, topList{}
		return v.openThread(name)
	case jobsPage:
		if v.line.at < len(v.jobs) {
			id := v.jobs[v.line.at].SpoolID
			return v.openText("message "+id, "SHOW MSG "+mailq.Quote(id))
		}
	}
	return nil
}

// back closes a page; on the first it lets the filter go.
func (v *topView) back() question {
	if v.page == threadsPage {
		v.filter = ""
		v.arrange()
		return nil
	}
	last := len(v.under) - 1
	v.page, v.under = v.under[last], v.under[:last]
	if v.page == threadsPage {
		return v.refresh()
	}
	return nil
}

func (v *topView) explain() question {
	name := v.name
	switch v.page {
	case threadsPage:
		var ok bool
		if name, ok = v.selected(); !ok {
			return nil
		}
	case jobsPage:
	default:
		return nil
	}
	return v.openText(name.Channel+"/"+name.Host, "EXPLAIN "+mailq.Quote(name.Channel)+" "+mailq.Quote(name.Host))
}

// propose asks whether an order is meant.
func (v *topView) propose(verb mailq.Verb) {
	if v.page == threadsPage || v.page == jobsPage {
		v.pending = v.orderFor(verb)
	}
}

// decide takes the answer: y, and everything else is no.
func (v *topView) decide(event *tcell.EventKey) question {
	order := v.pending
	v.pending = nil
	if event.Key() == tcell.KeyRune && (event.Rune() == 'y' || event.Rune() == 'Y') {
		v.note = order.String() + " …"
		return v.give(order)
	}
	v.note = "nothing done"
	return nil
}

// typeFilter edits the filter. What is typed counts at once.
func (v *topView) typeFilter(event *tcell.EventKey) {
	switch event.Key() {
	case tcell.KeyEnter:
		v.typing = false
	case tcell.KeyEscape:
		v.typing, v.filter = false, ""
	case tcell.KeyBackspace, tcell.KeyBackspace2:
		_, size := utf8.DecodeLastRuneInString(v.filter)
		v.filter = v.filter[:len(v.filter)-size]
	case tcell.KeyCtrlU:
		v.filter = ""
	case tcell.KeyRune:
		v.filter += string(event.Rune())
	}
	v.arrange()
}
