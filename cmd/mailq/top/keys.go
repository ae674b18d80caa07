package top

import (
	"unicode/utf8"

	"github.com/gdamore/tcell/v2"

	"zsched/mailq"
)

// helpText is the page of keys. mailq(1) has it too.
var helpText = []string{
	"up, down, j, k     move            PgUp, PgDn, g, G   by pages, first, last",
	"Enter              open a thread, then a message",
	"Esc, Backspace     back",
	"s                  sort by the next column: size, rate, oldest, state, reason, name",
	"S                  reverse the order",
	"/                  filter by name, state or reason; * and ? for the name; Enter keeps it",
	"e                  explain what the thread waits for",
	"h                  hold the thread or message",
	"r                  release it",
	"t                  try it now",
	"space              ask the server now",
	"?                  this page",
	"q                  back; on the first page, quit",
}

// key handles a key.
func (v *view) key(event *tcell.EventKey) question {
	switch {
	case event.Key() == tcell.KeyCtrlC:
		v.quit = true
		return nil
	case v.typing:
		v.typeFilter(event)
		return nil
	case v.unconfirmed != nil:
		return v.confirm(event)
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

// pageStep is how many rows PgUp and PgDn move.
const pageStep = 10

func (v *view) moveBy(key tcell.Key) {
	const far = 1 << 30
	by, ok := map[tcell.Key]int{
		tcell.KeyUp: -1, tcell.KeyDown: 1, tcell.KeyPgUp: -pageStep, tcell.KeyPgDn: pageStep,
		tcell.KeyHome: -far, tcell.KeyEnd: far,
	}[key]
	if !ok {
		return
	}
	switch v.page {
	case threadsPage:
		v.threadList.move(by, len(v.rows))
	case jobsPage:
		v.jobList.move(by, len(v.jobs))
	case textPage:
		v.first = max(0, min(v.first+by, len(v.text)-1))
	}
}

func (v *view) letter(r rune) question {
	switch r {
	case 'q':
		v.quit = v.page == threadsPage
		return v.back()
	case '?':
		if v.page != helpPage {
			v.push(helpPage)
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

// arrangeBy sorts or filters the threads.
func (v *view) arrangeBy(r rune) {
	switch r {
	case 's':
		v.sortedBy = (v.sortedBy + 1) % sortKeys
		v.reversed = false
	case 'S':
		v.reversed = !v.reversed
	case '/':
		v.typing = true
	}
	v.arrange()
}

// open opens the thread or message under the cursor.
func (v *view) open() question {
	switch v.page {
	case threadsPage:
		name, ok := v.selected()
		if !ok {
			return nil
		}
		v.push(jobsPage)
		v.name, v.jobs, v.more, v.jobList = name, nil, false, list{}
		return v.openThread(name)
	case jobsPage:
		if v.jobList.at < len(v.jobs) {
			id := v.jobs[v.jobList.at].SpoolID
			return v.openText("message "+id, mailq.ShowMessage(id))
		}
	}
	return nil
}

// back closes a page. On the page of threads it clears the filter.
func (v *view) back() question {
	if v.page == threadsPage {
		v.filter = ""
		v.arrange()
		return nil
	}
	last := len(v.previous) - 1
	v.page, v.previous = v.previous[last], v.previous[:last]
	if v.page == threadsPage {
		return v.refresh()
	}
	return nil
}

func (v *view) explain() question {
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
	return v.openText(name.Channel+"/"+name.Host, mailq.Explain(name))
}

// propose asks the user to confirm an order.
func (v *view) propose(verb mailq.Verb) {
	if v.page == threadsPage || v.page == jobsPage {
		v.unconfirmed = v.orderFor(verb)
	}
}

// confirm handles the user's answer: y gives the order, any other key drops it.
func (v *view) confirm(event *tcell.EventKey) question {
	order := v.unconfirmed
	v.unconfirmed = nil
	if event.Key() == tcell.KeyRune && (event.Rune() == 'y' || event.Rune() == 'Y') {
		v.note = order.String() + " …"
		return v.give(order)
	}
	v.note = "nothing done"
	return nil
}

// typeFilter edits the filter. Each key takes effect at once.
func (v *view) typeFilter(event *tcell.EventKey) {
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
