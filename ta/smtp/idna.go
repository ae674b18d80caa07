package smtp

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// asciiDomain is a domain as the DNS knows it: in lower case, labels beyond
// ASCII in Punycode (RFC 5891). Characters are not checked against the tables
// of IDNA: a name that nobody may register is not found.
func asciiDomain(domain string) (string, error) {
	if !utf8.ValidString(domain) {
		return "", fmt.Errorf("%q is not a domain", domain)
	}
	domain = strings.ToLower(strings.TrimSuffix(domain, "."))
	labels := strings.Split(domain, ".")
	for i, label := range labels {
		if !ascii(label) {
			labels[i] = "xn--" + punycode([]rune(label))
		}
	}
	ascii := strings.Join(labels, ".")
	if ascii == "" || len(ascii) > 253 || slices.ContainsFunc(labels, func(l string) bool { return l == "" || len(l) > 63 }) ||
		strings.ContainsFunc(ascii, func(r rune) bool { return r <= ' ' || strings.ContainsRune("\"\\()<>@,;:", r) }) {
		return "", fmt.Errorf("%q is not a domain", domain)
	}
	return ascii, nil
}

func ascii(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// punycode encodes a label with the parameters and names of RFC 3492 section 6.
func punycode(label []rune) string {
	const base, tMin, tMax = 36, 1, 26
	var out []byte
	for _, c := range label {
		if c < 0x80 {
			out = append(out, byte(c))
		}
	}
	basic := len(out)
	if basic > 0 {
		out = append(out, '-')
	}
	n, delta, bias := rune(0x80), 0, 72
	for handled := basic; handled < len(label); {
		next := rune(utf8.MaxRune)
		for _, c := range label {
			if c >= n {
				next = min(next, c)
			}
		}
		delta += int(next-n) * (handled + 1)
		n = next
		for _, c := range label {
			if c < n {
				delta++
			}
			if c != n {
				continue
			}
			q := delta
			for k := base; ; k += base {
				t := min(max(k-bias, tMin), tMax)
				if q < t {
					break
				}
				out = append(out, punyDigit(t+(q-t)%(base-t)))
				q = (q - t) / (base - t)
			}
			out = append(out, punyDigit(q))
			bias = adapt(delta, handled+1, handled == basic)
			delta = 0
			handled++
		}
		delta++
		n++
	}
	return string(out)
}

func punyDigit(d int) byte {
	if d < 26 {
		return byte('a' + d)
	}
	return byte('0' + d - 26)
}

// adapt is the bias for the next delta (RFC 3492 section 6.1).
func adapt(delta, points int, first bool) int {
	if first {
		delta /= 700
	} else {
		delta /= 2
	}
	delta += delta / points
	k := 0
	for delta > 35*26/2 {
		delta /= 35
		k += 36
	}
	return k + 36*delta/(delta+38)
}
