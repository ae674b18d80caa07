package smtp

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// TLSLevel is how much a destination's connections must be protected. The
// names are those that Postfix uses.
type TLSLevel uint8

// The levels, each asking more than the one before.
const (
	// TLSNone: none: STARTTLS is not used.
	TLSNone TLSLevel = iota
	// TLSMay: may: it is used where it is offered and works, without a look
	// at the certificate. The default.
	TLSMay
	// TLSEncrypt: encrypt: no mail without it.
	TLSEncrypt
	// TLSVerify: verify: and the certificate is good for the name of the mail
	// exchanger.
	TLSVerify
	// TLSSecure: secure: and the certificate is good for the destination's own
	// name, which unlike that of the exchanger comes from no DNS.
	TLSSecure
)

var tlsLevels = []string{"none", "may", "encrypt", "verify", "secure"}

// Policy is what the connections of one destination must comply with.
type Policy struct {
	Level TLSLevel
	// Names are those that the certificate may be for, separated by blanks, in
	// place of the ones that the level implies.
	Names  string
	Domain string // the destination's own name, where the level needs it
}

// TLS is the material for TLS and the table of who must have it.
type TLS struct {
	base    tls.Config
	level   TLSLevel // of destinations that are not in the table
	table   map[string]Policy
	Ignored []string // words of the file that have no effect
}

// NewTLS is TLS where it is offered, and no table.
func NewTLS() *TLS { return &TLS{level: TLSMay, table: map[string]Policy{}} }

// ReadFile reads the file of -S: lines of a word and a value, "#" comments.
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
		case "tls-loglevel": // the protocol log always has what there is to say
		default:
			t.Ignored = append(t.Ignored, words[0])
		}
		return nil
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
		return fmt.Errorf("%s holds no certificate", file)
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
		return fmt.Errorf("%s holds no certificate", dir)
	}
	return nil
}

// ReadPolicy reads the table: lines of a destination, a level, and names for
// the certificate. A destination is the host word, ".domain" for all below it,
// or "*".
func (t *TLS) ReadPolicy(name string) error {
	return eachLine(name, func(words []string) error {
		if len(words) < 2 {
			return fmt.Errorf("%q has no level", words[0])
		}
		for i, level := range tlsLevels {
			if strings.EqualFold(words[1], level) {
				t.table[strings.ToLower(words[0])] = Policy{Level: TLSLevel(i), Names: strings.ToLower(strings.Join(words[2:], " "))}
				return nil
			}
		}
		return fmt.Errorf("level %q is none of %s", words[1], strings.Join(tlsLevels, ", "))
	})
}

// policy is that of a destination.
func (t *TLS) policy(domain string) Policy {
	p := Policy{Level: t.level}
	if found, ok := lookUpDomain(domain, func(key string) (Policy, bool) { p, ok := t.table[key]; return p, ok }); ok {
		p = found
	}
	if p.Level == TLSSecure && p.Names == "" {
		p.Domain = strings.ToLower(domain)
	}
	return p
}

// lookUpDomain looks for a name, then for the domains above it with a dot in
// front, then for "*".
func lookUpDomain[T any](domain string, find func(key string) (T, bool)) (found T, ok bool) {
	domain = strings.ToLower(strings.TrimSuffix(domain, "."))
	if found, ok = find(domain); ok {
		return found, true
	}
	for rest := domain; !strings.HasPrefix(domain, "["); {
		dot := strings.IndexByte(rest, '.')
		if dot < 0 {
			break
		}
		if found, ok = find(rest[dot:]); ok {
			return found, true
		}
		rest = rest[dot+1:]
	}
	return find("*")
}

// config is for one connection. The library's own check of names is replaced:
// there may be several, and at the lower levels none.
func (t *TLS) config(p Policy, to *target) *tls.Config {
	c := t.base.Clone()
	c.ServerName = strings.Trim(to.name, "[]")
	c.InsecureSkipVerify = true
	if p.Level < TLSVerify {
		return c
	}
	names := strings.Fields(p.Names)
	if len(names) == 0 && p.Level == TLSSecure {
		names = []string{p.Domain}
	} else if len(names) == 0 {
		names = []string{c.ServerName}
	}
	c.VerifyConnection = func(state tls.ConnectionState) error {
		if len(state.PeerCertificates) == 0 {
			return errors.New("no certificate")
		}
		intermediates := x509.NewCertPool()
		for _, cert := range state.PeerCertificates[1:] {
			intermediates.AddCert(cert)
		}
		var err error
		for _, name := range names {
			_, err = state.PeerCertificates[0].Verify(x509.VerifyOptions{
				DNSName: strings.Trim(name, "[]"), Roots: c.RootCAs, Intermediates: intermediates,
			})
			if err == nil {
				return nil
			}
		}
		return err
	}
	return c
}

// eachLine reads the lines of a file in words, without comments and empty
// ones.
func eachLine(name string, line func(words []string) error) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return eachLineOf(f, name, line)
}

func eachLineOf(r io.Reader, name string, line func(words []string) error) error {
	in := bufio.NewScanner(r)
	for n := 1; in.Scan(); n++ {
		words := strings.Fields(in.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if err := line(words); err != nil {
			return fmt.Errorf("%s:%d: %w", name, n, err)
		}
	}
	if err := in.Err(); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return nil
}
