package queue

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
)

// everyone lists all recipients of a file.
func everyone(f *ctlfile.File) []int {
	var all []int
	for i := range f.Recipients {
		all = append(all, i)
	}
	return all
}

// routed reads a message that the router got, and the control file that it wrote.
func routed(t *testing.T, name string) (f *ctlfile.File, message string) {
	t.Helper()
	base := filepath.Join("../ctlfile/testdata/router/dirhash0", name)
	control, err := os.ReadFile(base + ".ctl")
	if err == nil {
		f, err = ctlfile.Parse(control)
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

// submitted is the text of all submissions of a file.
func submitted(t *testing.T, f *ctlfile.File, body string) string {
	t.Helper()
	var all strings.Builder
	for _, s := range Resubmissions(f, everyone(f)) {
		s.By = "hold@mx"
		front, err := beforeBody(s)
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(string(front) + body)
	}
	return all.String()
}

// A submission from the control file is the message that smtpserver gave to the
// router, except for the lines that no control file keeps.
func TestResubmissionsAreWhatTheRouterWasGiven(t *testing.T) {
	for _, name := range []string{"05-dsn-retfull", "06-null-sender", "13-deliverby"} {
		f, message := routed(t, name)
		envelope, content, _ := strings.Cut(message, "env-end\n")
		want := "external\nrcvdfrom STDIN (hold@mx)\n"
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
	// The router wrote no RET and no ENVID for erin.
	head := f.Headers(0) + "\n"
	equal(t, "submissions", submitted(t, f, ""), "external\nrcvdfrom STDIN (hold@mx)\n"+
		"envid QQ314159\nnotaryret HDRS\nfrom <alice@sender.example>\n"+
		"todsn NOTIFY=SUCCESS,FAILURE,DELAY ORCPT=rfc822;Bob+40Orig@orig.example\nto <bob@smtp.example>\n"+
		"todsn NOTIFY=NEVER\nto <carol@smtp.example>\n"+
		"todsn NOTIFY=FAILURE ORCPT=x400;C=us\nto <dave@b.smtp.example>\nenv-end\n"+head+
		"external\nrcvdfrom STDIN (hold@mx)\nfrom <alice@sender.example>\nto <erin@smtp.example>\nenv-end\n"+head)

	f = mustParse(t, "@ 0x00000007\ni 7\no 0\nS SOURCE=uid:1000\n"+
		"s smtp h alice 0\nr           smtp h bob 0\nN INFROM=x notify=NEVER\n"+
		"s error - alice 0\nr           smtp h carol 0\nm\nA: 1\n\n"+
		"s smtp h <alice> 0\nr           smtp h <dora> 0\nm\nA: 2\n\n")
	equal(t, "submissions", submitted(t, f, "b\n"), ""+
		"external\nrcvdfrom STDIN (hold@mx)\nidentinfo SOURCE=uid:1000\nfrom <alice>\ntodsn NOTIFY=NEVER INFROM=x\nto <bob>\nenv-end\nA: 1\n\nb\n"+
		"external\nrcvdfrom STDIN (hold@mx)\nidentinfo SOURCE=uid:1000\nchannel error\nto <carol>\nenv-end\nA: 1\n\nb\n"+
		"external\nrcvdfrom STDIN (hold@mx)\nidentinfo SOURCE=uid:1000\nfrom <alice>\nto <dora>\nenv-end\nA: 2\n\nb\n")
}

func TestFrontRefusesWhatReadsAsMore(t *testing.T) {
	to := func(user string) []*ctlfile.Recipient {
		return []*ctlfile.Recipient{{Address: ctlfile.Address{User: user}}}
	}
	from := ctlfile.Address{User: "a@b"}
	for name, s := range map[string]Submission{
		"no recipient": {From: from},
		"recipient":    {From: from, To: to("a>\nto <b")},
		"program":      {From: from, To: append(to("b"), to("|cmd")...)},
		"sender":       {From: ctlfile.Address{User: "a\nb"}, To: to("c")},
		"sender runs":  {From: ctlfile.Address{User: "|cmd"}, To: to("c")},
		"by":           {From: from, By: "a\nto <b>", To: to("c")},
		"by CR":        {From: from, By: "a\rto <b>", To: to("c")},
		"NUL":          {From: from, By: "a\x00", To: to("c")},
		"header":       {From: from, Header: "A: b\n\nC: d\n", To: to("c")},
		"header empty": {From: from, Header: "\nC: d\n", To: to("c")},
	} {
		if front, err := beforeBody(&s); err == nil {
			t.Errorf("%s: %q", name, front)
		}
	}
}

// The mail is worth more than its parameters: a bad one is left out.
func TestFrontLeavesOutParametersThatReadAsMore(t *testing.T) {
	front := func(envID, ret, dsn string) string {
		s := Submission{By: "x", EnvID: envID, Ret: ret, Header: "A: b", From: ctlfile.Address{User: "f"},
			To: []*ctlfile.Recipient{{Address: ctlfile.Address{User: "a"}, DSN: dsn}}}
		front, err := beforeBody(&s)
		if err != nil {
			t.Fatal(err)
		}
		return string(front)
	}
	equal(t, "good", front("e", "HDRS", "ORCPT=x"),
		"external\nrcvdfrom STDIN (x)\nenvid e\nnotaryret HDRS\nfrom <f>\ntodsn ORCPT=x\nto <a>\nenv-end\nA: b\n\n")
	for _, bad := range []string{"a\rto <b>", "a\nto <b>", "a b", "a\x00", "\u0085", strings.Repeat("x", 501)} {
		equal(t, bad, front(bad, bad, "BY=1;R\rto"), "external\nrcvdfrom STDIN (x)\nfrom <f>\nto <a>\nenv-end\nA: b\n\n")
	}
}

func TestGiveRouter(t *testing.T) {
	for levels := range 3 {
		dir := newPostoffice(t)
		s := Submission{By: "x", From: ctlfile.Address{User: "alice"}, To: []*ctlfile.Recipient{{Address: ctlfile.Address{User: "bob"}}}}
		file, err := s.Write(dir, "x-", strings.NewReader("body\n"))
		if err != nil {
			t.Fatal(err)
		}
		mode, inode := stat(t, file)
		equal(t, "mode", mode, 0o600)
		hash := ""
		if levels > 0 {
			hash = ctlfile.HashDir(inode, 1)
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
		front, _ := beforeBody(&s)
		equal(t, "text", string(text), string(front)+"body\n")
	}
}

// Every user may make files in router/. A file that has the name of a submission
// neither replaces it nor keeps it out.
func TestGiveRouterWhereTheNameIsTaken(t *testing.T) {
	for levels := range 2 {
		dir := newPostoffice(t)
		file := filepath.Join(dir, "mine")
		write(t, file, "mine")
		_, inode := stat(t, file)
		taken := filepath.Join("router", ctlfile.HashDir(inode, levels), strconv.FormatUint(inode, 10))
		if levels > 0 {
			for l := 'A'; l <= 'Z'; l++ {
				mkdir(t, filepath.Join(dir, "router", string(l)))
			}
		}
		write(t, filepath.Join(dir, taken), "another's")
		name, err := Router{Postoffice: dir, Levels: levels}.Give(file)
		n, ok := ctlfile.Number(filepath.Base(name))
		if err != nil || !ok || n < 1<<62 || n >= 1<<63 || name != ctlfile.HashDir(n, levels)+strconv.FormatUint(n, 10) {
			t.Fatalf("%q, %v", name, err)
		}
		for path, want := range map[string]string{taken: "another's", filepath.Join("router", name): "mine"} {
			text, err := os.ReadFile(filepath.Join(dir, path))
			equal(t, path, string(text), want)
			equal(t, "error", err, nil)
		}
		if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	}
}

func TestWriteThatFailsLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	s := Submission{From: ctlfile.Address{User: "alice"}, To: []*ctlfile.Recipient{{Address: ctlfile.Address{User: "bob"}}}}
	if file, err := s.Write(dir, "x-", strings.NewReader("")); file != "" || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without queue/: %q, %v", file, err)
	}
	dir = newPostoffice(t)
	lost := errors.New("lost")
	if file, err := s.Write(dir, "x-", iotest.ErrReader(lost)); file != "" || !errors.Is(err, lost) {
		t.Errorf("%q, %v", file, err)
	}
	s.To = nil
	if file, err := s.Write(dir, "x-", strings.NewReader("")); file != "" || err == nil {
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

// In router/ every user can make a letter directory of his own, or a link to any
// other directory.
func TestGiveRouterDoesNotUseALetterDirectoryOfAnotherUser(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"link": func(path string) error { return os.Symlink(t.TempDir(), path) },
		"directory": func(path string) error {
			if os.Geteuid() != 0 {
				t.Skip("needs root, to give a directory away")
			}
			return errors.Join(os.Mkdir(path, 0o755), os.Chown(path, 65534, 65534))
		},
	} {
		dir := newPostoffice(t)
		for l := 'A'; l <= 'Z'; l++ {
			equal(t, name, make(filepath.Join(dir, "router", string(l))), nil)
		}
		file := filepath.Join(dir, "mine")
		write(t, file, "mine")
		_, inode := stat(t, file)
		given, err := Router{Postoffice: dir, Levels: 1}.Give(file)
		equal(t, name, err, nil)
		equal(t, name, given, strconv.FormatUint(inode, 10))
	}
}

// Without a descriptor nothing is renamed: the router could have the file, and its writer would tell
// the client that it is not accepted.
func TestWithoutADescriptorNothingIsGiven(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a")
	if err := errors.Join(os.WriteFile(file, []byte("text"), 0o600), os.Mkdir(filepath.Join(dir, "router"), 0o700)); err != nil {
		t.Fatal(err)
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	name, err := Router{Postoffice: dir}.Give(file)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if _, there := os.Stat(file); name != "" || !errors.Is(err, unix.EMFILE) || there != nil {
		t.Errorf("name %q, error %v; the file: %v", name, err, there)
	}
}

// A file whose name cannot be made durable is not in router/, unless the router has taken it:
// its writer tells the client that it is not accepted.
func TestFileThatCannotBeMadeDurableIsTakenBack(t *testing.T) {
	for _, taken := range []bool{false, true} {
		dir := t.TempDir()
		var files []string
		for _, name := range []string{"a", "b"} {
			files = append(files, filepath.Join(dir, name))
			if err := os.WriteFile(files[len(files)-1], []byte("text"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Mkdir(filepath.Join(dir, "router"), 0o700); err != nil {
			t.Fatal(err)
		}
		in := func() []string {
			list, _ := filepath.Glob(filepath.Join(dir, "router", "*"))
			return list
		}
		names, errs := Router{Postoffice: dir}.GiveAll(files, func([]*postoffice.File) error {
			if list := in(); len(list) != 2 {
				t.Errorf("router/ has %q", list)
			} else if taken {
				if err := os.Rename(list[0], filepath.Join(dir, "taken")); err != nil {
					t.Error(err)
				}
			}
			return unix.EIO
		})
		if list := in(); len(list) != 0 {
			t.Errorf("router/ has %q", list)
		}
		given := 0
		for i := range names {
			if !errors.Is(errs[i], unix.EIO) {
				t.Errorf("error %v", errs[i])
			}
			if names[i] != "" {
				given++
			}
		}
		if given != map[bool]int{true: 1}[taken] {
			t.Errorf("names %q", names)
		}
	}
}

// beforeBody returns everything of a submission before its body.
func beforeBody(s *Submission) ([]byte, error) {
	var b bytes.Buffer
	err := s.Encode(&b, strings.NewReader(""))
	return b.Bytes(), err
}
