package smtp

import (
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestReplyLines(t *testing.T) {
	for in, want := range map[string]string{
		"250 ok":                         `250 "" "ok" 2.0.0`,
		"250":                            `250 "" "" 2.0.0`,
		"250 ":                           `250 "" "" 2.0.0`,
		"250-one\r\n250-\r\n250 two":     `250 "" "one two" 2.0.0`,
		"550 5.1.1 no user":              `550 "5.1.1" "no user" 5.1.1`,
		"550-5.1.1 no\r\n550 5.1.1 user": `550 "5.1.1" "no user" 5.1.1`,
		"450 4.4.1 later":                `450 "4.4.1" "later" 4.4.0`,
		"450 5.1.1 what":                 `450 "" "5.1.1 what" 4.2.0`,
		"550 5.1 what":                   `550 "" "5.1 what" 5.2.0`,
		"550 5.1.1234 what":              `550 "" "5.1.1234 what" 5.2.0`,
		"552 full":                       `552 "" "full" 5.3.4`,
		"452 full":                       `452 "" "full" 4.3.1`,
		"503 order":                      `503 "" "order" 5.5.1`,
		"555 what":                       `555 "" "what" 5.5.4`,
		"421 bye":                        `421 "" "bye" 4.3.2`,
		"554 no":                         `554 "" "no" 5.0.0`,
		"25":                             "error",
		"250x":                           "error",
		"abc d":                          "error",
		"100 x":                          "error",
		"600 x":                          "error",
		"":                               "error",
		"250-one\r\n251what":             "error",
		strings.Repeat("250-x\r\n", 200) + "250 x": "error",
	} {
		if got := readReply(t, in+"\r\n"); got != want && !(want == "error" && strings.HasPrefix(got, want)) {
			t.Errorf("%.60q: %s, want %s", in, got, want)
		}
	}
	// A long line is cut. One without end is an error.
	if got := readReply(t, "250 "+strings.Repeat("x", 100_000)+"\r\n"); len(got) > maxReplyLine+50 || !strings.HasPrefix(got, "250 ") {
		t.Errorf("%.60q of %d bytes", got, len(got))
	}
	if got := readReply(t, "250 "+strings.Repeat("x", 3<<20)); !strings.Contains(got, "a line without end") {
		t.Errorf("%.60q", got)
	}
}

// readReply reads one reply from a server that sends a text and closes.
func readReply(t testing.TB, said string) string {
	t.Helper()
	near, far := net.Pipe()
	go func() { _, _ = io.WriteString(far, said); _ = far.Close() }()
	defer func() { _ = near.Close() }()
	w := newWire(near, time.Minute, func(string, string) {})
	r, err := w.reply(time.Minute)
	if err != nil {
		return "error: " + err.Error()
	}
	return fmt.Sprintf("%d %q %q %s", r.Code, r.Status, r.Text(), r.status())
}

// Whatever a server sends is a reply or an error. The parts of a reply can stand in a
// report.
func FuzzReply(f *testing.F) {
	for _, s := range []string{"250 ok\r\n", "550-5.1.1 no\r\n550 5.1.1 user\r\n", "250-\n250\n", "220\x00 \t\r\r\n"} {
		f.Add(s)
	}
	status := regexp.MustCompile(`^[245]\.\d{1,3}\.\d{1,3}$`)
	f.Fuzz(func(t *testing.T, said string) {
		near, far := net.Pipe()
		go func() { _, _ = io.WriteString(far, said); _ = far.Close() }()
		defer func() { _ = near.Close() }()
		w := newWire(near, time.Minute, func(string, string) {})
		r, err := w.reply(time.Minute)
		if err != nil {
			return
		}
		if r.Code < 200 || r.Code > 599 || len(r.Lines) == 0 || len(r.Lines) > maxReplyLines {
			t.Errorf("%q: code %d, %d lines", said, r.Code, len(r.Lines))
		}
		if s := r.status(); r.Code/100 != 3 && (!status.MatchString(s) || s[0] != byte('0'+r.Code/100)) {
			t.Errorf("%q: status %q", said, s)
		}
		if strings.Contains(strings.Join(r.Lines, "")+r.diagnostic(), "\n") {
			t.Errorf("%q: a line feed in %q", said, r.Lines)
		}
	})
}
