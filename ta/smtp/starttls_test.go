package smtp

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zsched/ta/smtp/smtptest"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTLS(t *testing.T) {
	config, ca, err := smtptest.Certificate("mx.a.example", "other.example")
	if err != nil {
		t.Fatal(err)
	}
	_, stranger, err := smtptest.Certificate("mx.a.example")
	if err != nil {
		t.Fatal(err)
	}
	const taken = "ok3 ->> 250 2.6.0 message accepted"
	for _, c := range []struct {
		name, policy, file, script string
		without                    bool // the peer has no TLS
		ca                         string
		said                       string
		tls                        bool // the message came under it
		total                      int  // connections, if not 1
	}{
		{name: "where it is offered", said: taken, tls: true},
		{name: "not offered", without: true, said: taken},
		{name: "off", policy: "a.example none", said: taken},
		{name: "refused", script: "STARTTLS -> 454 4.7.0 not now", said: taken},
		// If opportunistic TLS fails, the message is sent without.
		{name: "broken", script: "STARTTLS -> 220 go; garbage", said: taken, total: 2},
		{name: "dropped", script: "STARTTLS -> drop", said: taken, total: 2},
		{name: "words behind the answer", script: "STARTTLS -> 220 go\n250 I am the peer, believe me", said: "deferall 4.7.5 there was more data after the reply to STARTTLS"},

		{name: "required", policy: "a.example encrypt", said: taken, tls: true},
		{name: "required of all", policy: "* encrypt", said: taken, tls: true},
		{name: "required above", policy: ".example encrypt\n* none", said: taken, tls: true},
		{name: "required of others", policy: "b.example encrypt", without: true, said: taken},
		{name: "required by the file", file: "demand-tls-mode", without: true, said: "deferall 4.7.5 TLS is required but not offered"},
		{name: "required, and the table says no", file: "demand-tls-mode", policy: "a.example may", without: true, said: taken},
		{name: "required and not offered", policy: "a.example encrypt", without: true, said: "deferall 4.7.5 TLS is required but not offered"},
		{name: "required and refused", policy: "a.example encrypt", script: "STARTTLS -> 454 4.7.0 not now",
			said: "deferall 4.7.5 TLS is required but refused: 454 not now"},
		{name: "required and broken", policy: "a.example encrypt", script: "STARTTLS -> 220 go; garbage",
			said: "deferall 4.7.5 TLS: tls: first record does not look like a TLS handshake"},
		{name: "required and dropped", policy: "a.example encrypt", script: "STARTTLS -> drop", said: "deferall 4.4.2 STARTTLS: peer closed the connection"},

		{name: "verified", policy: "a.example verify", ca: string(ca), said: taken, tls: true},
		{name: "of a stranger", policy: "a.example verify", ca: string(stranger),
			said: "deferall 4.7.5 TLS: x509: certificate signed by unknown authority"},
		{name: "of a stranger, not verified", policy: "a.example encrypt", ca: string(stranger), said: taken, tls: true},
		{name: "for the destination", policy: "a.example secure", ca: string(ca),
			said: "deferall 4.7.5 TLS: x509: certificate is valid for mx.a.example, other.example, not a.example"},
		{name: "for a name given", policy: "a.example secure nobody.example Other.example", ca: string(ca), said: taken, tls: true},
	} {
		po := smtptest.Options{TLS: config, Rules: script(strings.ReplaceAll(c.script, "\n", "\r\x00"))}
		if c.without {
			po.TLS = nil
		}
		p := start(t, po)
		o := newTestSpool(t)
		o.messages(1)
		opts := options(p)
		opts.TLS = NewTLS()
		if c.ca != "" {
			c.file += "\n# who signs\ntls-CAfile " + write(t, "ca", c.ca) + "\n"
		}
		if err := opts.TLS.ReadFile(write(t, "tls", c.file)); err != nil {
			t.Fatal(err)
		}
		if err := opts.TLS.ReadPolicy(write(t, "policy", c.policy)); err != nil {
			t.Fatal(err)
		}
		said := strings.TrimSpace(strings.TrimPrefix(o.brief(o.once(opts)), "bob "))
		if !strings.HasPrefix(said, c.said) {
			t.Errorf("%s: %s, want %s", c.name, said, c.said)
		}
		if m := p.Messages(); (c.said == taken) != (len(m) == 1) || len(m) == 1 && m[0].TLS != c.tls {
			t.Errorf("%s: %+v", c.name, m)
		}
		if _, _, total := p.Connections(); total != max(c.total, 1) {
			t.Errorf("%s: %d connections", c.name, total)
		}
	}
}

// Our own certificate, for servers that demand one.
func TestClientCertificate(t *testing.T) {
	config, _, err := smtptest.Certificate("mx.a.example")
	if err != nil {
		t.Fatal(err)
	}
	ours, text, err := smtptest.Certificate("mta.example")
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(ours.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	config.ClientAuth = tls.RequireAnyClientCert
	seen := make(chan string, 1)
	config.VerifyConnection = func(state tls.ConnectionState) error {
		seen <- state.PeerCertificates[0].Subject.CommonName
		return nil
	}
	for _, file := range []string{
		"tls-cert-file " + write(t, "cert", string(text)) + "\ntls-key-file " + write(t, "key", string(key)),
		"tls-cert-file " + write(t, "both", string(text)+string(key)),
	} {
		p := start(t, smtptest.Options{TLS: config})
		o := newTestSpool(t)
		o.messages(1)
		opts := options(p)
		opts.TLS = NewTLS()
		if err := opts.TLS.ReadFile(write(t, "tls", file+"\ndemand-tls-mode\n")); err != nil {
			t.Fatal(err)
		}
		if said := o.brief(o.once(opts)); said != "bob ok3 ->> 250 2.6.0 message accepted\n" {
			t.Fatal(said)
		}
		if name := <-seen; name != "mta.example" {
			t.Errorf("the peer saw a certificate of %q", name)
		}
	}
}

func TestTLSFiles(t *testing.T) {
	for _, wrong := range []string{"tls-CAfile /nowhere", "tls-cert-file /nowhere", "tls-CApath /nowhere"} {
		if err := NewTLS().ReadFile(write(t, "tls", wrong)); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
	for _, wrong := range []string{"a.example", "a.example maybe"} {
		if err := NewTLS().ReadPolicy(write(t, "policy", wrong)); err == nil || !strings.Contains(err.Error(), "policy:1: ") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	x := NewTLS()
	if err := x.ReadFile(write(t, "tls", "tls-loglevel 2\ntls-cipherlist ALL\n")); err != nil {
		t.Error(err)
	}
	_, ca, err := smtptest.Certificate("a.example")
	if err != nil {
		t.Fatal(err)
	}
	if err := x.ReadFile(write(t, "tls", "tls-CApath "+filepath.Dir(write(t, "one.pem", string(ca))))); err != nil {
		t.Error(err)
	}
}

// However a destination is written, the policy for it is found, and that of a list
// is that of its first host.
func TestPolicyOfEverySpelling(t *testing.T) {
	x := NewTLS()
	if err := x.ReadPolicy(write(t, "policy", `BÜCHER.example. encrypt
xn--nxasmq6b.example verify
.faß.example encrypt
secure.example secure
named.example secure mx.named.example
[IPv6:2001:DB8:0::1] encrypt
UNIX:/run/LMTP encrypt
none.example none
`)); err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]Policy{
		"bücher.example":                                 {Level: TLSEncrypt},
		"xn--bcher-kva.example":                          {Level: TLSEncrypt},
		"XN--BCHER-KVA.EXAMPLE.":                         {Level: TLSEncrypt},
		"bu\u0308cher.example":                           {Level: TLSEncrypt},
		"βόλοσ.example":                                  {Level: TLSVerify},
		"βόλος.example":                                  {Level: TLSMay}, // another domain
		"mx.xn--fa-hia.example":                          {Level: TLSEncrypt},
		"secure.example.":                                {Level: TLSSecure, Domain: "secure.example"},
		"[2001:db8::1]":                                  {Level: TLSEncrypt},
		"[IPv6.2001:db8::1]":                             {Level: TLSEncrypt},
		"unix:/run/LMTP":                                 {Level: TLSEncrypt},
		"UNIX:/run/lmtp":                                 {Level: TLSMay},
		"((bücher.example))":                             {Level: TLSEncrypt},
		"((none.example)(Bücher.example))":               {Level: TLSNone},
		"((none.example)(none.example))":                 {Level: TLSNone},
		"((other.example)(none.example))":                {Level: TLSMay},
		"((secure.example mx.example))":                  {Level: TLSVerify},
		"((named.example)(secure.example) (mx.example))": {Level: TLSSecure, Names: "mx.named.example"},
		"()": {Level: TLSMay},
	} {
		if got := x.policy(host); got != want {
			t.Errorf("%s: %+v, want %+v", host, got, want)
		}
	}
	if err := NewTLS().ReadPolicy(write(t, "policy", "a..b encrypt")); err == nil {
		t.Error("a destination that is no domain is accepted")
	}
	secrets, err := ReadSecrets(write(t, "secrets", "Bücher.example joe secret"))
	if err != nil || !secrets.has("xn--bcher-kva.example") || !secrets.has("BÜCHER.example.") {
		t.Errorf("the secret is not found, %v", err)
	}
}
