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

// FuzzText compares the text of a message, fed in two parts, with the rule: every CR and
// every LF is part of a CRLF, and a last line without an end gets one. After DATA, the same
// text has more dots and an end, and what follows the end is left alone.
func FuzzText(f *testing.F) {
	for _, seed := range []string{"a\r\nb", "a\rb\n\r\n", ".\r\n..\r\n.a\r\n\r\n.", "\r\n.\r\n", "a\r\n.\n", "\r.\r\n"} {
		for cut := range len(seed) + 1 {
			f.Add([]byte(seed), cut)
		}
	}
	f.Fuzz(func(t *testing.T, input []byte, cut int) {
		want := strings.ReplaceAll(string(input), "\r\n", "\x00")
		bare := strings.ContainsAny(want, "\r\n")
		if bytes.Contains(input, []byte{0}) || len(input) > maxTextLine {
			t.Skip()
		}
		want = strings.ReplaceAll(want, "\x00", "\n")
		if want != "" && !strings.HasSuffix(want, "\n") {
			want += "\n"
		}
		var out bytes.Buffer
		w := &text{w: &out, maxSize: 1 << 30}
		_, err := w.writeParts(input, cut)
		if err == nil {
			err = w.end()
		}
		if (err != nil) != bare || err == nil && out.String() != want {
			t.Errorf("%q, %v; want %q, bare %v", out.String(), err, want, bare)
		}
		if bare {
			return
		}
		dotted := strings.ReplaceAll("\n"+want, "\n.", "\n..")[1:]
		dotted = strings.ReplaceAll(dotted, "\n", "\r\n") + ".\r\n"
		out.Reset()
		w = &text{w: &out, maxSize: 1 << 30, dots: true}
		n, err := w.writeParts([]byte(dotted+"NOOP\r\n"), cut)
		if err != nil || n != len(dotted) || !w.ended || w.end() != nil || out.String() != want || w.size != int64(len(want)+strings.Count(want, "\n")) {
			t.Errorf("%q, %d of %d bytes, %v; want %q", out.String(), n, len(dotted), err, want)
		}
	})
}

// writeParts writes a text in two parts.
func (t *text) writeParts(all []byte, cut int) (n int, err error) {
	at := min(max(cut, 0), len(all))
	n, err = t.write(all[:at])
	if n == at && err == nil {
		n, err = t.write(all[at:])
		n += at
	}
	return n, err
}

// lockedText is what has been logged.
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
	f.Add([]byte("AUTH PLAIN\r\n*\r\nSTARTTLS\r\nETRN x\r\n"))
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
		if strings.Contains(log.String(), "panic") {
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
