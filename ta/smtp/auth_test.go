package smtp

import (
	"os"
	"strings"
	"testing"

	"zsched/ta/smtp/smtptest"
)

func TestSASL(t *testing.T) {
	config, _, err := smtptest.Certificate("mx.a.example")
	if err != nil {
		t.Fatal(err)
	}
	const taken = "ok3 ->> 250 2.6.0 message accepted"
	for _, c := range []struct {
		name, secrets string
		offers        []string
		without       bool // TLS
		said, user    string
	}{
		{name: "by exchanger", secrets: "# who\nmx.a.example joe secret\n", said: taken, user: "joe"},
		{name: "by destination", secrets: "A.example joe secret", said: taken, user: "joe"},
		{name: "by domain", secrets: ".example joe secret", said: taken, user: "joe"},
		{name: "for all", secrets: "* joe secret", said: taken, user: "joe"},
		{name: "the nearer one", secrets: "* eve wrong\nmx.a.example joe secret", said: taken, user: "joe"},
		{name: "LOGIN", secrets: "* joe secret", offers: []string{"STARTTLS", "AUTH LOGIN"}, said: taken, user: "joe"},
		{name: "for others", secrets: "b.example joe secret", said: taken},
		{name: "wrong", secrets: "* joe wrong", said: "deferall 4.7.8 ->> 535 5.7.8 who are you"},
		{name: "not offered", secrets: "* joe secret", offers: []string{"STARTTLS"}, said: "deferall 4.7.5 AUTH: neither PLAIN nor LOGIN is offered"},
		{name: "without TLS", secrets: "* joe secret", without: true, said: "deferall 4.7.5 AUTH: the password is not sent without TLS"},
		{name: "without TLS, allowed", secrets: "* joe secret plaintext", without: true, said: taken, user: "joe"},
	} {
		po := smtptest.Options{TLS: config, User: "joe", Password: "secret", Offers: c.offers}
		if c.without {
			po.TLS = nil
		}
		p := start(t, po)
		o := newTestSpool(t)
		o.messages(1)
		opts := options(p)
		var log strings.Builder
		opts.Log = func(l LogLine) { log.WriteString(l.Text + "\n") }
		if opts.Secrets, err = ReadSecrets(write(t, "secrets", c.secrets)); err != nil {
			t.Fatal(err)
		}
		said := o.once(opts)
		if got := strings.TrimSpace(strings.TrimPrefix(o.brief(said), "bob ")); got != c.said {
			t.Errorf("%s: %s, want %s", c.name, got, c.said)
		}
		if m := p.Messages(); (c.said == taken) != (len(m) == 1) || len(m) == 1 && m[0].User != c.user {
			t.Errorf("%s: %+v", c.name, m)
		}
		for _, text := range []string{said, log.String()} {
			for _, secret := range []string{"secret\n", "am9l", "c2VjcmV0", "d3Jvbmc"} {
				if strings.Contains(text, secret) {
					t.Errorf("%s: a log has the secret: %s", c.name, text)
				}
			}
		}
	}
}

func TestSecretsFile(t *testing.T) {
	for _, wrong := range []string{"host user", "host user password MAGIC"} {
		if _, err := ReadSecrets(write(t, "secrets", wrong)); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
	name := write(t, "secrets", "* joe secret")
	if err := os.Chmod(name, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSecrets(name); err == nil || !strings.Contains(err.Error(), "everybody may read or write it") {
		t.Errorf("a file that all can read: %v", err)
	}
}

// A server that sends challenges for ever is given up after eight.
func TestSASLEnds(t *testing.T) {
	p := start(t, smtptest.Options{User: "joe", Password: "secret", Rules: script("AUTH -> 334 YQ==\n* -> 334 YQ==")})
	o := newTestSpool(t)
	o.messages(1)
	opts := options(p)
	var err error
	if opts.Secrets, err = ReadSecrets(write(t, "secrets", "* joe secret plaintext")); err != nil {
		t.Fatal(err)
	}
	if said := o.brief(o.once(opts)); said != "bob deferall 4.7.5 AUTH: no end after 8 challenges\n" {
		t.Error(said)
	}
	p.AwaitCommand("QUIT", 1)
	if n := strings.Count(commands(p), "*"); n != 8 {
		t.Errorf("%d challenges were answered", n)
	}
}
