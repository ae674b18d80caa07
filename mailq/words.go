package mailq

import (
	"errors"
	"strings"
)

// This file reads and writes the words of a command. They are separated by
// blanks, which are spaces and TABs. A word that is empty or contains a blank is
// put between double quotes.

const hexDigits = "0123456789abcdef"

// Quote writes a word of a command. A word that is empty, begins with a double
// quote, or contains blanks or control bytes is put between double quotes; any
// other stays as it is.
func Quote(s string) string {
	if s != "" && s[0] != '"' && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return s
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c == 0x7f:
			b.WriteString(`\x`)
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

var (
	errUnfinished = errors.New("a quoted word does not end")
	errEscape     = errors.New(`a \ in a quoted word must be followed by " \ t r n or xHH`)
	errNoBlank    = errors.New("a quoted word must be followed by a blank")
)

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// TrimBlanks removes the blanks at the start of s.
func TrimBlanks(s string) string { return strings.TrimLeft(s, " \t") }

// CutRaw takes the next word off s without interpreting quotes. The rest begins
// with its next word.
func CutRaw(s string) (word, rest string) {
	s = TrimBlanks(s)
	i := strings.IndexAny(s, " \t")
	if i < 0 {
		return s, ""
	}
	return s[:i], TrimBlanks(s[i:])
}

// CutWord takes the next word off s and removes its quotes. ok is false at the
// end of s.
func CutWord(s string) (word, rest string, ok bool, err error) {
	s = TrimBlanks(s)
	if s == "" {
		return "", "", false, nil
	}
	if s[0] != '"' {
		word, rest = CutRaw(s)
		return word, rest, true, nil
	}
	word, rest, err = unquote(s[1:])
	return word, rest, err == nil, err
}

// unquote reads a quoted word. s begins after the first quote.
func unquote(s string) (word, rest string, err error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			rest = s[i+1:]
			if rest != "" && !isBlank(rest[0]) {
				return "", "", errNoBlank
			}
			return b.String(), TrimBlanks(rest), nil
		case '\\':
			c, n := unescape(s[i+1:])
			if n == 0 {
				return "", "", errEscape
			}
			b.WriteByte(c)
			i += n
		default:
			b.WriteByte(s[i])
		}
	}
	return "", "", errUnfinished
}

// unescape reads an escape. s begins after the backslash; n is the number of
// bytes read, or 0 if this is not an escape.
func unescape(s string) (c byte, n int) {
	if s == "" {
		return 0, 0
	}
	switch s[0] {
	case '"', '\\':
		return s[0], 1
	case 't':
		return '\t', 1
	case 'r':
		return '\r', 1
	case 'n':
		return '\n', 1
	case 'x':
		if len(s) < 3 {
			return 0, 0
		}
		high, low := hexValue(s[1]), hexValue(s[2])
		if high < 0 || low < 0 {
			return 0, 0
		}
		return byte(high<<4 | low), 3
	}
	return 0, 0
}

func hexValue(c byte) int {
	if 'A' <= c && c <= 'F' {
		c += 'a' - 'A'
	}
	return strings.IndexByte(hexDigits, c)
}
