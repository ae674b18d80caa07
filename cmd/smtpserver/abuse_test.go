package main

// Abuse: clients that try to break the server, all at once, while somebody sends
// mail.

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/smtp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"zsched/internal/testing/certificatetest"
)

// abuser is a client from an address outside known networks.
type abuser struct {
	net.Conn
	in *bufio.Reader
	n  int // of those that do the same, from 0
}

// newAbuser connects from the nth address of strangers.
func newAbuser(address string, n int) (*abuser, error) {
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, byte(n/250), byte(1+n%250))}}
	conn, err := from.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
	a := &abuser{conn, bufio.NewReader(conn), n}
	if err := a.expect("220"); err != nil {
		return nil, err
	}
	return a, a.say("EHLO x.example", "250")
}

// expect reads a reply of any number of lines.
func (a *abuser) expect(code string) error {
	for {
		line, err := a.in.ReadString('\n')
		if err != nil {
			return fmt.Errorf("wait for %s: %w", code, err)
		}
		if !strings.HasPrefix(line, code) {
			return fmt.Errorf("reply %q, want %s", line, code)
		}
		if line[3] == ' ' {
			return nil
		}
	}
}

// drain reads until the server ends the session, and returns the number of lines
// and the last one.
func (a *abuser) drain() (lines int, last string) {
	for {
		line, err := a.in.ReadString('\n')
		if err != nil {
			return lines, last
		}
		lines, last = lines+1, line
	}
}

// say sends lines and expects a reply to each.
func (a *abuser) say(linesAndCodes ...string) error {
	for i := 0; i < len(linesAndCodes); i += 2 {
		fmt.Fprint(a, linesAndCodes[i]+"\r\n")
		if err := a.expect(linesAndCodes[i+1]); err != nil {
			return err
		}
	}
	return nil
}

var begun = []string{"MAIL FROM:<a@far.example>", "250", "RCPT TO:<b@ours.example>", "250", "DATA", "354"}

// abuses are what clients do. Each ends when the server has ended the session, or
// when held is closed. An error says that the server did not defend itself.
var abuses = []struct {
	name string
	do   func(a *abuser, held <-chan struct{}) error
}{
	{"smuggling", func(a *abuser, _ <-chan struct{}) error {
		if err := a.say(begun...); err != nil {
			return err
		}
		ends := []string{"\n.\n", "\n.\r\n", "\r\n.\n", "\r.\r", "\r\n.\r\r\n", "\r\n\x00.\r\n\n.\r\n"}
		fmt.Fprint(a, "x"+ends[a.n%len(ends)]+"MAIL FROM:<evil@far.example>\r\nRCPT TO:<b@ours.example>\r\nDATA\r\nsmuggled\r\n.\r\n")
		if lines, last := a.drain(); lines != 2 || !strings.HasPrefix(last, "421 ") {
			return fmt.Errorf("%d replies, the last one %q", lines, last)
		}
		return nil
	}},
	{"endless lines", func(a *abuser, _ <-chan struct{}) error {
		if a.n%2 == 0 {
			if err := a.say(begun...); err != nil {
				return err
			}
		}
		go io.WriteString(a, strings.Repeat("x", 8<<20)+"\r\n.\r\nQUIT\r\n")
		if _, last := a.drain(); last != "" && last[0] != '4' && last[0] != '2' {
			return fmt.Errorf("the last reply is %q", last)
		}
		return nil
	}},
	{"recipients", func(a *abuser, _ <-chan struct{}) error {
		if err := a.say(begun[:2]...); err != nil {
			return err
		}
		go func() {
			for i := range recipientsEach {
				if _, err := fmt.Fprintf(a, "RCPT TO:<b%d@ours.example>\r\n", i); err != nil {
					return
				}
			}
		}()
		if replies, _ := a.drain(); replies > maxReplies {
			return fmt.Errorf("%d replies", replies)
		}
		return nil
	}},
	{"slow drip", func(a *abuser, held <-chan struct{}) error {
		if err := a.say(begun...); err != nil {
			return err
		}
		for {
			if _, err := io.WriteString(a, "x"); err != nil {
				return fmt.Errorf("the session ended before its time: %w", err)
			}
			select {
			case <-held:
				return nil
			case <-time.After(20 * time.Millisecond):
			}
		}
	}},
	{"garbage in TLS", func(a *abuser, _ <-chan struct{}) error {
		if err := a.say("STARTTLS", "220"); err != nil {
			return err
		}
		garbage := make([]byte, 1<<16)
		for i := range garbage {
			garbage[i] = byte(rand.IntN(256))
		}
		if a.n%2 == 0 { // a real handshake first
			conn := tls.Client(a.Conn, &tls.Config{InsecureSkipVerify: true})
			if err := conn.Handshake(); err != nil {
				return err
			}
		}
		go a.Write(garbage)
		_, _ = io.Copy(io.Discard, a.Conn)
		return nil
	}},
}

const (
	// recipientsEach times a hundred sessions are a million.
	recipientsEach = 10000
	// maxReplies is more than the server's limits allow without a message.
	maxReplies = 1200
)

// abuse has sessions clients abuse a server at once, and meanwhile sends mail. It
// returns how long the slowest message took, and the most memory that the server
// ever had, in megabytes.
func abuse(t testing.TB, sessions int) (slowest time.Duration, memory float64) {
	p := newPlace(t, "domain ours.example\nmax-sessions 1020\ncertificate mx.pem\n")
	certificatetest.Write(t, filepath.Join(p.dir, "mx.pem"), time.Now().Add(time.Hour))
	server, address := p.startAs("strangers")
	held := make(chan struct{})
	var clients sync.WaitGroup
	stood := make([]atomic.Int64, len(abuses))
	connected := make(chan bool, sessions)
	for n := range sessions {
		clients.Go(func() {
			a, err := newAbuser(address, n)
			connected <- true
			kind := abuses[n%len(abuses)]
			if err == nil {
				defer a.Close()
				a.n = n / len(abuses)
				err = kind.do(a, held)
			}
			if err != nil {
				t.Errorf("%s: %v", kind.name, err)
				return
			}
			stood[n%len(abuses)].Add(1)
		})
	}
	for range sessions {
		<-connected
	}
	const messages = 50
	for range messages {
		began := time.Now()
		c, err := smtp.Dial(address)
		if err == nil {
			err = send(c)
			_ = c.Close()
		}
		if err != nil {
			t.Error(err)
		}
		slowest = max(slowest, time.Since(began))
	}
	close(held)
	clients.Wait()
	for i := range abuses {
		t.Logf("held  %s: %d sessions", abuses[i].name, stood[i].Load())
	}
	memory = mostMemory(t, server)
	files, err := filepath.Glob(filepath.Join(p.dir, "router", "*"))
	if err != nil || len(files) != messages {
		t.Errorf("%d messages in router/, %v; want %d", len(files), err, messages)
	}
	for _, file := range files {
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "from <a@client.example>\n") {
			t.Errorf("%v: %s", err, text)
		}
	}
	return slowest, memory
}

// mostMemory is the peak of a process's resident memory in megabytes.
func mostMemory(t testing.TB, server *exec.Cmd) (megabytes float64) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", server.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	if _, err = fmt.Sscan(after, &megabytes); err != nil {
		t.Fatal(err)
	}
	return megabytes / 1024
}

func TestServerStandsUnderAbuse(t *testing.T) { abuse(t, 50) }

// BenchmarkAbuse is TestServerStandsUnderAbuse with 500 sessions, 100 of each
// kind, and a million RCPT commands in all.
func BenchmarkAbuse(b *testing.B) {
	var slowest time.Duration
	var memory float64
	for b.Loop() {
		s, m := abuse(b, 500)
		slowest, memory = max(slowest, s), max(memory, m)
	}
	b.ReportMetric(memory, "MB")
	b.ReportMetric(float64(slowest.Milliseconds()), "slowest-ms")
	if memory > 60 {
		b.Errorf("%.0f MB of memory, must be 60", memory)
	}
}
