package smtpserver

// Syntax of MAIL and RCPT: paths and parameters (RFC 5321 section 4.1.2).

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"zsched/ctlfile"
	"zsched/internal/header"
	"zsched/queue"
)

// mailbox is the address in a path. The local part has no quotes. The null sender has
// neither part, and RCPT TO:<postmaster> has no domain.
type mailbox struct{ local, domain string }

// String returns the mailbox as the log shows it.
func (m mailbox) String() string {
	if m == (mailbox{}) {
		return "<>"
	}
	return m.local + "@" + m.domain
}

// cutPath removes a word, FROM: or TO: in any case, and a path from the beginning of a
// command's argument. The angle brackets may be missing, and a source route is ignored.
func cutPath(arg, word string) (m mailbox, rest string, ok bool) {
	if len(arg) < len(word) || !strings.EqualFold(arg[:len(word)], word) {
		return m, "", false
	}
	rest, bracket := strings.CutPrefix(strings.TrimLeft(arg[len(word):], " "), "<")
	route := bracket && strings.HasPrefix(rest, "@")
	if route {
		_, rest, _ = strings.Cut(rest, ":")
	}
	if m.local, rest, ok = cutLocalPart(rest); !ok {
		return m, "", false
	}
	if after, found := strings.CutPrefix(rest, "@"); found {
		end := strings.IndexAny(after+" ", " \t>")
		m.domain, rest = after[:end], after[end:]
		if m.local == "" || m.domain == "" {
			return m, "", false
		}
	}
	if m.local == "" && (route || !bracket) {
		return m, "", false
	}
	if bracket {
		rest, ok = strings.CutPrefix(rest, ">")
	}
	return m, rest, ok && (rest == "" || rest[0] == ' ')
}

// cutLocalPart removes a local part, and its quotes.
func cutLocalPart(text string) (local, rest string, ok bool) {
	if !strings.HasPrefix(text, `"`) {
		end := strings.IndexAny(text+" ", "@> ")
		return text[:end], text[end:], !strings.ContainsAny(text[:end], "()<[]:;\\,\"\t")
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '"':
			return b.String(), text[i+1:], b.Len() > 0
		case text[i] == '\\':
			if i++; i == len(text) {
				return "", "", false
			}
		}
		b.WriteByte(text[i])
	}
	return "", "", false
}

// address returns the address as it goes to the router, with quotes where it needs them.
// wrong is the refusal of one that the router would not take for one mailbox.
func (m mailbox) address(smtputf8 bool, wrong *refusal) (string, error) {
	address := header.QuoteLocal(m.local) + "@" + m.domain
	switch {
	case !isASCII(address) && !smtputf8:
		return "", errNeedsUTF8
	case m.domain == "" || len(address) > 1000 || !utf8.ValidString(address) || !queue.PlainAddress(address):
		return "", wrong
	}
	return address, nil
}

func isASCII(s string) bool { return strings.IndexFunc(s, func(r rune) bool { return r >= 0x80 }) < 0 }

// parameters reads what follows a path: KEY=value, or KEY alone. It calls set with each, with
// the key in capital letters, until set returns an error. No parameter may be given twice.
func parameters(text string, set func(key, value string) error) error {
	given := make(map[string]bool)
	for word := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(word, "=")
		key = strings.ToUpper(key)
		if key == "" || given[key] || strings.Contains(value, "=") {
			return errParameter
		}
		given[key] = true
		if err := set(key, value); err != nil {
			return err
		}
	}
	return nil
}

// parseSize reads a SIZE, which has up to twenty digits (RFC 1870). One of more than 64
// bits is the largest number.
func parseSize(value string) (size uint64, ok bool) {
	if value == "" || len(value) > 20 || strings.Trim(value, "0123456789") != "" {
		return 0, false
	}
	size, _ = strconv.ParseUint(value, 10, 64)
	return size, true
}

// validNotify reports whether a value of NOTIFY is one: NEVER, or different words for
// what the sender wants to know (RFC 3461 section 4.1).
func validNotify(value string) bool {
	known := ctlfile.ParseNotify("NOTIFY=" + value)
	if known&ctlfile.NotifyTrace != 0 || known&ctlfile.NotifyNever != 0 && known != ctlfile.NotifyNever {
		return false
	}
	// A word that is not known, or is given twice, is missing in the words of the set.
	return len(known.String()) == len(value)
}

// xtext returns a value as valid xtext (RFC 3461 section 4), whatever its sender took for
// that: it is better to change a parameter than to lose the mail.
func xtext(value string) string { return ctlfile.EncodeXtext(ctlfile.DecodeXtext(value)) }

// originalRecipient returns a value of ORCPT as it goes to the router; "" for one that has no
// type or, as the type utf-8 allows (RFC 6533), other characters than those of ASCII.
func originalRecipient(value string) string {
	kind, address, found := strings.Cut(value, ";")
	safe := xtext(address)
	switch kind = strings.ToLower(kind); {
	case !found || address == "" || !ctlfile.DSNValue(value):
		return ""
	case kind == "utf-8" && safe != address: // its encoding is another one
		return ""
	}
	return kind + ";" + safe
}
