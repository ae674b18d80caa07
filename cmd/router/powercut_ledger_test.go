package main

// The ledger of the simulated power cuts: what was promised to senders, and what
// became of it.

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// fate is what the model agents do with a recipient.
type fate int

const (
	delivers fate = iota
	defersFirst
	fails
	neverEnds // deferred until it expires
)

// entry is a recipient, whose address is its name in the ledger.
type entry struct {
	address, sender string
	fate            fate
	wantsSuccess    bool // NOTIFY=SUCCESS,FAILURE
	accepted        bool // somebody was told that the message is taken
	tries           int
	delivered       []int // the lives in which it was delivered
	failed, told    int   // notices of failure, and of success, that the sender has
	resent          bool  // by REQUEUE or REROUTE
	garbled         string
}

// ledger has all recipients. The world outside the machine keeps it: no power cut
// touches it.
type ledger struct {
	mu      sync.Mutex
	entries map[string]*entry
	junk    map[string]bool // texts of malformed files that were on disk
	doubles map[string]int  // by what was doubled
	wrong   []string
}

func newLedger() *ledger {
	return &ledger{entries: map[string]*entry{}, junk: map[string]bool{}, doubles: map[string]int{}}
}

func (l *ledger) add(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[e.address] = e
}

func (l *ledger) accept(addresses []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range addresses {
		l.entries[a].accepted = true
	}
}

// fateOf counts an attempt and returns what becomes of a recipient now.
func (l *ledger) fateOf(address string) fate {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[address]
	if e == nil {
		l.wrong = append(l.wrong, "an agent was given "+address+", whom nobody knows")
		return delivers
	}
	e.tries++
	if e.fate == defersFirst && e.tries > 2 {
		return delivers
	}
	return e.fate
}

// deliver notes a delivery. faults says that calls may have failed in this life of
// the machine.
func (l *ledger) deliver(address, text string, life int, faults bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[address]
	if e == nil {
		return
	}
	if want := bodyFor(e.sender); !strings.Contains(text, want) {
		e.garbled = text
		return
	}
	if len(e.delivered) > 0 {
		switch {
		case e.resent:
			l.doubles["recipient sent elsewhere by an order"]++
		case e.delivered[len(e.delivered)-1] != life:
			l.doubles["recipient delivered before the cut"]++
		case faults:
			l.doubles["recipient whose tag could not be written"]++
		default:
			l.wrong = append(l.wrong, fmt.Sprintf("%s was delivered twice in life %d", address, life))
		}
	}
	e.delivered = append(e.delivered, life)
}

// notice notes what a notice to a sender says.
func (l *ledger) notice(to, text string) {
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
		case e.sender != to:
			l.wrong = append(l.wrong, fmt.Sprintf("a notice about %s went to %s", address, to))
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
func (e *entry) owed() string {
	switch {
	case !e.accepted:
		return ""
	case e.garbled != "" && len(e.delivered) == 0:
		return "it was delivered garbled: " + e.garbled
	case e.failed > 0:
		return ""
	case e.fate == fails || e.fate == neverEnds:
		return "its sender never heard of the failure"
	case len(e.delivered) == 0:
		return "it was never delivered"
	case e.wantsSuccess && e.told == 0:
		return "its sender never heard of the success"
	}
	return ""
}

// unkept lists the promises that are not kept.
func (l *ledger) unkept() (list []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, address := range slices.Sorted(maps.Keys(l.entries)) {
		if why := l.entries[address].owed(); why != "" {
			list = append(list, address+": "+why)
		}
	}
	return list
}

// bodyFor is the body of a sender's message.
func bodyFor(sender string) string {
	return "begin " + sender + "\n" + strings.Repeat("a line of the message of "+sender+"\n", 20) + "end " + sender + "\n"
}
