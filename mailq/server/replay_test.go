package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"zsched/mailq"
)

// The sessions in testdata are captures of ZMailer's server. They are replayed at the
// time at which they were made, with a fakeQueue built from their answers, and our
// server must give the same answers byte for byte.

const users = `# as shipped
nobody:nobody:SNMP QQ TT ETRN:  [127.0.0.0]/8 [ipv6.0::1]/128
nobody:nobody:SNMP ETRN:        [0.0.0.0]/0   [ipv6.0::0]/0
root:zzzzzzz:ALL:              [127.0.0.0]/8 [192.168.0.2]/32
`

func authFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "scheduler.auth")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

var loopback = Peer{Addr: netip.MustParseAddr("127.0.0.1")}

// testClient is the client of a session.
type testClient struct {
	t         *testing.T
	conn      net.Conn
	in        *bufio.Reader
	challenge string
	over      chan struct{} // closed when Serve has returned
}

// connect opens a session. The session ends with the test at the latest.
func connect(t *testing.T, s *Server, peer Peer) *testClient {
	t.Helper()
	client, server := net.Pipe()
	k := &testClient{t: t, conn: client, in: bufio.NewReader(client), over: make(chan struct{})}
	go func() {
		defer close(k.over)
		s.Serve(context.Background(), server, peer)
	}()
	t.Cleanup(func() { client.Close(); <-k.over })
	return k
}

// dial opens a session of v2 and reads its greeting.
func dial(t *testing.T, s *Server, peer Peer) *testClient {
	t.Helper()
	k := connect(t, s, peer)
	if first := k.line(); first != mailq.GreetingV2 {
		t.Fatalf("greeting %q", first)
	}
	k.challenge = k.line()
	return k
}

func (k *testClient) line() string {
	k.t.Helper()
	line, err := k.in.ReadString('\n')
	if err != nil {
		k.t.Fatalf("reading: %v after %q", err, line)
	}
	return strings.TrimSuffix(line, "\n")
}

// send writes without waiting for an answer.
func (k *testClient) send(text string) {
	k.t.Helper()
	if _, err := io.WriteString(k.conn, text); err != nil {
		k.t.Fatalf("sending %.80q: %v", text, err)
	}
}

// answer reads a whole answer, with the empty line behind ZMailer's replies to KILL.
func (k *testClient) answer(command string) []string {
	k.t.Helper()
	lines := []string{k.line()}
	if lines[0] == mailq.Until {
		for lines[len(lines)-1] != "." {
			lines = append(lines, k.line())
		}
	}
	if strings.HasPrefix(command, "KILL ") && (lines[0] == "+OK; KILLed something." || lines[0] == "-Unknown request.") {
		lines = append(lines, k.line())
	}
	return lines
}

func (k *testClient) ask(command string) []string {
	k.t.Helper()
	k.send(command + "\n")
	return k.answer(command)
}

// reply gives a command and returns its answer of one line.
func (k *testClient) reply(command string) string {
	k.t.Helper()
	lines := k.ask(command)
	if len(lines) != 1 {
		k.t.Fatalf("%s: %d lines: %q", command, len(lines), lines)
	}
	return lines[0]
}

func (k *testClient) login(user, password string) {
	k.t.Helper()
	if r := k.reply("AUTH " + user + " " + mailq.Digest(k.challenge, password)); r != "+OK" {
		k.t.Fatalf("login as %s: %s", user, r)
	}
}

// ends reports whether the session ends without another line.
func (k *testClient) ends() bool {
	rest, _ := io.ReadAll(k.in)
	return len(rest) == 0
}

// exchange is a command of a capture and its answer.
type exchange struct {
	command string
	answer  []string
}

func readCapture(t *testing.T, name string) (list []exchange) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	must(t, err)
	list = []exchange{{}}
	for line := range strings.SplitSeq(strings.TrimSuffix(string(text), "\n"), "\n") {
		if c, ok := strings.CutPrefix(line, "C: "); ok {
			list = append(list, exchange{command: c})
			continue
		}
		last := &list[len(list)-1]
		last.answer = append(last.answer, strings.TrimPrefix(line, "S: "))
	}
	return list
}

// queueOf builds the queue of a captured session.
func queueOf(t *testing.T, list []exchange, now time.Time) *fakeQueue {
	t.Helper()
	p := &captureReader{fakeQueue: &fakeQueue{}, now: now}
	for _, x := range list {
		if len(x.answer) < 3 || x.answer[0] != mailq.Until {
			continue
		}
		body := x.answer[1 : len(x.answer)-1]
		if !strings.HasPrefix(x.command, "SHOW THREAD ") {
			p.rows, p.ring = nil, nil
			for _, line := range body {
				must(t, p.line(line))
			}
			continue
		}
		name, detail, _ := strings.Cut(strings.TrimPrefix(body[0], "#"), "  ")
		thread, err := p.thread(name, detail)
		must(t, err)
		if known, _ := p.Thread(t.Context(), thread.Name); known == nil {
			i := slices.IndexFunc(p.rows, func(r threadRow) bool { return r.Ring.Channel == thread.Channel })
			p.rows[i].Thread = thread
		}
		for _, line := range body[1:] {
			must(t, p.recipient(thread, line))
		}
	}
	return p.fakeQueue
}

var challenge = regexp.MustCompile(`^220 MAILQ-V2-CHALLENGE: [0-9]+\.[0-9]+\.[0-9]+$`)

// replay gives the captured commands again and returns the differences. The answers
// to KILL THREAD and HELP, which are others in our server, are not compared. Our
// server answers a user that it does not know as it answers a wrong password.
func replay(k *testClient, list []exchange, password string) (differences []string) {
	differ := func(command string, got, want any) {
		differences = append(differences, fmt.Sprintf("%s\n  got  %q\n  want %q", command, got, want))
	}
	// After an answer to KILL the capture is late by the empty line behind
	// it, so from there it is compared as one text.
	var gotText, wantText strings.Builder
	late := false
	for i, x := range list {
		if i == 0 {
			if got := []string{mailq.GreetingV2, k.challenge}; got[0] != x.answer[0] || !challenge.MatchString(k.challenge) || !challenge.MatchString(x.answer[1]) {
				differ("greeting", got, x.answer)
			}
			continue
		}
		command := x.command
		if user, ok := strings.CutPrefix(command, "AUTH "); ok && password != "" {
			user, _, _ = strings.Cut(user, " ")
			command = "AUTH " + user + " " + mailq.Digest(k.challenge, password)
		}
		if x.answer[0] == "-BAD USER OR AUTHENTICATOR OR CONTACT ADDRESS" {
			x.answer = []string{"-BAD USER OR PASSWORD"}
		}
		late = late || strings.HasPrefix(x.answer[0], "+OK; KILLed")
		got := k.ask(command)
		if !late {
			if !slices.Equal(got, x.answer) {
				differ(command, got, x.answer)
			}
			continue
		}
		wantText.WriteString(strings.Join(x.answer, "\n") + "\n")
		if strings.HasPrefix(command, "KILL MSG") || command == "KILL FOO" {
			gotText.WriteString(strings.Join(got, "\n") + "\n")
		}
	}
	// The two answers to KILL THREAD.
	want := strings.Replace(wantText.String(), "-Unknown request.\n\n", "", 2)
	if !strings.HasPrefix(gotText.String(), want) {
		differ("after KILL", gotText.String(), want)
	}
	return differences
}

// captures has the sessions, the time of each, and the password if the login
// succeeded.
var captures = []struct {
	name     string
	at       int64
	password string
}{
	{"v2-session-noauth.txt", 1795234605, ""},
	{"v2-session-badpw.txt", 1795234604, ""},
	{"v2-session-nobody.txt", 1795234572, "nobody"},
	{"v2-session-root.txt", 1795234603, "zzzzzzz"},
}

func TestSessionsOfTheOldServerReplay(t *testing.T) {
	for _, c := range captures {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(time.Unix(c.at, 0)))
				list := readCapture(t, c.name)
				s := New(queueOf(t, list, time.Now()), Settings{Version: 2, AuthFile: authFile(t, users), UID: daemonUID()})
				for _, d := range replay(dial(t, s, loopback), list, c.password) {
					t.Error(d)
				}
			})
		})
	}
}

// TestReplayCanFail changes the queue in small ways; each must be a difference.
func TestReplayCanFail(t *testing.T) {
	spoil := map[string]func(p *fakeQueue){
		"attempts":   func(p *fakeQueue) { p.rows[0].Thread.Attempts++ },
		"age":        func(p *fakeQueue) { t := p.rows[0].Thread; t.OldestAt = t.OldestAt.Add(time.Second) },
		"agents":     func(p *fakeQueue) { p.rows[0].Thread.Agents = nil },
		"totals":     func(p *fakeQueue) { p.totals.Recipients++ },
		"ring":       func(p *fakeQueue) { p.rows[len(p.rows)-1].Ring.MaxThr++ },
		"order":      func(p *fakeQueue) { p.rows[0], p.rows[1] = p.rows[1], p.rows[0] },
		"diagnostic": func(p *fakeQueue) { p.jobs[0].Recipients[0].Reason += " " },
		"expiry":     func(p *fakeQueue) { p.jobs[1].ExpiresAt = time.Time{} },
	}
	for name, change := range spoil {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := captures[2]
				time.Sleep(time.Until(time.Unix(c.at, 0)))
				list := readCapture(t, c.name)
				p := queueOf(t, list, time.Now())
				change(p)
				s := New(p, Settings{Version: 2, AuthFile: authFile(t, users), UID: daemonUID()})
				if len(replay(dial(t, s, loopback), list, c.password)) == 0 {
					t.Error("the comparison did not see it")
				}
			})
		})
	}
}

// TestDumpOfTheOldServerReplays does the same for v1. The order of channels and hosts
// has no meaning there and is not compared.
func TestDumpOfTheOldServerReplays(t *testing.T) {
	text, err := os.ReadFile("testdata/v1-raw.txt")
	must(t, err)
	synctest.Test(t, func(t *testing.T) {
		p := &captureReader{fakeQueue: &fakeQueue{}, now: time.Now()}
		head, report, _ := strings.Cut(string(text), "End:\n")
		jobs, indexes, _ := strings.Cut(head, "Channels:\n")
		for line := range strings.SplitSeq(strings.TrimSpace(jobs), "\n") {
			if strings.Contains(line, "\t") {
				must(t, p.vertex(line))
			}
		}
		channels, hosts, _ := strings.Cut(indexes, "Hosts:\n")
		p.names(channels, func(j *mailq.JobLine) *string { return &j.Channel })
		p.names(hosts, func(j *mailq.JobLine) *string { return &j.Host })
		for line := range strings.SplitSeq(strings.TrimSuffix(report, "\n"), "\n") {
			must(t, p.line(line))
		}
		k := connect(t, New(p.fakeQueue, Settings{Version: 1}), loopback)
		got, err := io.ReadAll(k.in)
		must(t, err)
		if got, want := sortIndexes(string(got)), sortIndexes(string(text)); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		p.jobs[1].PID++
		k = connect(t, New(p.fakeQueue, Settings{Version: 1}), loopback)
		if got, err = io.ReadAll(k.in); err != nil || sortIndexes(string(got)) == sortIndexes(string(text)) {
			t.Errorf("the comparison did not see another process, %v", err)
		}
		k = connect(t, New(p.fakeQueue, Settings{Version: 1, Brief: true}), loopback)
		got, err = io.ReadAll(k.in)
		must(t, err)
		if want := "version zmailer 1.0\nVertices:\nEnd:\n" + report; string(got) != want {
			t.Errorf("brief: got\n%s\nwant\n%s", got, want)
		}
	})
}

// names sets the channel or the host of the jobs of an index.
func (p *captureReader) names(web string, of func(*mailq.JobLine) *string) {
	for line := range strings.SplitSeq(strings.TrimSpace(web), "\n") {
		name, ids, _ := strings.Cut(line, ":\t>")
		for id := range strings.SplitSeq(ids, ">") {
			var n int
			fmt.Sscan(id, &n)
			*of(p.jobs[n-1]) = name
		}
	}
}

func sortIndexes(text string) string {
	head, rest, _ := strings.Cut(text, "Channels:\n")
	indexes, report, _ := strings.Cut(rest, "End:\n")
	lines := strings.Split(indexes, "\n")
	for i, line := range lines {
		name, ids, ok := strings.Cut(line, ":\t>")
		if ok {
			list := strings.Split(ids, ">")
			slices.Sort(list)
			lines[i] = name + ":\t>" + strings.Join(list, ">")
		}
	}
	hosts := slices.Index(lines, "Hosts:")
	if hosts >= 0 {
		slices.Sort(lines[:hosts])
		slices.Sort(lines[hosts+1:])
	}
	return head + strings.Join(lines, "\n") + report
}
