package ctlfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
)

// everyone lists all recipients of a file.
func everyone(f *File) []int {
	var all []int
	for i := range f.Recipients {
		all = append(all, i)
	}
	return all
}

// routed reads what the router was given and what it made of it.
func routed(t *testing.T, name string) (f *File, message string) {
	t.Helper()
	base := filepath.Join("testdata/router/dirhash0", name)
	control, err := os.ReadFile(base + ".ctl")
	if err == nil {
		f, err = Parse(control)
	}
	if err != nil {
		t.Fatal(err)
	}
	given, err := os.ReadFile(base + ".msg")
	if err != nil {
		t.Fatal(err)
	}
	return f, string(given)
}

// submitted is the whole of a file's submissions.
func submitted(t *testing.T, f *File, body string) string {
	t.Helper()
	var all strings.Builder
	for _, s := range f.Resubmissions(everyone(f)) {
		s.By = "hold@mx"
		front, err := s.Front()
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(string(front) + body)
	}
	return all.String()
}

// What smtpserver once gave to the router comes out of the control file again,
// but for what no control file keeps.
func TestResubmissionsAreWhatTheRouterWasGiven(t *testing.T) {
	for _, name := range []string{"05-dsn-retfull", "06-null-sender", "13-deliverby"} {
		f, message := routed(t, name)
		envelope, content, _ := strings.Cut(message, "env-end\n")
		want := "rcvdfrom STDIN (hold@mx)\n"
		for line := range strings.Lines(envelope) {
			switch word, _, _ := strings.Cut(strings.TrimSpace(line), " "); word {
			case "external", "rcvdfrom", "with", "bodytype":
			default:
				want += line
			}
		}
		_, body, _ := strings.Cut(content, "\n\n")
		want += "env-end\n" + f.Headers(0) + "\n" + body
		equal(t, name, submitted(t, f, body), want)
	}
}

func TestResubmissionsAreApartWhereTheyMust(t *testing.T) {
	f, _ := routed(t, "04-dsn-all")
	// Of erin the router kept no RET and no ENVID.
	head := f.Headers(0) + "\n"
	equal(t, "submissions", submitted(t, f, ""), "rcvdfrom STDIN (hold@mx)\n"+
		"envid QQ314159\nnotaryret HDRS\nfrom <alice@sender.example>\n"+
		"todsn NOTIFY=SUCCESS,FAILURE,DELAY ORCPT=rfc822;Bob+40Orig@orig.example\nto <bob@smtp.example>\n"+
		"todsn NOTIFY=NEVER\nto <carol@smtp.example>\n"+
		"todsn NOTIFY=FAILURE ORCPT=x400;C=us\nto <dave@b.smtp.example>\nenv-end\n"+head+
		"rcvdfrom STDIN (hold@mx)\nfrom <alice@sender.example>\nto <erin@smtp.example>\nenv-end\n"+head)

	f = mustParse(t, "@ 0x00000007\ni 7\no 0\n"+
		"s smtp h alice 0\nr           smtp h bob 0\nN INFROM=x notify=NEVER\n"+
		"s error - alice 0\nr           smtp h carol 0\nm\nA: 1\n\n"+
		"s smtp h <alice> 0\nr           smtp h <dora> 0\nm\nA: 2\n\n")
	equal(t, "submissions", submitted(t, f, "b\n"), ""+
		"rcvdfrom STDIN (hold@mx)\nfrom <alice>\ntodsn NOTIFY=NEVER\nto <bob>\nenv-end\nA: 1\n\nb\n"+
		"rcvdfrom STDIN (hold@mx)\nchannel error\nto <carol>\nenv-end\nA: 1\n\nb\n"+
		"rcvdfrom STDIN (hold@mx)\nfrom <alice>\nto <dora>\nenv-end\nA: 2\n\nb\n")
}

func TestFrontRefusesWhatReadsAsMore(t *testing.T) {
	to := func(user, dsn string) []*Recipient {
		return []*Recipient{{Quad: Quad{User: user}, DSN: dsn}}
	}
	for name, s := range map[string]Submission{
		"no recipient": {},
		"user":         {To: to("a>\nto <b", "")},
		"sender":       {From: Quad{User: "a\nb"}, To: to("c", "")},
		"N line":       {To: to("a", "NOTIFY=x\x00")},
		"envid":        {EnvID: "a\nto <b>", To: to("c", "")},
		"ret":          {Ret: "a\nto <b>", To: to("c", "")},
		"by":           {By: "a\nto <b>", To: to("c", "")},
		"NUL":          {By: "a\x00", To: to("c", "")},
		"header":       {Header: "A: b\n\nC: d\n", To: to("c", "")},
		"header empty": {Header: "\nC: d\n", To: to("c", "")},
	} {
		if front, err := s.Front(); err == nil {
			t.Errorf("%s: %q", name, front)
		}
	}
	s := Submission{By: "x", EnvID: "e", Ret: "r", Header: "A: b", From: Quad{User: "f"}, To: to("a", "ORCPT=x")}
	front, err := s.Front()
	if err != nil || !strings.HasSuffix(string(front), "env-end\nA: b\n\n") {
		t.Errorf("%q, %v", front, err)
	}
}

func TestGiveRouter(t *testing.T) {
	for levels := range 3 {
		dir := postoffice(t)
		mkdir(t, filepath.Join(dir, "public"))
		s := Submission{By: "x", To: []*Recipient{{Quad: Quad{User: "bob"}}}}
		file, err := s.Write(dir, "x-*", strings.NewReader("body\n"))
		if err != nil {
			t.Fatal(err)
		}
		mode, inode := stat(t, file)
		equal(t, "mode", mode, 0o600)
		hash := ""
		if levels > 0 {
			hash = HashDir(inode, 1)
			if levels == 1 {
				mkdir(t, filepath.Join(dir, "router", hash))
			} else {
				hash = "" // the router has none
			}
		}
		name, err := Router{Postoffice: dir, Levels: levels}.Give(file)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "name", name, hash+strconv.FormatUint(inode, 10))
		equal(t, "files", tree(t, dir), "router/"+name)
		text, _ := os.ReadFile(filepath.Join(dir, "router", name))
		front, _ := s.Front()
		equal(t, "text", string(text), string(front)+"body\n")
	}
}

func TestGiveRouterOverwritesNothing(t *testing.T) {
	dir := postoffice(t)
	file := filepath.Join(dir, "mine")
	write(t, file, "mine")
	_, inode := stat(t, file)
	write(t, filepath.Join(dir, "router", strconv.FormatUint(inode, 10)), "another's")
	name, err := Router{Postoffice: dir}.Give(file)
	if name != "" || !errors.Is(err, fs.ErrExist) {
		t.Errorf("%q, %v", name, err)
	}
	equal(t, "files", tree(t, dir), "mine router/"+strconv.FormatUint(inode, 10))
}

func TestWriteThatFailsLeavesNothing(t *testing.T) {
	dir := postoffice(t)
	s := Submission{To: []*Recipient{{Quad: Quad{User: "bob"}}}}
	if file, err := s.Write(dir, "x-*", strings.NewReader("")); file != "" || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without public/: %q, %v", file, err)
	}
	mkdir(t, filepath.Join(dir, "public"))
	lost := errors.New("lost")
	if file, err := s.Write(dir, "x-*", iotest.ErrReader(lost)); file != "" || !errors.Is(err, lost) {
		t.Errorf("%q, %v", file, err)
	}
	s.To = nil
	if file, err := s.Write(dir, "x-*", strings.NewReader("")); file != "" || err == nil {
		t.Errorf("for nobody: %q, %v", file, err)
	}
	equal(t, "files", tree(t, dir), "")
	if name, err := (Router{Postoffice: dir}).Give(filepath.Join(dir, "none")); name != "" || err == nil {
		t.Errorf("%q, %v", name, err)
	}
}

func mkdir(t *testing.T, dir string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
