package ctlfile

// Addresses: the address quads of s, r and X lines, and their words.

import (
	"fmt"
	"strings"
)

// Address is an address quad: it says where the mail for a recipient goes, or where the
// sender's mail comes from. Its words are as in the file, with their quotes and
// backslashes.
type Address struct {
	Channel, Host, User string
	// Privilege is a numeric uid, possibly with more words after it. It is ""
	// when the line ends before it.
	Privilege string
}

// String returns the address as it is written in a file.
func (a Address) String() string {
	s := a.Channel + " " + a.Host + " " + a.User
	if a.Privilege != "" {
		s += " " + a.Privilege
	}
	return s
}

// parseAddress splits an address quad into its words, from left to right. reason says
// why s is not one, or is "". A blank in the user must be quoted, although an old
// manual says otherwise: no program splits a quad from the right.
func parseAddress(s string) (a Address, reason string) {
	rest := s
	if a.Channel, rest, reason = cutWord(rest); reason != "" {
		return a, "channel " + reason
	}
	if end := mxListLen(rest); end > 0 {
		a.Host, rest = rest[:end], skipBlanks(rest[end:])
	} else if a.Host, rest, reason = cutWord(rest); reason != "" {
		return a, "host " + reason
	}
	if a.User, rest, reason = cutWord(rest); reason != "" {
		return a, "user " + reason
	}
	number, _, _ := strings.Cut(rest, " ")
	if rest != "" && !isPrivilege(number) {
		return a, fmt.Sprintf("privilege %.200q is not a number", number)
	}
	a.Privilege = rest
	return a, ""
}

// cutWord cuts off the first word of s and the blanks around it.
func cutWord(s string) (word, rest, reason string) {
	s = skipBlanks(s)
	end, closed := scanWord(s)
	switch {
	case end == 0:
		return "", "", "is missing"
	case !closed:
		return "", "", "has an open quote or backslash"
	}
	return s[:end], skipBlanks(s[end:]), ""
}

// scanWord finds the end of the word at the beginning of s: an unquoted blank, or the
// end of s. A backslash escapes the next byte, inside and outside double
// quotes. The word is not closed if s ends inside quotes or after a backslash.
func scanWord(s string) (end int, closed bool) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
			if i == len(s) {
				return i, false
			}
		case '"':
			quoted = !quoted
		case ' ', '\t':
			if !quoted {
				return i, true
			}
		}
	}
	return len(s), !quoted
}

// mxListLen returns the length of the parenthesised list of hosts, ((mx1)(mx2 mx3)),
// with which s begins, or 0 if there is none. An unbalanced list is an ordinary
// word.
func mxListLen(s string) int {
	if s == "" || s[0] != '(' {
		return 0
	}
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth == 0 {
			if i+1 == len(s) || isBlank(s[i+1]) {
				return i + 1
			}
			return 0
		}
	}
	return 0
}

// isPrivilege reports whether s is a decimal number with an optional minus sign.
func isPrivilege(s string) bool {
	digits := strings.TrimPrefix(s, "-")
	for i := 0; i < len(digits); i++ {
		if !isDigit(digits[i]) {
			return false
		}
	}
	return digits != ""
}

var errTooLong = fmt.Errorf("channel or host is longer than %d bytes", MaxWord)

// routable reports whether channel and host are at most MaxWord bytes
// long; of a list of hosts only the first name counts.
func (a Address) routable() bool {
	return len(a.Channel) <= MaxWord && (len(a.Host) <= MaxWord || len(a.RouteHost()) <= MaxWord)
}

// RouteChannel returns the channel that the scheduler groups by: in lower case.
func (a Address) RouteChannel() string { return lower(a.Channel) }

// RouteHost returns the host that the scheduler groups by: in lower case and, if it is
// a list such as ((mx1)(mx2 mx3)), the first name.
func (a Address) RouteHost() string {
	host := a.Host
	if strings.HasPrefix(host, "(") {
		host = strings.TrimLeft(host, "(")
		if end := strings.IndexAny(host, " \t)"); end >= 0 {
			host = host[:end]
		}
	}
	return lower(host)
}

// Quote returns a component of an address as one word: "-" if it is empty, and
// in double quotes if it could not be read back as one word. A component that is
// a word already, perhaps with quotes of its own, stays as it is. A component
// with a line end or NUL is an error.
func Quote(component string) (string, error) {
	if err := checkLine(component); err != nil {
		return "", err
	}
	if component == "" {
		return "-", nil
	}
	if end, closed := scanWord(component); closed && end == len(component) {
		return component, nil
	}
	return `"` + quoteEscapes.Replace(component) + `"`, nil
}

// CutWord returns the first word of s, with its quotes, and the rest of s after the
// blanks that follow the word. ok is false if there is no word or its quotes do not
// close.
func CutWord(s string) (word, rest string, ok bool) {
	word, rest, reason := cutWord(s)
	return word, rest, reason == ""
}

var quoteEscapes = strings.NewReplacer(`"`, `\"`, `\`, `\\`)

// checkLine refuses text that cannot be part of a line of a control file.
func checkLine(s string) error {
	if i := strings.IndexAny(s, "\n\x00"); i >= 0 {
		return fmt.Errorf("%.200q has a line end or NUL at byte %d", s, i)
	}
	return nil
}

func skipBlanks(s string) string {
	for s != "" && isBlank(s[0]) {
		s = s[1:]
	}
	return s
}

func isBlank(b byte) bool { return b == ' ' || b == '\t' }

func isDigit(b byte) bool { return '0' <= b && b <= '9' }

// lower maps ASCII letters to lower case and leaves all other bytes as they are.
func lower(s string) string {
	for i := 0; i < len(s); i++ {
		if 'A' <= s[i] && s[i] <= 'Z' {
			b := []byte(s)
			for ; i < len(b); i++ {
				if 'A' <= b[i] && b[i] <= 'Z' {
					b[i] += 'a' - 'A'
				}
			}
			return string(b)
		}
	}
	return s
}

// Unbracketed removes the angle brackets around an address or a Message-Id.
func Unbracketed(s string) string {
	if len(s) > 1 && s[0] == '<' && s[len(s)-1] == '>' {
		return s[1 : len(s)-1]
	}
	return s
}
