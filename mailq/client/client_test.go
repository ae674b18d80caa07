package client

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"iter"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zsched/mailq"
	"zsched/scheduler/view"
)

// startServer serves one session on a UNIX socket and then closes it. It sends the
// lines that begin with "S: "; "S- " sends without a line end. The lines that begin
// with "C: " must come. All lines between two of the client go in one write, because the
// client may leave in the middle.
func startServer(t *testing.T, transcript string) Address {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mailq")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			err = play(conn, transcript)
			_ = conn.Close()
		}
		done <- err
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		if err := <-done; err != nil {
			t.Errorf("the server: %v", err)
		}
	})
	return Address{Path: path}
}

func play(conn net.Conn, transcript string) error {
	in, out := bufio.NewReader(conn), bufio.NewWriter(conn)
	for line := range strings.Lines(transcript) {
		switch kind, text := line[:3], line[3:]; kind {
		case "S: ":
			_, _ = out.WriteString(text) // Flush has the error
		case "S- ":
			_, _ = out.WriteString(strings.TrimSuffix(text, "\n"))
		case "C: ":
			if err := out.Flush(); err != nil {
				return err
			}
			got, err := in.ReadString('\n')
			if err != nil || got != text {
				return fmt.Errorf("%q came where %q should: %v", got, text, err)
			}
		}
	}
	return out.Flush()
}

// dialServer begins a dialogue with a server that plays a transcript.
func dialServer(t *testing.T, transcript string) (*Client, error) {
	t.Helper()
	conn, err := Dialer{}.Dial(context.Background(), startServer(t, transcript))
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(conn, Options{Server: "here", Timeout: time.Minute})
	if err == nil {
		t.Cleanup(func() { _ = c.Close() })
	}
	return c, err
}

// version2 is how every session of version 2 here begins.
const version2 = "S: version zmailer 2.0\nS: 220 MAILQ-V2-CHALLENGE: 1795233126.898330.1\n"

// login is the AUTH of nobody for it.
const login = "C: AUTH nobody 1304725670c8069b18abb3e3eafa7f8f\nS: +OK\n"

func dialVersion2(t *testing.T, transcript string) *Client {
	t.Helper()
	c, err := dialServer(t, version2+login+transcript)
	if err == nil {
		err = c.Login("nobody", "nobody")
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// printQueue prints a report, or the list of messages.
func printQueue(c *Client, p *Printer, report string) error {
	defer c.Quit()
	if err := c.Login("nobody", "nobody"); err != nil {
		return err
	}
	if report != "" {
		return printLines(p, c.Show(report))
	}
	for job, err := range Objects[mailq.JobLine](c.Show(list)) {
		if err == nil {
			err = p.Job(job)
		}
		if err != nil {
			return err
		}
	}
	return p.Finish()
}

// list is the question for the list of messages.
const list = "JSON SHOW WHERE channel=*"

func printLines(p *Printer, lines iter.Seq2[string, error]) error {
	for line, err := range lines {
		if err == nil {
			err = p.Line(line)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// TestDialogueEnds: whatever a server does, the client ends with an error that
// says which kind it is. The old one read empty lines for ever.
func TestDialogueEnds(t *testing.T) {
	for _, test := range []struct {
		name, transcript string
		kind             Kind
		says             string
	}{
		{"too many sessions", "", Unavailable, "closed the connection without a greeting"},
		{"another protocol", "S: SSH-2.0-OpenSSH_9.9\n", Unavailable, "version mismatch"},
		{"wrapped", "S: 500 TCP-WRAPPER refusing 'mailq' query from your whereabouts\r\n", Refused, "TCP-WRAPPER"},
		{"no access", "S: version zmailer 2.0\nS: 550 NO ACCESS FOR YOU\n", Refused, "NO ACCESS"},
		{"no challenge", "S: version zmailer 2.0\n", Unavailable, "in the middle of its answer"},
		{"end in the greeting", "S- version zmailer", Unavailable, "in the middle of a line"},
		{"no answer to a login", version2 + "C: AUTH nobody 1304725670c8069b18abb3e3eafa7f8f\n", Unavailable, "in the middle of its answer"},
		{"wrong password", version2 + "C: AUTH nobody 1304725670c8069b18abb3e3eafa7f8f\nS: -BAD USER OR PASSWORD\n", Refused, `user "nobody" not accepted by here: BAD USER OR PASSWORD`},
		{"verb refused", version2 + login + "C: " + list + "\nS: -MAILQ2 Unknown command, or refused by access control; VERB='SHOW' REST='QUEUE'\n", Refused, "access control"},
		{"neither + nor -", version2 + login + "C: " + list + "\nS: OK\n", Unavailable, "neither + nor -"},
		{"end in a list", version2 + login + "C: " + list + "\nS: +OK until LF.LF\n", Unavailable, "in the middle of its answer"},
		{"end in a line", version2 + login + "C: " + list + "\nS: +OK until LF.LF\nS- {\"chan\n", Unavailable, "in the middle of a line"},
		{"no object", version2 + login + "C: " + list + "\nS: +OK until LF.LF\nS: smtp\n", Unavailable, "malformed JSON"},
		{"broken list", version2 + login + "C: " + list + "\nS: +OK until LF.LF\nS: {}\nS: {\"error\":\"no time\"}\nS: .\n", Unavailable, "not whole: no time"},
		{"only an error", version2 + login + "C: " + list + "\nS: +OK until LF.LF\nS: {\"error\":\"no such\"}\nS: .\n", NotDone, "no such"},
		{"not done", version2 + login + "C: " + list + "\nS: -ERR; no \x1bsuch\n", NotDone, "no ^[such"},
		{"version 1", "S: version zmailer 1.0\nS: Vertices:\n", Unavailable, "here speaks version 1 of MAILQ"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := dialServer(t, test.transcript)
			var out strings.Builder
			if err == nil {
				err = printQueue(c, &Printer{Out: &out, Now: captureTime}, "")
			}
			if KindOf(err) != test.kind || !strings.Contains(fmt.Sprint(err), test.says) {
				t.Errorf("fault %d: %v", KindOf(err), err)
			}
			if out.Len() > 0 && test.name != "broken list" {
				t.Errorf("printed %q", &out)
			}
		})
	}
}

// TestSilenceEnds: a server that says nothing is given up after some time.
func TestSilenceEnds(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	_, err := New(here, Options{Server: "here", Timeout: time.Nanosecond})
	if KindOf(err) != Unavailable || !strings.Contains(fmt.Sprint(err), "said nothing for 1ns") {
		t.Errorf("%v", err)
	}
}

// TestLinesAreBounded: a line without end does not eat the memory.
func TestLinesAreBounded(t *testing.T) {
	here, there := net.Pipe()
	go func() {
		chunk := bytes.Repeat([]byte("x"), 1<<20)
		for {
			if _, err := there.Write(chunk); err != nil {
				return
			}
		}
	}()
	_, err := New(here, Options{Server: "here"})
	if KindOf(err) != Unavailable {
		t.Errorf("%v", err)
	}
}

func TestConnectFails(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	_ = listener.Close()
	for _, to := range []Address{
		{Path: filepath.Join(t.TempDir(), "none")},
		{Host: "127.0.0.1", Port: port},
	} {
		if _, err := (Dialer{}).Dial(context.Background(), to); KindOf(err) != Unavailable ||
			!strings.HasPrefix(fmt.Sprint(err), "connect failed to "+to.String()) {
			t.Errorf("%v: %v", to, err)
		}
	}
}

// TestConnectsOnce: the old client connected to every address of a server and
// used the last.
func TestConnectsOnce(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "[::1]"} {
		t.Run(host, func(t *testing.T) {
			listener, err := net.Listen("tcp", host+":0")
			if err != nil {
				t.Skip(err)
			}
			defer listener.Close()
			to := Address{Host: strings.Trim(host, "[]"), Port: listener.Addr().(*net.TCPAddr).Port}
			for _, prefer := range []int{0, 4, 6} {
				conn, err := Dialer{Prefer: prefer, Timeout: time.Minute}.Dial(context.Background(), to)
				if err != nil {
					t.Fatal(err)
				}
				accepted, err := listener.Accept()
				if err != nil || accepted.RemoteAddr().String() != conn.LocalAddr().String() {
					t.Errorf("accepted %v: %v", accepted.RemoteAddr(), err)
				}
				_ = accepted.Close()
				_ = conn.Close()
			}
		})
	}
}

// TestAnswersAfterKill: the old server sends an empty line after each.
func TestAnswersAfterKill(t *testing.T) {
	c := dialVersion2(t, "C: KILL MSG 1\nS: +OK; KILLed something.\nS: \nC: KILL MSG 2\nS: +OK; KILLed something.\nS: \nC: SHOW SNMP\nS: +OK until LF.LF\nS: ..x\nS: .\nC: QUIT\nS: +Bye bye\n")
	for _, id := range []string{"1", "2"} {
		if text, err := c.Ask("KILL MSG " + id); err != nil || text != "OK; KILLed something." {
			t.Errorf("%q, %v", text, err)
		}
	}
	for line, err := range c.Show("SHOW SNMP") {
		if line != ".x" || err != nil {
			t.Errorf("%q, %v", line, err)
		}
	}
	if err := c.Quit(); err != nil {
		t.Error(err)
	}
}

// TestHalfReadAnswer: what follows it cannot be trusted.
func TestHalfReadAnswer(t *testing.T) {
	c := dialVersion2(t, "C: SHOW SNMP\nS: +OK until LF.LF\nS: a\nS: b\nS: .\n")
	for range c.Show("SHOW SNMP") {
		break
	}
	if _, err := c.Ask("SHOW SNMP"); err == nil {
		t.Error("the client went on")
	}
	if err := c.Send("A\nB"); err == nil {
		t.Error("two commands in one")
	}
}

func TestObjects(t *testing.T) {
	lines := func(yield func(string, error) bool) {
		_ = yield(`{"ring":1,"channel":"smtp","host":"x"}`, nil) && yield(`{"error":"no\u001b time"}`, nil) && yield("never", nil)
	}
	var got []string
	for item, err := range Objects[mailq.Thread](lines) {
		if err != nil {
			item = new(mailq.Thread)
		}
		got = append(got, fmt.Sprint(item.Host, err))
	}
	if want := "[x<nil> the list is not whole: no^[ time]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
	for _, err := range Objects[mailq.Thread](func(yield func(string, error) bool) { yield("{", nil) }) {
		if KindOf(err) != Unavailable {
			t.Errorf("%v", err)
		}
	}
}

func TestAddresses(t *testing.T) {
	for at, want := range map[Address]string{
		{Path: "/run/mailq"}:           "/run/mailq",
		{Host: "mx", Port: 174}:        "mx",
		{Host: "2001:db8::1", Port: 9}: "[2001:db8::1]:9",
	} {
		if at.String() != want {
			t.Errorf("%v, want %s", at, want)
		}
	}
}

// TestNoOrderIsGivenTwice: when the connection breaks before the reply to an order, the client gives
// up.
func TestNoOrderIsGivenTwice(t *testing.T) {
	c := dialVersion2(t, "C: KILL MSG 1 BECAUSE rain\n")
	_, err := c.Order(&mailq.Order{Verb: view.VerbKill, Message: "1", Because: "rain"})
	if KindOf(err) != Unavailable {
		t.Errorf("%v", err)
	}
	if _, err := c.Order(&mailq.Order{Verb: view.VerbKill, Message: "1", Because: "rain"}); err == nil {
		t.Error("the client went on")
	}
}
