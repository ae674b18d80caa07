package server

import (
	"context"
	"io"
	"iter"
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
		name, show string
		want       []string
	}{
		{"list", "", []string{
			"smtp/down.example:",
			"\tM/K/860194: (3 tries, expires in 3d2",
			"\tM/L/860195: (1 try, never expires) smtp; 500",
			"smtp/up.example:",
			"\tM/L/860195: (0 tries, never expires)",
		}},
		{"threads", "SHOW QUEUE THREADS", []string{
			"smtp/*/0",
			"    smtp/down.example/0\t\tN=2   R=3   A=4  W=",
			"    smtp/up.example/0\t\tN=1   R=1   A=0  P={77,78} HA={",
			"\tThreads:    2 Msgs:     3 Procs:   1 Idle:   0 Plim:  20 Flim: 150 Tlim: 1",
			"local/*/2",
			"\tThreads:    0",
			"Kids: 2  Idle:  1",
			"Msgs in 12 out 10",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newServer(t, busyQueue(now), func(set *Settings) { set.Version = 2 })
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
	if report == "" {
		for job, err := range client.Objects[mailq.JobLine](c.Show("JSON SHOW WHERE channel=*")) {
			if err == nil {
				err = p.Job(job)
			}
			if err != nil {
				return err
			}
		}
		return p.Finish()
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

// TestQueryEndsWithItsPeer: also one that writes nothing, when the peer is gone or the server stops. A
// peer that only sends nothing more gets the answer.
func TestQueryEndsWithItsPeer(t *testing.T) {
	for name, end := range map[string]func(k *net.UnixConn, stop func(), q *slowQueue){
		"closed":      func(k *net.UnixConn, _ func(), _ *slowQueue) { _ = k.Close() },
		"stopped":     func(_ *net.UnixConn, stop func(), _ *slowQueue) { stop() },
		"half closed": func(k *net.UnixConn, _ func(), q *slowQueue) { _ = k.CloseWrite(); close(q.found) },
	} {
		t.Run(name, func(t *testing.T) {
			q := &slowQueue{begun: make(chan struct{}), found: make(chan struct{})}
			s := newServer(t, q, func(set *Settings) {
				set.Note = func(n Note) { t.Errorf("%+v", n) }
			})
			listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "mailq"))
			must(t, err)
			defer listener.Close()
			conn, err := net.Dial("unix", listener.Addr().String())
			must(t, err)
			defer conn.Close()
			server, err := listener.Accept()
			must(t, err)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			over := make(chan struct{})
			go func() {
				defer close(over)
				s.Serve(ctx, server, root)
			}()
			_, err = io.WriteString(conn, "JSON SHOW WHERE channel=*\nQUIT\n") // what follows hides no end
			must(t, err)
			<-q.begun
			end(conn.(*net.UnixConn), stop, q)
			<-over
			if name == "half closed" {
				text, err := io.ReadAll(conn)
				if must(t, err); !strings.Contains(string(text), `"host":"slow.example"`) || !strings.HasSuffix(string(text), "+Bye bye\n") {
					t.Errorf("%s", text)
				}
			}
		})
	}
}

// slowQueue finds a job when found is closed.
type slowQueue struct {
	fakeQueue
	begun, found chan struct{}
}

func (q *slowQueue) Select(ctx context.Context, _ mailq.Selection) iter.Seq2[*mailq.JobLine, error] {
	close(q.begun)
	select {
	case <-q.found:
		return items([]*mailq.JobLine{{Name: mailq.Name{Channel: "smtp", Host: "slow.example"}}}, nil)
	case <-ctx.Done():
		return items([]*mailq.JobLine(nil), ctx.Err())
	}
}
