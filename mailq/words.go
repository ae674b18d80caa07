package mailq

import (
	"errors"
	"strconv"
	"strings"
)

// This file reads and writes the words of a command. They are separated by
// blanks, which are spaces and TABs. A word that is empty or contains a blank is
// put between double quotes.

// Quote writes a word of a command. A word that is empty, begins with a double
// quote, or contains blanks or control bytes is put between double quotes; any
// other stays as it is.
func Quote(s string) string {
	if s != "" && s[0] != '"' && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return s
	}
	return strconv.Quote(s)
}

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
	if !strings.HasPrefix(s, `"`) {
		word, rest = CutRaw(s)
		return word, rest, s != "", nil
	}
	quoted, err := strconv.QuotedPrefix(s)
	if err != nil {
		return "", "", false, errors.New(`a quoted word does not end, or has a \ without one of the letters of Go's strings`)
	}
	word, err = strconv.Unquote(quoted)
	rest = s[len(quoted):]
	if rest != "" && rest[0] != ' ' && rest[0] != '\t' {
		err = errors.New("a quoted word must be followed by a blank")
	}
	if err != nil {
		return "", "", false, err
	}
	return word, TrimBlanks(rest), true, nil
}
