// Package ledger keeps what mail programs have promised to senders, and what became
// of it, for tests that kill the programs or make their calls fail. An entry is a
// recipient. At the end each accepted recipient is delivered or its sender has a notice
// of the failure. Deliveries and notices that came twice are counted by their reason.
//
// The ledger is outside the programs under test: it is in the memory of the test, and
// no injected fault affects it. A life of the programs is the time from one start to
// the next.
package ledger

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Fate is what the tests' agents or servers do with a recipient.
type Fate int

const (
	Delivers Fate = iota
	DefersFirst
	Fails
	NeverEnds // deferred until it expires
)

// Entry is a recipient. Its address identifies it in the ledger.
type Entry struct {
	Address, Sender string
	Fate            Fate
	WantsSuccess    bool  // NOTIFY=SUCCESS,FAILURE
	Accepted        bool  // a client was told that the message is accepted
	Delivered       []int // the lives of the programs in which it was delivered
	Resent          bool  // by REQUEUE or REROUTE

	tries        int
	failed, told int  // notices of failure, and of success, that the sender has
	done, over   bool // see Close
	garbled      string
}

// Ledger has all recipients.
type Ledger struct {
	mu      sync.Mutex
	entries map[string]*Entry
	doubles map[string]int
	wrong   []string
}

// New returns an empty ledger.
func New() *Ledger {
	return &Ledger{entries: map[string]*Entry{}, doubles: map[string]int{}}
}

// Add adds a recipient. The entry then belongs to the ledger.
func (l *Ledger) Add(e *Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[e.Address] = e
}

// Accept notes that a client was told that the message for these addresses is accepted.
func (l *Ledger) Accept(addresses []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range addresses {
		l.entries[a].Accepted = true
	}
}

// Change calls f for the entries whose addresses are in a text, such as a control
// file.
func (l *Ledger) Change(text string, f func(*Entry)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for address, e := range l.entries {
		if strings.Contains(text, address) {
			f(e)
		}
	}
}

// Count returns the number of recipients, and how many of them are accepted.
func (l *Ledger) Count() (all, accepted int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		if all++; e.Accepted {
			accepted++
		}
	}
	return all, accepted
}

// Doubles returns how often recipients and notices were doubled, by reason.
func (l *Ledger) Doubles() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.doubles)
}

// Wrong lists the events that must never happen.
func (l *Ledger) Wrong() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.wrong)
}

// Close notes, after a crash, which recipients are finished. The text open has all
// recipients on disk that are still to be delivered; owed has those on disk whose
// sender is still to get a notice. A delivered recipient that is not in open must not
// be delivered again. If its sender has a notice and it is in neither text, no other
// notice may come.
func (l *Ledger) Close(open, owed string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for address, e := range l.entries {
		stillOpen := strings.Contains(open, address)
		e.done = e.done || len(e.Delivered) > 0 && !stillOpen
		e.over = e.over || e.failed+e.told > 0 && !stillOpen && !strings.Contains(owed, address)
	}
}

// Attempt counts an attempt and returns what the agent does with the recipient now.
func (l *Ledger) Attempt(address string) Fate {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[address]
	if e == nil {
		l.wrong = append(l.wrong, "an agent was given "+address+", which is not in the ledger")
		return Delivers
	}
	e.tries++
	if e.Fate == DefersFirst && e.tries > 2 {
		return Delivers
	}
	return e.Fate
}

// Deliver notes a delivery in a life of the programs. If it is not the first of this
// recipient, reason says why that may happen; "" if it may not.
func (l *Ledger) Deliver(address, text string, life int, reason func(*Entry) string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[address]
	if e == nil {
		return
	}
	if want := Body(e.Sender); !strings.Contains(text, want) {
		e.garbled = text
		return
	}
	if e.done {
		l.wrong = append(l.wrong, fmt.Sprintf("%s was delivered again in life %d, although no file had it open after a crash", address, life))
	}
	if len(e.Delivered) > 0 {
		if why := reason(e); why != "" {
			l.doubles[why]++
		} else {
			l.wrong = append(l.wrong, fmt.Sprintf("%s was delivered again in life %d, first in %v", address, life, e.Delivered))
		}
	}
	e.Delivered = append(e.Delivered, life)
}

// Notice notes what a notice to a sender says.
func (l *Ledger) Notice(to, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for part := range strings.SplitSeq(text, "\n\n") {
		address, action := "", ""
		for line := range strings.Lines(part) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			switch strings.ToLower(key) {
			case "final-recipient":
				_, address, _ = strings.Cut(value, ";")
				address = strings.TrimSpace(address)
			case "action":
				action = strings.TrimSpace(value)
			}
		}
		e := l.entries[address]
		switch {
		case address == "":
		case e == nil:
			l.wrong = append(l.wrong, fmt.Sprintf("a notice to %s is about %s", to, address))
		case e.Sender != to:
			l.wrong = append(l.wrong, fmt.Sprintf("a notice about %s went to %s", address, to))
		case e.over:
			l.wrong = append(l.wrong, fmt.Sprintf("another notice about %s came, although no file owed it after a crash", address))
		case action == "failed":
			if e.failed++; e.failed > 1 {
				l.doubles["notice of failure"]++
			}
		case action == "delivered" || action == "relayed" || action == "expanded":
			if e.told++; e.told > 1 {
				l.doubles["notice of success"]++
			}
		}
	}
}

// owed returns why the promise about a recipient is not kept; "" if it is.
func (e *Entry) owed() string {
	switch {
	case !e.Accepted:
		return ""
	case e.garbled != "" && len(e.Delivered) == 0:
		return "it was delivered garbled: " + e.garbled
	case e.failed > 0:
		return ""
	case e.Fate == Fails || e.Fate == NeverEnds:
		return "its sender never heard of the failure"
	case len(e.Delivered) == 0:
		return "it was never delivered"
	case e.WantsSuccess && e.told == 0:
		return "its sender never heard of the success"
	}
	return ""
}

// Unkept lists the promises that are not kept.
func (l *Ledger) Unkept() (list []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, address := range slices.Sorted(maps.Keys(l.entries)) {
		if why := l.entries[address].owed(); why != "" {
			list = append(list, address+": "+why)
		}
	}
	return list
}

// Body is the body of a sender's message.
func Body(sender string) string {
	return "begin " + sender + "\n" + strings.Repeat("a line of the message of "+sender+"\n", 20) + "end " + sender + "\n"
}
