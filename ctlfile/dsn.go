package ctlfile

import "strings"

// The N line is KEY=value words with blanks between them; keys are NOTIFY,
// ORCPT, INRCPT, INFROM, EZMLM and BY in any case. Values are read where they
// stand: the line serves as often as it is asked.

// DSNWord returns the value of the first KEY=value word of an N line. A value
// with a control character in it is none: it could end the line, or the SMTP
// command, that it is put into.
func DSNWord(dsn, key string) (value string, ok bool) {
	for {
		dsn = skipBlanks(dsn)
		if dsn == "" {
			return "", false
		}
		word := dsn
		if end := strings.IndexAny(dsn, " \t"); end >= 0 {
			word = dsn[:end]
		}
		dsn = dsn[len(word):]
		if name, value, found := strings.Cut(word, "="); found && strings.EqualFold(name, key) {
			if strings.ContainsFunc(value, isControl) {
				return "", false
			}
			return value, true
		}
	}
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// DSNValue reports whether s, an ENVID, RET, NOTIFY or ORCPT, can be the value
// of a parameter in an SMTP command: visible ASCII, not more than 500 bytes.
func DSNValue(s string) bool {
	return s != "" && len(s) <= 500 &&
		!strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// ParseNotify reads the NOTIFY= word of an N line, up to the first outcome it
// does not know. Without any it is FAILURE, the default of RFC 3461: rather a
// bounce nobody wanted than one lost.
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

// outcomes are the names of the bits of Notify, lowest first.
var outcomes = [...]string{"SUCCESS", "FAILURE", "DELAY", "NEVER", "TRACE"}

// String is the value of a NOTIFY= word.
func (n Notify) String() string {
	var names []string
	for i, name := range outcomes {
		if n&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// Wants reports whether an outcome, one of the Notify bits, is to be told to
// the sender. NEVER overrides all.
func (n Notify) Wants(outcome Notify) bool {
	return n&NotifyNever == 0 && n&outcome != 0
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
// hexadecimal digits are one byte. A plus sign before anything else is itself.
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

// EncodeXtext encodes xtext (RFC 3461 section 4).
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
