package queue

// Plain addresses: those that a submission may contain.

import (
	"errors"
	"os/user"
	"strconv"
	"strings"
)

// ErrNotPlain is the error of a Submission with an address that is not plain.
var ErrNotPlain = errors.New("not a plain mail address")

// PlainAddress reports whether an address may go to the router: it is one mailbox, with
// or without a domain and angle brackets, and no part of it can be read as a program
// (|command), a file (/path), an :include: list, a comment, a group, a source route or a
// second address. Programs and files are run and written with a privilege, and the
// router would not give them the privilege that they had when they were first routed.
//
// A local part consists of words with one of !%/ between them. A word begins with a
// letter, a digit, a byte above 127 or one of _-+=#$&'*?^{}; the bytes after the first
// may also be . and ~. In a local part in double quotes, they may also be commas, and a
// blank, an escaped quote or an escaped backslash may separate two words.
func PlainAddress(address string) bool {
	if inner, ok := strings.CutPrefix(address, "<"); ok {
		if address, ok = strings.CutSuffix(inner, ">"); !ok {
			return false
		}
	}
	at := strings.LastIndexByte(address, '@')
	if at < 0 {
		return plainLocalPart(address)
	}
	return plainLocalPart(address[:at]) && plainDomain(address[at+1:])
}

// LoginName returns the name of a user, or "user" with the number if there is none that is plain.
func LoginName(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil && PlainAddress(u.Username) {
		return u.Username
	}
	return "user" + strconv.Itoa(uid)
}

func plainLocalPart(s string) bool {
	inWord, between := ".~", "!%/"
	if strings.HasPrefix(s, `"`) {
		var ok bool
		if s, ok = cutQuotes(s); !ok {
			return false
		}
		between += ` "\`
		inWord += ","
	}
	start := true // of a word
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case isLetter(c), isDigit(c), c >= 0x80, strings.IndexByte("_-+=#$&'*?^{}", c) >= 0:
			start = false
		case start:
			return false
		case strings.IndexByte(inWord, c) >= 0:
		case strings.IndexByte(between, c) >= 0:
			start = true
		default:
			return false
		}
	}
	return !start
}

// plainDomain accepts a name and an address literal, [192.0.2.1].
func plainDomain(s string) bool {
	others := ".-_"
	if literal, ok := strings.CutPrefix(s, "["); ok {
		if s, ok = strings.CutSuffix(literal, "]"); !ok {
			return false
		}
		others = ".-:"
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; !isLetter(c) && !isDigit(c) && c < 0x80 && strings.IndexByte(others, c) < 0 {
			return false
		}
	}
	return s != ""
}

// cutQuotes returns the content of a quoted string (RFC 5322 section 3.2.4),
// without the backslashes that quote a byte. ok is false if s is not one quoted
// string from its first byte to its last.
func cutQuotes(s string) (text string, ok bool) {
	b := make([]byte, 0, len(s))
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return string(b), i == len(s)-1
		case '\\':
			if i++; i == len(s) {
				return "", false
			}
		}
		b = append(b, s[i])
	}
	return "", false
}

func isLetter(b byte) bool { return 'a' <= b|0x20 && b|0x20 <= 'z' }

func isDigit(b byte) bool { return '0' <= b && b <= '9' }
