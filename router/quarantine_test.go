package router

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"zsched/internal/postoffice"
)

// Submissions that cannot be routed, and entries that are none.

func TestWhatCannotBeReadIsPutAside(t *testing.T) {
	o := newOffice(t, 0)
	o.write("router/1", "nonsense\n")
	o.write("router/2", "from <a@b>\nto <x@a.example>\n")
	o.write("router/3", "Subject: nobody gets it\n\nbody\n")
	o.write("router/4", "To: a b c@d\n\nbody\n")
	o.write("router/5", "To: x@a.example\nX: \x00\n\nbody\n") // nobody is known who could be told
	o.write("router/6", "to <x@a.example>\nenv-end\n\nbody\n")
	o.write("router/.hidden", "")
	o.write("corrupt-1", "")
	err := errors.Join(
		os.Link(filepath.Join(o.dir, "router/6"), filepath.Join(o.dir, "router/7")),
		os.MkdirAll(filepath.Join(o.dir, "corrupt/router"), 0o755),
		os.Rename(filepath.Join(o.dir, "corrupt-1"), filepath.Join(o.dir, "corrupt/router/1")),
	)
	if err != nil {
		t.Fatal(err)
	}
	o.router().drain()
	entries, _ := os.ReadDir(filepath.Join(o.dir, "corrupt/router"))
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	want := strings.Fields("1 1.1 1.1.reason 2 2.reason 3 3.reason 4 4.reason 5 5.reason 6 6.reason 7 7.reason")
	if !slices.Equal(names, want) {
		t.Errorf("aside: %q", names)
	}
	if left := o.files("router"); len(left) != 1 { // .hidden
		t.Errorf("left %q", left)
	}
	if queued := o.files("transport"); len(queued) != 0 {
		t.Errorf("queued %q", queued)
	}
	reason, _ := os.ReadFile(filepath.Join(o.dir, "corrupt/router/1.1.reason"))
	if !strings.Contains(string(reason), `1:1: unknown keyword "nonsense"`) {
		t.Errorf("%q", reason)
	}
}

// A name may have 255 bytes, and those of the file and its reason are longer.
func TestBadSubmissionsWithLongNamesArePutAside(t *testing.T) {
	o := newOffice(t, 0)
	for _, length := range []int{240, 241, 248, 249, 255} {
		o.write("router/"+strings.Repeat("1", length), "nonsense\n")
	}
	o.router().drain()
	if left := o.files("router"); len(left) != 0 {
		t.Errorf("left %q", left)
	}
	aside := o.files("corrupt/router")
	if len(aside) != 10 || len(filepath.Base(aside[0])) != maxAside {
		t.Errorf("aside: %q", aside)
	}
}

// A user chooses the names, and root reads the reason.
func TestReasonHasNoControlCharacters(t *testing.T) {
	o := newOffice(t, 0)
	o.write("router/1\x1b[31m\n\x9b", "nonsense\n")
	o.router().drain()
	aside := o.files("corrupt/router")
	if len(aside) != 2 {
		t.Fatalf("%q", aside)
	}
	reason, err := os.ReadFile(aside[1])
	if err != nil || strings.Count(string(reason), "\n") != 2 || strings.ContainsAny(string(reason), "\x1b") || !utf8.Valid(reason) {
		t.Errorf("%q, %v", reason, err)
	}
}

// What is no regular file is no message: it stays where it is, and nobody counts it.
func TestStrayEntriesAreLeftAlone(t *testing.T) {
	o := newOffice(t, 0)
	var log bytes.Buffer
	r := o.router()
	r.log = zerolog.New(&log)
	path := func(name string) string { return filepath.Join(o.dir, "router", name) }
	err := errors.Join(
		os.Mkdir(path("1"), 0o755), os.Mkdir(path("2full"), 0o755), os.Symlink("/etc/passwd", path("3")),
		syscall.Mkfifo(path("4"), 0o600), os.Symlink("missing", path("6")),
	)
	socket, e := net.ListenUnix("unix", &net.UnixAddr{Name: path("5"), Net: "unix"})
	if err = errors.Join(err, e); err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	o.write("router/2full/x", "")
	o.write("router/7", "from <a@b.example>\nto <x@a.example>\nenv-end\n\nbody\n")
	for name := range strings.FieldsSeq("1 2full 3 4 5 6") {
		r.add(name) // as an event does
	}
	r.drain()
	if entries, err := os.ReadDir(path("")); err != nil || len(entries) != 6 {
		t.Errorf("left in router/: %v, %v", entries, err)
	}
	if aside, queued := o.files("corrupt"), o.files("transport"); len(aside) != 0 || len(queued) != 1 || len(r.failed) != 0 || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("quarantined %q, queued %q, failed %v, log %s", aside, queued, r.failed, &log)
	}
	n := 0
	if err := postoffice.EachSubmission(o.dir, func(string, os.FileInfo) bool { n++; return true }); err != nil || n != 0 {
		t.Errorf("%d submissions, %v", n, err)
	}
}

// The size of a message counts its holes, because whoever reads it gets them as zeros. The
// router copies nothing, so that a list needs no room.
func TestSparseSubmissionDoesNotFillTheDisk(t *testing.T) {
	o := newOffice(t, 0)
	submit := func(name string) {
		o.write("router/"+name, toList)
		if err := os.Truncate(filepath.Join(o.dir, "router", name), 1<<40); err != nil {
			t.Skip(err) // the file system has no such files
		}
	}
	submit("1")
	r := o.router()
	r.drain()
	refused := o.files("transport")
	if len(refused) != 1 || len(o.files("corrupt/router")) > 0 {
		t.Fatalf("queued %q", refused)
	}
	text, _ := os.ReadFile(refused[0])
	if !strings.Contains(string(text), " error toolarge ") || strings.Contains(string(text), " smtp ") {
		t.Errorf("%s", text)
	}
	o.write("router/3", toList)
	r.machine.MaxSize = int64(len("Subject: x\n\nbody\n")) // without the envelope
	r.drain()
	if len(o.files("transport")) != 2 || len(o.files("queue")) != 2 {
		t.Errorf("a message of the maximum size is not queued: %q", o.files("transport"))
	}
}

// Its sender gets a notice, and the log says so. Without a sender, nobody can be told, and
// the file is put aside.
func TestSubmissionThatIsTooLargeIsAnswered(t *testing.T) {
	o := newOffice(t, 0)
	r := o.router()
	var log bytes.Buffer
	r.log, r.machine.MaxSize = zerolog.New(&log), 100
	for name, from := range map[string]string{"1": "from <s@a.example>\n", "2": "from <>\n"} {
		o.write("router/"+name, from+"todsn NOTIFY=FAILURE\nto <x@b.example>\nenv-end\nSubject: x\n\n"+strings.Repeat("long\n", 100))
	}
	r.drain()
	queued := o.files("transport")
	if len(queued) != 1 {
		t.Fatalf("queued %q", queued)
	}
	text, err := os.ReadFile(queued[0])
	if err != nil || !strings.Contains(string(text), " error toolarge x@b.example ") || !strings.Contains(string(text), "\nN NOTIFY=FAILURE\n") {
		t.Errorf("%s, %v", text, err)
	}
	if !strings.Contains(log.String(), `"form":"toolarge","message":"submission refused; its sender gets a notice"`) {
		t.Errorf("the log has %s", log.Bytes())
	}
	reason, _ := os.ReadFile(filepath.Join(o.dir, "corrupt/router/2.reason"))
	if !strings.Contains(string(reason), "more than the 100 of ROUTERMAXSIZE, and no sender") {
		t.Errorf("the reason is %q", reason)
	}
}

// One recipient stands for all of them in the notice, and the log has their number. A trusted user
// may have any number, and without a sender nobody can be told.
func TestSubmissionOfAUserToTooManyIsAnswered(t *testing.T) {
	o := newOffice(t, 0)
	r := o.router()
	var log bytes.Buffer
	r.log, r.machine.MaxUserRecipients = zerolog.New(&log), 2
	const three = "todsn NOTIFY=NEVER\nto <x@b.example>\nto <y@b.example>\nto <z@b.example>\nenv-end\n\nbody\n"
	queued := func() string {
		t.Helper()
		r.waiting = newWaiting(nil) // of another minute
		r.drain()
		text := ""
		for _, path := range o.files("transport") {
			data, err := os.ReadFile(path)
			if err := errors.Join(err, os.Remove(path)); err != nil {
				t.Fatal(err)
			}
			text += string(data)
		}
		return text
	}
	o.write("router/1", three)
	if text := queued(); strings.Count(text, " smtp b.example ") != 3 {
		t.Errorf("of a trusted user: %s", text)
	}
	r.machine.Trusted = nil
	o.write("router/2", "to <x@b.example>\nto <y@b.example>\nenv-end\n\nbody\n")
	if text := queued(); strings.Count(text, " smtp b.example ") != 2 {
		t.Errorf("with as many as are allowed: %s", text)
	}
	o.write("router/3", three)
	text := queued()
	if !strings.Contains(text, " error manyrecipients x@b.example ") || strings.Count(text, "b.example") != 1 || strings.Contains(text, "NOTIFY") {
		t.Errorf("with one more: %s", text)
	}
	if !strings.Contains(log.String(), `"recipients":3,"size":`) || !strings.Contains(log.String(), `"form":"manyrecipients"`) {
		t.Errorf("the log has %s", log.Bytes())
	}
	o.write("router/4", "from <>\n"+three)
	text = queued()
	reason, _ := os.ReadFile(filepath.Join(o.dir, "corrupt/router/4.reason"))
	if text != "" || !strings.Contains(string(reason), "the envelope has 3 recipients, more than the 2 ") {
		t.Errorf("the reason is %q", reason)
	}
}
