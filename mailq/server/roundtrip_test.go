package server

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"zsched/mailq"
	"zsched/mailq/client"
)

// TestClientReadsServersObjects: what stands in the queue and what our client
// has read of it are the same values.
func TestClientReadsServersObjects(t *testing.T) {
	q := busyQueue(time.Unix(1795234572, 0))
	q.explain.Ring, q.explain.Thread = q.rows[0].Ring, q.rows[0].Thread
	near, far := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		New(q, Settings{Version: 2}).Serve(t.Context(), far, Peer{})
	}()
	c, err := client.New(near, client.Options{Server: "here"})
	must(t, err)
	same(t, c, "JSON SHOW SNMP", &q.totals)
	same(t, c, "JSON SHOW QUEUE SHORT", q.rows[0].Ring, q.rows[2].Ring)
	same(t, c, "JSON SHOW QUEUE THREADS", &mailq.ThreadItem{Ring: 7, Thread: *q.rows[0].Thread}, &mailq.ThreadItem{Ring: 7, Thread: *q.rows[1].Thread})
	same(t, c, "JSON SHOW THREAD smtp down.example", q.jobs[:2]...)
	same(t, c, "JSON SHOW MSG 860194", q.messages[0])
	same(t, c, "JSON FIND sender *", q.messages...)
	same(t, c, "JSON EXPLAIN smtp down.example", &q.explain)
	for it, err := range client.Objects[mailq.CounterItem](c.Show("JSON SHOW COUNTERS")) {
		must(t, err)
		if want, ok := q.counters[it.Name]; ok && it.Value != want {
			t.Errorf("%+v, want %v", it, want)
		}
	}
	answer, err := c.Ask("HOLD MSG 1")
	must(t, err)
	if got, err := mailq.ParseOutcome("+" + answer); err != nil || got != q.outcome {
		t.Errorf("%+v, %v from %q", got, err, answer)
	}
	must(t, c.Quit())
	<-done
}

func same[T any](t *testing.T, c *client.Client, command string, want ...*T) {
	t.Helper()
	var got []*T
	for v, err := range client.Objects[T](c.Show(command)) {
		must(t, err)
		got = append(got, v)
	}
	// Zones are written as offsets and read as another Location.
	if g, w := plain(got), plain(want); g != w {
		t.Errorf("%s:\n got %s\nwant %s", command, g, w)
	}
}

// plain writes a value out, times as seconds.
func plain(v any) string {
	var b strings.Builder
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		if at, ok := v.Interface().(time.Time); ok {
			fmt.Fprintf(&b, "@%d ", at.Unix())
			return
		}
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() {
				walk(v.Elem())
			}
		case reflect.Struct:
			for i := range v.NumField() {
				walk(v.Field(i))
			}
		case reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i))
			}
		default:
			fmt.Fprintf(&b, "%v ", v.Interface())
		}
	}
	walk(reflect.ValueOf(v))
	return b.String()
}

func TestPeerOf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	for _, at := range [][2]string{{"unix", path}, {"tcp", "127.0.0.1:0"}} {
		l, err := net.Listen(at[0], at[1])
		must(t, err)
		defer l.Close()
		client, err := net.Dial(at[0], l.Addr().String())
		must(t, err)
		defer client.Close()
		server, err := l.Accept()
		must(t, err)
		defer server.Close()
		peer, err := PeerOf(server)
		must(t, err)
		want := Peer{Addr: loopback.Addr}
		if at[0] == "unix" {
			want = Peer{UID: os.Getuid()}
			if u, err := user.LookupId(strconv.Itoa(want.UID)); err == nil {
				want.User = u.Username
			}
		}
		if peer != want {
			t.Errorf("%s: %+v, want %+v", at[0], peer, want)
		}
	}
	one, other := net.Pipe()
	defer other.Close()
	if _, err := PeerOf(one); err == nil {
		t.Error("a pipe has a peer")
	}
}

func TestRendezvous(t *testing.T) {
	now := time.Now()
	q := busyQueue(now)
	s := New(q, Settings{Version: 2})
	path := filepath.Join(t.TempDir(), "mailq.text")
	must(t, os.WriteFile(path, []byte(strings.Repeat("old\n", 10000)), 0o644))
	must(t, s.Rendezvous(context.Background(), path))
	text, err := os.ReadFile(path)
	must(t, err)
	if !strings.HasPrefix(string(text), mailq.GreetingV1+"\nVertices:\n1:\tM/K/860194\t2; 215,100\t#smtp; 500") || strings.Contains(string(text), "old") ||
		!strings.Contains(string(text), "Rcpnts in 24 out 20 stored 4\n") {
		t.Errorf("%s", text)
	}
	info, err := os.Stat(path)
	must(t, err)
	if !info.ModTime().Before(now) || info.ModTime().Before(now.Add(-2*time.Second)) {
		t.Errorf("mtime %v, written at %v", info.ModTime(), now)
	}
	link := path + ".link"
	must(t, os.Symlink(path, link))
	if err := s.Rendezvous(context.Background(), link); err == nil {
		t.Error("a symbolic link was followed")
	}
	if err := s.Rendezvous(context.Background(), filepath.Join(path, "none")); err == nil {
		t.Error("a file below a file was written")
	}
}

// TestStandings: what a fakeQueue of v1 says of a job.
func TestStatesOfJobs(t *testing.T) {
	now := time.Unix(1e9, 0)
	for _, tt := range []struct {
		job  mailq.Job
		want string
	}{
		{mailq.Job{WakeAt: now.Add(5 * time.Second), PID: 7}, "(retry in 5s)"},
		{mailq.Job{WakeAt: now.Add(-5 * time.Second)}, "(activation pending, thread inactive)"},
		{mailq.Job{Pending: mailq.PendingTA}, "(waiting for slot)"},
		{mailq.Job{Pending: mailq.PendingThread}, "(waiting for slot)"},
		{mailq.Job{Pending: mailq.PendingChannel}, "(waiting for channel slot)"},
		{mailq.Job{Pending: mailq.PendingRing}, "(waiting for thread slot)"},
		{mailq.Job{Pending: mailq.PendingHeld}, "(activation pending, thread inactive)"},
		{mailq.Job{PID: 7}, "(running now, pid=7)"},
		{mailq.Job{PID: 7, Next: true}, "(running now, pid=7 NextFeed)"},
		{mailq.Job{ExpiresAt: now.Add(90 * time.Minute)}, "(activation pending, thread inactive, expires in 1h30m, tries=4)"},
		{mailq.Job{ExpiresAt: now.Add(-time.Minute)}, "(activation pending, thread inactive, expires in -1m, tries=4)"},
	} {
		tt.job.Path, tt.job.Recipients = "X/1", []mailq.Recipient{{Offset: 3, Attempts: 4}, {Offset: 9, Attempts: 2}}
		want := "12:\tX/1\t2; 3,9\t#" + tt.want
		if got := string(appendVertex(nil, 12, &tt.job, now)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestColumnsOfThreads: the numbers stand under each other while names are
// short, and one blank apart from longer ones.
func TestColumnsOfThreads(t *testing.T) {
	for host, want := range map[string]string{
		"": "\t\t\t\t", "abcd": "\t\t\t", "abcde": "\t\t", "one.example": "\t\t", "other.example": "\t",
		"abcdefghijklmnopqrs": "\t", "abcdefghijklmnopqrst": "\t", "abcdefghijklmnopqrstu": " ",
		"a-very-long-host-name-indeed.sub.example.com": " ",
	} {
		line := string(appendThread(nil, &mailq.Thread{Name: mailq.Name{Channel: "smtp", Host: host}}, time.Now()))
		if host == "" {
			line = string(appendThread(nil, &mailq.Thread{Name: mailq.Name{Channel: "", Host: ""}}, time.Now()))
		}
		_, rest, _ := strings.Cut(line, "/0")
		if gap, _, _ := strings.Cut(rest, "N="); gap != want {
			t.Errorf("%q: gap %q, want %q", line, gap, want)
		}
	}
}

// TestWaits: the words on what a thread waits for, in the full form and
// between TABs.
func TestWaits(t *testing.T) {
	now := time.Unix(1e9, 0)
	for _, tt := range []struct {
		thread     mailq.Thread
		full, tabs string
	}{
		{mailq.Thread{Pending: mailq.PendingChannel}, " pend=>MaxChannel QA=0s channelwait", "\tpend=>MaxChannel\tQA=0s"},
		{mailq.Thread{Pending: mailq.PendingRing}, " pend=>MaxRing QA=0s threadwait", "\tpend=>MaxRing\tQA=0s"},
		{mailq.Thread{Pending: mailq.PendingCommand}, " pend=ConfBUG:NoCmdDefined! QA=0s", "\tpend=ConfBUG:NoCmdDefined!\tQA=0s"},
		{mailq.Thread{Pending: mailq.PendingRing, WakeAt: now.Add(time.Minute)}, " W=60s QA=0s", "\tW=60s\tQA=0s"},
		{mailq.Thread{Pending: mailq.PendingHeld, Held: true, WakeAt: now.Add(time.Minute)}, " pend=Held QA=0s", "\tpend=Held\tQA=0s"},
		{mailq.Thread{WakeAt: now.Add(999 * time.Millisecond)}, " QA=0s", "\tQA=0s"},
		{mailq.Thread{Pending: mailq.PendingRing, Agents: []mailq.Agent{{PID: 5, State: "IDLE"}}, Unfed: 3},
			" P={5} HA={0}s FA={never}s OF={0} S={IDLE} UF=3 QA=0s", "\tP={5}\tHA={0}s\tFA={never}s\tOF={0}\tS={IDLE}\tUF=3\tQA=0s"},
	} {
		tt.thread.OldestAt = now
		if got := string(appendDetail(nil, &tt.thread, now, ' ')); got != "N=0   R=0   A=0 "+tt.full {
			t.Errorf("%q, want %q", got, tt.full)
		}
		if got := string(appendDetail(nil, &tt.thread, now, '\t')); got != "N=0\tR=0\tA=0"+tt.tabs {
			t.Errorf("%q, want %q", got, tt.tabs)
		}
	}
	rcpt := mailq.Job{Recipients: []mailq.Recipient{{}}}
	for pending, want := range map[mailq.Pending]string{mailq.PendingTA: "", mailq.PendingThread: "", mailq.PendingChannel: "channel", mailq.PendingRing: "thread", mailq.NotPending: "thread", mailq.PendingHeld: "thread"} {
		rcpt.Pending = pending
		if got := strings.Split(string(appendRecipient(nil, &rcpt, 0, now)), "\t"); len(got) != 10 || got[8] != want {
			t.Errorf("%s: %q", pending, got)
		}
	}
}

// TestCountersAreFortyTwoColumns: and no name stands there twice.
func TestCountersAreFortyTwoColumns(t *testing.T) {
	seen := make(map[string]bool)
	for _, block := range counterLayout() {
		for _, name := range block {
			if line := counterLine(name, 7); len(line) != 42 || seen[name] {
				t.Errorf("%q: %d columns, seen %v", line, len(line), seen[name])
			}
			seen[name] = true
		}
	}
	if len(counterLayout()) != 12 || len(seen) != 252 {
		t.Errorf("%d blocks, %d counters", len(counterLayout()), len(seen))
	}
	for _, line := range []string{"Time_now                        1795233169", "SYS.SpoolFreeSpace-kB-G                  0", "SYS.Load-Avg-1-min-G                  0.45"} {
		f := strings.Fields(line)
		n, _ := strconv.ParseFloat(f[1], 64)
		if got := counterLine(f[0], n); got != line {
			t.Errorf("%q, want %q", got, line)
		}
	}
}
