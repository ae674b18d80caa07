// This file holds the spellings of a host word. IDNA2008 (RFC 5891) makes one ASCII
// form of those of a domain.

package smtp

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// lookupProfile maps and normalises names for lookup (RFC 5895, UTS 46). It
// does not insist on host names: underscores and hyphens may stand anywhere,
// since the DNS takes them.
func lookupProfile() *idna.Profile {
	return idna.New(idna.MapForLookup(), idna.BidiRule(), idna.StrictDomainName(false), idna.CheckHyphens(false))
}

// asciiDomain returns a domain as the DNS knows it: lower case, without the dot
// at the end, and with A-labels in place of U-labels. The error is one for
// people.
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

// canonicalHost returns the one spelling of a host word, or of ".domain" and "*",
// under which tables have it.
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

// canonicalOr is canonicalHost for lookups. What is no host word stays as it is,
// and is not found.
func canonicalOr(host string) string {
	if name, err := canonicalHost(host); err == nil {
		return name
	}
	return host
}

// notInDomain reports whether a character cannot be part of a domain in a mail
// address. Most others can, whether or not somebody would register them.
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
