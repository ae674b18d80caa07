package client

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zsched/mailq"
)

// messages returns a postoffice with the message H/836219: its two recipients, and files of 590
// and 275 bytes.
func messages(t *testing.T) *Postoffice {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/postoffice")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(filepath.Join(dir, "queue/H/836219"), time.Time{}, captureTime.Add(-237*time.Second)); err != nil {
		t.Fatal(err)
	}
	return &Postoffice{Dir: dir}
}

// printJobs prints jobs of one thread.
func printJobs(t *testing.T, p *Printer, jobs ...*mailq.JobLine) string {
	t.Helper()
	var out strings.Builder
	p.Out, p.Now = &out, captureTime
	for _, job := range jobs {
		job.Name = mailq.Name{Channel: "smtpdn", Host: "d1.example"}
		if err := p.Job(job); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Finish(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestPrintJobs: the list has the last reply, in one line, and counts that are right.
func TestPrintJobs(t *testing.T) {
	name := mailq.Name{Channel: "smtp", Host: "x.example"}
	jobs := []*mailq.JobLine{
		{Name: name, Path: "K/11", Sender: "a@b", ExpiresAt: captureTime.Add(time.Minute), Recipients: []mailq.Recipient{
			{Attempts: 1, User: "u@x.example"}, {Attempts: 1, Reason: "\r<<- RCPT To:<v@x.example>\r->> 451 4.2.2 busy\r"}}},
		{Name: name, Path: "12", Recipients: []mailq.Recipient{{Attempts: 2, Reason: "smtp; 500 (refused)"}}},
		{Name: name, Path: "13", Recipients: []mailq.Recipient{{}}},
	}
	thread := &mailq.Thread{Name: name, Window: 1, WindowLimit: 5, SuspendedBy: "dead", SuspendedUntil: captureTime.Add(9 * time.Minute),
		Reason: "smtp; connect\r->> 451 no answer"}
	for i, want := range []string{
		"smtp/x.example: suspended because it is dead, for 9m: 451 no answer\n\tK/11: (1 try, expires in 1m) 451 4.2.2 busy\n\t12: (2 tries, never expires) smtp; 500 (refused)\n\t13: (0 tries, never expires)\n",
		"smtp/x.example: suspended because it is dead, for 9m, 0 of 1 session, at most 5: 451 no answer\n\tK/11: (1 try, expires in 1m)\n\t  from\ta@b\n\t  to\tu@x.example\n\t  diag\t<<- RCPT To:<v@x.example>\n\t  diag\t->> 451 4.2.2 busy\n" +
			"\t12: (2 tries, never expires)\n\t  from\t<>\n\t  diag\tsmtp; 500 (refused)\n\t13: (0 tries, never expires)\n\t  from\t<>\n",
	} {
		var out strings.Builder
		p := &Printer{Out: &out, Now: captureTime, Terminal: true, Verbose: i == 1, Threads: map[mailq.Name]*mailq.Thread{name: thread}}
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

func TestPrintWithControlFile(t *testing.T) {
	me, other, owner := 501, 502, uint32(501)
	jobs := []*mailq.JobLine{
		{Path: "H/836219", Sender: "alice@sender.example", Owner: &owner, ExpiresAt: captureTime.Add(time.Minute), Recipients: []mailq.Recipient{
			{Offset: 217, Attempts: 3, Reason: "busy\rbusy"}, {Offset: 127, Attempts: 3, Reason: "gone"}}},
		{Path: "12345", Recipients: []mailq.Recipient{{Offset: 98}}},
	}
	const first = "\tH/836219: (3 tries, age 3m57s, expires in 1m, 590+275 bytes)\n" +
		"\t  id\t<mkctl-836219@sender.example>\n\t  from\talice@sender.example\n" +
		"\t  to\tx1@d1.example\n\t  diag\tbusy\n\t  diag\tbusy\n\t  to\tu1@d1.example\n\t  diag\tgone\n"
	for _, test := range []struct {
		name string
		Printer
		want string
	}{
		{"plain", Printer{}, "\tH/836219: (3 tries, expires in 1m) busy\n\t12345: (0 tries, never expires)\n"},
		{"verbose", Printer{Verbose: true}, first + "\t12345: (0 tries, never expires)\n\t  from\t<>\n"},
		{"summary", Printer{Summary: true}, "\t  2 files\n"},
		{"mine", Printer{Owner: &me, Verbose: true}, first},
		{"summary of mine", Printer{Owner: &me, Summary: true}, "\t  1 file\n"},
		{"not mine", Printer{Owner: &other}, "No user messages found\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := test.Printer
			p.Spool = messages(t)
			want := test.want
			if !strings.HasPrefix(want, "No") {
				want = "smtpdn/d1.example:\n" + want
			}
			if got := printJobs(t, &p, jobs...); got != want {
				t.Errorf("%s", difference(got, want))
			}
		})
	}
	if got := printJobs(t, &Printer{}); got != "" {
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
	for _, test := range []struct {
		path   string
		offset int64
	}{{"H/836219", 218}, {"H/836219", 0}, {"../secret", 0}, {"13", 0}, {"/etc/passwd", 0}, {".", 0}} {
		job := &mailq.JobLine{Path: test.path, Sender: "a", Recipients: []mailq.Recipient{{Offset: test.offset}}}
		want := "smtpdn/d1.example:\n\t" + test.path + ": (0 tries, never expires)\n\t  from\ta\n"
		if got := printJobs(t, &Printer{Verbose: true, Spool: spool}, job); got != want {
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
	if err := p.Finish(); err != errFull {
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
		job := mailq.JobLine{Path: path, Owner: owner, Recipients: []mailq.Recipient{{}}}
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
		if got := p.expiry(&mailq.JobLine{ExpiresAt: captureTime.Add(left)}); got != want {
			t.Errorf("%v before its expiry: %q, want %q", left, got, want)
		}
	}
}
