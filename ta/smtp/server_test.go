package smtp

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zsched/ta/smtp/smtptest"
)

// A server that others wrote, with STARTTLS, AUTH, CHUNKING and DSN.
func TestRealSMTPServer(t *testing.T) {
	config, ca, err := smtptest.Certificate("mx.a.example")
	if err != nil {
		t.Fatal(err)
	}
	server, err := smtptest.Serve(smtptest.Options{TLS: config, User: "joe", Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	o := newTestSpool(t)
	o.message(1, to("bob@a.example", "nobody@a.example"), header, ".dots\n..\nGrüße\n")
	o.message(2, to("ann@a.example")+"N NOTIFY=SUCCESS ORCPT=rfc822;ann@b.example\n", header, "second\n")
	opts := options(&smtptest.Peer{Addr: server.Addr})
	opts.TLS = NewTLS()
	if err := opts.TLS.ReadFile(write(t, "tls", "tls-CAfile "+write(t, "ca", string(ca)))); err != nil {
		t.Fatal(err)
	}
	if err := opts.TLS.ReadPolicy(write(t, "policy", "a.example verify")); err != nil {
		t.Fatal(err)
	}
	if opts.Secrets, err = ReadSecrets(write(t, "secrets", "mx.a.example joe secret")); err != nil {
		t.Fatal(err)
	}
	a := New(opts)
	defer a.Close()
	if words := firstWords(o.brief(o.feed(a, "1", "2"))); !slices.Equal(words, []string{"nobody error2", "bob ok3", "ann ok3"}) {
		t.Errorf("reports %q", words)
	}
	m := server.Messages()
	const first = "From: alice@sender.example\r\nSubject: hello\r\n\r\n.dots\r\n..\r\nGrüße\r\n"
	if len(m) != 2 || m[0].Data != first || !strings.HasSuffix(m[0].Mail, " BODY=8BITMIME") || !m[0].TLS || m[0].User != "joe" || m[1].Conn != m[0].Conn {
		t.Errorf("messages %+v", m)
	}
}

func TestRealLMTPServer(t *testing.T) {
	server, err := smtptest.Serve(smtptest.Options{Address: filepath.Join(t.TempDir(), "lmtp"), LMTP: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	o := newTestSpool(t)
	o.message(1, to("bob@a.example", "nobody@a.example", "full@a.example", "ann@a.example"), header, ".dots\n..\nGrüße\n")
	o.message(2, to("bob@a.example"), header, "second\n")
	a := New(Options{Name: "mta.example", LMTP: true, Forced: "UNIX:" + server.Addr, Limits: DefaultLimits(), Resolver: one})
	defer a.Close()
	want := []string{"nobody error2", "bob ok3", "full deferback", "ann ok3", "bob ok3"}
	if words := firstWords(o.brief(o.feed(a, "1", "2"))); !slices.Equal(words, want) {
		t.Errorf("reports %q, want %q", words, want)
	}
	m := server.Messages()
	const first = "From: alice@sender.example\r\nSubject: hello\r\n\r\n.dots\r\n..\r\nGrüße\r\n"
	if len(m) != 2 || m[0].Data != first || !slices.Equal(m[0].Recipients, []string{"bob@a.example", "ann@a.example"}) || !slices.Equal(m[1].Recipients, []string{"bob@a.example"}) {
		t.Errorf("messages %+v", m)
	}
}

// firstWords are the first two words of each line.
func firstWords(text string) (all []string) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		all = append(all, strings.Join(words[:min(2, len(words))], " "))
	}
	return all
}
