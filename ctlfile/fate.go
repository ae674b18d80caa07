package ctlfile

// Fates: what became of recipients whose tag alone does not say it.

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Fate says why a recipient is tagged Delivered although it was not delivered. It stands in
// brackets after the action of a d line that is tagged as reported:
//
//	d+226:109:-1::1047508710<TAB>bob@example.net<0x01>delivered (rerouted)<TAB>sent to ...
//
// Other programs see a recipient whose sender needs no notice.
type Fate string

const (
	Killed   Fate = "killed"   // dropped by KILL
	Requeued Fate = "requeued" // given back to the router
	Rerouted Fate = "rerouted" // sent to another thread, also on the way to another node, in another message
	Moved    Fate = "moved"    // taken to another node; no d line says so, but the channel
)

// deliveredAction is the action of d lines with a Fate.
const deliveredAction = "delivered"

// Action returns the action of a d line with this fate.
func (fate Fate) Action() string { return deliveredAction + " (" + string(fate) + ")" }

// fate returns the fate that a d line states; "": none.
func (d *Diagnostic) fate() Fate {
	fields := strings.Split(d.Notary, "\x01")
	if len(fields) < 2 {
		return ""
	}
	for _, fate := range [...]Fate{Killed, Requeued, Rerouted} {
		if fields[1] == fate.Action() {
			return fate
		}
	}
	return ""
}

// SentText is the text of the d lines of recipients that are Rerouted: to a thread (channel/host),
// that many together, in the message with a spoolid.
//
//	sent to smtp/b.example with 3 more in message S258367XMVQKNOA
//
// These lines mean something together only: a copy of the message counts with all its recipients
// or not at all.
func SentText(thread string, recipients int, spoolid string) string {
	if recipients > 1 {
		thread += fmt.Sprintf(" with %d more", recipients-1)
	}
	return "sent to " + thread + inMessage + spoolid
}

const inMessage = " in message "

// IsIn reports whether a d line says that its recipient was sent elsewhere in the message with a
// spoolid.
func (d *Diagnostic) IsIn(spoolid string) bool { return strings.HasSuffix(d.Text, inMessage+spoolid) }

// sentTogether returns how many recipients were sent together according to the text of a Rerouted one.
func sentTogether(text string) int {
	at := strings.LastIndex(text, inMessage)
	if at < 0 || strings.ContainsAny(text[at+len(inMessage):], " :") {
		return math.MaxInt // the line was cut short, and ended with blanks or another d line
	}
	before, isMore := strings.CutSuffix(text[:at], " more")
	more, err := strconv.Atoi(before[strings.LastIndexByte(before, ' ')+1:])
	if !isMore || err != nil {
		return 1
	}
	return 1 + more
}

// dropIncomplete drops the d lines of recipients that were to be sent elsewhere together if not all of
// the lines are there: an error or a crash has cut them short, and then the copy does not count. The
// line of another program may have become the rest of one.
func (f *File) dropIncomplete() {
	begins := "\x01" + deliveredAction + " (" + string(Rerouted[:3])
	isOne := func(d *Diagnostic) bool { return strings.Contains(d.Notary, begins) }
	var lines map[string]int
	for i := range f.Diagnostics {
		if d := &f.Diagnostics[i]; isOne(d) {
			if lines == nil {
				lines = make(map[string]int)
			}
			lines[d.Text]++
		}
	}
	if lines == nil {
		return
	}
	f.Diagnostics = slices.DeleteFunc(f.Diagnostics, func(d Diagnostic) bool {
		return isOne(&d) && (d.fate() != Rerouted || lines[d.Text] < sentTogether(d.Text))
	})
}

// Outcome returns what the file says became of recipient i: "failed", "expired",
// "delivered", a Fate, or "done" if the file says no more than that: another recipient of
// its exclusive set was delivered, for example. One that an agent has taken to another node is
// Moved. It is "" for a recipient that is not done.
func (f *File) Outcome(i int) string {
	r := &f.Recipients[i]
	if !f.Done(i) {
		return ""
	}
	var last *Diagnostic
	for n := range f.Diagnostics {
		if f.Diagnostics[n].Recipient == r.Offset {
			last = &f.Diagnostics[n]
		}
	}
	switch {
	case r.Tag == Failed && last != nil && last.expired():
		return "expired"
	case r.Tag == Failed:
		return "failed"
	case last != nil && last.fate() != "":
		return string(last.fate())
	case last != nil && last.Text == NobodyIsTold, r.Tag != Delivered, r.Class > 0 && f.othersDelivered(i):
		return "done"
	case r.RouteChannel() == TransferChannel:
		return string(Moved)
	}
	return "delivered"
}

// NobodyIsTold is the text of a d line for an outcome without a notice, if nothing else is
// known: another recipient of the exclusive set was delivered, for example.
const NobodyIsTold = "nobody is to be told"

// expired reports whether a d line says that the time of a recipient was over, or that an
// order ended it. The scheduler writes that behind the status.
func (d *Diagnostic) expired() bool {
	fields := strings.Split(d.Notary, "\x01")
	return len(fields) > 2 && strings.Contains(fields[2], "expired")
}

// othersDelivered reports whether other recipients of the exclusive set of recipient i are
// tagged Delivered too: the tags do not say which of them was delivered.
func (f *File) othersDelivered(i int) bool {
	for j := range f.Recipients {
		if other := &f.Recipients[j]; j != i && other.Class == f.Recipients[i].Class && other.Tag == Delivered {
			return true
		}
	}
	return false
}
