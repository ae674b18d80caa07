package mailq

// This file groups reasons: the last diagnostics of recipients without the parts that
// differ (mailq reasons).

import (
	"net/netip"
	"regexp"
	"strings"

	"zsched/internal/text"
)

// NotTried stands for the reason of mail that has none, because it was never tried.
const NotTried = "(not tried yet)"

// maxReasonKind is how many bytes of a diagnostic are compared.
const maxReasonKind = 200

// ReasonKind returns what diagnostics of one kind have in common: the last reply, at most 200
// bytes of it, without the parts that differ between attempts and
// recipients. "..." replaces host names, addresses, times, numbers and identifiers, the text
// inside <>, which usually is a recipient, and the text inside [] if there is one of these in it.
// A provider's code, such as [TSS04], stays.
func ReasonKind(reason string) string {
	reply := text.Cut(LastReply(reason), 4*maxReasonKind)
	_, _, rest := text.ReplyCodes(reply)
	codes := reply[:len(reply)-len(rest)]
	return text.Cut(codes+reasonParts.ReplaceAllStringFunc(rest, mask), maxReasonKind)
}

// reasonParts matches what may be replaced: text inside brackets in which no bracket opens, and
// words, with a colon and blanks before them.
var reasonParts = regexp.MustCompile(`<[^<>\[\]]+>|\[[^<>\[\]]+\]|(?:: *)?[\w.@+-]+(?::+[\w.@+-]+)*`)

// mask replaces a part of a reason, or the words in it that differ.
func mask(part string) string {
	switch part[0] {
	case '<':
		return "<...>"
	case '[':
		if reasonParts.ReplaceAllStringFunc(part[1:len(part)-1], mask) != part[1:len(part)-1] {
			return "[...]"
		}
		return part
	}
	word := strings.TrimLeft(part, ": ")
	before, bare := part[:len(part)-len(word)], strings.TrimRight(word, ".:-")
	code := before != "" && replyCode.MatchString(bare) // a reply code follows a colon inside a text
	if !code && !statusCode.MatchString(bare) && (differs.MatchString(bare) || isAddress(bare) || isIdentifier(bare)) {
		return before + "..." + word[len(bare):]
	}
	return part
}

var (
	replyCode  = regexp.MustCompile(`^[2-5]\d\d$`)
	statusCode = regexp.MustCompile(`^[245]\.\d+\.\d+$`)
	// differs matches a host name, perhaps of an address of mail; a time of day; and a number,
	// perhaps with a unit such as "s" or "ms". "4.2.2" and "e.g" are no host names.
	differs = regexp.MustCompile(`^(?:.*@)?[\w+-]+(?:\.[\w+-]+)*\.(?:[A-Za-z_+-]{2,}|xn--[\w-]+)$` +
		`|^[0-5]?\d:[0-5]\d(?::[0-5]\d(?:\.\d+)?)?$|^\d+[A-Za-z]{0,2}$`)
)

// isAddress reports whether a word is an IP address, perhaps with a port.
func isAddress(word string) bool {
	if _, err := netip.ParseAddr(word); err == nil {
		return true
	}
	_, err := netip.ParseAddrPort(word)
	return err == nil
}

// minIdentifier is the length of the shortest word that counts as an identifier.
const minIdentifier = 8

// isIdentifier reports whether a word looks like an identifier of a message or a
// session: a long one with at least two digits.
func isIdentifier(word string) bool {
	digits := 0
	for _, c := range word {
		if '0' <= c && c <= '9' {
			digits++
		}
	}
	return len(word) >= minIdentifier && digits >= 2
}
