package mailq

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// against begins a dialogue with our own server.
func against(t *testing.T, s *Server, peer Peer) *Client {
	t.Helper()
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "mailq"))
	must(t, err)
	over := make(chan struct{})
	go func() {
		defer close(over)
		if conn, err := listener.Accept(); err == nil {
			s.Serve(context.Background(), conn, peer)
		}
	}()
	conn, err := net.Dial("unix", listener.Addr().String())
	must(t, err)
	c, err := NewClient(conn, Dialogue{Server: "here", Patience: time.Minute})
	must(t, err)
	t.Cleanup(func() {
		_ = c.Close()
		_ = listener.Close()
		<-over
	})
	return c
}

var root = Peer{UID: 0, User: "root"}

// TestBothSidesTogether: what our server says, our client shows.
func TestBothSidesTogether(t *testing.T) {
	now := time.Now()
	for _, test := range []struct {
		name    string
		version int
		show    string
		want    []string
	}{
		{"list", 2, "", []string{
			"smtp/down.example:",
			"\tM/K/860194: (3 tries, expires in 3d2",
			"\tM/L/860195: (1 tries, never expires) smtp; 500",
			"smtp/up.example:",
			"\tM/L/860195: (0 tries, never expires) ",
		}},
		{"threads", 2, "SHOW QUEUE THREADS", []string{
			"smtp/*/0",
			"    smtp/down.example/0\t\tN=2   R=3   A=4  W=",
			"    smtp/up.example/0\t\tN=1   R=1   A=0  P={77,78} HA={",
			"\tThreads:    2 Msgs:     3 Procs:   1 Idle:   0 Plim:  20 Flim: 150 Tlim: 1",
			"local/*/2",
			"\tThreads:    0",
			"Kids: 2  Idle:  1",
			"Msgs in 12 out 10",
		}},
		{"version 1", 1, "", []string{
			"smtp/up.example:",
			"\tM/L/860195:\t(running now, pid=77",
			"smtp/down.example:",
			"\tM/L/860195:\tsmtp; 500",
			"\tM/K/860194/2:\t",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := open2(t, busy(now), func(set *Settings) { set.Version = test.version })
			var out strings.Builder
			must(t, converse(against(t, s, root), &Printer{Out: &out, Now: now}, test.show))
			lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			for i, want := range test.want {
				if i >= len(lines) || !strings.HasPrefix(lines[i], want) {
					t.Fatalf("line %d of\n%s\nwant %q", i+1, &out, want)
				}
			}
			if len(lines) != len(test.want) {
				t.Errorf("%d lines, want %d:\n%s", len(lines), len(test.want), &out)
			}
		})
	}
}

// TestViewOfOurServer: the live view gets all it shows.
func TestViewOfOurServer(t *testing.T) {
	q := busy(time.Now())
	s := open2(t, q)
	source, err := NewClientSource(func() (*Client, error) {
		c := against(t, s, root)
		return c, c.Login("nobody", "nobody")
	})
	must(t, err)
	p, err := source.Picture()
	must(t, err)
	down := p.Threads[0]
	if len(p.Threads) != 2 || down.Host != "down.example" || down.Rate != 0.5 || down.Reason == "" || p.Totals == nil || p.Totals.IdleAgents != 1 {
		t.Errorf("%+v, %+v", p.Threads, p.Totals)
	}
	jobs, more, err := source.Jobs(down.Name)
	must(t, err)
	if len(jobs) != 2 || more || jobs[0].SpoolID != "S860194HfBVWBh" {
		t.Errorf("%v, %v", jobs, more)
	}
	for _, command := range []string{"EXPLAIN smtp down.example", "SHOW MSG S860194HfBVWBh"} {
		if text, err := source.Text(command); err != nil || len(text) < 3 {
			t.Errorf("%s: %q, %v", command, text, err)
		}
	}
	if _, err := source.Text("SHOW MSG nosuch"); FaultOf(err) != NotDone || fmt.Sprint(err) != `no message "nosuch" is in the queue` {
		t.Errorf("%v", err)
	}
	said, err := source.Give(&Order{Verb: Retry, Thread: &down.Name})
	if err != nil || said != "RETRY 3 messages, 5 recipients, 2 threads." {
		t.Errorf("%q, %v", said, err)
	}
	q.outcome = Outcome{}
	if _, err = source.Give(&Order{Verb: Retry, Message: "S9"}); FaultOf(err) != NotDone || fmt.Sprint(err) != "nothing in the queue matches" {
		t.Errorf("%v", err)
	}
}

// repeated is a text that comes again and again.
type repeated struct {
	text string
	left int
	at   int
}

func (r *repeated) Read(b []byte) (int, error) {
	if r.at == len(r.text) {
		r.left--
		r.at = 0
	}
	if r.left <= 0 {
		return 0, io.EOF
	}
	n := copy(b, r.text[r.at:])
	r.at += n
	return n, nil
}

// BenchmarkListMillion: a million recipients of ten thousand threads pass
// through the client, a hundred at a time.
func BenchmarkListMillion(b *testing.B) {
	const threads, each = 10_000, 100
	row := "M/836224\t0\talice@sender.example\t210\t1795666563\t1795234580\t1795234563\t1\tretry in 8s\tsmtp; 500 (connect to 127.0.0.1: Connection refused)\n"
	answer := "+OK until LF.LF\n#smtp/x.example/0\n" + strings.Repeat(row, each) + ".\n"
	names := make([]Name, threads)
	for i := range names {
		names[i] = Name{"smtp", fmt.Sprintf("h%d.example", i)}
	}
	b.ReportAllocs()
	for b.Loop() {
		server := io.MultiReader(strings.NewReader(GreetingV2+"\n220 x\n"), &repeated{text: answer, left: threads})
		c, err := NewClient(deaf{Reader: server}, Dialogue{})
		if err != nil {
			b.Fatal(err)
		}
		var count lineCount
		if err := c.List(names, &Printer{Out: &count, Now: captured}); err != nil {
			b.Fatal(err)
		}
		if count != threads*(each+1) {
			b.Fatalf("%d lines", count)
		}
	}
}

// BenchmarkThreadsMillion: the report of -Q, a line for each of a million
// threads.
func BenchmarkThreadsMillion(b *testing.B) {
	const threads = 1_000_000
	line := "    smtp/h04.smtp.example/0\tN=1   R=20  A=0  P={10340} HA={12}s FA={12}s OF={1} S={STUFF} UF=0 QA=22m39s\n"
	b.ReportAllocs()
	for b.Loop() {
		server := io.MultiReader(strings.NewReader(GreetingV2+"\n220 x\n+OK until LF.LF\n"), &repeated{text: line, left: threads}, strings.NewReader(".\n"))
		c, err := NewClient(deaf{Reader: server}, Dialogue{})
		if err != nil {
			b.Fatal(err)
		}
		var count lineCount
		p := &Printer{Out: &count, Now: captured}
		for line, err := range c.Show("SHOW QUEUE THREADS") {
			if err != nil {
				b.Fatal(err)
			}
			_ = p.Line(line)
		}
		if count != threads {
			b.Fatalf("%d lines", count)
		}
	}
}

// lineCount counts the lines that are written to it, each in one piece.
type lineCount int

func (c *lineCount) Write(b []byte) (int, error) {
	*c += lineCount(strings.Count(string(b), "\n"))
	return len(b), nil
}
