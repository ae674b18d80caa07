package smtpserver

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"
)

// FuzzText compares textWriter, fed in two parts, with the rule: every CR and
// every LF is part of a CRLF, and a last line without an end gets one.
func FuzzText(f *testing.F) {
	f.Add([]byte("a\r\nb"), 2)
	f.Add([]byte("a\rb\n\r\n"), 3)
	f.Fuzz(func(t *testing.T, text []byte, cut int) {
		var out bytes.Buffer
		w := &textWriter{w: &out}
		at := min(max(cut, 0), len(text))
		err := w.write(text[:at])
		if err == nil {
			err = w.write(text[at:])
		}
		if err == nil {
			err = w.end()
		}
		want := strings.ReplaceAll(string(text), "\r\n", "\x00")
		bare := strings.ContainsAny(want, "\r\n") || bytes.Contains(text, []byte{0})
		if bytes.Contains(text, []byte{0}) || len(text) > maxTextLine {
			t.Skip()
		}
		want = strings.ReplaceAll(want, "\x00", "\n")
		if want != "" && !strings.HasSuffix(want, "\n") {
			want += "\n"
		}
		if (err != nil) != bare || err == nil && out.String() != want {
			t.Errorf("%q, %v; want %q, bare %v", out.String(), err, want, bare)
		}
	})
}

// lockedText is what has been logged. A chunk that is broken off logs when the
// server is closed already.
type lockedText struct {
	sync.Mutex
	text bytes.Buffer
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.Lock()
	defer l.Unlock()
	return l.text.String()
}

// FuzzSession sends anything after a recipient. Nothing panics, and what is in
// router/ afterwards is complete and has line ends of the queue.
func FuzzSession(f *testing.F) {
	f.Add([]byte("DATA\r\nx\r\n.\r\nQUIT\r\n"))
	f.Add([]byte("BDAT 3\r\nabcBDAT 2 LAST\r\n\r\nRSET\r\nDATA\r\n"))
	f.Add([]byte("AUTH PLAIN\r\n*\r\nSTARTTLS\r\nETRN x\r\nXCLIENT ADDR=1.2.3.4\r\n"))
	f.Add([]byte("DATA\r\nx\n.\r\nMAIL FROM:<>\r\n"))
	office := f.TempDir()
	for _, dir := range []string{"public", "router", "transport"} {
		if err := os.Mkdir(filepath.Join(office, dir), 0o700); err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		log := new(lockedText)
		o := Default()
		o.Hostname, o.MinFree = "mx.example", 0
		o.Router.Postoffice = office
		o.Log = zerolog.New(log)
		s, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		ours, theirs := net.Pipe()
		go io.Copy(io.Discard, bufio.NewReader(ours))
		go func() {
			_, _ = io.WriteString(ours, "EHLO x\r\nMAIL FROM:<a@b.example>\r\nRCPT TO:<c@d.example>\r\n")
			_, _ = ours.Write(text)
			_ = ours.Close()
		}()
		if err := s.ServeConn(theirs, SMTP); err != nil {
			t.Error(err)
		}
		_ = s.Close(t.Context())
		// go-smtp itself may panic, and says so, where a session ends just when
		// its first chunk begins.
		if text := log.String(); strings.Contains(text, "panic") && strings.Contains(text, "zsched/smtpserver") {
			t.Error(log.String())
		}
		files, _ := filepath.Glob(filepath.Join(office, "router", "*"))
		for _, file := range files {
			message, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(message, []byte("\nenv-end\n")) || bytes.IndexByte(message, '\r') >= 0 || !bytes.HasSuffix(message, []byte("\n")) {
				t.Errorf("message %q", message)
			}
			_ = os.Remove(file)
		}
		if left, _ := filepath.Glob(filepath.Join(office, "public", ".*")); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	})
}
