package server

import (
	"context"
	"fmt"
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

// TestReconnectingAsksOurServer: the live view gets everything that it shows.
func TestReconnectingAsksOurServer(t *testing.T) {
	q := busyQueue(time.Now())
	s := newServer(t, q)
	source, err := client.NewReconnecting(func() (*client.Client, error) {
		c := against(t, s, root)
		return c, c.Login("nobody", "nobody")
	})
	must(t, err)
	p, err := source.Snapshot()
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
		if text, err := source.Report(command); err != nil || len(text) < 3 {
			t.Errorf("%s: %q, %v", command, text, err)
		}
	}
	if _, err := source.Report("SHOW MSG nosuch"); client.KindOf(err) != client.NotDone || fmt.Sprint(err) != `no message "nosuch" is in the queue` {
		t.Errorf("%v", err)
	}
	if len(p.Rings) != 2 || p.Rings[0].ID != down.Ring {
		t.Errorf("%+v, ring %d", p.Rings, down.Ring)
	}
	if jobs, more, err := source.Select(mailq.Selection{State: "fed"}); err != nil || more || len(jobs) != 1 || jobs[0].Host != "up.example" {
		t.Errorf("%v, %v, %v", jobs, more, err)
	}
	q.held = []*mailq.HeldItem{{Job: mailq.Job{Name: down.Name}, By: "root"}}
	if held, more, err := source.Held(); err != nil || more || len(held) != 1 || held[0].By != "root" {
		t.Errorf("%v, %v, %v", held, more, err)
	}
	if reasons, err := source.Reasons(); err != nil || len(reasons) == 0 || reasons[0].Recipients == 0 {
		t.Errorf("%v, %v", reasons, err)
	}
	did, failed, err := source.Orders([]mailq.Order{{Verb: mailq.Retry, Thread: &down.Name}, {Verb: mailq.Retry, Message: "1"}})
	if want := (mailq.Outcome{Messages: 6, Recipients: 10, Threads: 4}); err != nil || len(failed) > 0 || did != want {
		t.Errorf("%+v, %v, %v", did, failed, err)
	}
	q.outcome = mailq.Outcome{}
	if _, failed, err = source.Orders([]mailq.Order{{Verb: mailq.Retry, Message: "S9"}}); err != nil || fmt.Sprint(failed) != "[nothing in the queue matches]" {
		t.Errorf("%v, %v", failed, err)
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
		var names []mailq.Name
		for t, err := range c.Threads() {
			if err != nil {
				return err
			}
			names = append(names, t.Name)
		}
		if err := c.Jobs(names, p.Job); err != nil {
			return err
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
