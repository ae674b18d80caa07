package server

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zsched/mailq"
	"zsched/mailq/client"
)

// against begins a dialogue of our client with our server.
func against(t *testing.T, s *Server, peer Peer) *client.Client {
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
	c, err := client.New(conn, client.Options{Server: "here", Timeout: time.Minute})
	must(t, err)
	t.Cleanup(func() {
		_ = c.Close()
		_ = listener.Close()
		<-over
	})
	return c
}

var root = Peer{UID: 0, User: "root"}

// TestBothSidesTogether: our client prints what our server answers.
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
			"\tM/L/860195: (1 try, never expires) smtp; 500",
			"smtp/up.example:",
			"\tM/L/860195: (0 tries, never expires)",
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
			s := newServer(t, busyQueue(now), func(set *Settings) { set.Version = test.version })
			var out strings.Builder
			must(t, printAnswer(against(t, s, root), &client.Printer{Out: &out, Now: now}, test.show))
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

// printAnswer prints a report, or the list of messages.
func printAnswer(c *client.Client, p *client.Printer, report string) error {
	if c.Version == 1 {
		d, err := c.Dump()
		if err != nil {
			return err
		}
		return p.Dump(d)
	}
	if report == "" {
		for job, err := range client.Objects[mailq.Job](c.Show("JSON SHOW WHERE channel=*")) {
			if err == nil {
				err = p.Job(job)
			}
			if err != nil {
				return err
			}
		}
		return p.Finish(2)
	}
	for line, err := range c.Show(report) {
		if err != nil {
			return err
		}
		if err := p.Line(line); err != nil {
			return err
		}
	}
	return nil
}
