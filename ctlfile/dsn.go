package ctlfile

// DSN parameters (RFC 3461): the words of N lines, and the values of R and n lines.
//
// An N line is KEY=value words with blanks between them. The keys, in upper or
// lower case, are NOTIFY, ORCPT, INRCPT, INFROM and EZMLM; others, such as BY, are ignored.
// DSNWord searches the line on each call.

import (
	"iter"
	"strings"
)

// Notify is the set of delivery outcomes that the sender wants to be told of
// (RFC 3461 section 4.1).
type Notify uint8

const (
	NotifySuccess Notify = 1 << iota
	NotifyFailure
	NotifyDelay
	NotifyNever
	NotifyTrace
)

// outcomes are the names of the bits of Notify, lowest first.
var outcomes = [...]string{"SUCCESS", "FAILURE", "DELAY", "NEVER", "TRACE"}

// ParseNotify reads the NOTIFY= word of an N line, up to the first outcome that
// it does not know. Without any outcome it is FAILURE, the default of RFC 3461:
// an unwanted notice does less harm than a lost one.
func ParseNotify(dsn string) Notify {
	list, _ := DSNWord(dsn, "NOTIFY")
	var set Notify
	for list != "" {
		var word string
		word, list, _ = strings.Cut(list, ",")
		outcome := parseOutcome(word)
		if outcome == 0 {
			break
		}
		set |= outcome
	}
	if set == 0 {
		return NotifyFailure
	}
	return set
}

func parseOutcome(word string) Notify {
	for i, name := range outcomes {
		if strings.EqualFold(word, name) {
			return 1 << i
		}
	}
	return 0
}

// String returns the value of a NOTIFY= word.
func (n Notify) String() string {
	var names []string
	for i, name := range outcomes {
		if n&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// Wants reports whether the sender is to be told of an outcome, which is one of
// the Notify bits. NEVER overrides the others.
func (n Notify) Wants(outcome Notify) bool {
	return n&NotifyNever == 0 && n&outcome != 0
}

// or returns the outcomes that one of two senders wants. NEVER overrides only the others of its
// own set.
func (n Notify) or(other Notify) Notify {
	switch {
	case n&NotifyNever != 0:
		return other
	case other&NotifyNever != 0:
		return n
	}
	return n | other
}

// MergeDSN returns the N line of a recipient that a message has twice, with the lines first and
// second. NOTIFY has the outcomes of both; of any other word that both have, the first counts.
func MergeDSN(first, second string) string {
	if first == second {
		return first
	}
	var words []string
	notify := ParseNotify(first).or(ParseNotify(second)).String()
	seen := map[string]bool{}
	for word := range strings.FieldsSeq(first + " " + second) {
		key, _, _ := strings.Cut(word, "=")
		if key = strings.ToUpper(key); seen[key] {
			continue
		}
		seen[key] = true
		if key == "NOTIFY" {
			word = "NOTIFY=" + notify
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// DSNWord returns the value of the first word of an N line that has a key, KEY=value.
// A word with a control character in its value counts as missing, because the character
// could end the line or the SMTP command that a program puts the value into.
func DSNWord(dsn, key string) (value string, ok bool) {
	for name, value := range DSNWords(dsn) {
		if strings.EqualFold(name, key) {
			if strings.ContainsFunc(value, IsControl) {
				return "", false
			}
			return value, true
		}
	}
	return "", false
}

// DSNWords are the keys and values of an N line, in its order and as they are written. Words
// without an equals sign are left out.
func DSNWords(dsn string) iter.Seq2[string, string] {
	return func(yield func(key, value string) bool) {
		for word := range strings.FieldsFuncSeq(dsn, func(r rune) bool { return r == ' ' || r == '\t' }) {
			if key, value, found := strings.Cut(word, "="); found && !yield(key, value) {
				return
			}
		}
	}
}

// IsControl reports whether a character could end a line or a word for another program.
func IsControl(r rune) bool { return r < ' ' || r == 0x7f }

// DSNValue reports whether s, the value of an ENVID, RET, NOTIFY or ORCPT, is valid in
// an SMTP command: visible ASCII, at most 500 bytes.
func DSNValue(s string) bool {
	return s != "" && len(s) <= 500 &&
		!strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// DSNAddress splits the value of an ORCPT or INRCPT word, type;xtext, and
// decodes the address.
func DSNAddress(value string) (kind, address string) {
	kind, address, found := strings.Cut(value, ";")
	if !found {
		return "", DecodeXtext(value)
	}
	return kind, DecodeXtext(address)
}

// DecodeXtext decodes xtext (RFC 3461 section 4): a plus sign and two
// hexadecimal digits are one byte. Any other plus sign stands for itself.
func DecodeXtext(s string) string {
	if !strings.Contains(s, "+") {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '+' && i+2 < len(s) {
			high, low := hexDigit(s[i+1]), hexDigit(s[i+2])
			if high >= 0 && low >= 0 {
				b = append(b, byte(high<<4|low))
				i += 2
				continue
			}
		}
		b = append(b, s[i])
	}
	return string(b)
}

func hexDigit(b byte) int {
	switch {
	case isDigit(b):
		return int(b - '0')
	case 'A' <= b && b <= 'F':
		return int(b-'A') + 10
	case 'a' <= b && b <= 'f':
		return int(b-'a') + 10
	}
	return -1
}

// EncodeXtext encodes a value as xtext (RFC 3461 section 4).
func EncodeXtext(s string) string {
	const digits = "0123456789ABCDEF"
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < '!' || c > '~' || c == '+' || c == '=' {
			b = append(b, '+', digits[c>>4], digits[c&15])
		} else {
			b = append(b, c)
		}
	}
	return string(b)
}
