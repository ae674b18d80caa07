package ta

import (
	"bytes"
	"math"
	"strings"
)

// MaxLine is the longest line, without its LF, that either side accepts.
const MaxLine = 64 << 10

// HungryLine is an agent's request for a job line, without its LF.
const HungryLine = "#hungry"

const resyncWord = "#resync"

// Kind says what an agent's line is.
type Kind uint8

// The kinds of line that an agent writes.
const (
	Hungry   Kind = iota + 1 // it asks for a job line, or answers #idle
	Resync                   // it found nothing to do in the control file Path
	Comment                  // any other line that begins with #, or an empty one
	Reported                 // Report is its word about one recipient
	Garbled                  // none of these; Reason says why
)

// Said is one line of an agent, understood.
type Said struct {
	Kind   Kind
	Path   string // of Resync
	Text   string // the line itself, of Comment and Garbled
	Reason string // of Garbled, in words
	Report Report // of Reported
}

// ParseSaid reads one line of an agent, without its LF. Every line has a
// meaning, if only Garbled.
func ParseSaid(line []byte) Said {
	switch {
	case len(line) > MaxLine:
		return Said{Kind: Garbled, Text: string(clip(line)), Reason: "line is too long"}
	case bytes.IndexByte(line, '\n') >= 0:
		return garbled(line, "line holds a line feed")
	case len(line) == 0:
		return Said{Kind: Comment}
	case line[0] == '#':
		return parseWord(line)
	}
	return parseReport(line)
}

// parseWord reads a line that begins with #. Anything may follow #hungry.
func parseWord(line []byte) Said {
	if bytes.HasPrefix(line, []byte(HungryLine)) {
		return Said{Kind: Hungry}
	}
	if path, ok := bytes.CutPrefix(line, []byte(resyncWord)); ok {
		if path = bytes.TrimLeft(path, " \t"); len(path) > 0 {
			return Said{Kind: Resync, Path: string(path)}
		}
	}
	return Said{Kind: Comment, Text: string(line)}
}

// parseReport reads a report. The numbers are read as C's atol reads them:
// blanks and a sign may come first, what follows the digits is ignored.
func parseReport(line []byte) Said {
	number, rest, ok := bytes.Cut(line, []byte{'/'})
	if !ok {
		return garbled(line, "no slash after the message number")
	}
	offset, rest, ok := bytes.Cut(rest, []byte{'\t'})
	if !ok {
		return garbled(line, "no TAB after the offset")
	}
	notary, rest, ok := bytes.Cut(rest, []byte{'\t'})
	if !ok {
		return garbled(line, "no TAB after the notary fields")
	}
	word, text := cutStatus(rest)

	message, _, ok := leadingInt(number)
	if !ok || message <= 0 {
		return garbled(line, "no message number before the slash")
	}
	at, _, ok := leadingInt(offset)
	if !ok || at < 0 {
		return garbled(line, "no offset after the slash")
	}
	status, ok := parseStatus(word)
	if !ok {
		return garbled(line, "unknown status word")
	}
	r := Report{
		Message: uint64(message),
		Offset:  at,
		Notary:  Notary(notary),
		Status:  status,
		Text:    string(text),
	}
	if status == RetryAt {
		r.Retry, r.Text = cutRetry(r.Text)
	}
	return Said{Kind: Reported, Report: r}
}

func garbled(line []byte, why string) Said {
	return Said{Kind: Garbled, Text: string(line), Reason: why}
}

// cutStatus splits the status word from the text. The word ends at white
// space or at the first byte beyond ASCII; that one byte is eaten.
func cutStatus(b []byte) (word, text []byte) {
	for i, c := range b {
		if isSpace(c) || c >= 0x80 {
			return b[:i], b[i+1:]
		}
	}
	return b, nil
}

// cutRetry takes the number off the text of a retryat: "+N" from now or "N"
// since the epoch, its word ended by one separator. Text that does not begin
// with a number is left as it is.
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
