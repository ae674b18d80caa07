package report

import (
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"os/exec"
	"strings"
	"testing"

	"github.com/emersion/go-message"
)

// Notices as mail programs read them.

// parsed is a notice as Go's mail and MIME parsers read it.
type parsed struct {
	mail.Header
	boundary string
	kinds    []string // of the parts, without their parameters
	parts    []string // decoded
	message  mail.Header
	groups   []mail.Header // of the recipients
}

func parse(t *testing.T, n *Notice) *parsed {
	t.Helper()
	c, err := Compose(n)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(c.Header, "\r") || strings.Contains(c.Header, "\n\n") {
		t.Errorf("header %q", c.Header)
	}
	return parseMessage(t, c.Header+"\n"+string(c.Body))
}

func parseMessage(t *testing.T, text string) *parsed {
	t.Helper()
	m, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	p := &parsed{Header: m.Header}
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/report" {
		t.Fatalf("%q: %v", kind, err)
	}
	p.boundary = params["boundary"]
	r := multipart.NewReader(m.Body, p.boundary)
	for {
		part, err := r.NextPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		kind, _, err := mime.ParseMediaType(part.Header.Get("Content-Type"))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(part) // decodes quoted-printable
		if err != nil {
			t.Fatal(err)
		}
		p.kinds, p.parts = append(p.kinds, kind), append(p.parts, string(body))
	}
	if len(p.parts) != 3 {
		t.Fatalf("parts %q", p.kinds)
	}
	if want := "multipart/report; report-type=" + strings.TrimPrefix(p.kinds[1], "message/"); !strings.HasPrefix(m.Header.Get("Content-Type"), want) {
		t.Errorf("Content-Type %q, and the second part is %q", m.Header.Get("Content-Type"), p.kinds[1])
	}
	for group := range strings.SplitSeq(p.parts[1], "\n\n") {
		g, err := mail.ReadMessage(strings.NewReader(group + "\n\n"))
		if err != nil {
			t.Fatalf("group %q: %v", group, err)
		}
		p.groups = append(p.groups, g.Header)
	}
	p.message, p.groups = p.groups[0], p.groups[1:]
	return p
}

// fields fails the test unless a header has these fields; "" stands for none.
func fields(t *testing.T, h mail.Header, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if got := h.Get(name); got != value {
			t.Errorf("%s: %q, want %q", name, got, value)
		}
	}
}

// TestOtherParsersReadTheSame has go-message and Python's email package read a
// notice with everything in it.
func TestOtherParsersReadTheSame(t *testing.T) {
	n := plain()
	n.Recipients = append(n.Recipients, Recipient{Address: "carol@example.com", Action: Delayed, RetryUntil: written})
	n.Body = []byte("Grüße\n")
	c, err := Compose(n)
	if err != nil {
		t.Fatal(err)
	}
	text := c.Header + "\n" + string(c.Body)
	e, err := message.Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	if err := e.Walk(func(_ []int, part *message.Entity, err error) error {
		kind, _, _ := part.Header.ContentType()
		kinds = append(kinds, kind)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(kinds, " "); got != "multipart/report text/plain message/delivery-status message/rfc822" {
		t.Error(got)
	}
	python(t, text, "None failed delayed <m1@sender.example> 0")
}

// python has Python's parser print the actions in the delivery status, the
// Message-ID of the returned message and how many defects it found.
func python(t *testing.T, text, want string) {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Log("no python3: its parser is not tried")
		return
	}
	cmd := exec.Command(path, "-c", `
import email, email.policy, sys
m = email.message_from_bytes(sys.stdin.buffer.read(), policy=email.policy.default)
assert m.get_content_type() == "multipart/report" and m.get_param("report-type") == "delivery-status"
text, status, original = m.iter_parts()
groups = status.get_payload()
print(*[g["Action"] for g in groups], original.get_payload()[0]["Message-ID"], sum(len(p.defects) for p in m.walk()))`)
	cmd.Stdin = strings.NewReader(text)
	out, err := cmd.CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != want {
		t.Errorf("python: %v: %s", err, out)
	}
}
