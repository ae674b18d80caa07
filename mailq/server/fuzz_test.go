package server

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"zsched/mailq"
	"zsched/mailq/client"
)

// scriptedConn is a connection whose peer has sent everything and reads everything.
type scriptedConn struct {
	net.Conn
	io.Reader
	bytes.Buffer
}

func (s *scriptedConn) Read(b []byte) (int, error)       { return s.Reader.Read(b) }
func (s *scriptedConn) Write(b []byte) (int, error)      { return s.Buffer.Write(b) }
func (s *scriptedConn) Close() error                     { return nil }
func (s *scriptedConn) SetReadDeadline(time.Time) error  { return nil }
func (s *scriptedConn) SetWriteDeadline(time.Time) error { return nil }

// FuzzSession: whatever a client sends, each line gets one reply in the protocol's
// framing; without a login nothing is executed.
func FuzzSession(f *testing.F) {
	f.Add([]byte("SHOW SNMP\nSHOW THREAD smtp down.example\nKILL MSG 1\nKILL FOO\nJSON EXPLAIN a b\nQUIT\n"))
	f.Add([]byte("AUTH nobody 0\r\nHELP\r\n\x00\n\nJSON SHOW MSG \"a\\x2a\"\nSHOW COUNTERS\nHOLD WHERE host=\"a b\" DRYRUN BECAUSE\n"))
	f.Add([]byte("REROUTE WHERE older=1d TO a b\nETRN X Y Z\nKILL MSG\nJSON SHOW COUNT sender\nJSON SHOW COUNT reason\nJSON\nexit\n"))
	f.Add(bytes.Repeat([]byte{'x'}, mailq.MaxLine+5))
	path := filepath.Join(f.TempDir(), "auth")
	if err := os.WriteFile(path, []byte(users), 0o600); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		for _, peer := range []Peer{{User: "root"}, loopback} {
			q := busyQueue(time.Now())
			s := New(q, Settings{Version: 2, AuthFile: path, UID: os.Getuid(), Note: func(n Note) {
				if n.Kind == NoteFault {
					t.Errorf("fault: %v", n.Err)
				}
			}})
			conn := &scriptedConn{Reader: bytes.NewReader(input)}
			s.Serve(context.Background(), conn, peer)
			if !peer.unix() && (len(q.orders) > 0 || len(q.triggered) > 0) {
				t.Errorf("an order was executed without a login: %+v", q.orders)
			}
			if s.sessions.all != 0 {
				t.Error("the session is still counted")
			}
			checkFrames(t, conn.String(), input)
		}
	})
}

// checkFrames counts the replies in the output of a server.
func checkFrames(t *testing.T, output string, input []byte) {
	t.Helper()
	body, ok := strings.CutPrefix(output, mailq.GreetingV2+"\n220 MAILQ-V2-CHALLENGE: ")
	if !ok || !strings.HasSuffix(output, "\n") {
		t.Fatalf("%.200q", output)
	}
	lines := strings.Split(strings.TrimSuffix(body, "\n"), "\n")[1:]
	replies := 0
	for i := 0; i < len(lines); i++ {
		if lines[i] == "" && i > 0 && (lines[i-1] == "+OK; KILLed something." || lines[i-1] == "-Unknown request.") {
			continue
		}
		replies++
		if lines[i] == "" || lines[i][0] != '+' && lines[i][0] != '-' {
			t.Fatalf("reply %q in %q", lines[i], output)
		}
		if lines[i] != mailq.Until {
			continue
		}
		for i++; i < len(lines) && lines[i] != "."; i++ {
			if lines[i] != "" && lines[i][0] == '.' && !strings.HasPrefix(lines[i], "..") {
				t.Fatalf("line %q in a list", lines[i])
			}
		}
		if i == len(lines) {
			t.Fatalf("a list without end: %.200q", output)
		}
	}
	if given := bytes.Count(input, []byte{'\n'}); replies > given {
		t.Fatalf("%d replies to %d lines", replies, given)
	}
}

// FuzzAuthFile: no line admits a peer whose address is not in it.
func FuzzAuthFile(f *testing.F) {
	f.Add(users, "127.0.0.1")
	f.Add("nobody:x:ALL:[localhost]\nnobody:x:ALL:![10.0.0.0]/8 [127.0.0.0]/8", "10.0.0.1")
	f.Add("nobody:x:ALL:[ipv6.::]/0,[0.0.0.0]/0", "::1")
	f.Add("nobody:x:KILL:![", "::1")
	f.Fuzz(func(t *testing.T, text, address string) {
		addr, err := netip.ParseAddr(address)
		if err != nil || addr.Zone() != "" {
			addr = netip.IPv6Loopback()
		}
		list, _ := parseAccounts(text)
		peer := Peer{Addr: addr}
		for i := range list {
			a := &list[i]
			if a.from.all || !a.accepts(peer) {
				continue
			}
			if !slices.ContainsFunc(a.from.networks, func(n network) bool {
				return !n.not && n.Contains(addr.Unmap())
			}) {
				t.Errorf("%+v lets %v in", a, addr)
			}
		}
		// Behind a refusal of everybody nothing counts.
		for line := range strings.SplitSeq(text, "\n") {
			_, rest, _ := strings.Cut(line, ":")
			closed, _ := parseAddresses("![0.0.0.0]/0 ![ipv6.::]/0 " + rest)
			if closed.accepts(addr) {
				t.Errorf("%q lets %v in", rest, addr)
			}
		}
	})
}

// FuzzClientReadsServer: whatever is in a queue, our client reads all of it from our
// server, and the dump of version 1 has it.
func FuzzClientReadsServer(f *testing.F) {
	f.Add("smtp", "a.example", "M/K/1", "alice@a", "busy\rvery", int64(17), 3)
	f.Add("", ".", ".", "a\tb\n", ".\n.\n", int64(0), 0)
	f.Add("a/b", "End:", "#1", "<>", "(x)", int64(-1), -1)
	f.Fuzz(func(t *testing.T, channel, host, path, sender, reason string, offset int64, attempts int) {
		now := time.Now()
		// Names are lower case in every queue, and so none is that of a part
		// of a fakeQueue.
		name := mailq.Name{Channel: strings.ToLower(channel), Host: strings.ToLower(host)}
		ring := &mailq.Ring{Channel: name.Channel, Host: name.Host}
		q := &fakeQueue{
			rows: []threadRow{{Ring: ring, Thread: &mailq.Thread{Name: name, JobLines: 1, Recipients: 2, Attempts: attempts, Reason: reason}}},
			jobs: []*mailq.JobLine{{Name: name, Path: path, Sender: sender, ArrivedAt: now, WakeAt: now.Add(time.Hour),
				Recipients: []mailq.Recipient{{Offset: offset, Attempts: attempts, Reason: reason}, {Offset: 5}}}},
		}
		if name.Channel == "" || path == "" || strings.ContainsAny(path, " \t\n\x00;") {
			return // what no spool has
		}
		clientReadsV1(t, q)
		clientReadsV2(t, q, name)
	})
}

// A dump has a line for each job, channel and host.
func clientReadsV1(t *testing.T, q *fakeQueue) {
	var out bytes.Buffer
	w := bufio.NewWriter(&out)
	if err := dump(t.Context(), w, q, false); err != nil {
		t.Fatal(err)
	}
	_ = w.Flush()
	lines := strings.Split(out.String(), "\n")
	if len(lines) < 8 || !strings.HasPrefix(lines[2], "1:\t") || !strings.HasSuffix(lines[4], ":\t>1") || !strings.HasSuffix(lines[6], ":\t>1") || lines[7] != "End:" {
		t.Fatalf("%q", &out)
	}
}

func clientReadsV2(t *testing.T, q *fakeQueue, name mailq.Name) {
	show := "SHOW THREAD " + mailq.Quote(name.Channel) + " " + mailq.Quote(name.Host)
	commands := []string{"JSON SHOW QUEUE THREADS", "JSON " + show, "SHOW QUEUE THREADS2", show, "SHOW QUEUE THREADS"}
	conn := &scriptedConn{Reader: strings.NewReader(strings.Join(commands, "\n") + "\nQUIT\n")}
	New(q, Settings{Version: 2}).Serve(t.Context(), conn, Peer{})
	c, err := client.New(&scriptedConn{Reader: strings.NewReader(conn.String())}, client.Options{Server: "here"})
	if err != nil {
		t.Fatal(err)
	}
	threads, jobs := 0, 0
	for _, err := range c.Threads() {
		must(t, err)
		threads++
	}
	for job, err := range client.Objects[mailq.JobLine](c.Show("JSON " + show)) {
		must(t, err)
		jobs += len(job.Recipients)
	}
	// What clients without JSON read.
	var lines []int
	for _, tabs := range []int{5, 9, 0} {
		n := 0
		for line, err := range c.Lines() {
			must(t, err)
			if n++; line[0] != '#' && strings.Count(line, "\t") < tabs {
				t.Fatalf("%q has less than %d TABs", line, tabs)
			}
		}
		lines = append(lines, n)
	}
	if threads != 1 || jobs != 2 || !slices.Equal(lines, []int{1, 3, 5}) {
		t.Errorf("%d threads, %d recipients, %v lines of %q", threads, jobs, lines, conn.String())
	}
	if err := c.Quit(); err != nil {
		t.Error(err)
	}
}
