package soak

// The ledger: what has to become of each recipient, and what became of it.

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// fate is what has to become of a recipient.
type fate int

const (
	delivers fate = iota
	fails         // refused for good
	expires       // its host never takes it
)

// key names a recipient: the number in the X-Soak field of the message, and the
// address that the mail is delivered to, in lower case.
type key struct {
	message int
	address string
}

// delivery is a message at its destination.
type delivery struct {
	at time.Time
	// dropped: the server closed the connection instead of replying.
	dropped bool
	// unmarked: its clause has marking=scheduler.
	unmarked bool
	// Of a notice: its Message-ID, and when it was written.
	id      string
	written time.Time
}

// entry is a recipient in the ledger.
type entry struct {
	fate       fate
	never      bool // NOTIFY=NEVER
	success    bool // NOTIFY=SUCCESS,FAILURE
	accepted   bool // the client was told that the message is accepted
	delivered  []delivery
	failures   []delivery // notices of failure
	successes  []delivery // notices of success
	killed     bool       // KILL was ordered
	expired    bool       // EXPIRE was ordered
	resentAt   time.Time  // the last REQUEUE or REROUTE
	held       []span     // when it was surely held
	loosening  int        // orders under way that may let it go, if it is held
	loosened   time.Time  // when the last such order was over
	mismatched bool       // its text was not what was sent
}

// span is a time; it has not ended if until is zero.
type span struct{ since, until time.Time }

// ledger has all recipients. No injected fault affects it.
type ledger struct {
	mu       sync.Mutex
	messages int
	accepted int
	unsure   int          // submissions whose clients were not told that the message is accepted
	arrived  map[int]bool // messages of which a delivery or a notice was seen
	doubtful map[int]bool // the messages of the submissions in unsure
	entries  map[key]*entry
	refused  map[string]bool // addresses that a server has refused
	wrong    []string
}

func newLedger() *ledger {
	return &ledger{arrived: map[int]bool{}, doubtful: map[int]bool{}, entries: map[key]*entry{}, refused: map[string]bool{}}
}

// submission is a message with its addressees and what has to become of each.
type submission struct {
	number  int
	to      []string // the addresses of the envelope
	notify  string   // NOTIFY of all of them; "" is none
	expects map[string]fate
}

// add notes a message that is about to be submitted, and numbers it.
func (l *ledger) add(m *submission) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.messages++
	m.number = l.messages
	for address, fate := range m.expects {
		l.entries[key{m.number, address}] = &entry{
			fate: fate, never: m.notify == "NEVER", success: m.notify == "SUCCESS,FAILURE",
		}
	}
}

// accept notes whether the client was told that the message is accepted.
func (l *ledger) accept(m *submission, told bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !told {
		l.unsure++
		l.doubtful[m.number] = true
		return
	}
	l.accepted++
	for address := range m.expects {
		l.entries[key{m.number, address}].accepted = true
	}
}

// refuse notes that a server has refused an address for good.
func (l *ledger) refuse(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused[address] = true
}

// update changes an entry. It is an error if the message has no such recipient.
func (l *ledger) update(k key, what string, change func(e *entry)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.arrived[k.message] = true
	e := l.entries[k]
	if e == nil {
		l.wrong = append(l.wrong, fmt.Sprintf("%s: message %d has no recipient %s", what, k.message, k.address))
		return
	}
	change(e)
}

// loosen notes that an order begins that may let go the held mail that matches. The
// caller calls what it returns after the order.
func (l *ledger) loosen(matches func(key) bool) (over func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	messages := map[int]bool{}
	for k := range l.entries {
		if matches(k) {
			messages[k.message] = true // all its recipients are in one file
		}
	}
	var loose []*entry
	for k, e := range l.entries {
		if !messages[k.message] {
			continue
		}
		loose = append(loose, e)
		e.loosening++
		if n := len(e.held); n > 0 && e.held[n-1].until.IsZero() {
			e.held[n-1].until = time.Now()
		}
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, e := range loose {
			e.loosening--
			e.loosened = time.Now()
		}
	}
}

// holds notes which recipients are held by an order that began at a time: all but those
// that another order may have let go since, and those that were sent again and may be in
// a second file, which nobody holds.
func (l *ledger) holds(keys []key, begun time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range keys {
		e := l.entries[k]
		if e == nil || e.loosening > 0 || e.loosened.After(begun) || !e.resentAt.IsZero() {
			continue
		}
		if n := len(e.held); n == 0 || !e.held[n-1].until.IsZero() {
			e.held = append(e.held, span{since: time.Now()})
		}
	}
}

// fault is a kill that may double mail.
type fault struct {
	at                time.Time
	kind              string
	agents, scheduler bool // what has died
}

// faults lists the faults in their order, and counts all kinds.
type faults struct {
	mu     sync.Mutex
	all    []fault
	counts map[string]int
}

func (f *faults) add(kind string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[kind]++
	of := fault{time.Now(), kind, strings.Contains(kind, "agents"), strings.Contains(kind, "scheduler")}
	if of.agents || of.scheduler {
		f.all = append(f.all, of)
	}
}

// count counts a fault that cannot double mail.
func (f *faults) count(kind string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[kind]++
}

func (f *faults) list() []fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.all)
}

// doubled counts the doubles of one cause.
type doubled struct {
	times int
	gap   time.Duration // the longest time between a delivery and its fault
}

// verdict is what the ledger shows in the end.
type verdict struct {
	messages, recipients, delivered, failed, killed int
	unsure, unsureArrived                           int
	doubles                                         map[string]*doubled
	losses                                          int
	held                                            int // times that a recipient was surely held
	wrong                                           []string
}

// verdict judges every recipient, when all mail has left the queue.
func (l *ledger) verdict(all []fault) *verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := &verdict{messages: l.accepted, unsure: l.unsure, doubles: map[string]*doubled{}, wrong: slices.Clone(l.wrong)}
	for number := range l.doubtful {
		if l.arrived[number] {
			v.unsureArrived++
		}
	}
	for k, e := range l.entries {
		for _, problem := range e.problems() {
			v.wrong = append(v.wrong, fmt.Sprintf("message %d to %s: %s", k.message, k.address, problem))
		}
		v.held += len(e.held)
		v.double(k, "delivered twice", e.delivered, e.resentAt, all)
		v.double(k, "two notices of failure", e.failures, e.resentAt, all)
		v.double(k, "two notices of success", e.successes, e.resentAt, all)
		if len(e.delivered) > 0 && len(e.failures) > 0 && !e.mismatched {
			// A fault hid the delivery, and later attempts failed.
			v.double(k, "delivered, and a notice of failure", []delivery{e.delivered[0], e.failures[0]}, e.resentAt, all)
		}
		if !e.accepted {
			continue
		}
		v.recipients++
		switch {
		case len(e.delivered) > 0:
			v.delivered++
		case len(e.failures) > 0 || e.never && e.fate != delivers && !e.killed:
			v.failed++
		case e.killed:
			v.killed++
		}
		if lost := e.lost(l.refused[k.address]); lost != "" {
			v.losses++
			v.wrong = append(v.wrong, fmt.Sprintf("LOST: message %d to %s: %s", k.message, k.address, lost))
		}
	}
	slices.Sort(v.wrong)
	return v
}

// lost returns what is missing for an accepted recipient; "" if nothing is. refused says
// that a server has refused it for good.
func (e *entry) lost(refused bool) string {
	told := len(e.failures) > 0
	switch {
	case e.killed || told:
		return ""
	case e.never && (e.expired || refused):
		return "" // it has failed, and no notice is owed
	case len(e.delivered) == 0 && e.fate == delivers:
		return "neither delivered nor reported"
	case len(e.delivered) == 0:
		return "it has failed, and no notice says so"
	case e.success && len(e.successes) == 0:
		return "delivered, and no notice says so"
	}
	return ""
}

// problems lists what should not have happened to a recipient.
func (e *entry) problems() (list []string) {
	if e.mismatched {
		list = append(list, "its text was changed")
	}
	for _, d := range e.delivered {
		if e.heldAt(d) {
			list = append(list, "it was held, and delivered at "+d.at.Format("15:04:05.000"))
		}
	}
	if e.fate != delivers && len(e.delivered) > 0 {
		list = append(list, "it was delivered, and should have failed")
	}
	if e.fate == delivers && len(e.failures) > 0 && len(e.delivered) == 0 && !e.expired {
		list = append(list, "it has failed, and should have been delivered")
	}
	if e.never && len(e.failures) > 0 {
		list = append(list, "a notice of failure despite NOTIFY=NEVER")
	}
	if !e.success && len(e.successes) > 0 {
		list = append(list, "a notice of success that nobody asked for")
	}
	return list
}

// heldAt reports whether a recipient was held when it was delivered. With
// marking=scheduler an agent that outlives the scheduler may still have it.
func (e *entry) heldAt(d delivery) bool {
	// The times of files are whole seconds, and a server notes a delivery a little late.
	const slack = 2 * time.Second
	return !d.unmarked && slices.ContainsFunc(e.held, func(h span) bool {
		return d.at.After(h.since.Add(slack)) && (h.until.IsZero() || d.at.Before(h.until))
	})
}

// causeTime is the longest time between a delivery and the fault that doubled it,
// whichever comes first. An agent marks a recipient in milliseconds. But agents are slow
// on a busy machine, and with marking=scheduler they may outlive the scheduler.
const causeTime = 30 * time.Second

// double finds the cause of each delivery after the first.
func (v *verdict) double(k key, what string, times []delivery, resentAt time.Time, all []fault) {
	slices.SortFunc(times, func(a, b delivery) int { return a.at.Compare(b.at) })
	for i := 1; i < len(times); i++ {
		first, second := times[i-1], times[i]
		if first.id != second.id {
			// Not one notice that arrived twice, but two that were written.
			if first.id != "" {
				first.at = first.written
			}
			if second.id != "" {
				second.at = second.written
			}
		}
		cause, gap := causeOf(first, second, resentAt, all)
		if cause == "" {
			v.wrong = append(v.wrong, fmt.Sprintf("message %d to %s: %s, at %s and %s, without a fault in between",
				k.message, k.address, what, first.at.Format("15:04:05.000"), second.at.Format("15:04:05.000")))
			cause = "without a cause"
		}
		d := v.doubles[what+": "+cause]
		if d == nil {
			d = &doubled{}
			v.doubles[what+": "+cause] = d
		}
		d.times++
		d.gap = max(d.gap, gap)
	}
}

// causeOf returns the fault that explains why mail was delivered again, and how far it
// is from the first delivery. Only the death of its agent doubles mail. With
// marking=scheduler, and when a notice is written, the death of the scheduler does so
// too.
func causeOf(first, second delivery, resentAt time.Time, all []fault) (string, time.Duration) {
	if first.dropped {
		return "the server dropped the connection instead of replying", 0
	}
	// The times of files lag a little behind the clock.
	const slack = time.Second
	from, written := first.at.Add(-slack), first.id != second.id
	if first.unmarked || written {
		from = first.at.Add(-causeTime)
	}
	best, nearest := "", causeTime+1
	for _, f := range all {
		if f.at.Before(from) || f.at.After(second.at.Add(slack)) || !f.agents && !first.unmarked && !written {
			continue
		}
		if gap := f.at.Sub(first.at).Abs(); gap < nearest {
			best, nearest = f.kind, gap
		}
	}
	switch {
	case best != "" && first.unmarked:
		return best + " (marking=scheduler)", nearest
	case best != "":
		return best, nearest
	case !resentAt.IsZero() && resentAt.Before(second.at):
		return "REQUEUE or REROUTE", second.at.Sub(resentAt)
	}
	return "", 0
}
