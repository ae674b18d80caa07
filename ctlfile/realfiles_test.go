package ctlfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Control files that real routers and schedulers have written.

// Parse reads every file of a real router and of real agents as the twin does, a
// second parser that knows only the layout of today's files.
func TestRealFilesReadAsTheyShould(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*.ctl")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("testdata/router/*/*.ctl")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, more...)
	equal(t, "files", len(files), 34)
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		compareTwin(t, name, string(text), mustParse(t, string(text)))
	}
}

// twin splits lines into words with the standard library and keeps them as text.
func compareTwin(t *testing.T, name, text string, f *File) {
	t.Helper()
	var senders, recipients, diagnostics []string
	last := map[string]string{}
	for offset := 0; offset < len(text); {
		line, _, _ := strings.Cut(text[offset:], "\n")
		size := len(line) + 1
		switch line[0] {
		case 'm':
			block, _, _ := strings.Cut(text[offset:], "\n\n")
			size = len(block) + 2
			last["m"] = block[2:] + "\n"
		case 's':
			senders = append(senders, line[2:])
		case 'r':
			recipients = append(recipients, line)
		case 'd':
			diagnostics = append(diagnostics, line)
		default:
			last[line[:1]] = line[2:]
		}
		offset += size
	}
	equal(t, name+" i", f.Name, last["i"])
	equal(t, name+" l", f.MessageID, last["l"])
	if !f.NullSender {
		equal(t, name+" e", f.ErrorTo, last["e"])
	}
	equal(t, name+" senders", len(f.Senders), len(senders))
	for i, s := range f.Senders {
		equal(t, name+" s", s.String(), senders[i])
	}
	equal(t, name+" recipients", len(f.Recipients), len(recipients))
	for i, r := range f.Recipients {
		line := recipients[i]
		equal(t, name+" r", r.String(), line[12:])
		equal(t, name+" tag", byte(r.Tag), line[1])
		equal(t, name+" lock", r.Lock, strings.TrimSpace(line[2:8]))
		equal(t, name+" at", text[r.Offset:r.Offset+int64(len(line))], line)
	}
	equal(t, name+" m", f.Headers(len(f.Recipients)-1), last["m"])
	equal(t, name+" diagnostics", len(f.Diagnostics), len(diagnostics))
	for i, d := range f.Diagnostics {
		equal(t, name+" d", string(d.appendTo(nil, MaxText)), diagnostics[i]+"\n")
	}
}

// Values of real files that the twin does not check, read by eye.
func TestRealFilesBinding(t *testing.T) {
	read := func(name string) *File {
		t.Helper()
		text, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return mustParse(t, string(text))
	}
	f := read("router/dirhash0/04-dsn-all.ctl")
	for i, want := range []Notify{
		NotifySuccess | NotifyFailure | NotifyDelay, NotifyNever, NotifyFailure, NotifyFailure,
	} {
		equal(t, "Notify", f.Recipients[i].Notify, want)
	}
	equal(t, "Ret", f.Recipients[0].Ret, "HDRS")
	equal(t, "no Ret", f.Recipients[3].Ret, "")
	equal(t, "EnvID", DecodeXtext(read("router/dirhash2/05-dsn-retfull.ctl").Recipients[0].EnvID), "env+id=full")

	f = read("router/dirhash0/08-quoted-localpart.ctl")
	equal(t, "sender", f.Senders[0].User, `"alice smith"@sender.example`)
	equal(t, "blanks", f.Recipients[1].User, `"bob with space"@smtp.example`)
	equal(t, "escape", f.Recipients[2].User, `"a\"b"@smtp.example`)
	equal(t, "second sender", f.Recipients[2].Sender, 1)
	equal(t, "address literal", f.Recipients[4].Host, "[192.0.2.99]")

	f = read("router/dirhash0/06-null-sender.ctl")
	equal(t, "null", f.NullSender, true)
	equal(t, "ErrorTo", f.ErrorTo, "")

	f = read("router/dirhash0/09-errors-to-resent.ctl")
	equal(t, "Obsoletes", f.Obsoletes[0], "<old@sender.example>")

	f = read("router/dirhash2/10-list-1000.ctl")
	equal(t, "recipients", len(f.Recipients), 1000)
	equal(t, "last", f.Recipients[999].User, "m0999@h49.smtp.example")

	f = read("router/dirhash2/13-deliverby.ctl")
	by, _ := DSNWord(f.Recipients[0].DSN, "by")
	equal(t, "BY", by, "3600;R")

	f = read("control-files/real-smtp-after-retry.ctl")
	equal(t, "d of root", f.Diagnostics[0].N, f.Recipients[5].N)
	equal(t, "d of perm2", f.Find(f.Diagnostics[1].Recipient), 1)
	equal(t, "tags", tags(f), "+-++ ++")
	equal(t, "tags", tags(read("control-files/startup-tags-before.ctl")), "~~+- ~")
}

func tags(f *File) string {
	var b []byte
	for _, r := range f.Recipients {
		b = append(b, byte(r.Tag))
	}
	return string(b)
}
