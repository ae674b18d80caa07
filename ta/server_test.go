package ta

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"zsched/ctlfile"
)

// testSpool is a postoffice with a transport and a queue directory.
type testSpool struct {
	t   *testing.T
	dir string
}

func newTestSpool(t *testing.T) testSpool {
	t.Helper()
	o := testSpool{t, t.TempDir()}
	for _, d := range []string{"transport/B/I", "queue/B/I", "public"} {
		if err := os.MkdirAll(filepath.Join(o.dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

func (o testSpool) transport() string { return filepath.Join(o.dir, "transport") }

// message is the message file of every message here; its body starts at 24.
const message = "external\nenv-end\nA: b\n\n\nbody\n"

// put stores a message whose control file has these recipient lines between
// the sender and the header block.
func (o testSpool) put(path string, lines ...string) {
	o.t.Helper()
	text := "@ 0x00000007\ni " + filepath.Base(path) + "\no 24\nl <m@example.org>\n" +
		"s smtp mx.example.org alice@example.org 0\n" +
		strings.Join(lines, "\n") + "\nm\nSubject: x\nTo: you\n\n"
	o.write("transport/"+path, text)
	o.write("queue/"+path, message)
}

func (o testSpool) write(name, text string) {
	o.t.Helper()
	if err := os.WriteFile(filepath.Join(o.dir, name), []byte(text), 0o644); err != nil {
		o.t.Fatal(err)
	}
}

func (o testSpool) read(name string) string {
	o.t.Helper()
	b, err := os.ReadFile(filepath.Join(o.dir, name))
	if err != nil {
		o.t.Fatal(err)
	}
	return string(b)
}

// rcpt is a recipient line as the router writes it.
func rcpt(channel, host, user string) string {
	return "r           " + channel + " " + host + " " + user + " 0"
}

// tags are the states of a control file's recipients.
func (o testSpool) tags(path string) string {
	o.t.Helper()
	f, err := ctlfile.Parse([]byte(o.read("transport/" + path)))
	if err != nil {
		o.t.Fatal(err)
	}
	var tags []byte
	for _, r := range f.Recipients {
		tags = append(tags, byte(r.Tag))
		if r.Tag != ctlfile.Locked && r.Lock != "" {
			o.t.Errorf("%s: %q is left in the pid field", path, r.Lock)
		}
	}
	return string(tags)
}

// serve runs a server on the lines of a scheduler and returns its own. The
// server's Name and Channel have defaults.
func (o testSpool) serve(s *Server, told string) string {
	o.t.Helper()
	var out, log bytes.Buffer
	s.Dir, s.In, s.Out, s.Err = o.transport(), strings.NewReader(told), &out, &log
	if s.Channel == "" {
		s.Channel = "smtp"
	}
	if err := s.Serve(context.Background()); err != nil {
		o.t.Errorf("serve: %v", err)
	}
	if log.Len() > 0 {
		o.t.Logf("log: %s", log.Bytes())
	}
	return out.String()
}

// with gives every recipient the same result.
func with(r Result) func(*Message) {
	return func(m *Message) { m.ReportRest(func(*Recipient) Result { return r }) }
}

func expect(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
}

func TestEachResultIsWrittenReportedAndTagged(t *testing.T) {
	fields := Fields{Code: "2.0.0", Remote: "dns; mx"}
	notary := func(action string) string { return "bob\x01" + action + "\x012.0.0\x01\x01dns; mx" }
	const success, failure = "N NOTIFY=SUCCESS", "N NOTIFY=FAILURE"
	for _, c := range []struct {
		dsn  string
		give Result
		says string // after id/offset TAB
		tag  string
		d    string // notary of the d line
	}{
		{failure, Result{Status: OK, Fields: fields, Text: "250 ok"}, "\tok3 250 ok", "+", ""},
		{success, Result{Status: OK, Fields: fields, Text: "250 ok"}, "\tok2 250 ok", "+", notary("delivered")},
		{success, Result{Status: OK3, Fields: fields, Text: "sent on"}, "\tok3 sent on", "+", notary("delivered")},
		{success, Result{Status: OK2, Fields: Fields{Code: "2.0.0", Remote: "dns; mx", Action: "relayed"}},
			"\tok2 ", "+", notary("relayed")},
		{failure, Result{Status: Error, Fields: fields, Text: "550 no"}, "\terror2 550 no", "-", notary("failed")},
		{"N NOTIFY=NEVER", Result{Status: Error2, Fields: fields}, "\terror2 ", "-", notary("failed")},
		// A failure is told as one, whatever the agent calls it.
		{failure, Result{Status: Error, Fields: Fields{Code: "2.0.0", Remote: "dns; mx", Action: "delayed"}},
			"\terror2 ", "-", notary("failed")},
		{success, Result{Status: Deferred, Fields: fields, Text: "450\nlater"}, notary("delayed") + "\tdeferred 450\rlater", " ", ""},
		{failure, Result{Status: Deferred, Fields: Fields{Code: "2.0.0", Remote: "dns; mx", Action: "failed"}},
			notary("failed") + "\tdeferred ", " ", ""},
		{failure, Result{Status: DeferBack, Fields: fields}, notary("delayed") + "\tdeferback ", " ", ""},
		{failure, Result{Status: DeferAll, Fields: fields}, notary("delayed") + "\tdeferall ", " ", ""},
		{failure, Result{Status: RetryAt, Fields: fields, Text: "busy", Retry: Retry{true, true, 60}},
			notary("delayed") + "\tretryat +60 busy", " ", ""},
		{failure, Result{Status: RetryAt, Fields: fields, Text: "5 busy"}, notary("delayed") + "\tdeferred 5 busy", " ", ""},
		{failure, Result{Fields: fields}, notary("delayed") + "\tdeferred ", " ", ""},
		{failure, Result{Status: 99, Fields: fields}, notary("delayed") + "\tdeferred ", " ", ""},
	} {
		o := newTestSpool(t)
		o.put("B/I/15582", rcpt("smtp", "a.example", "bob"), c.dsn)
		before := o.read("transport/B/I/15582")
		got := o.serve(&Server{Deliver: with(c.give)}, "B/I/15582\ta.example\n")
		expect(t, got, "#hungry\n15582/86\t"+c.says+"\n#hungry\n")
		if tags := o.tags("B/I/15582"); tags != c.tag {
			t.Errorf("%+v: tag %q, want %q", c.give, tags, c.tag)
		}
		f, _ := ctlfile.Parse([]byte(o.read("transport/B/I/15582")))
		var d string
		for _, l := range f.Diagnostics {
			d += l.Notary
			tag := ctlfile.Open
			if c.give.Status == OK3 { // nobody need be told of it
				tag = ctlfile.Delivered
			}
			want := ctlfile.Diagnostic{Offset: int64(len(before)), Tag: tag, Recipient: 86,
				Header: f.Recipients[0].Header, N: f.Recipients[0].N, At: l.At, Notary: d, Text: c.give.Text}
			if l != want || time.Since(l.At).Abs() > time.Hour {
				t.Errorf("d line %+v, want %+v", l, want)
			}
		}
		if d != c.d {
			t.Errorf("%+v: d line %q, want %q", c.give, d, c.d)
		}
	}
}

// The old agents' notary fields were globals: the first recipient's status
// went into the second's bounce.
func TestNothingLeaksFromOneRecipientToTheNext(t *testing.T) {
	o := newTestSpool(t)
	o.put("1", rcpt("smtp", "a.example", "bob"), rcpt("smtp", "a.example", "eve"))
	got := o.serve(&Server{Deliver: func(m *Message) {
		m.Recipients[0].Report(Result{Status: Deferred, Fields: Fields{"other", "failed", "4.2.2", "smtp; 450", "dns; mx", "x[1]"}})
		m.Recipients[1].Report(Result{Status: Deferred})
	}}, "1\ta.example\n")
	expect(t, got, "#hungry\n1/82\tother\x01failed\x014.2.2\x01smtp; 450\x01dns; mx\x01x[1]\tdeferred \n"+
		"1/115\teve\x01delayed\x01\x01\x01\tdeferred \n#hungry\n")
}

func TestRecipientsOfTheJobLineAreTaken(t *testing.T) {
	o := newTestSpool(t)
	const delayed = "\x01delayed\x01\x01\x01\tdeferred \n"
	o.put("1",
		rcpt("smtp", "a.example", "one"),                   // 82
		rcpt("smtp", "A.Example", "case"),                  // 115
		rcpt("SMTP", "a.example", "channel"),               // another channel
		rcpt("smtp", "b.example", "host"),                  // another host
		"r~ 99999    smtp a.example locked 0",              // somebody is at it
		"r+          smtp a.example done 0",                //
		"X           1 smtp a.example first 0",             // the one to try
		"X           1 smtp a.example second 0",            // only when that failed
		"X-          2 smtp b.example failed 0",            //
		"X           2 smtp a.example now 0",               // because that failed
		rcpt("smtp", "((a.example)(c.example))", "mxlist"), // grouped by its first
	)
	var took []string
	s := &Server{Deliver: func(m *Message) {
		for i := range m.Recipients {
			took = append(took, m.Recipients[i].User)
		}
		expect(t, o.tags("1"), "~~  ~+~ -~~")
		lock := fmt.Sprintf("r~%6d    smtp a.example one 0\n", os.Getpid())
		if !strings.Contains(o.read("transport/1"), lock) {
			t.Errorf("no line %q in %s", lock, o.read("transport/1"))
		}
		m.ReportRest(func(*Recipient) Result { return Result{Status: Deferred} })
	}}
	got := o.serve(s, "1\ta.example\n")
	want := []string{"one", "case", "first", "now", "mxlist"}
	if !slices.Equal(took, want) || strings.Count(got, delayed) != len(want) {
		t.Errorf("took %q: %q", took, got)
	}
	expect(t, o.tags("1"), "    ~+  -  ")
}

func TestRecipientsWithoutResultAreDeferred(t *testing.T) {
	o := newTestSpool(t)
	o.put("1", rcpt("smtp", "a.example", "bob"), rcpt("smtp", "a.example", "eve"))
	got := o.serve(&Server{Name: "smtp", Deliver: func(m *Message) {
		m.Recipients[1].Report(Result{Status: OK})
		m.Recipients[1].Report(Result{Status: Error})
	}}, "1\ta.example\n")
	expect(t, got, fmt.Sprintf("#hungry\n1/115\t\tok3 \n"+
		"1/82\tbob\x01delayed\x014.3.0\x01x-local; 400 (the agent reported no result for this address)\x01\x01smtp[%d]"+
		"\tdeferred the agent reported no result for this address\n#hungry\n", os.Getpid()))
	expect(t, o.tags("1"), " +")
}

func TestDeferAllEndsTheJobLine(t *testing.T) {
	o := newTestSpool(t)
	o.put("1", rcpt("smtp", "a.example", "a"), rcpt("smtp", "a.example", "b"), rcpt("smtp", "a.example", "c"))
	one := o.serve(&Server{Deliver: func(m *Message) {
		m.Recipients[0].Report(Result{Status: OK})
		m.Recipients[1].Report(Result{Status: DeferAll})
		if !m.Recipients[2].Reported() {
			t.Error("the last one is still open")
		}
	}}, "1\ta.example\n")
	expect(t, one, "#hungry\n1/82\t\tok3 \n1/113\tb\x01delayed\x01\x01\x01\tdeferall \n#hungry\n")
	expect(t, o.tags("1"), "+  ")

	// In one go, what has a result of its own gets it first.
	two := o.serve(&Server{Deliver: func(m *Message) {
		m.ReportRest(func(r *Recipient) Result {
			if r.User == "c" {
				return Result{Status: OK}
			}
			return Result{Status: DeferAll}
		})
	}}, "1\ta.example\n")
	expect(t, two, "#hungry\n1/144\t\tok3 \n1/113\tb\x01delayed\x01\x01\x01\tdeferall \n#hungry\n")
	expect(t, o.tags("1"), "+ +")
}

func TestNothingToDoIsResynced(t *testing.T) {
	o := newTestSpool(t)
	o.put("1", rcpt("smtp", "a.example", "a"))
	o.put("2", "r~ 99999    smtp a.example a 0", "r-          smtp a.example b 0")
	o.write("transport/3", "@ 0x00000007\ni 3\nrubbish") // the last line has no end
	o.write("transport/4", "@ 0x00000107\ni 4\n")        // of a later program
	o.write("transport/5-etrn", "T a.example 192.0.2.7\n")
	o.put("x", rcpt("smtp", "a.example", "a"))
	s := &Server{Deliver: func(m *Message) { t.Errorf("delivers %s", m.Job.Path) }}
	for _, job := range []string{"1\tb.example", "2\ta.example", "3\ta.example", "4\ta.example",
		"5-etrn\ta.example", "x\ta.example", "gone\ta.example", "B\ta.example", "B/I/77"} {
		path, _, _ := strings.Cut(job, "\t")
		expect(t, o.serve(s, job+"\n"), "#hungry\n#resync "+path+"\n#hungry\n")
	}
	expect(t, o.tags("2"), "~-")
}

func TestDialogue(t *testing.T) {
	for _, c := range []struct{ told, says string }{
		{"", ""},
		{"\n", ""},
		{"1\ta.example\n", "OH"},
		{"1\tA.EXAMPLE\n", "OH"},
		{"1\ta.example\tthird\tcolumn\n", "OH"},
		{"1\n", "OH"},                // the command's host stands in
		{"1\tb.example\n", "RH"},     // the line's own host counts
		{"#idle\n#idle\n", "HH"},     //
		{"1\ta.example", ""},         // cut off: dropped
		{"#idle\n1\ta.example", "H"}, //
		{"\n1\ta.example\n", ""},     // left before
		{"\thost\n#new word\n#idle\n", "HHH"},
		{strings.Repeat("x", MaxLine+1) + "\n#idle\n", "HH"},
		{"1\ta.example\n1\ta.example\n", "OHRH"},
	} {
		o := newTestSpool(t)
		o.put("1", rcpt("smtp", "a.example", "bob"), rcpt("smtp", "c.example", "eve"))
		want := "#hungry\n" + strings.NewReplacer("H", "#hungry\n", "O", "1/82\t\tok3 \n", "R", "#resync 1\n").Replace(c.says)
		s := &Server{Host: "a.example", Deliver: with(Result{Status: OK})}
		if got := o.serve(s, c.told); got != want {
			t.Errorf("%.60q: %q, want %q", c.told, got, want)
		}
	}
}

// The longest host there can be fits into a job line, a report and an agent.
func TestLongestHost(t *testing.T) {
	o := newTestSpool(t)
	host := strings.Repeat("h", ctlfile.MaxWord)
	o.put("1", rcpt("smtp", host, "bob"))
	got := o.serve(&Server{Deliver: with(Result{Status: OK})}, "1\t"+host+"\n")
	if !strings.HasSuffix(got, "\t\tok3 \n#hungry\n") {
		t.Errorf("%q", got)
	}
}

// With marking=scheduler an agent writes nothing: it need not even be able to.
func TestSchedulerMarks(t *testing.T) {
	o := newTestSpool(t)
	o.put("1", rcpt("smtp", "a.example", "a"), "N NOTIFY=SUCCESS", rcpt("smtp", "a.example", "b"),
		rcpt("smtp", "a.example", "c"), "r~     1    smtp a.example d 0")
	before := o.read("transport/1")
	s := &Server{Marking: SchedulerMarks, Deliver: func(m *Message) {
		m.Recipients[0].Report(Result{Status: OK, Text: "fine"})
		m.Recipients[1].Report(Result{Status: Error, Fields: Fields{Code: "5.1.1"}})
	}}
	expect(t, o.serve(s, "1\ta.example\n"), "#hungry\n"+
		"1/82\ta\x01delivered\x01\x01\x01\tok fine\n"+
		"1/130\tb\x01failed\x015.1.1\x01\x01\terror \n"+
		"1/161\tc\x01delayed\x014.3.0\x01x-local; 400 (the agent reported no result for this address)\x01\tdeferred the agent reported no result for this address\n"+
		"#hungry\n")
	expect(t, o.read("transport/1"), before)
}

func TestMessageIsWhatTheControlFileSays(t *testing.T) {
	o := newTestSpool(t)
	o.put("B/I/15582", rcpt("smtp", "a.example", "bob"))
	when := time.Date(2003, 3, 12, 22, 38, 19, 0, time.UTC)
	if err := os.Chtimes(filepath.Join(o.dir, "queue/B/I/15582"), when, when); err != nil {
		t.Fatal(err)
	}
	o.serve(&Server{Deliver: func(m *Message) {
		r := &m.Recipients[0]
		expect(t, r.Headers(), "Subject: x\nTo: you\n")
		expect(t, r.From.String(), "smtp mx.example.org alice@example.org 0")
		expect(t, m.SpoolID(), "S15582AbTCLWiT")
		if m.ID != 15582 || m.Size != int64(len(message)) || !m.ModifiedAt.Equal(when) {
			t.Errorf("message %+v", m)
		}
		for range 2 {
			body, err := m.Body()
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(body)
			expect(t, string(text), "body\n")
			if err != nil || body.Size() != 5 {
				t.Errorf("size %d, %v", body.Size(), err)
			}
		}
	}}, "B/I/15582\ta.example\n")
}

// A failure that cannot be written down must not be lost: it is none yet. A
// delivery cannot be undone; the scheduler is asked to write it down.
func TestDiskFullLosesNothing(t *testing.T) {
	o := newTestSpool(t)
	o.put("1", rcpt("smtp", "a.example", "a"), rcpt("smtp", "a.example", "b"), "N NOTIFY=SUCCESS")
	got := o.serve(&Server{Deliver: func(m *Message) {
		fd := m.fd
		defer func() { m.fd = fd }()
		m.fd = -1 // any write is an error now
		m.Recipients[0].Report(Result{Status: Error, Text: "550 no"})
		m.Recipients[1].Report(Result{Status: OK, Text: "250 ok"})
	}}, "1\ta.example\n")
	lines := strings.Split(got, "\n")
	if len(lines) != 5 || !strings.HasPrefix(lines[1], "1/82\ta\x01delayed\x01\x01\x01\tdeferred 550 no (and append diagnostics: ") ||
		lines[2] != "1/113\tb\x01delivered\x01\x01\x01\tok 250 ok" {
		t.Errorf("%q", got)
	}
}

// The diagnostic of ok2, ok3 and error2 is not the scheduler's business, but its
// event log needs the peer and the code.
func TestEveryReportHasTheNotaryIfTheSchedulerWantsIt(t *testing.T) {
	fields := Fields{Code: "2.0.0", Remote: "dns; mx (192.0.2.1)"}
	for _, c := range []struct {
		dsn  string
		give Status
		says string
	}{
		{"N NOTIFY=FAILURE", OK, "bob\x01delivered\x012.0.0\x01\x01dns; mx (192.0.2.1)\tok3 "},
		{"N NOTIFY=SUCCESS", OK, "bob\x01delivered\x012.0.0\x01\x01dns; mx (192.0.2.1)\tok2 "},
		{"N NOTIFY=FAILURE", Error, "bob\x01failed\x012.0.0\x01\x01dns; mx (192.0.2.1)\terror2 "},
	} {
		o := newTestSpool(t)
		o.put("1", rcpt("smtp", "a.example", "bob"), c.dsn)
		got := o.serve(&Server{AllNotary: true, Deliver: with(Result{Status: c.give, Fields: fields})}, "1\ta.example\n")
		expect(t, got, "#hungry\n1/82\t"+c.says+"\n#hungry\n")
	}
}

// ZMailer's scheduler does not know the word.
func TestSchedulerLearnsTheSiteBeforeTheResult(t *testing.T) {
	for word, all := range map[string]bool{
		"": false,
		"1/82\t\x01\x01\x01\x01\x01\x01site=mx.example\tconnecting \n": true,
	} {
		o := newTestSpool(t)
		o.put("1", rcpt("smtp", "a.example", "bob"))
		got := o.serve(&Server{AllNotary: all, Deliver: func(m *Message) {
			m.Recipients[0].Connecting("mx.example")
			m.Recipients[0].Connecting("") // not known
			m.Recipients[0].Report(Result{Status: OK})
		}}, "1\ta.example\n")
		if !strings.HasPrefix(got, "#hungry\n"+word+"1/82\t") || strings.Contains(got, "connecting") != all {
			t.Errorf("%q", got)
		}
	}
}

func TestParseMarking(t *testing.T) {
	for s, want := range map[string]Marking{"agent": AgentMarks, "scheduler": SchedulerMarks} {
		if got, err := ParseMarking(s); got != want || err != nil {
			t.Errorf("%s: %v %v", s, got, err)
		}
	}
	if _, err := ParseMarking("nobody"); err == nil {
		t.Error("nobody marks")
	}
}
