// This file holds the TLS policy: certificates (option -S), and the level that
// each destination must have (--tls-policy).

package smtp

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// TLSLevel says how connections to a destination must be protected. The names are
// those of Postfix.
type TLSLevel uint8

// The levels. Each demands everything that the previous one demands, and more.
const (
	// TLSNone (none): STARTTLS is not used.
	TLSNone TLSLevel = iota
	// TLSMay (may): STARTTLS is used if it is offered and works, with any
	// certificate. The default.
	TLSMay
	// TLSEncrypt (encrypt): mail is sent under TLS only.
	TLSEncrypt
	// TLSVerify (verify): the certificate must be valid for the name of the mail
	// exchanger.
	TLSVerify
	// TLSSecure (secure): the certificate must be valid for the destination's
	// name, which, unlike that of the exchanger, does not come from the DNS.
	TLSSecure
)

var tlsLevels = []string{"none", "may", "encrypt", "verify", "secure"}

// Policy is what connections to one destination must comply with.
type Policy struct {
	Level TLSLevel
	// Names are the names that the certificate may be for, separated by blanks.
	// "": the name that the level implies.
	Names  string
	Domain string // the destination's name, if the level or a secret depends on it
}

// TLS holds our certificates, those that we trust, and the policy table.
type TLS struct {
	base  tls.Config
	level TLSLevel          // of destinations that are not in the table
	table map[string]Policy // by destination, ".domain" or "*"
}

// NewTLS returns a TLS with level may for all destinations.
func NewTLS() *TLS { return &TLS{level: TLSMay, table: map[string]Policy{}} }

// ReadFile reads the file of -S. Each line is a word and a value.
func (t *TLS) ReadFile(name string) error {
	var cert, key string
	err := eachLine(name, func(words []string) error {
		value := strings.Join(words[1:], " ")
		switch strings.ToLower(words[0]) {
		case "tls-cert-file":
			cert = value
		case "tls-key-file":
			key = value
		case "tls-cafile":
			return t.addCertificates(value)
		case "tls-capath":
			return t.addCertificatesIn(value)
		case "demand-tls-mode":
			t.level = max(t.level, TLSEncrypt)
		}
		return nil // other words of ZMailer's have no effect
	})
	if err != nil || cert == "" {
		return err
	}
	if key == "" {
		key = cert
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	t.base.Certificates = []tls.Certificate{pair}
	return nil
}

func (t *TLS) addCertificates(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if t.base.RootCAs == nil {
		t.base.RootCAs = x509.NewCertPool()
	}
	if !t.base.RootCAs.AppendCertsFromPEM(text) {
		return fmt.Errorf("%s contains no certificate", file)
	}
	return nil
}

func (t *TLS) addCertificatesIn(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	found := 0
	for _, f := range files {
		if t.addCertificates(filepath.Join(dir, f.Name())) == nil {
			found++
		}
	}
	if found == 0 {
		return fmt.Errorf("%s contains no certificate", dir)
	}
	return nil
}

// ReadPolicy reads the file of --tls-policy. Each line is a destination, a level,
// and names for the certificate. A destination is a host word, ".domain" for all
// domains below it, or "*".
func (t *TLS) ReadPolicy(name string) error {
	return eachLine(name, func(words []string) error {
		if len(words) < 2 {
			return fmt.Errorf("destination %q has no level", words[0])
		}
		for i, level := range tlsLevels {
			if strings.EqualFold(words[1], level) {
				destination, err := canonicalHost(words[0])
				t.table[destination] = Policy{Level: TLSLevel(i), Names: strings.ToLower(strings.Join(words[2:], " "))}
				return err
			}
		}
		return fmt.Errorf("level %q is not one of %s", words[1], strings.Join(tlsLevels, ", "))
	})
}

// policy returns the policy of a destination. That of a list of hosts is the policy of its
// first host. Because the hosts do not come from the DNS, each is then its own destination.
func (t *TLS) policy(destination string) Policy {
	host := destination
	if strings.HasPrefix(destination, "(") {
		if list := listedHosts(destination); len(list) > 0 {
			host = list[0].Host
		}
	}
	p := Policy{Level: t.level}
	if found, ok := findDomain(t.table, host); ok {
		p = found
	}
	switch {
	case p.Level != TLSSecure || p.Names != "":
	case host != destination:
		p.Level = TLSVerify
	default:
		p.Domain = canonicalOr(host)
	}
	return p
}

// findDomain finds the entry of a domain: its own, else that of the closest parent
// domain (with a leading dot), else "*".
func findDomain[T any](table map[string]T, domain string) (found T, ok bool) {
	if found, ok = findOwn(table, domain); ok {
		return found, true
	}
	found, ok = table["*"]
	return found, ok
}

// findOwn is findDomain without "*".
func findOwn[T any](table map[string]T, domain string) (found T, ok bool) {
	domain = canonicalOr(domain)
	if found, ok = table[domain]; ok || strings.HasPrefix(domain, "[") {
		return found, ok
	}
	for rest := domain; !ok; {
		dot := strings.IndexByte(rest, '.')
		if dot < 0 {
			break
		}
		found, ok = table[rest[dot:]]
		rest = rest[dot+1:]
	}
	return found, ok
}

// eachLine calls line with the words of each line of a file that is neither empty
// nor a comment.
func eachLine(name string, line func(words []string) error) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	n := 0
	for l := range strings.Lines(string(text)) {
		n++
		words := strings.Fields(l)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if err := line(words); err != nil {
			return fmt.Errorf("%s:%d: %w", name, n, err)
		}
	}
	return nil
}
