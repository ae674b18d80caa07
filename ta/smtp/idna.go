// This file turns the spellings of a host word into one. IDNA2008 (RFC 5891) defines
// the ASCII form of a domain.

package smtp

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// lookupProfile maps and normalises names for lookup (RFC 5895, UTS 46). It
// does not insist on host names: underscores and hyphens may be anywhere,
// because the DNS accepts them.
func lookupProfile() *idna.Profile {
	return idna.New(idna.MapForLookup(), idna.BidiRule(), idna.StrictDomainName(false), idna.CheckHyphens(false))
}

// asciiDomain returns a domain in the form of the DNS: in lower case, without the
// trailing dot, and with A-labels in place of U-labels. The error can be shown to
// users.
func asciiDomain(domain string) (string, error) {
	name := strings.ToLower(domain)
	if !ascii(domain) {
		var err error
		if name, err = lookupProfile().ToASCII(domain); err != nil || !utf8.ValidString(domain) {
			return "", fmt.Errorf("%q is not a domain", domain)
		}
	}
	name = strings.TrimSuffix(name, ".")
	if name == "" || len(name) > 253 || strings.ContainsFunc(name, notInDomain) {
		return "", fmt.Errorf("%q is not a domain", domain)
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 {
			return "", fmt.Errorf("%q is not a domain", domain)
		}
	}
	return name, nil
}

// canonicalHost returns the spelling of a host word, of ".domain" or of "*" that
// the tables use as key.
func canonicalHost(host string) (string, error) {
	switch path, unix := cutPrefixFold(host, "UNIX:"); {
	case host == "*":
		return host, nil
	case unix || strings.HasPrefix(host, "/"):
		return path, nil
	case strings.HasPrefix(host, "["):
		addr, err := parseLiteral(host)
		if err != nil {
			return "", fmt.Errorf("%q is not an address", host)
		}
		return "[" + addr.String() + "]", nil
	case strings.HasPrefix(host, "."):
		domain, err := asciiDomain(host[1:])
		return "." + domain, err
	}
	return asciiDomain(host)
}

// canonicalOr is canonicalHost for lookups. It returns what is not a host word
// unchanged, and the lookup then finds nothing.
func canonicalOr(host string) string {
	if name, err := canonicalHost(host); err == nil {
		return name
	}
	return host
}

// notInDomain reports whether a character cannot be part of a domain in a mail
// address. All others are accepted, even if no registry would accept them.
func notInDomain(r rune) bool {
	return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"\\()<>@,;:", r)
}

// ascii reports whether all bytes are below 128.
func ascii(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
