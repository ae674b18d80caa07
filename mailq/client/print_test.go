package client

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zsched/mailq"
)

// printDump prints a dump of version 1.
func printDump(t *testing.T, p *Printer, dump string) string {
	t.Helper()
	c, err := dialServer(t, "S: version zmailer 1.0\n"+dump)
	if err != nil {
		t.Fatal(err)
	}
	d, err := c.Dump()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	p.Out, p.Now = &out, captureTime
	if err := p.Dump(d); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

const twoMessages = `S: Vertices:
S: 1:	H/836219	2; 217,127	#later (retry in 7s)
S: 2:	12345	1; 98
S: Channels:
S: smtpdn:	>2>1
S: Hosts:
S: d1.example:	>2>1
S: End:
`

// messages returns a postoffice with the first of twoMessages: its two recipients,
// and files of 590 and 275 bytes.
func messages(t *testing.T) *Postoffice {
	t.Helper()
	spool := capturedSpool(t)
	text, err := os.ReadFile(filepath.Join(spool.Dir, "transport/H/836219"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(text[127:]), "r") || !strings.HasPrefix(string(text[217:]), "r") {
		t.Fatalf("no recipients at 127 and 217 of %q", text)
	}
	return spool
}

func TestPrintVersion1(t *testing.T) {
	me, other := os.Getuid(), os.Getuid()+1
	const head, first, second = "smtpdn/d1.example:\n", "\tH/836219/2:\tlater (retry in 7s)\n", "\t12345:\n"
	for _, test := range []struct {
		name string
		Printer
		want string
	}{
		{"plain", Printer{}, head + first + second},
		{"verbose", Printer{Verbose: 1}, head + first +
			"\t  id\t<mkctl-836219@sender.example>\n\t  from\talice@sender.example\n\t  to\tx1@d1.example\n\t\tu1@d1.example\n" + second},
		{"more verbose", Printer{Verbose: 2}, head + first +
			"\t  id\t<mkctl-836219@sender.example>, 275 bytes, age 3m57s\n\t  from\talice@sender.example\n\t  to\tx1@d1.example\n\t\tu1@d1.example\n" + second},
		{"summary", Printer{Summary: 1}, head + "\t  2 files, 275 bytes total, 137 bytes average\n"},
		{"counts", Printer{Summary: 2}, head + "\t  2 files\n"},
		{"mine", Printer{Owner: &me}, head + first},
		{"not mine", Printer{Owner: &other}, "No user messages found\n"},
		{"summary of mine", Printer{Owner: &me, Summary: 1}, head + "\t  1 file, 275 bytes total, 275 bytes average\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := test.Printer
			p.Spool = messages(t)
			if got := printDump(t, &p, twoMessages); got != test.want {
				t.Errorf("%s", difference(got, test.want))
			}
		})
	}
	if got := printDump(t, &Printer{Summary: 1}, twoMessages); got != head+"\t  2 files, no file size info available\n" {
		t.Errorf("without files: %q", got)
	}
	if got := printDump(t, &Printer{}, "S: Vertices:\nS: End:\n"); got != "Transport queue is empty -- or scheduler uses -Q -mode\n" {
		t.Errorf("empty queue: %q", got)
	}
}

// TestHostInTwoChannels: each has its own mail. The old client showed all of
// it under one of them.
func TestHostInTwoChannels(t *testing.T) {
	got := printDump(t, &Printer{}, `S: Vertices:
S: 1:	11	1; 98	#a
S: 2:	12	1; 98	#b
S: 3:	13	1; 98	#c
S: Channels:
S: smtp:	>1>3>77
S: uucp:	>2
S: Hosts:
S: x.example:	>1>2>3>77
S: End:
`)
	if want := "uucp/x.example:\n\t12:\tb\nsmtp/x.example:\n\t13:\tc\n\t11:\ta\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// printThread prints the answer of ZMailer's server to SHOW THREAD.
func printThread(t *testing.T, p *Printer, lines ...string) string {
	t.Helper()
	answer := mailq.Until + "\n"
	for _, line := range lines {
		if line[0] == '.' {
			line = "." + line
		}
		answer += line + "\n"
	}
	answer += ".\n"
	c, err := dialScripted(mailq.GreetingV2 + "\n220 x\n" + answer)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	p.Out, p.Now, p.ZMailer = &out, captureTime, true
	if err := c.TextJobs([]mailq.Name{{Channel: "smtpdn", Host: "d1.example"}}, p.Job); err != nil {
		t.Fatal(err)
	}
	if err := p.Finish(2); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestPrintJobs: of a server with JSON the list has the last reply, in one line,
// and counts that are right.
func TestPrintJobs(t *testing.T) {
	name := mailq.Name{Channel: "smtp", Host: "x.example"}
	jobs := []*mailq.Job{
		{Name: name, Path: "K/11", Sender: "a@b", ExpiresAt: captureTime.Add(time.Minute), Recipients: []mailq.Recipient{
			{Attempts: 1, User: "u@x.example"}, {Attempts: 1, Reason: "\r<<- RCPT To:<v@x.example>\r->> 451 4.2.2 busy\r"}}},
		{Name: name, Path: "12", Recipients: []mailq.Recipient{{Attempts: 2, Reason: "smtp; 500 (refused)"}}},
		{Name: name, Path: "13", Recipients: []mailq.Recipient{{}}},
	}
	thread := &mailq.Thread{Name: name, Window: 1, WindowLimit: 5, Destination: mailq.Probing, Sessions: 1}
	for verbose, want := range []string{
		"smtp/x.example:\n\tK/11: (1 try, expires in 1m) 451 4.2.2 busy\n\t12: (2 tries, never expires) smtp; 500 (refused)\n\t13: (0 tries, never expires)\n",
		"smtp/x.example: 1 of 1 session, at most 5, probing\n\tK/11: (1 try, expires in 1m)\n\t  from\ta@b\n\t  to\tu@x.example\n\t  diag\t<<- RCPT To:<v@x.example>\n\t  diag\t->> 451 4.2.2 busy\n" +
			"\t12: (2 tries, never expires)\n\t  from\t<>\n\t  diag\tsmtp; 500 (refused)\n\t13: (0 tries, never expires)\n\t  from\t<>\n",
	} {
		var out strings.Builder
		p := &Printer{Out: &out, Now: captureTime, Terminal: true, Verbose: verbose, Threads: map[mailq.Name]*mailq.Thread{name: thread}}
		for _, job := range jobs {
			if err := p.Job(job); err != nil {
				t.Fatal(err)
			}
		}
		if out.String() != want {
			t.Errorf("%s", difference(out.String(), want))
		}
	}
}

func TestPrintVersion2(t *testing.T) {
	me, other := os.Getuid(), os.Getuid()+1
	x1 := "H/836219\t0\talice@sender.example\t217\t1795234860\t0\t0\t3\tthread\tbusy\rbusy"
	u1 := "H/836219\t1\talice@sender.example\t127\t1795234860\t0\t0\t3\tthread\tgone"
	null := "12345\t0\t\t98\t0\t0\t0\t0\tthread\t"
	old := "12345\tbob@example.net\t98\t0\t0\t0\t0\tthread\tsays"
	for _, test := range []struct {
		name string
		Printer
		want string
	}{
		{"plain", Printer{}, "\tH/836219: (3 tries, expires in 1m) busy\rbusy\n\t12345: (0 tries, never expires) \n\t12345: (0 tries, never expires) says\n"},
		{"terminal", Printer{Terminal: true}, "\tH/836219: (3 tries, expires in 1m) busy^Mbusy\n\t12345: (0 tries, never expires) \n\t12345: (0 tries, never expires) says\n"},
		{"verbose", Printer{Verbose: 1}, "\tH/836219: (3 tries, age 3m57s, expires in 1m, 590+275 bytes)\n" +
			"\t  id\t<mkctl-836219@sender.example>\n\t  from\talice@sender.example\n" +
			"\t  to\tx1@d1.example\n\t  diag\tbusy\n\t  diag\tbusy\n\t  to\tu1@d1.example\n\t  diag\tgone\n" +
			"\t12345: (0 tries, never expires)\n\t  from\t<>\n\t12345: (0 tries, never expires)\n\t  from\tbob@example.net\n\t  diag\tsays\n"},
		{"summary", Printer{Summary: 1}, "\t  3 files, 275 bytes total, 91 bytes average\n"},
		{"mine", Printer{Owner: &me, Verbose: 1}, "\tH/836219: (3 tries, age 3m57s, expires in 1m, 590+275 bytes)\n" +
			"\t  id\t<mkctl-836219@sender.example>\n\t  from\talice@sender.example\n" +
			"\t  to\tx1@d1.example\n\t  diag\tbusy\n\t  diag\tbusy\n\t  to\tu1@d1.example\n\t  diag\tgone\n"},
		{"not mine", Printer{Owner: &other}, "No user messages found\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := test.Printer
			p.Spool = messages(t)
			want := test.want
			if !strings.HasPrefix(want, "No") {
				want = "smtpdn/d1.example:\n" + want
			}
			if got := printThread(t, &p, x1, u1, null, old); got != want {
				t.Errorf("%s", difference(got, want))
			}
		})
	}
	if got := printThread(t, &Printer{}); got != "" {
		t.Errorf("empty queue: %q", got)
	}
}

// TestControlFileOfAnother: a file of that name is shown only if the
// recipient is in it, and nothing outside of the directory is read.
func TestControlFileOfAnother(t *testing.T) {
	spool := messages(t)
	if err := os.WriteFile(filepath.Join(spool.Dir, "secret"), []byte("i 1\nl <secret>\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"transport", "queue"} {
		if err := os.Symlink("../secret", filepath.Join(spool.Dir, dir, "13")); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range []string{
		"H/836219\t0\ta\t218\t0\t0\t0\t0\t\t",
		"H/836219\t0\ta\t0\t0\t0\t0\t0\t\t",
		"../secret\t0\ta\t0\t0\t0\t0\t0\t\t",
		"13\t0\ta\t0\t0\t0\t0\t0\t\t",
		"/etc/passwd\t0\ta\t0\t0\t0\t0\t0\t\t",
		".\t0\ta\t0\t0\t0\t0\t0\t\t",
	} {
		path, _, _ := strings.Cut(line, "\t")
		want := "smtpdn/d1.example:\n\t" + path + ": (0 tries, never expires)\n\t  from\ta\n"
		if got := printThread(t, &Printer{Verbose: 1, Spool: spool}, line); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// With tabs and line ends, text goes to a file.
func TestTextForAFileKeepsItsLines(t *testing.T) {
	p := Printer{}
	if got := p.safe("a\tb\rc\x1b[2J"); got != "a\tb\rc^[[2J" {
		t.Errorf("%q", got)
	}
}

// TestPrintingStops: after an error of the output nothing more is written.
func TestPrintingStops(t *testing.T) {
	p := Printer{Out: fullDisk{}}
	for range 3 {
		if err := p.Line("x"); err != errFull {
			t.Errorf("%v", err)
		}
	}
	if err := p.Finish(1); err != errFull {
		t.Errorf("%v", err)
	}
}

type fullDisk struct{}

var errFull = os.ErrClosed

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestPrintJSON(t *testing.T) {
	for line, want := range map[string]string{
		`{"a":"b"}`:                    `{"a":"b"}`,
		"{\"a\":\"\u009b\u202e\x7f\"}": `{"a":"\u009b\u202e\u007f"}`,
		"{\"a\":\"\U000e0041ä\xff\"}":  `{"a":"\udb40\udc41ä` + "\ufffd" + `"}`,
	} {
		var out strings.Builder
		p := Printer{Out: &out}
		if err := p.JSON(line); err != nil || out.String() != want+"\n" {
			t.Errorf("%q: %q, %v", line, &out, err)
		}
	}
	for line, kind := range map[string]Kind{`{"error":"no time"}`: NotDone, "{": Unavailable, "{\"a\":\"\x1b\"}": Unavailable} {
		p := Printer{Out: fullDisk{}}
		if err := p.JSON(line); KindOf(err) != kind {
			t.Errorf("%q: %v", line, err)
		}
	}
}

// An ordinary user cannot enter the directories of the queue: the server says
// whose a message is.
func TestOwnerIsTheServersToSay(t *testing.T) {
	me, others := 501, uint32(502)
	mine := uint32(me)
	var out strings.Builder
	p := Printer{Out: &out, Now: time.Unix(0, 0), Owner: &me, Spool: &Postoffice{Dir: t.TempDir()}}
	for path, owner := range map[string]*uint32{"1": &mine, "2": &others, "3": nil} {
		job := mailq.Job{Path: path, Owner: owner, Recipients: []mailq.Recipient{{}}}
		job.Name = mailq.Name{Channel: "smtp", Host: "x"}
		if err := p.Job(&job); err != nil {
			t.Fatal(err)
		}
	}
	if want := "smtp/x:\n\t1: (0 tries, never expires)\n"; out.String() != want {
		t.Errorf("%s", difference(out.String(), want))
	}
}

func TestTimeOfExpiryIsNeverNegative(t *testing.T) {
	p := Printer{Now: captureTime}
	for left, want := range map[time.Duration]string{-9 * time.Second: "is past its expiry", 0: "expires in 0s", time.Minute: "expires in 1m"} {
		if got := p.expiry(&mailq.Job{ExpiresAt: captureTime.Add(left)}); got != want {
			t.Errorf("%v before its expiry: %q, want %q", left, got, want)
		}
	}
}
