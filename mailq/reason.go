package mailq

// This file groups reasons: the last diagnostics of recipients without the parts that
// differ (SHOW REASONS).

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"zsched/internal/text"
)

// maxReasonKind is how many bytes of a diagnostic are compared.
const maxReasonKind = 200

// ReasonKind returns what diagnostics of one kind have in common (SHOW REASONS): the
// last reply, at most 200 bytes of it, without the parts that differ between attempts and
// recipients. "..." replaces host names, addresses, times, numbers and identifiers, the text
// inside <>, which usually is a recipient, and the text inside [] if there is one of these in it.
// A provider's code, such as [TSS04], stays.
func ReasonKind(s string) string {
	s = LastReply(s)
	var b strings.Builder
	_, _, rest := text.ReplyCodes(s)
	b.WriteString(s[:len(s)-len(rest)])
	s = rest
	for s != "" && b.Len() < maxReasonKind {
		i := strings.IndexAny(s, "<[")
		if i < 0 {
			appendMasked(&b, s)
			break
		}
		// A bracket counts only if it is closed before the next one opens, so
		// the arrow "<<-" of a transcript does not count.
		pair := "<>"
		if s[i] == '[' {
			pair = "[]"
		}
		appendMasked(&b, s[:i])
		b.WriteByte(s[i])
		end := strings.IndexAny(s[i+1:], pair)
		if end > 0 && s[i+1+end] == pair[1] && (pair == "<>" || hasMasked(s[i+1:i+1+end])) {
			b.WriteString("...")
			i += end
		}
		s = s[i+1:]
	}
	return text.Cut(Field(b.String()), maxReasonKind)
}

// hasMasked reports whether appendMasked replaces a part of a text.
func hasMasked(text string) bool {
	var b strings.Builder
	appendMasked(&b, text)
	return !strings.HasPrefix(text, b.String())
}

// appendMasked appends a text. "..." replaces each host name, address, time, number
// and identifier in it.
func appendMasked(b *strings.Builder, text string) {
	for text != "" && b.Len() < maxReasonKind {
		n := 0
		for n < len(text) && isNamePart(text[n]) {
			n++
		}
		if n == 0 {
			b.WriteByte(text[0])
			text = text[1:]
			continue
		}
		word := strings.TrimRight(text[:n], ".:-")
		afterColon := strings.HasSuffix(strings.TrimRight(b.String(), " "), ":")
		if isHostName(word) || isAddress(word) || isTimeOfDay(word) ||
			!isCode(word, afterColon) && (isNumber(word) || isIdentifier(word)) {
			b.WriteString("..." + text[len(word):n])
		} else {
			b.WriteString(text[:n])
		}
		text = text[n:]
	}
}

func isNamePart(c byte) bool {
	return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'z' || c == '.' || c == '-' || c == ':' || c == '_' ||
		c == '@' || c == '+'
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isHostName reports whether a word, or what follows its "@", has two or more
// labels and ends in letters like a domain. "4.2.2" and "e.g" are not host
// names.
func isHostName(word string) bool {
	word = word[strings.LastIndexByte(word, '@')+1:]
	dot := strings.LastIndexByte(word, '.')
	if dot <= 0 || strings.Contains(word, "..") || strings.Contains(word, ":") {
		return false
	}
	for i := dot + 1; i < len(word); i++ {
		if isDigit(word[i]) && !strings.HasPrefix(word[dot+1:], "xn--") {
			return false
		}
	}
	return len(word)-dot > 2
}

// isAddress reports whether a word is an IP address, perhaps with a port.
func isAddress(word string) bool {
	if _, err := netip.ParseAddr(word); err == nil {
		return true
	}
	_, err := netip.ParseAddrPort(word)
	return err == nil
}

// isTimeOfDay reports whether a word is a time such as 08:15 or 8:15:09.
func isTimeOfDay(word string) bool {
	parts := strings.Split(word, ":")
	if len(parts) < 2 || len(parts) > 3 {
		return false
	}
	for i, part := range parts {
		part, _, _ = strings.Cut(part, ".")
		n, err := strconv.ParseUint(part, 10, 8)
		if err != nil || n > 60 || len(part) > 2 || i > 0 && len(part) != 2 {
			return false
		}
	}
	return true
}

// isCode reports whether a word is an enhanced status code, or a reply code, which
// follows a colon inside a text.
func isCode(word string, afterColon bool) bool {
	if afterColon && len(word) == 3 && '2' <= word[0] && word[0] <= '5' {
		return true
	}
	parts := strings.Split(word, ".")
	if len(parts) != 3 || !slices.Contains([]string{"2", "4", "5"}, parts[0]) {
		return false
	}
	return isDigits(parts[1]) && isDigits(parts[2])
}

func isDigits(word string) bool {
	return word != "" && strings.Trim(word, "0123456789") == ""
}

// isNumber reports whether a word is a number, perhaps with a unit such as "s" or
// "ms".
func isNumber(word string) bool {
	unit := strings.TrimLeft(word, "0123456789")
	return len(unit) < len(word) && len(unit) <= 2 && !strings.ContainsAny(unit, ".-:_@+")
}

// minIdentifier is the length of the shortest word that counts as an identifier.
const minIdentifier = 8

// isIdentifier reports whether a word looks like an identifier of a message or a
// session: a long one with at least two digits.
func isIdentifier(word string) bool {
	digits := 0
	for i := range len(word) {
		if isDigit(word[i]) {
			digits++
		}
	}
	return len(word) >= minIdentifier && digits >= 2
}
