package ta

import (
	"bufio"
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func TestReportsMeanWhatTheManualSays(t *testing.T) {
	for line, want := range map[string]Report{
		"15582/109\t\tok3 250 ok": {15582, 109, "", OK3, "250 ok", Retry{}, ""},
		"1001/60\t\tok2 ":         {1001, 60, "", OK2, "", Retry{}, ""},
		"1001/60\t\tok2":          {1001, 60, "", OK2, "", Retry{}, ""},
		"1001/60\ta\x01b\tdeferback \rx\ty\r": {
			1001, 60, "a\x01b", DeferBack, "\rx\ty\r", Retry{}, ""},

		// A site is a field after the notary data, which old agents do not have.
		"1/2\t\x01\x01\x01\x01\x01\x01site=mx.example\tconnecting ": {1, 2, "\x01\x01\x01\x01", Connecting, "", Retry{}, "mx.example"},
		"1/2\ta\x01b\x01\x01\x01\x01\x01site=mx.example\tok x":      {1, 2, "a\x01b\x01\x01\x01", OK, "x", Retry{}, "mx.example"},
		"1/2\ta\x01b\x01c\x01d\x01e\x01smtp[1]\x01site=mx\tok x":    {1, 2, "a\x01b\x01c\x01d\x01e\x01smtp[1]", OK, "x", Retry{}, "mx"},
		"1/2\ta\x01b\x01c\x01d\x01e\x01site=mx\tok x":               {1, 2, "a\x01b\x01c\x01d\x01e", OK, "x", Retry{}, "mx"},
		"1/2\ta\x01b\x01c\x01d\x01e\x01\x01site=M X\tok x":          {1, 2, "a\x01b\x01c\x01d\x01e", OK, "x", Retry{}, ""},
		"1/2\tsite=a\x01site=b\tok x":                               {1, 2, "site=a\x01site=b", OK, "x", Retry{}, ""},

		// Numbers as C's atol reads them.
		" \t+1001abc/ 101 junk\t\tdeferred later": {1001, 101, "", Deferred, "later", Retry{}, ""},
		"7/8/9\t\tok x":          {7, 8, "", OK, "x", Retry{}, ""},
		"1/2\tno/tab\terror x/y": {1, 2, "no/tab", Error, "x/y", Retry{}, ""},

		// The word ends at white space or beyond ASCII, which is eaten.
		"1/2\t\terror2\rgone":      {1, 2, "", Error2, "gone", Retry{}, ""},
		"1/2\t\terror2\xc3\xa9e":   {1, 2, "", Error2, "\xa9e", Retry{}, ""},
		"1/2\t\tok\ta\tb":          {1, 2, "", OK, "a\tb", Retry{}, ""},
		"1/2\t\tdeferall  two":     {1, 2, "", DeferAll, " two", Retry{}, ""},
		"1/2\t\tok3 NUL \x00 kept": {1, 2, "", OK3, "NUL \x00 kept", Retry{}, ""},

		// The old scheduler crashed on a retryat without text, and honoured no
		// number.
		"1/2\t\tretryat":              {1, 2, "", RetryAt, "", Retry{}, ""},
		"1/2\t\tretryat ":             {1, 2, "", RetryAt, "", Retry{}, ""},
		"1/2\t\tretryat soon":         {1, 2, "", RetryAt, "soon", Retry{}, ""},
		"1/2\t\tretryat +60 busy 5":   {1, 2, "", RetryAt, "busy 5", Retry{true, true, 60}, ""},
		"1/2\t\tretryat +60":          {1, 2, "", RetryAt, "", Retry{true, true, 60}, ""},
		"1/2\t\tretryat  +60s  x":     {1, 2, "", RetryAt, " x", Retry{true, true, 60}, ""},
		"1/2\t\tretryat 1795235025 x": {1, 2, "", RetryAt, "x", Retry{true, false, 1795235025}, ""},
		"1/2\t\tretryat -5 x":         {1, 2, "", RetryAt, "x", Retry{true, false, -5}, ""},
		"1/2\t\tretryat ++5 x":        {1, 2, "", RetryAt, "++5 x", Retry{}, ""},
		"1/2\t\tretryat + 5":          {1, 2, "", RetryAt, "+ 5", Retry{}, ""},
		"1/2\t\tretryat 99999999999999999999 x": {
			1, 2, "", RetryAt, "x", Retry{true, false, math.MaxInt64}, ""},
	} {
		if got, want := ParseLine([]byte(line)), (Line{Kind: Reported, Report: want}); got != want {
			t.Errorf("%q:\n%+v, want\n%+v", line, got, want)
		}
	}
}

func TestOtherLinesMeanWhatTheManualSays(t *testing.T) {
	for line, want := range map[string]Line{
		"#hungry":               {Kind: Hungry},
		"#hungryish":            {Kind: Hungry},
		"#hungry\x00":           {Kind: Hungry},
		"#resync 1001":          {Kind: Resync, Path: "1001"},
		"#resync \t B/I/15582 ": {Kind: Resync, Path: "B/I/15582 "},
		"#resync1001":           {Kind: Resync, Path: "1001"},
		"#resync":               {Kind: Comment, Text: "#resync"},
		"#resync \t":            {Kind: Comment, Text: "#resync \t"},
		"":                      {Kind: Comment},
		"#":                     {Kind: Comment, Text: "#"},
		"# hash stderr":         {Kind: Comment, Text: "# hash stderr"},
		"#HELP! x":              {Kind: Comment, Text: "#HELP! x"},
	} {
		if got := ParseLine([]byte(line)); got != want {
			t.Errorf("%q: %+v, want %+v", line, got, want)
		}
	}
}

func TestGarbledLinesSayWhy(t *testing.T) {
	for line, reason := range map[string]string{
		"hello on stderr":                  "no slash after the message number",
		"Exec of /opt/zmailer failed!":     "no TAB after the offset",
		"1/2\tok":                          "no TAB after the notary fields",
		"x/2\t\tok":                        "no message number before the slash",
		"/2\t\tok":                         "no message number before the slash",
		"-1/2\t\tok":                       "no message number before the slash",
		"0/2\t\tok":                        "no message number before the slash",
		"1/x\t\tok":                        "no offset after the slash",
		"1/-2\t\tok":                       "no offset after the slash",
		"1/2\t\tweird x":                   "unknown status word",
		"1/2\t\tOK x":                      "unknown status word",
		"1/2\t\t x":                        "unknown status word",
		"1/2\t\t":                          "unknown status word",
		"1/2\t\tok\x00":                    "unknown status word",
		"1/2\t\tok x\n1/3\t\tok":           "line holds a line feed",
		" #hungry":                         "no slash after the message number",
		strings.Repeat("1", MaxLine) + "/": "line is too long",
	} {
		got := ParseLine([]byte(line))
		if got.Kind != Malformed || got.Reason != reason || !strings.HasPrefix(line, got.Text) {
			t.Errorf("%.80q: %+v, want %q", line, got, reason)
		}
	}
}

func TestReportIsWrittenOnOneLine(t *testing.T) {
	for want, r := range map[string]Report{
		"1001/60\t\tok3 \n":                   {Message: 1001, Offset: 60, Status: OK3},
		"1/2\ta b\rc\tdeferred d\te\rf\n":     {1, 2, "a\tb\nc", Deferred, "d\te\nf", Retry{}, ""},
		"1/2\t\tretryat +60 busy\n":           {1, 2, "", RetryAt, "busy", Retry{true, true, 60}, ""},
		"1/2\t\tretryat 60 \n":                {1, 2, "", RetryAt, "", Retry{true, false, 60}, ""},
		"1/2\t\tretryat busy\n":               {1, 2, "", RetryAt, "busy", Retry{}, ""},
		"1/2\t\tdeferred 4.2.2 try later\n":   {1, 2, "", RetryAt, "4.2.2 try later", Retry{}, ""},
		"18446744073709551615/2\t\terror2 \n": {math.MaxUint64, 2, "", Error2, "", Retry{}, ""},
	} {
		if got := string(AppendReport([]byte("before\n"), r)); got != "before\n"+want {
			t.Errorf("%+v: %q, want %q", r, got, want)
		}
	}
	long := AppendReport(nil, Report{Message: 1, Offset: 2, Status: OK, Text: strings.Repeat("x", 2*MaxLine)})
	if len(long) != MaxLine+1 || long[MaxLine] != '\n' {
		t.Errorf("a long report makes a line of %d bytes", len(long))
	}
}

func TestJobLines(t *testing.T) {
	for line, want := range map[string]JobLine{
		"1001":                         {"1001", "", true},
		"B/I/15582\texample.net":       {"B/I/15582", "example.net", false},
		"1001\t":                       {"1001", "", false},
		"1001\ta.example\tthird\tmore": {"1001", "a.example", false},
		"1001\t((mx1)(mx2 mx3))":       {"1001", "((mx1)(mx2 mx3))", false},
		strings.Repeat("x", MaxLine):   {strings.Repeat("x", MaxLine), "", true},
	} {
		got, err := ParseJobLine([]byte(line))
		if err != nil || got != want {
			t.Errorf("%.80q: %+v %v, want %+v", line, got, err, want)
		}
	}
	for _, line := range []string{"", "\thost", "#idle", "#new\thost", "a\nb", strings.Repeat("x", MaxLine+1)} {
		if got, err := ParseJobLine([]byte(line)); err == nil {
			t.Errorf("%.80q is job %+v", line, got)
		}
	}
	// A host cannot make a second line.
	if got := string(AppendJobLine(nil, JobLine{Path: "1", Host: "a\tb\n2\tc"})); got != "1\ta?b?2?c\n" {
		t.Errorf("job line %q", got)
	}
}

func TestNotaryHasAnyNumberOfFields(t *testing.T) {
	all := Fields{"r", "failed", "5.1.1 (no)", "smtp; 550", "dns; mx", "smtp[1]"}
	read := func(n Notary) Fields {
		return Fields{n.Recipient(), n.Action(), n.Code(), n.Diagnostic(), n.Remote(), n.Agent()}
	}
	if got := read(all.Notary()); got != all {
		t.Errorf("%+v, want %+v", got, all)
	}
	five := Fields{"r", "failed", "5.1.1", "smtp; 550", "", ""}
	if n := five.Notary(); n != "r\x01failed\x015.1.1\x01smtp; 550\x01" || read(n) != five {
		t.Errorf("five fields are %q, read %+v", n, read(n))
	}
	for n, want := range map[Notary]Fields{
		"":                                {},
		"r":                               {Recipient: "r"},
		"r\x01failed":                     {Recipient: "r", Action: "failed"},
		"1\x012\x013\x014\x015\x016\x017": {"1", "2", "3", "4", "5", "6"},
	} {
		if got := read(n); got != want {
			t.Errorf("%q reads %+v, want %+v", n, got, want)
		}
	}
	for n, want := range map[Notary]Notary{"r\x01failed\x015.1.1": "\x01failed\x015.1.1", "\x01failed": "\x01failed", "r": "", "": ""} {
		if got := n.WithoutRecipient(); got != want {
			t.Errorf("%q without recipient: %q, want %q", n, got, want)
		}
	}
	if n := (Fields{Recipient: "a\x01b\tc\nd\re\x00"}).Notary(); n != "a b c d e \x01\x01\x01\x01" {
		t.Errorf("separators in a field: %q", n)
	}
}

// appendLine writes an agent's line.
func appendLine(b []byte, s Line) []byte {
	switch s.Kind {
	case Hungry:
		b = append(b, HungryLine...)
	case Resync:
		b = append(append(b, resyncWord+" "...), s.Path...)
	case Reported:
		return AppendReport(b, s.Report)
	default:
		b = append(b, s.Text...)
	}
	return append(b, '\n')
}

// What the old programs said to each other is understood, and printed again
// it is the same, byte for byte.
func TestCapturedDialogues(t *testing.T) {
	files, err := filepath.Glob("testdata/agents/*/*.log")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts: ", err)
	}
	for _, name := range files {
		toAgent, toScheduler := transcript(t, name)
		var again []byte
		for line := range bytes.Lines(toScheduler) {
			said := ParseLine(bytes.TrimSuffix(line, []byte("\n")))
			if said.Kind == Malformed || said.Kind == Comment {
				t.Errorf("%s: %q is %+v", name, line, said)
			}
			again = appendLine(again, said)
		}
		if !bytes.Equal(again, toScheduler) {
			t.Errorf("%s: agent's side printed again:\n%q, was\n%q", name, again, toScheduler)
		}
		again = nil
		for line := range bytes.Lines(toAgent) {
			if s := string(line); s == IdleLine+"\n" || s == LeaveLine+"\n" {
				again = append(again, line...)
				continue
			}
			job, err := ParseJobLine(bytes.TrimSuffix(line, []byte("\n")))
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			again = AppendJobLine(again, job)
		}
		if !bytes.Equal(again, toAgent) {
			t.Errorf("%s: scheduler's side printed again:\n%q, was\n%q", name, again, toAgent)
		}
	}
}

// transcript is what went each way in a captured dialogue.
func transcript(t *testing.T, name string) (toAgent, toScheduler []byte) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	write := regexp.MustCompile(`^ *[0-9.]+ (S->T|T->S) \[([0-9]+)\] (".*")$`)
	for s := bufio.NewScanner(f); s.Scan(); {
		m := write.FindStringSubmatch(s.Text())
		if m == nil {
			continue
		}
		text, err := strconv.Unquote(m[3])
		if err != nil || fmt.Sprint(len(text)) != m[2] {
			t.Fatalf("%s: %s: %d bytes, %v", name, s.Text(), len(text), err)
		}
		if m[1] == "S->T" {
			toAgent = append(toAgent, text...)
		} else {
			toScheduler = append(toScheduler, text...)
		}
	}
	return toAgent, toScheduler
}

func TestCapturedLinesMeanWhatTheySay(t *testing.T) {
	_, said := transcript(t, "testdata/agents/02-smtp-ok-perm-temp/t2.smtp.2444.log")
	var reports []Report
	for line := range bytes.Lines(said) {
		if s := ParseLine(bytes.TrimSuffix(line, []byte("\n"))); s.Kind == Reported {
			reports = append(reports, s.Report)
		}
	}
	ok, failed, deferred := reports[0], reports[2], reports[3]
	if ok.Message != 861074 || ok.Offset != 160 || ok.Status != OK3 || ok.Notary != "" ||
		!strings.HasPrefix(ok.Text, "\r<<- MAIL From:") {
		t.Errorf("delivered: %+v", ok)
	}
	if failed.Status != Error2 || failed.Notary != "" {
		t.Errorf("failed: %+v", failed)
	}
	// Its action says failed, and it is a deferral all the same.
	n := deferred.Notary
	if deferred.Status != Deferred || n.Action() != "failed" || n.Code() != "4.2.2" ||
		n.Recipient() != "temp1@one.example" || n.Agent() != "smtp[2445]" ||
		n.Diagnostic() != "smtp; 451 (mailbox busy try later)" ||
		n.Remote() != "X-IP-addr; [127.0.0.1] (127.0.0.1|2526|127.0.0.1|39432)" {
		t.Errorf("deferred: %+v", deferred)
	}
	// Seen of the program that deletes messages: nothing to do, so it resyncs.
	resynced := []Line{{Kind: Hungry}, {Kind: Resync, Path: "1001"}, {Kind: Hungry}}
	var got []Line
	for line := range strings.Lines("#hungry\n#resync 1001\n#hungry\n") {
		got = append(got, ParseLine([]byte(strings.TrimSuffix(line, "\n"))))
	}
	if !reflect.DeepEqual(got, resynced) {
		t.Errorf("resync: %+v", got)
	}
}

// Whatever an agent says has a meaning, and printed and read again it has the
// same.
func FuzzSaid(f *testing.F) {
	for _, s := range []string{
		"", "#hungry", "#resync B/I/15582", "15582/109\t\tok3 250 ok",
		"1/2\ta\x01b\tretryat +60 busy", "1/2\t\tretryat soon", " +7x/ 8y\t\terror2\xffz",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		said := ParseLine(line)
		if said.Kind == 0 || said.Kind == Malformed && said.Reason == "" {
			t.Fatalf("%q: %+v", line, said)
		}
		if said.Kind == Malformed || len(line) > MaxLine-40 {
			return
		}
		printed := appendLine(nil, said)
		if bytes.Count(printed, []byte("\n")) != 1 {
			t.Fatalf("%q printed %q", line, printed)
		}
		if again := ParseLine(printed[:len(printed)-1]); again != said {
			t.Fatalf("%q: %+v, again %+v", line, said, again)
		}
	})
}

func FuzzJob(f *testing.F) {
	for _, s := range []string{"1001", "B/I/15582\texample.net", "1\t", "1\ta\tb", "#idle", ""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		job, err := ParseJobLine(line)
		if err != nil {
			return
		}
		printed := AppendJobLine(nil, job)
		if again, err := ParseJobLine(printed[:len(printed)-1]); err != nil || again != job {
			t.Fatalf("%q: %+v, again %+v %v", line, job, again, err)
		}
	})
}

// Reports that agents in Go compose are read as they were meant.
func FuzzReport(f *testing.F) {
	f.Add(uint64(15582), int64(109), "a\x01b", uint8(OK2), "text", true, true, int64(60))
	f.Add(uint64(1), int64(0), "", uint8(RetryAt), "5 x", false, false, int64(0))
	f.Fuzz(func(t *testing.T, id uint64, offset int64, notary string, status uint8, text string, given, relative bool, n int64) {
		r := Report{Message: id, Offset: offset, Notary: Notary(notary), Status: Status(status), Text: text}
		if r.Status == RetryAt && given {
			r.Retry = Retry{Given: true, Relative: relative, Seconds: n}
		}
		valid := id > 0 && id <= math.MaxInt64 && offset >= 0 && status > 0 && r.Status <= Connecting &&
			n > math.MinInt64 && len(notary)+len(text) < MaxLine-100
		if !valid || strings.ContainsAny(notary, "\t\n") || strings.Contains(text, "\n") {
			return
		}
		want := r
		want.Status = r.wireStatus()
		line := AppendReport(nil, r)
		if got := ParseLine(line[:len(line)-1]); got != (Line{Kind: Reported, Report: want}) {
			t.Fatalf("%+v: %q is %+v", r, line, got)
		}
	})
}

// An address of any length must not cost a report its status: a recipient that
// was delivered would be delivered again, and again.
func TestReportOfALongNotaryKeepsItsStatus(t *testing.T) {
	long := Fields{Recipient: strings.Repeat("r", 70000), Action: "delivered", Diagnostic: strings.Repeat("d", 70000)}
	line := AppendReport(nil, Report{Message: 7, Offset: 109, Notary: long.Notary(), Status: OK, Text: "250 ok"})
	said := ParseLine(bytes.TrimSuffix(line, []byte("\n")))
	if said.Kind != Reported || said.Report.Status != OK || said.Report.Message != 7 || said.Report.Offset != 109 {
		t.Errorf("a report of %d bytes reads as kind %d: %s", len(line), said.Kind, said.Reason)
	}
	if said.Report.Text != "250 ok" {
		t.Errorf("text is %.20q", said.Report.Text)
	}
}
