// Package state is the format of POSTOFFICE/.scheduler.state, in which the
// scheduler saves what it knows about the mail beyond the control files:
// scheduler-state(5). A later scheduler reads it, so that mail keeps its attempts and
// its retry times across a restart.
//
// The file is advice only. A line that is torn, malformed or of an unknown kind
// is skipped. A line about a message that does not exist is never looked up. The file is
// always written as a whole and put in the place of the one before.
//
//	scheduler-state 1
//	d NUMBER "NOTARY" "TEXT"
//	r SPOOLID OFFSET MTIME ATTEMPTS NEXT FED STEP FLAGS NUMBER
//	t "CHANNEL" "HOST" UNTIL STEP FLAGS WINDOW SUCCESS FAILURE COHORTS NUMBER [PAID "SITE" SITEUNTIL
//	  ["PATTERN" "HOSTPATTERN" "EXPRESSION" "ACTION" SINCE UNTIL]...]
//	b SETTING "NAME" "RATES" PAID
//	n ["NODE"]...
//
// The first line gives the version. Version 0.9 appended to the file, and began with such a
// line each time: another one begins the numbers of diagnostics anew. What follows the line
// of another version is skipped.
//
// A d line is a diagnostic, as an agent reported it. Later lines
// refer to it by its number; 0 is none. An r line is a recipient: the number of
// the control file, the offset of the r line in it, the mtime of the message
// file, how often it was tried, when it is due (0: it does not wait), when an
// agent was last given it (0: never), the next step of retries, and d (the
// destination failed), s (it waits after a step of retries) or -. A t line is a
// thread: the end of its suspension (0: none), the next step, d (dead) and s as
// above, and its window with its feedback. The fields in brackets are the time at which
// all tokens of its rate are available again (0: they are), its site and when that is
// forgotten, and the reply rules in force on it. A b line is a rate that several threads
// share (channelrate, siterate): what it is for, its table with the burst, and
// when all its tokens are available again. An n line has the other nodes of the cluster. Of
// several lines about one thing, and of several n lines, the last counts. Times are in seconds
// since the epoch. Quoted words are as in Go.
//
// Later versions may add other kinds of lines, each with a letter of its own, and new
// fields at the end of a line: readers skip both.
package state

import (
	"bytes"
	"errors"
	"strconv"

	"zsched/scheduler"
)

// header begins the first line of a section; version follows it.
const (
	header  = "scheduler-state "
	version = 1
)

// maxLine is longer than every line that is written: a diagnostic has two texts of
// at most 1000 bytes, each of which takes at most four when it is quoted.
const maxLine = 16 << 10

// errMalformed says that a line is not as it was written.
var errMalformed = errors.New("malformed line")

// appendHeader appends the first line of a section.
func appendHeader(b []byte) []byte {
	return append(strconv.AppendInt(append(b, header...), version, 10), '\n')
}

// parseHeader returns the version of a section, and whether the line begins one.
func parseHeader(line []byte) (v int, ok bool) {
	rest, ok := bytes.CutPrefix(line, []byte(header))
	if !ok {
		return 0, false
	}
	v, err := strconv.Atoi(string(rest))
	return v, err == nil
}

// diagnostic is the text of a report.
type diagnostic struct{ notary, text string }

func appendDiagnostic(b []byte, number uint32, d diagnostic) []byte {
	b = strconv.AppendUint(append(b, "d "...), uint64(number), 10)
	b = strconv.AppendQuote(append(b, ' '), d.notary)
	return append(strconv.AppendQuote(append(b, ' '), d.text), '\n')
}

func appendRecipient(b []byte, r *scheduler.SavedRecipient, number uint32) []byte {
	b = strconv.AppendUint(append(b, "r "...), uint64(r.Message), 10)
	for _, n := range [...]int64{r.Offset, r.ModifiedAt, int64(r.Attempts), r.NextAt, r.FedAt, int64(r.Step)} {
		b = strconv.AppendInt(append(b, ' '), n, 10)
	}
	b = appendFlags(b, r.DestinationFailed, r.InRetryStep)
	return append(strconv.AppendUint(append(b, ' '), uint64(number), 10), '\n')
}

func appendThread(b []byte, t *scheduler.SavedThread, number uint32) []byte {
	b = strconv.AppendQuote(append(b, "t "...), t.Channel)
	b = strconv.AppendQuote(append(b, ' '), t.Host)
	b = strconv.AppendInt(append(b, ' '), t.SuspendedUntil, 10)
	b = strconv.AppendInt(append(b, ' '), int64(t.Step), 10)
	b = appendFlags(b, t.Dead, t.InRetryStep)
	b = strconv.AppendInt(append(b, ' '), int64(t.Window), 10)
	for _, x := range [...]float64{t.Success, t.Failure, t.FailedCohorts} {
		b = strconv.AppendFloat(append(b, ' '), x, 'g', -1, 64)
	}
	b = strconv.AppendUint(append(b, ' '), uint64(number), 10)
	if t.PaidAt == 0 && t.Site == "" && len(t.Effects) == 0 {
		return append(b, '\n')
	}
	b = strconv.AppendInt(append(b, ' '), t.PaidAt, 10)
	b = strconv.AppendQuote(append(b, ' '), t.Site)
	b = strconv.AppendInt(append(b, ' '), t.SiteAt, 10)
	for _, e := range t.Effects {
		for _, word := range [...]string{e.Rule.Channel, e.Rule.Host, e.Rule.Expression, e.Rule.Action} {
			b = strconv.AppendQuote(append(b, ' '), word)
		}
		b = strconv.AppendInt(append(b, ' '), e.Since, 10)
		b = strconv.AppendInt(append(b, ' '), e.Until, 10)
	}
	return append(b, '\n')
}

// readShaping reads the fields of a t line that older schedulers do not write.
func readShaping(f *fields, t *scheduler.SavedThread) {
	const most = 1<<63 - 1
	t.PaidAt, t.Site, t.SiteAt = int64(f.uint(most)), f.quoted(), int64(f.uint(most))
	if t.Site == "" {
		t.SiteAt = 0
	}
	for len(f.rest) > 0 && !f.bad {
		e := scheduler.SavedEffect{Rule: scheduler.ReplyKey{Channel: f.quoted(), Host: f.quoted(), Expression: f.quoted(), Action: f.quoted()}}
		e.Since, e.Until = int64(f.uint(most)), int64(f.uint(most))
		if !f.bad {
			t.Effects = append(t.Effects, e)
		}
	}
}

func appendRate(b []byte, r *scheduler.SavedRate) []byte {
	b = append(append(b, "b "...), r.Setting...)
	b = strconv.AppendQuote(append(b, ' '), r.Name)
	b = strconv.AppendQuote(append(b, ' '), r.Rates)
	return append(strconv.AppendInt(append(b, ' '), r.PaidAt, 10), '\n')
}

// appendNodes appends an n line. Names for which the line has no room are left out.
func appendNodes(b []byte, nodes []string) []byte {
	b = append(b, 'n')
	begun := len(b)
	for _, name := range nodes {
		if len(b)-begun+4*len(name)+len(` ""`) < maxLine {
			b = strconv.AppendQuote(append(b, ' '), name)
		}
	}
	return append(b, '\n')
}

func appendFlags(b []byte, d, s bool) []byte {
	b = append(b, ' ')
	switch {
	case d && s:
		return append(b, "ds"...)
	case d:
		return append(b, 'd')
	case s:
		return append(b, 's')
	}
	return append(b, '-')
}

// fields splits a line into its fields, from left to right. After the first field that
// is not as it was written, bad is set.
type fields struct {
	rest []byte // each field with a blank before it
	bad  bool
}

// word returns the next field, which has no blank.
func (f *fields) word() []byte {
	if len(f.rest) < 2 || f.rest[0] != ' ' {
		f.bad = true
		return nil
	}
	word := f.rest[1:]
	if i := bytes.IndexByte(word, ' '); i >= 0 {
		word = word[:i]
	}
	f.rest = f.rest[1+len(word):]
	return word
}

// uint returns the next field as a number from 0 to most.
func (f *fields) uint(most uint64) uint64 {
	// Most of a file is numbers, so they are read in one pass.
	b := f.rest
	if len(b) < 2 || b[0] != ' ' {
		f.bad = true
		return 0
	}
	var n uint64
	i := 1
	for ; i < len(b) && b[i] != ' '; i++ {
		digit := uint64(b[i] - '0')
		if digit > 9 || n > most/10 || n*10 > most-digit {
			f.bad = true
			return 0
		}
		n = n*10 + digit
	}
	f.bad = f.bad || i == 1
	f.rest = b[i:]
	return n
}

func (f *fields) float() float64 {
	x, err := strconv.ParseFloat(string(f.word()), 64)
	f.bad = f.bad || err != nil
	return x
}

// quoted returns the next field, which is a quoted word.
func (f *fields) quoted() string {
	if f.bad || len(f.rest) < 2 || f.rest[0] != ' ' {
		f.bad = true
		return ""
	}
	quoted, err := strconv.QuotedPrefix(string(f.rest[1:]))
	if err != nil || quoted[0] != '"' {
		f.bad = true
		return ""
	}
	f.rest = f.rest[1+len(quoted):]
	word, err := strconv.Unquote(quoted)
	f.bad = f.bad || err != nil
	return word
}

// flags returns the next field as flags. Letters that are not known are skipped.
func (f *fields) flags() (d, s bool) {
	word := f.word()
	return bytes.IndexByte(word, 'd') >= 0, bytes.IndexByte(word, 's') >= 0
}
