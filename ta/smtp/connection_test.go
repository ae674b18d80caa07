package smtp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"zsched/ta/smtp/smtptest"
)

// messages writes n messages for bob, and returns their job lines.
func (o *testSpool) messages(n int) (jobs []string) {
	for i := 1; i <= n; i++ {
		o.message(i, to("bob@a.example"), header, "text\n")
		jobs = append(jobs, fmt.Sprint(i))
	}
	return jobs
}

func TestConnectionIsUsedAgain(t *testing.T) {
	for _, c := range []struct {
		name   string
		set    func(*Options)
		total  int // connections for six messages
		quits  int
		second string // host word of every other message
	}{
		{name: "as it is", total: 1, quits: 1},
		{name: "-1", set: func(o *Options) { o.Limits.Jobs = 1 }, total: 6, quits: 6},
		{name: "by count", set: func(o *Options) { o.Limits.Jobs = 4 }, total: 2, quits: 2},
		{name: "by age", set: func(o *Options) { o.Limits.Age = 1 }, total: 6, quits: 6},
		{name: "other hosts", second: "b.example", total: 6, quits: 6},
		{name: "other hosts and -e", second: "b.example", set: func(o *Options) { o.ShareMX = true }, total: 1, quits: 1},
		{name: "other hosts and -F", second: "b.example", set: func(o *Options) { o.Forced = "[127.0.0.1]" }, total: 1, quits: 1},
		{name: "other hosts, and room", second: "b.example", set: func(o *Options) { o.Limits.Sessions = 2 }, total: 2, quits: 2},
	} {
		p := start(t, smtptest.Options{})
		o := newTestSpool(t)
		jobs := o.messages(6)
		opts := options(p)
		opts.Resolver = names{"mx a.example": "10 mx.example", "mx b.example": "10 mx.example", "a mx.example": "127.0.0.1"}
		if c.set != nil {
			c.set(&opts)
		}
		for i := range jobs {
			if c.second != "" && i%2 == 1 {
				o.message(i+1, "r           smtp b.example eve@b.example 0\n", header, "text\n")
				jobs[i] += "\tb.example"
			}
		}
		a := New(opts)
		said := o.feed(a, jobs...)
		a.Close()
		if strings.Count(said, "\tok3 ") != 6 {
			t.Errorf("%s: %s", c.name, said)
		}
		p.AwaitCommand("QUIT", c.quits)
		if _, _, total := p.Connections(); total != c.total {
			t.Errorf("%s: %d connections, want %d", c.name, total, c.total)
		}
	}
}

// If a connection ends while it is idle, or as soon as it is used again, the next
// message goes over another one at once.
func TestConnectionThatEndedIsReplaced(t *testing.T) {
	for name, rules := range map[string][]smtptest.Rule{
		"closed":                   {{On: "dot", Do: "250 2.6.0 taken; drop"}},
		"closed with a word":       {{On: "dot", Do: "250 2.6.0 taken; 421 4.3.2 going; drop"}},
		"reset":                    {{On: "dot", Do: "250 2.6.0 taken; reset"}},
		"an answer too many":       {{On: "dot", Do: "250 2.6.0 taken\r\n250 2.6.0 and again"}},
		"closed at the next MAIL":  {{On: "MAIL From:<second", Do: "drop", Times: 1}},
		"421 at the next MAIL":     {{On: "MAIL From:<second", Do: "421 4.3.2 enough; drop", Times: 1}},
		"at the next MAIL, thrice": {{On: "MAIL From:<second", Do: "drop", Times: 1}, {On: "MAIL From:<third", Do: "421 4.3.2 enough; drop", Times: 1}},
	} {
		p := start(t, smtptest.Options{Rules: rules})
		o := newTestSpool(t)
		for i, from := range []string{"first", "second", "third"} {
			o.message(i+1, "s smtp x "+from+"@sender.example 0\n"+to("bob@a.example"), header, "text\n")
		}
		a := New(options(p))
		for i := range 3 {
			if said := o.feed(a, fmt.Sprint(i+1)); !strings.Contains(said, "\tok3 ") {
				t.Errorf("%s: message %d: %s", name, i+1, said)
			}
		}
		a.Close()
		if n := len(p.Messages()); n != 3 {
			t.Errorf("%s: %d messages", name, n)
		}
	}
	// If a new connection ends so, the mail is deferred.
	p := start(t, smtptest.Options{Rules: script("MAIL -> drop")})
	o := newTestSpool(t)
	o.messages(1)
	if said := o.brief(o.once(options(p))); said != "bob deferred 4.4.0 ->> (peer closed the connection)\n" {
		t.Error(said)
	}
	// If every connection ends when it is used again, the job is not requeued for ever.
	p = start(t, smtptest.Options{Rules: []smtptest.Rule{{On: "MAIL From:<alice", Do: "250 ok", Times: 1}, {On: "MAIL", Do: "421 4.3.2 enough; drop"}}})
	a := New(options(p))
	defer a.Close()
	o.messages(2)
	if said := o.brief(o.feed(a, "1", "2")); said != "bob ok3 ->> 250 2.6.0 message accepted\nbob deferred 4.3.2 ->> 421 4.3.2 enough\n" {
		t.Error(said)
	}
}

// A reply too many at the end of a transaction is not taken for a reply to the next
// one, in the same job either.
func TestAnswerTooMany(t *testing.T) {
	p := start(t, smtptest.Options{Offers: []string{"PIPELINING", "DSN"}, Rules: []smtptest.Rule{
		{On: "dot", Do: "250 2.6.0 taken\r\n250 2.6.0 and again", Times: 1},
		{On: "RCPT To:<eve", Do: "550 5.1.1 no eve"},
	}})
	o := newTestSpool(t)
	o.message(1, to("bob@a.example")+"R FULL\n"+to("eve@a.example")+"R HDRS\n", header, "text\n")
	if said := o.brief(o.once(options(p))); said != "bob ok3 ->> 250 2.6.0 taken\neve error2 ->> 550 5.1.1 no eve\n" {
		t.Error(said)
	}
}

// "It may be worth using different times for active and idle connections."
func TestIdleConnectionIsClosed(t *testing.T) {
	p := start(t, smtptest.Options{})
	o := newTestSpool(t)
	jobs := o.messages(2)
	opts := options(p)
	opts.Limits.Idle = time.Millisecond
	a := New(opts)
	defer a.Close()
	o.feed(a, jobs[0])
	p.AwaitCommand("QUIT", 1)
	p.Await(0)
	if said := o.feed(a, jobs[1]); !strings.Contains(said, "\tok3 ") {
		t.Error(said)
	}
}

func TestNextExchanger(t *testing.T) {
	for _, c := range []struct{ name, dns, first, said string }{
		{"refused", "10 dead.example, 20 mx.example", "", "ok3 ->> 250 2.6.0 message accepted"},
		{"two addresses", "10 both.example", "", "ok3 ->> 250 2.6.0 message accepted"},
		{"greeting", "10 mx.example, 20 mx.example", "connect -> 554 5.3.2 no", "deferall 4.4.1 ->> 554 5.3.2 no"},
		{"all refused", "10 dead.example, 20 dead.example", "", "deferall 4.4.1 connect to dead.example at 127.0.0.2:PORT: connection refused"},
	} {
		// The peer listens at 127.0.0.1 only.
		p := start(t, smtptest.Options{Rules: script(c.first)})
		o := newTestSpool(t)
		o.messages(2)
		opts := options(p)
		opts.Resolver = names{"mx a.example": c.dns, "a mx.example": "127.0.0.1", "a dead.example": "127.0.0.2", "a both.example": "127.0.0.2, 127.0.0.1"}
		a := New(opts)
		want := "bob " + strings.ReplaceAll(c.said, "PORT", fmt.Sprint(opts.Port)) + "\n"
		if said := o.brief(o.feed(a, "1")); said != want {
			t.Errorf("%s: %s, want %s", c.name, said, want)
		}
		// A host that could not be connected to is not tried again at once, and
		// the report says so.
		if strings.HasPrefix(c.said, "deferall") {
			said := o.brief(o.feed(a, "2"))
			if !strings.HasPrefix(said, "bob deferall 4.4.1 ") || !strings.Contains(o.feed(a, "2"), ".example is not tried again before ") {
				t.Errorf("%s, then: %s", c.name, said)
			}
		}
		a.Close()
	}
}

// A job line without a host is about all recipients. Each host is delivered to by
// itself.
func TestJobLineWithoutHost(t *testing.T) {
	p := start(t, smtptest.Options{Rules: script("MAIL From:<never -> 550 5.7.1 no")})
	o := newTestSpool(t)
	o.message(1, to("bob@a.example")+"r           smtp nowhere.example ann@nowhere.example 0\n"+
		"r           smtp slow.example joe@slow.example 0\n"+to("eve@a.example"), header, "text\n")
	opts := options(p)
	opts.Resolver = names{"mx a.example": "10 mx.a.example", "a mx.a.example": "127.0.0.1", "mx slow.example": "?"}
	a := New(opts)
	defer a.Close()
	s := o.server(a, nil)
	var out strings.Builder
	s.In, s.Out = strings.NewReader("1\n"), &out
	if err := s.Serve(context.Background()); err != nil {
		t.Fatal(err)
	}
	want := "bob ok3 ->> 250 2.6.0 message accepted\neve ok3 ->> 250 2.6.0 message accepted\n" +
		"ann error2 no host accepts mail for nowhere.example: it has no MX and no address, or its mail exchangers do not exist\n" +
		"joe deferred 4.4.3 looking up the MX of slow.example: no answer\n"
	if said := o.brief(strings.ReplaceAll(out.String(), "#hungry\n", "")); said != want {
		t.Errorf("%s, want\n%s", said, want)
	}
}

// A message that cannot be read is deferred, and nothing of it is sent.
func TestMessageThatCannotBeRead(t *testing.T) {
	p := start(t, smtptest.Options{})
	o := newTestSpool(t)
	o.messages(1)
	o.put("transport", 1, strings.Replace(o.control(1), "\no 24\n", "\n", 1))
	if said := o.brief(o.once(options(p))); said != "bob deferred 4.3.0 the control file does not say where the body starts\n" {
		t.Error(said)
	}
	if m := p.Messages(); len(m) != 0 {
		t.Errorf("sent %+v", m)
	}
}

func TestUnixSocket(t *testing.T) {
	p := start(t, smtptest.Options{Address: t.TempDir() + "/s"})
	o := newTestSpool(t)
	o.messages(1)
	if said := o.brief(o.once(options(p))); said != "bob ok3 ->> 250 2.6.0 message accepted\n" {
		t.Error(said)
	}
	opts := options(p)
	opts.Forced = "UNIX:/nowhere/at/all"
	o.messages(1)
	if said := o.brief(o.once(opts)); said != "bob deferall 4.4.1 connect to /nowhere/at/all at /nowhere/at/all: no such file or directory\n" {
		t.Error(said)
	}
}

// talk is an agent that a test feeds line by line.
type talk struct {
	in   *io.PipeWriter
	done chan error
	mu   sync.Mutex
	out  bytes.Buffer
}

func (w *talk) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(b)
}

func (o *testSpool) talk(a *Agent, sessions int) *talk {
	w := &talk{done: make(chan error, 1)}
	r, in := io.Pipe()
	w.in = in
	s := o.server(a, w)
	s.In, s.Sessions = r, sessions
	go func() { w.done <- s.Serve(context.Background()) }()
	return w
}

func (w *talk) feed(t testing.TB, jobs ...string) {
	t.Helper()
	for _, j := range jobs {
		if _, err := io.WriteString(w.in, j+"\n"); err != nil {
			t.Fatal(err)
		}
	}
}

// end returns what the agent has written when it has done all its job lines.
func (w *talk) end(t testing.TB) string {
	t.Helper()
	_ = w.in.Close()
	if err := <-w.done; err != nil {
		t.Error(err)
	}
	return w.out.String()
}

// Sessions bounds the connections, including idle ones. Within that bound all job
// lines are worked on at once.
func TestManySessions(t *testing.T) {
	const sessions, hosts, each = 12, 5, 8
	p := start(t, smtptest.Options{})
	o := newTestSpool(t)
	opts := options(p)
	opts.Limits.Sessions = sessions
	zone := names{}
	var jobs []string
	for h := range hosts {
		zone[fmt.Sprintf("a h%d.example", h)] = "127.0.0.1"
		for range each {
			n := len(jobs) + 1
			o.message(n, fmt.Sprintf("r           smtp h%d.example bob@h%d.example 0\n", h, h), header, "text\n")
			jobs = append(jobs, fmt.Sprintf("%d\th%d.example", n, h))
		}
	}
	opts.Resolver = zone
	var open, peak int
	var mu sync.Mutex
	opts.Log = func(l LogLine) {
		line := l.Text
		mu.Lock()
		defer mu.Unlock()
		switch {
		case strings.HasPrefix(line, "(connect to "):
			open++
			peak = max(peak, open)
		case line == "(close)":
			open--
		}
	}
	a := New(opts)
	w := o.talk(a, sessions)
	w.feed(t, jobs...)
	said := w.end(t)
	a.Close()
	if n := strings.Count(said, "\tok3 "); n != len(jobs) {
		t.Errorf("%d of %d delivered: %s", n, len(jobs), said)
	}
	if peak > sessions || peak < 2 || open != 0 {
		t.Errorf("%d connections at once, %d are left", peak, open)
	}
	if strings.Count(said, "#hungry\n") != sessions+len(jobs) {
		t.Errorf("%d times hungry", strings.Count(said, "#hungry\n"))
	}
}

// A connection is used again only if nothing has arrived on it: a line that answers nothing
// would be taken for the reply to the next command.
func TestInputOnAnIdleConnectionIsSeen(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, act := range map[string]func(net.Conn){
		"a line":  func(c net.Conn) { _, _ = io.WriteString(c, "421 4.3.2 going\r\n") },
		"the end": func(c net.Conn) { _ = c.Close() },
	} {
		ours, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer ours.Close()
		theirs, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer theirs.Close()
		w := newWire(ours, time.Second, nil)
		if w.hasInput() {
			t.Errorf("%s: input before it came", name)
		}
		if act(theirs); !w.hasInput() {
			t.Errorf("%s is not seen", name)
		}
	}
}
