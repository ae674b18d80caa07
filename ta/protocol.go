package ta

// This file writes and parses job lines and the words that begin with #, and
// parses the reports of agents.

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
)

// MaxLine is the longest line, without its LF, that either side accepts.
const MaxLine = 64 << 10

// The lines without parameters, without their LF.
const (
	ReportsLine = "#reports" // agent, at its start: I only report, you mark
	LockedLine  = "#locked"  // agent, after the end of its input: what I still do is locked with my pid
	HungryLine  = "#hungry"  // agent: give me a job line
	IdleLine    = "#idle"    // scheduler: nothing to do; answer with HungryLine
	LeaveLine   = ""         // scheduler: finish and exit
)

const resyncWord = "#resync"

// JobLine is one job line: work for one agent on one message.
type JobLine struct {
	Path string // control file below transport/: hash prefix and name
	Host string // the thread's host, lower case
	// WithHost says that the agent's command already names the host ($host), so
	// the job line is the path alone.
	WithHost bool
}

// AppendJobLine appends the job line j with its LF. A TAB or LF, which neither a
// path nor a host can hold, is written as '?': it must not start a new column
// or line.
func AppendJobLine(b []byte, j JobLine) []byte {
	b = appendClean(b, j.Path, '?', '?')
	if !j.WithHost {
		b = append(b, '\t')
		b = appendClean(b, j.Host, '?', '?')
	}
	return append(b, '\n')
}

// ParseJobLine reads a job line, without its LF, as an agent sees it. A line
// without TAB has no host (WithHost); columns after the second are ignored.
func ParseJobLine(line []byte) (JobLine, error) {
	path, rest, tab := bytes.Cut(line, []byte{'\t'})
	switch {
	case len(line) > MaxLine:
		return JobLine{}, fmt.Errorf("job line of %d bytes is too long", len(line))
	case len(path) == 0:
		return JobLine{}, fmt.Errorf("job line %q names no control file", clip(line))
	case path[0] == '#':
		return JobLine{}, fmt.Errorf("job line %q is a word of the protocol", clip(line))
	case bytes.IndexByte(line, '\n') >= 0:
		return JobLine{}, errors.New("job line holds a line feed")
	case !tab:
		return JobLine{Path: string(path), WithHost: true}, nil
	}
	host, _, _ := bytes.Cut(rest, []byte{'\t'})
	return JobLine{Path: string(path), Host: string(host)}, nil
}

// Kind says what an agent's line is.
type Kind uint8

// The kinds of line that an agent writes.
const (
	Hungry    Kind = iota + 1 // the agent asks for a job line, or answers #idle
	Resync                    // it found nothing to do in the control file Path
	Reports                   // it only reports, and the scheduler marks
	Locked                    // it has locked what it still works on, and marks that itself
	Comment                   // any other line that begins with #, or an empty one
	Reported                  // Report is the result of one recipient
	Malformed                 // none of these; Reason says why
)

// Line is one parsed line of an agent.
type Line struct {
	Kind   Kind
	Path   string // of Resync
	Text   string // the line itself, of Comment and Malformed
	Reason string // of Malformed, in words
	Report Report // of Reported
}

// ParseLine parses one line of an agent, given without its LF. A line that
// is not in the protocol is Malformed.
func ParseLine(line []byte) Line {
	switch {
	case len(line) > MaxLine:
		return Line{Kind: Malformed, Text: string(clip(line)), Reason: "line is too long"}
	case bytes.IndexByte(line, '\n') >= 0:
		return malformed(line, "line holds a line feed")
	case len(line) == 0:
		return Line{Kind: Comment}
	case line[0] == '#':
		return parseWord(line)
	}
	return parseReport(line)
}

// parseWord reads a line that begins with #. Anything may follow #hungry.
func parseWord(line []byte) Line {
	if bytes.HasPrefix(line, []byte(HungryLine)) {
		return Line{Kind: Hungry}
	}
	switch string(line) {
	case ReportsLine:
		return Line{Kind: Reports}
	case LockedLine:
		return Line{Kind: Locked}
	}
	if path, ok := bytes.CutPrefix(line, []byte(resyncWord)); ok {
		if path = bytes.TrimLeft(path, " \t"); len(path) > 0 {
			return Line{Kind: Resync, Path: string(path)}
		}
	}
	return Line{Kind: Comment, Text: string(line)}
}

// parseReport reads a report. The numbers are read as C's atol reads them:
// blanks and a sign may come first, what follows the digits is ignored.
func parseReport(line []byte) Line {
	number, rest, ok := bytes.Cut(line, []byte{'/'})
	if !ok {
		return malformed(line, "no slash after the message number")
	}
	offset, rest, ok := bytes.Cut(rest, []byte{'\t'})
	if !ok {
		return malformed(line, "no TAB after the offset")
	}
	notary, rest, ok := bytes.Cut(rest, []byte{'\t'})
	if !ok {
		return malformed(line, "no TAB after the notary fields")
	}
	word, text := cutStatus(rest)

	message, _, ok := leadingInt(number)
	if !ok || message <= 0 {
		return malformed(line, "no message number before the slash")
	}
	at, _, ok := leadingInt(offset)
	if !ok || at < 0 {
		return malformed(line, "no offset after the slash")
	}
	status, ok := parseStatus(word)
	if !ok {
		return malformed(line, "unknown status word")
	}
	fields, site := cutSite(string(notary))
	r := Report{
		Message: uint64(message),
		Offset:  at,
		Notary:  Notary(fields),
		Status:  status,
		Text:    string(text),
		Site:    site,
	}
	if status == RetryAt {
		r.Retry, r.Text = cutRetry(r.Text)
	}
	return Line{Kind: Reported, Report: r}
}

func malformed(line []byte, why string) Line {
	return Line{Kind: Malformed, Text: string(line), Reason: why}
}

// cutStatus splits the status word from the text. The word ends at white
// space or at the first byte beyond ASCII; that one byte is dropped.
func cutStatus(b []byte) (word, text []byte) {
	for i, c := range b {
		if isSpace(c) || c >= 0x80 {
			return b[:i], b[i+1:]
		}
	}
	return b, nil
}

// cutRetry cuts the number off the text of a retryat: "+N" seconds from now or
// "N" seconds since the epoch. It drops the rest of the number's word, and one
// separator after the word. Text that does not begin with a number is left as
// it is.
func cutRetry(text string) (Retry, string) {
	rest := strings.TrimLeft(text, " \t\v\f\r")
	unsigned, relative := strings.CutPrefix(rest, "+")
	if relative && strings.HasPrefix(unsigned, "+") {
		return Retry{}, text
	}
	n, used, ok := leadingInt(unsigned)
	if !ok || used > 0 && isSpace(unsigned[0]) {
		return Retry{}, text
	}
	word := strings.IndexFunc(rest, func(r rune) bool { return r < 0x80 && isSpace(byte(r)) })
	if word < 0 {
		rest = ""
	} else {
		rest = rest[word+1:]
	}
	return Retry{Given: true, Relative: relative, Seconds: n}, rest
}

// leadingInt reads a decimal number like C's atol, except that it says when
// there is none and that it stays at the largest value instead of wrapping.
// used counts the bytes read, blanks included.
func leadingInt[T []byte | string](s T) (n int64, used int, ok bool) {
	i := 0
	for i < len(s) && isSpace(s[i]) {
		i++
	}
	negative := false
	if i < len(s) && (s[i] == '+' || s[i] == '-') {
		negative = s[i] == '-'
		i++
	}
	for ; i < len(s) && s[i] >= '0' && s[i] <= '9'; i++ {
		ok = true
		if d := int64(s[i] - '0'); n > (math.MaxInt64-d)/10 {
			n = math.MaxInt64
		} else {
			n = n*10 + d
		}
	}
	if negative {
		n = -n
	}
	return n, i, ok
}

// isSpace is C's isspace in the POSIX locale.
func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

// appendClean appends s with its TABs and LFs replaced.
func appendClean(b []byte, s string, tab, lf byte) []byte {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\t':
			b = append(b, tab)
		case '\n':
			b = append(b, lf)
		default:
			b = append(b, c)
		}
	}
	return b
}

// clip shortens what an error message quotes.
func clip(b []byte) []byte {
	if len(b) > 200 {
		return b[:200]
	}
	return b
}
