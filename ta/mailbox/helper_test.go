package mailbox

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ta"
)

func (o testSpool) mode(name string) string {
	o.t.Helper()
	info, err := os.Lstat(o.path(name))
	if err != nil {
		o.t.Fatal(err)
	}
	return info.Mode().String()
}

func TestMboxIsMadeAndAppendedTo(t *testing.T) {
	o := newTestSpool(t)
	a := o.agent(Options{})
	o.delivered(a, mail("bob 0", `"\\Carol" 0`))
	expect(t, o.mode("spool/bob"), "-rw-------")
	one := o.read("spool/bob")
	o.delivered(a, mail("bob 0"))
	expect(t, o.read("spool/bob"), one+one)
	expect(t, fmt.Sprint(o.names("spool")), "[Carol bob]")
}

func TestMboxGetsTwoNewlinesBeforeTheNextMessage(t *testing.T) {
	for before, gap := range map[string]string{
		"": "", "\n": "\n", "x": "\n\n", "x\n": "\n", "x\n\n": "", "\n\n": "", "x\n\n\n": "",
	} {
		o := newTestSpool(t)
		o.write("spool/bob", before)
		o.delivered(o.agent(Options{}), mail("bob 0"))
		if got := o.read("spool/bob"); !strings.HasPrefix(got, before+gap+"From alice") {
			t.Errorf("%q became %q", before, got)
		}
	}
}

func TestMboxKeepsItsAccessTime(t *testing.T) {
	o := newTestSpool(t)
	o.write("spool/bob", "old\n\n")
	long := time.Unix(1000000000, 0)
	if err := os.Chtimes(o.path("spool/bob"), long, long); err != nil {
		t.Fatal(err)
	}
	o.delivered(o.agent(Options{}), mail("bob 0"))
	var st syscall.Stat_t
	if err := syscall.Stat(o.path("spool/bob"), &st); err != nil {
		t.Fatal(err)
	}
	if st.Atim.Sec != long.Unix() || st.Mtim.Sec == long.Unix() {
		t.Errorf("accessed at %v, modified at %v", st.Atim, st.Mtim)
	}
}

var uniqueNew = regexp.MustCompile(`^\d+\.M\d{6}P\d+R[0-9a-f]{16}\.here,S=(\d+)$`)

func TestMaildirIsMadeAndDeliveredTo(t *testing.T) {
	o := newTestSpool(t)
	a := o.agent(Options{Place: Place{Path: "%h/Maildir/"}})
	for range 3 {
		o.delivered(a, mail("bob 0"))
	}
	expect(t, fmt.Sprint(o.names("home/Maildir")), "[cur new tmp]")
	for _, d := range []string{"", "/cur", "/new", "/tmp"} {
		expect(t, o.mode("home/Maildir"+d), "drwx------")
	}
	names := o.names("home/Maildir/new")
	if len(names) != 3 || len(o.names("home/Maildir/tmp")) != 0 {
		t.Errorf("new has %q, tmp %q", names, o.names("home/Maildir/tmp"))
	}
	for _, name := range names {
		text := o.read("home/Maildir/new/" + name)
		expect(t, text, "Return-Path: <alice@example.net>\nDelivered-To: bob@example.org\nX-Orig-To: bob\nSubject: x\n\nhello\n")
		if found := uniqueNew.FindStringSubmatch(name); found == nil || found[1] != fmt.Sprint(len(text)) {
			t.Errorf("name %q of %d bytes", name, len(text))
		}
		expect(t, o.mode("home/Maildir/new/"+name), "-rw-------")
	}
}

func TestUniqueNamesAreFileNames(t *testing.T) {
	if name := uniqueName("a/b:c", noon); strings.ContainsAny(name, "/:") || !strings.HasSuffix(name, `.a\057b\072c`) {
		t.Error(name)
	}
}

func TestFileIsAppendedTo(t *testing.T) {
	o := newTestSpool(t)
	o.delivered(o.agent(Options{}), mail(o.path("home/file")+" "+us, "/dev/null "+us))
	if got := o.read("home/file"); !strings.HasPrefix(got, "From alice") || strings.Contains(got, "Delivered-To") ||
		!strings.Contains(got, "\nX-Orig-To: "+o.path("home/file")+"\n") {
		t.Errorf("%q", got)
	}
}

func TestUnfitFilesAreLeftAlone(t *testing.T) {
	for name, spoil := range map[string]func(path, other string) error{
		"symbolic link": func(path, other string) error { return os.Symlink(other, path) },
		"2 links":       func(path, other string) error { return os.Link(other, path) },
		"regular":       func(path, _ string) error { return unix.Mkfifo(path, 0o600) },
		"directory":     func(path, _ string) error { return os.Mkdir(path, 0o700) },
		"no such file":  func(path, _ string) error { return os.Remove(filepath.Dir(path)) },
	} {
		t.Run(name, func(t *testing.T) {
			o := newTestSpool(t)
			o.write("home/other", "mine\n")
			if err := spoil(o.path("spool/bob"), o.path("home/other")); err != nil {
				t.Fatal(err)
			}
			a := o.agent(Options{})
			o.refused(a, mail("bob 0"), "deferred", name)
			if name != "no such file" {
				o.refused(a, mail(o.path("spool/bob")+" "+us), "error2", `5\.7\.1 .*`+name)
			}
			expect(t, o.read("home/other"), "mine\n")
			if slices := o.names("spool"); strings.Contains(fmt.Sprint(slices), "lock") {
				t.Errorf("left: %q", slices)
			}
		})
	}
}

func TestUnfitMaildirsAreLeftAlone(t *testing.T) {
	for _, part := range []string{"", "/tmp", "/new", "/cur"} {
		o := newTestSpool(t)
		o.mkdir("elsewhere")
		if part != "" {
			o.mkdir("home/Maildir")
		}
		if err := os.Symlink(o.path("elsewhere"), o.path("home/Maildir"+part)); err != nil {
			t.Fatal(err)
		}
		o.refused(o.agent(Options{Place: Place{Path: "%h/Maildir/"}}), mail("bob 0"), "deferred", `is not a directory`)
		if names := o.names("elsewhere"); len(names) > 0 {
			t.Errorf("%q: the link was followed: %q", part, names)
		}
	}
}

// A message that cannot be read is nothing that a mailbox has to know.
func TestUnreadableMessageLeavesNothing(t *testing.T) {
	for _, path := range []string{"spool/bob", "spool/bob/"} {
		o := newTestSpool(t)
		o.write("spool/other", "")
		l := &message{Separator: []byte("From x\n"), Length: 1 << 20, file: breaking{}}
		out := (&request{Path: []byte(o.path(path[:9]) + path[9:]), Message: l, Host: "here"}).do()
		if out.Code != "4.3.0" || !strings.Contains(out.Text, "read the message: broken") {
			t.Errorf("%+v", out)
		}
		if left := fmt.Sprint(o.names("spool"), o.names("spool/bob/new"), o.names("spool/bob/tmp")); strings.Contains(left, "lock") || !strings.HasSuffix(left, " [] []") {
			t.Errorf("%s: left is %s", path, left)
		}
	}
}

// breaking is a message file that cannot be read beyond its first half.
type breaking struct{}

func (breaking) ReadAt(b []byte, at int64) (int, error) {
	if at >= 1<<19 {
		return 0, fmt.Errorf("broken")
	}
	return len(b), nil
}

// If the agent is killed while it writes the message, the helper must not take the
// beginning for the whole.
func TestPartOfAMessageIsNotDelivered(t *testing.T) {
	o := newTestSpool(t)
	for _, name := range []string{"spool/bob", "spool/box/"} {
		req := o.requestFor(name)
		text := "hello\nworld\n"
		req.Message = &message{Separator: []byte("From x\n"), Header: []byte("A: b\n"), Length: int64(len(text)), file: strings.NewReader(text)}
		var stream bytes.Buffer
		if err := req.send(&stream); err != nil {
			t.Fatal(err)
		}
		whole := stream.Bytes()
		for cut := range whole {
			got, err := readRequest(bufio.NewReader(bytes.NewReader(whole[:cut])))
			if err != nil {
				continue
			}
			if out := got.do(); out.Status != ta.Deferred || !strings.Contains(out.Text, "read the message: unexpected EOF") {
				t.Fatalf("%d of %d bytes: %+v", cut, len(whole), out)
			}
		}
		got, err := readRequest(bufio.NewReader(bytes.NewReader(whole)))
		if err != nil {
			t.Fatal(err)
		}
		if out := got.do(); out.Status != ta.OK {
			t.Errorf("%+v", out)
		}
	}
	expect(t, o.read("spool/bob"), "From x\nA: b\n\nhello\nworld\n\n")
	if n := len(o.names("spool/box/new")); n != 1 {
		t.Errorf("%d messages", n)
	}
}

// A message that cannot be read is deferred with the reason, and what was written of
// it is removed.
func TestHelperGetsOnlyPartOfAnUnreadableMessage(t *testing.T) {
	o := newTestSpool(t)
	h := helper{path: "/proc/self/exe", args: []string{"mailbox", HelperArg}, env: []string{"GORACE=atexit_sleep_ms=0"}}
	uid := os.Getuid()
	if uid == 0 {
		uid = otherUID
		o.own("spool", otherUID, otherGID, 0o700)
		if err := os.Chmod(filepath.Dir(o.dir), 0o711); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"spool/bob", "spool/box/"} {
		req := o.requestFor(name)
		req.UID = uid
		req.Message = &message{Separator: []byte("From x\n"), Length: 1 << 20, file: breaking{}}
		out := h.run(req, nil, patience)
		if out.Status != ta.Deferred || !strings.Contains(out.Text, "read the message: broken") {
			t.Errorf("%s: %+v", name, out)
		}
	}
	expect(t, fmt.Sprint(o.names("spool"), o.names("spool/box/tmp"), o.names("spool/box/new")), "[box] [] []")
}

// The envelope, with blind recipients, and the log of the scheduler are out of reach of
// a helper: the shell here has all that a helper has.
func TestHelperHasNoDescriptorOfTheMessageOrTheLog(t *testing.T) {
	o := newTestSpool(t)
	o.write("message", "envelope\nbody\n")
	file, err := os.Open(o.path("message"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	req := o.requestFor("spool/bob")
	req.Message = &message{Offset: 9, Length: 5, file: file}
	h := helper{path: "/bin/sh", args: []string{"sh", "-c", `
		for fd in /proc/$$/fd/*; do readlink $fd; done >` + o.path("fds") + `
		cat >` + o.path("input") + `; echo noise >&2; echo '{"Status":1}'`}, env: []string{"PATH=/usr/bin:/bin"}}
	// The noise comes in place of the outcome, and not to the log.
	if out := h.run(req, nil, patience); out.Status != ta.Deferred || !strings.Contains(out.Text, "noise") {
		t.Errorf("%+v", out)
	}
	for _, path := range strings.Fields(o.read("fds")) {
		if !strings.HasPrefix(path, "pipe:") && path != o.path("fds") {
			t.Errorf("it has %s", path)
		}
	}
	if input := o.read("input"); strings.Contains(input, "envelope") || !strings.Contains(input, "body") {
		t.Errorf("it reads %q", input)
	}
}

// A helper that is not told who to become does nothing.
func TestHelperDoesNotStayRoot(t *testing.T) {
	o := newTestSpool(t)
	h := helper{path: "/proc/self/exe", args: []string{"mailbox", HelperArg}, env: []string{"GORACE=atexit_sleep_ms=0"}}
	req := o.requestFor("spool/bob")
	req.Message = &message{Separator: []byte("From x\n"), file: zeros{}}
	if out := h.run(req, nil, patience); out.Status != ta.Deferred || !strings.Contains(out.Text, "uid 0") {
		t.Errorf("%+v", out)
	}
	expect(t, fmt.Sprint(o.names("spool")), "[]")
}
