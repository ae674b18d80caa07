package eventlog

// Domains: the ends of addresses, which are kept once.

import (
	"strconv"
	"strings"
)

// domains gives numbers to the ends of addresses and Message-IDs, from their last "@" on. Most mail
// has few of them, so what is kept of a message becomes half as long.
type domains struct {
	names   []string
	numbers map[string]int // of the names
}

// What comes after maxDomains, or is longer than maxDomain bytes, gets no number. A name stays, so
// both bound the memory.
const (
	maxDomains = 8192
	maxDomain  = 64
)

// numberMark is between a text and the number of its end. A text that contains it, and whose end has
// no number, gets it at the end, so that restore takes no part of that text for a number.
const numberMark = "\x00"

// shorten returns a text with a number in place of its end. restore does the opposite.
func (d *domains) shorten(text string) string {
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		if n := d.number(text[at:]); n >= 0 {
			return text[:at] + numberMark + strconv.FormatInt(int64(n), base)
		}
	}
	if strings.Contains(text, numberMark) {
		return text + numberMark
	}
	return text
}

func (d *domains) restore(short string) string {
	at := strings.LastIndex(short, numberMark)
	if at < 0 {
		return short
	}
	text, number := short[:at], short[at+1:]
	if number == "" {
		return text
	}
	n, _ := strconv.ParseInt(number, base, 64)
	return text + d.names[n]
}

// number finds or makes the number of a name. It is -1 if there is none.
func (d *domains) number(name string) int {
	n, known := d.numbers[name]
	switch {
	case known:
		return n
	case len(name) > maxDomain || len(d.names) == maxDomains:
		return -1
	}
	name, n = strings.Clone(name), len(d.names) // the text of a control file is not kept
	d.names, d.numbers[name] = append(d.names, name), n
	return n
}
