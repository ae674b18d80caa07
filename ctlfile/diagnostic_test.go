package ctlfile

import (
	"errors"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func TestDiagnosticsInEveryForm(t *testing.T) {
	at := time.Unix(1047508710, 0)
	for _, c := range []struct {
		name, line string
		want       Diagnostic
	}{
		{"agent's", "d 109:262:156::1047508710\tn\tt", Diagnostic{Recipient: 109, Header: 262, N: 156, At: at, Notary: "n", Text: "t"}},
		{"old scheduler's", "d 109:262:158::1047508710\tn\tt", Diagnostic{Recipient: 109, Header: 262, N: 156, At: at, Notary: "n", Text: "t"}},
		{"consumed", "d+109:262:156::1047508710\tn\tt", Diagnostic{Tag: Delivered, Recipient: 109, Header: 262, N: 156, At: at, Notary: "n", Text: "t"}},
		{"blanks", "d 109: 262: 156:: 1047508710\tn\tt", Diagnostic{Recipient: 109, Header: 262, N: 156, At: at, Notary: "n", Text: "t"}},
		{"nothing known", "d 226:-1:-1::1047508710\tn\tt", Diagnostic{Recipient: 226, Header: -1, N: -1, At: at, Notary: "n", Text: "t"}},
		{"N of nobody", "d 226:262:157::1047508710\tn\tt", Diagnostic{Recipient: 226, Header: 262, N: -1, At: at, Notary: "n", Text: "t"}},
		{"beyond the file", "d 999:999:999::1047508710\tn\tt", Diagnostic{Header: -1, N: -1, At: at, Notary: "n", Text: "t"}},
		{"negative", "d -5:-7:-9::-3\tn\tt", Diagnostic{Header: -1, N: -1, Text: "t"}},
		{"recipient alone", "d 109\tn\tt", Diagnostic{Recipient: 109, Header: -1, N: -1, Notary: "n", Text: "t"}},
		{"manual's", "d 109:262:156::1047508710 ...", Diagnostic{Recipient: 109, Header: 262, N: 156}},
		{"a sixth number", "d 109:262:156::1047508710:1\tn\tt", Diagnostic{Recipient: 109, Header: 262, N: 156, At: at, Text: "t"}},
		{"no time", "d 109:262:156::now\tn\tt", Diagnostic{Recipient: 109, Header: 262, N: 156, Text: "t"}},
		{"no text", "d 109:262:156::1047508710\tn", Diagnostic{Recipient: 109, Header: 262, N: 156, At: at, Text: "n"}},
		{"empty notary", "d 109:262:156::1047508710\t\t", Diagnostic{Recipient: 109, Header: 262, N: 156, At: at}},
		{"three fields", "d 109:262:156::1047508710\ta\x01failed\x01smtp; 500\tt", Diagnostic{Recipient: 109, Header: 262, N: 156, At: at, Notary: "a\x01failed\x01smtp; 500", Text: "t"}},
		{"old expiry", "d 109:262:158::1047508710\t\x03\x01failed\x015.4.7\x01smtp; 500\x01\texpired", Diagnostic{Recipient: 109, Header: 262, N: 156, At: at, Notary: "\x03\x01failed\x015.4.7\x01smtp; 500\x01", Text: "expired"}},
		{"text with tabs and returns", "d 109:262:156::1047508710\tn\ta\tb\rc", Diagnostic{Recipient: 109, Header: 262, N: 156, At: at, Notary: "n", Text: "a\tb\rc"}},
		{"huge number", "d 99999999999999999999:262:156::1047508710\tn\tt", Diagnostic{Header: 262, N: 156, At: at, Notary: "n", Text: "t"}},
		{"garbage", "d hello", Diagnostic{Header: -1, N: -1}},
		{"empty", "d ", Diagnostic{Header: -1, N: -1}},
	} {
		f := mustParse(t, worked+c.line+"\n")
		c.want.Offset = 296
		if c.want.Tag == 0 {
			c.want.Tag = Open
		}
		equal(t, c.name, f.Diagnostics[0], c.want)
	}
}

func TestDiagnosticLineCannotBeBroken(t *testing.T) {
	d := Diagnostic{
		Recipient: 226, Header: 262, N: 156, At: time.Unix(5, 0),
		Notary: "a\nr b\tc\x01failed", Text: "550 no\nd 1:2:3::4\tx\ty\x00z",
	}
	f := mustParse(t, worked+string(d.appendTo(nil, MaxText)))
	equal(t, "lines", len(f.Diagnostics), 1)
	equal(t, "notary", f.Diagnostics[0].Notary, "a\rr b c\x01failed")
	equal(t, "text", f.Diagnostics[0].Text, "550 no\rd 1:2:3::4 x y z")
}

func TestDiagnosticsOfAnyTextAreReadBack(t *testing.T) {
	text := rapid.StringOf(rapid.RuneFrom([]rune("ab:d5 \t\r\n\x00\x01ä")))
	rapid.Check(t, func(t *rapid.T) {
		d := Diagnostic{
			Recipient: 226, Header: 262, N: rapid.SampledFrom([]int64{-1, 156}).Draw(t, "N"),
			At: time.Unix(rapid.Int64Range(-9, 1<<40).Draw(t, "at"), 0), Notary: text.Draw(t, "notary"), Text: text.Draw(t, "text"),
		}
		f, err := Parse(d.appendTo([]byte(worked), MaxText))
		if err != nil || len(f.Diagnostics) != 1 {
			t.Fatal(f, err)
		}
		if d.At.Unix() <= 0 {
			d.At = time.Time{}
		}
		clean := strings.NewReplacer("\n", "\r", "\t", " ", "\x00", " ")
		d.Offset, d.Tag, d.Notary, d.Text = 296, Open, clean.Replace(d.Notary), clean.Replace(d.Text)
		if f.Diagnostics[0] != d {
			t.Fatalf("read %+v, want %+v", f.Diagnostics[0], d)
		}
	})
}

func TestDiagnosticTextIsBounded(t *testing.T) {
	long := Diagnostic{Recipient: 226, Header: 262, N: -1, At: time.Unix(5, 0)}
	for _, text := range []string{strings.Repeat("x", MaxText), strings.Repeat("x", 1<<20), strings.Repeat("ä", MaxText), strings.Repeat("\x80", MaxText+9)} {
		long.Text, long.Notary = text, text
		d := mustParse(t, worked+string(long.appendTo(nil, MaxText))).Diagnostics[0]
		valid := utf8.ValidString(text)
		if len(d.Text) > MaxText || valid && len(d.Text) < MaxText-6 || len(d.Notary) > MaxText || len(d.Notary) < MaxText-3 || valid != utf8.ValidString(d.Notary) {
			t.Errorf("%d bytes of text, %d of notary", len(d.Text), len(d.Notary))
		}
	}
}

// Whatever servers reply to all recipients of a message, its control file does not become too large to be
// read, and what a restart needs is there.
func TestDiagnosticsOfManyRecipientsFit(t *testing.T) {
	user := strings.Repeat("u", 200)
	failed := Diagnostic{Recipient: 226, Header: 262, N: -1, Notary: user + "\x01failed\x015.2.1\x01" + strings.Repeat("n", 1<<13), Text: "550 " + strings.Repeat("t", 1<<13)}
	sent := Diagnostic{Recipient: 226, Header: 262, N: -1, Notary: "\x03\x01" + Rerouted.Action(), Text: SentText("smtp/"+strings.Repeat("h", 1000), 250_000, "S258367XMVQKNOA")}
	for _, recipients := range []int{1, 20_000, 250_000, 10_000_000} {
		f := &File{Recipients: make([]Recipient, recipients)}
		line := failed.appendTo(nil, f.maxText())
		if size := recipients * len(line); recipients <= 250_000 && size > MaxSize*3/4 {
			t.Errorf("%d recipients: the d lines have %d bytes", recipients, size)
		}
		read := mustParse(t, worked+string(line)).Diagnostics[0]
		if !strings.HasPrefix(read.Notary, user+"\x01failed\x015.2.1\x01") || !strings.HasPrefix(read.Text, "550 t") {
			t.Errorf("%d recipients: %q, %q", recipients, read.Notary, read.Text)
		}
		line = sent.appendTo(nil, f.maxText())
		moved := Diagnostic{Text: string(line[:len(line)-1])}
		if !moved.IsIn("S258367XMVQKNOA") || sentTogether(moved.Text) != 250_000 {
			t.Errorf("%d recipients: %q", recipients, line)
		}
	}
}

func TestDiagnosticsAreAppendedThenMarked(t *testing.T) {
	s := spoolFile(t, worked)
	fd := s.open()
	d := Diagnostic{Recipient: 226, Header: 262, N: -1, At: time.Unix(1047508710, 0), Notary: "carol\x01failed", Text: "no such user"}
	if err := new(File).AppendDiagnostic(fd, d, d); err != nil {
		t.Fatal(err)
	}
	const line = "d 226:262:-1::1047508710\tcarol\x01failed\tno such user\n"
	equal(t, "file", s.text(), worked+line+line)
	// The descriptor does not append after that: Swap writes at its offset.
	swapOrFail(t, fd, 226, Open, Failed)
	swapOrFail(t, fd, 296, Open, Delivered)
	equal(t, "file", s.text(), worked[:227]+"-"+worked[228:]+"d+"+line[2:]+line)
	if err := new(File).AppendDiagnostic(fd); err != nil {
		t.Error(err)
	}
}

// A crash may leave a d line without its end. A line that is appended later must
// not become part of it, and must not make an empty line.
func TestDiagnosticIsAppendedAfterATornLine(t *testing.T) {
	const torn = "d 109:262:156::1047508710\tbob\x01delive"
	s := spoolFile(t, worked+torn)
	equal(t, "Torn", mustParse(t, s.text()).Torn, 296)
	equal(t, "diagnostics", len(mustParse(t, s.text()).Diagnostics), 0)
	d := Diagnostic{Recipient: 226, Header: 262, N: -1, At: time.Unix(1, 0), Notary: "carol\x01failed"}
	if err := new(File).AppendDiagnostic(s.open(), d); err != nil {
		t.Fatal(err)
	}
	f := mustParse(t, s.text())
	equal(t, "Torn", f.Torn, -1)
	equal(t, "torn one's notary", f.Diagnostics[0].Notary, "")
	equal(t, "recipient", f.Diagnostics[1].Recipient, 226)
	equal(t, "notary", f.Diagnostics[1].Notary, "carol\x01failed")
	// The same if the writer of the torn line has completed it:
	mustParse(t, worked+"d 109:262:156::1\tn\tt\n"+s.text()[296+len(torn):])
}

// On a full disk the file stays as it was, and the error is ENOSPC, although the
// system call does not say why it wrote less.
func TestShortAppendIsRemoved(t *testing.T) {
	s := spoolFile(t, worked)
	fd := s.open()
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	small := limit
	small.Cur = uint64(len(worked)) + 20
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &small); err != nil {
		t.Fatal(err)
	}
	err := new(File).AppendDiagnostic(fd, Diagnostic{Recipient: 226, Text: "longer than the room"})
	if e := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); e != nil {
		t.Fatal(e)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Errorf("error %v", err)
	}
	equal(t, "file", s.text(), worked)
	swapOrFail(t, fd, 226, Open, Failed)
}

// A line that is not durable must not count later: an agent defers the recipient whose failure
// it could not write down.
func TestLineThatCannotBeMadeDurableIsRemoved(t *testing.T) {
	s := spoolFile(t, worked+"d 109:2")
	fd := s.open()
	fails := func(int) error { return unix.EIO }
	if err := new(File).AppendDiagnosticWith(fails, fd, Diagnostic{Recipient: 226, Notary: "carol\x01failed"}); !errors.Is(err, unix.EIO) {
		t.Errorf("error %v", err)
	}
	equal(t, "file", s.text(), worked+"d 109:2")
	// Another process has appended a line meanwhile.
	other := s.open()
	fails = func(int) error {
		if err := new(File).AppendDiagnostic(other, Diagnostic{Recipient: 109, Notary: "bob\x01delivered"}); err != nil {
			t.Error(err)
		}
		return unix.EIO
	}
	if err := new(File).AppendDiagnosticWith(fails, fd, Diagnostic{Recipient: 226, Notary: "carol\x01failed"}); !errors.Is(err, unix.EIO) {
		t.Errorf("error %v", err)
	}
	equal(t, "diagnostics", len(mustParse(t, s.text()).Diagnostics), 3)
}

func TestShortAppendIsLeftWhereOthersFollow(t *testing.T) {
	s := spoolFile(t, worked+"d 109:2")
	fd := s.open()
	if _, err := unix.Seek(fd, 0, 2); err != nil {
		t.Fatal(err)
	}
	whole := s.text() + "62:1\td 226:262:-1::1\tn\tt\n"
	if err := os.WriteFile(s.path, []byte(whole), 0); err != nil {
		t.Fatal(err)
	}
	if err := undoAppend(fd, 7); err == nil {
		t.Error("no error")
	}
	equal(t, "file", s.text(), whole)
}
