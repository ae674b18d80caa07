package ta

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Control and message files that are missing, changed, moved or not safe to read.

// An order removes mail that an agent still has in its input.
func TestControlFileThatIsGoneIsNoWarning(t *testing.T) {
	o := newTestSpool(t)
	for path, warns := range map[string]bool{"gone": false, "x": true} {
		o.put("x", "rubbish")
		var out, log bytes.Buffer
		s := &Server{
			Channel: "smtp", Dir: o.transport(), In: strings.NewReader(path + "\ta.example\n"), Out: &out, Err: &log,
			Deliver: func(m *Message) { t.Errorf("delivers %s", m.Job.Path) },
		}
		if err := s.Serve(context.Background()); err != nil {
			t.Fatal(err)
		}
		expect(t, out.String(), "#hungry\n#resync "+path+"\n#hungry\n")
		if (log.Len() > 0) != warns {
			t.Errorf("of %q, the log has %q", path, log.String())
		}
	}
}

func TestMissingMessageFileFailsTheRecipients(t *testing.T) {
	o := newTestSpool(t)
	o.put("1", rcpt("smtp", "a.example", "a"), rcpt("smtp", "b.example", "b"))
	if err := os.Remove(filepath.Join(o.dir, "queue/1")); err != nil {
		t.Fatal(err)
	}
	s := &Server{Deliver: func(m *Message) { t.Errorf("delivers %s", m.Job.Path) }}
	expect(t, o.serve(s, "1\ta.example\n"),
		"#hungry\n1/82\t\terror2 message file is missing; perhaps it should be sent again\n#resync 1\n#hungry\n")
	expect(t, o.tags("1"), "- ")
	if text := o.read("transport/1"); !strings.Contains(text, "\td 82:") && !strings.Contains(text, "\nd 82:") {
		t.Errorf("no d line in %s", text)
	}
}

// A file system that is not mounted, or a directory that was renamed for a moment,
// is no reason to give up mail.
func TestMissingQueueFailsNobody(t *testing.T) {
	o := newTestSpool(t)
	for _, dir := range []string{"transport/A", "queue/A"} {
		if err := os.Mkdir(filepath.Join(o.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	o.put("1", rcpt("smtp", "a.example", "a"))
	o.put("A/2", rcpt("smtp", "a.example", "a"))
	s := &Server{Deliver: func(m *Message) { t.Errorf("delivers %s", m.Job.Path) }}
	if err := os.Rename(filepath.Join(o.dir, "queue/A"), filepath.Join(o.dir, "A")); err != nil {
		t.Fatal(err)
	}
	expect(t, o.serve(s, "A/2\ta.example\n"), "#hungry\n#resync A/2\n#hungry\n")
	expect(t, o.tags("A/2"), " ")
	if err := os.Rename(filepath.Join(o.dir, "queue"), filepath.Join(o.dir, "aside")); err != nil {
		t.Fatal(err)
	}
	expect(t, o.serve(s, "1\ta.example\n"), "#hungry\n#resync 1\n#hungry\n")
	expect(t, o.tags("1"), " ")
	if text := o.read("transport/1"); strings.Contains(text, "\nd ") {
		t.Errorf("there is a diagnostic: %s", text)
	}
}

// swapBeforeRead calls swap before the first job line is read.
type swapBeforeRead struct {
	io.Reader
	swap func()
}

func (r *swapBeforeRead) Read(b []byte) (int, error) {
	if r.swap != nil {
		r.swap()
		r.swap = nil
	}
	return r.Reader.Read(b)
}

// A volume that is mounted over the postoffice while the agent runs has another queue/,
// which lacks the message files.
func TestAnotherQueueFailsNobody(t *testing.T) {
	o := newTestSpool(t)
	o.put("1", rcpt("smtp", "a.example", "a"))
	queue := filepath.Join(o.dir, "queue")
	var out, log bytes.Buffer
	s := &Server{
		Channel: "smtp", Dir: o.transport(), Out: &out, Err: &log, Deliver: func(m *Message) { t.Errorf("delivers %s", m.Job.Path) },
		In: &swapBeforeRead{strings.NewReader("1\ta.example\n"), func() {
			if err := errors.Join(os.Rename(queue, queue+".old"), os.Mkdir(queue, 0o755)); err != nil {
				t.Error(err)
			}
		}},
	}
	if err := s.Serve(context.Background()); err != nil {
		t.Fatal(err)
	}
	expect(t, out.String(), "#hungry\n#resync 1\n#hungry\n")
	expect(t, o.tags("1"), " ")
	if !strings.Contains(log.String(), "queue/ is not the directory that it was when the agent started") {
		t.Errorf("the log has %q", log.String())
	}
}

// A message file that ends before its body is damaged. It is not an empty message.
func TestCutMessageFileIsNotDelivered(t *testing.T) {
	o := newTestSpool(t)
	o.put("1", rcpt("smtp", "a.example", "a"))
	if err := os.Truncate(filepath.Join(o.dir, "queue/1"), 1); err != nil {
		t.Fatal(err)
	}
	s := &Server{Deliver: func(m *Message) { t.Errorf("delivers %s", m.Job.Path) }}
	if got := o.serve(s, "1\ta.example\n"); !strings.Contains(got, "\tdeferred the message file is damaged: it has 1 bytes") {
		t.Errorf("%q", got)
	}
	expect(t, o.tags("1"), " ")
}

// Somebody moves both files away, to hold/ say, while an agent opens them: the
// message file goes first.
// TestMessageFileThatItsOwnerHasMadeHugeIsNotDelivered: a router leaves it to him.
func TestMessageFileThatItsOwnerHasMadeHugeIsNotDelivered(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give the file to a user")
	}
	const body = 24 // what is before it does not count
	for _, c := range []struct {
		owner int
		size  int64
		large bool
	}{{4711, 1 << 40, true}, {4711, body + 1<<20, false}, {4711, body + 1<<20 + 1, true}, {0, body + 1<<20 + 1, false}} {
		o := newTestSpool(t)
		o.put("B/I/7", rcpt("smtp", "a.example", "bob"))
		path := filepath.Join(o.dir, "queue/B/I/7")
		if err := errors.Join(os.Truncate(path, c.size), os.Chown(path, c.owner, -1)); err != nil {
			t.Fatal(err)
		}
		s := &Server{MaxSize: 1 << 20, Deliver: func(m *Message) {
			m.ReportRest(func(*Recipient) Result { return Result{Status: OK} })
		}}
		got := o.serve(s, "B/I/7\ta.example\n")
		if deferred := strings.Contains(got, "\tdeferred the message file is larger than ROUTERMAXSIZE"); deferred != c.large {
			t.Errorf("%d bytes of user %d: %q", c.size, c.owner, got)
		}
	}
}

func TestMovedMessageIsNotMissing(t *testing.T) {
	o := newTestSpool(t)
	o.put("1", rcpt("smtp", "a.example", "a"))
	var out bytes.Buffer
	at := newSession(&Server{Channel: "smtp", Dir: o.transport()}, newOutput(&out), 0)
	m, err := at.open(JobLine{Path: "1", Host: "a.example"})
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	if m.moved() {
		t.Error("moved before it was")
	}
	if err := os.Rename(filepath.Join(o.dir, "transport/1"), filepath.Join(o.dir, "public/1")); err != nil {
		t.Fatal(err)
	}
	if !m.moved() {
		t.Error("not moved")
	}
	o.put("1", rcpt("smtp", "a.example", "other"))
	if !m.moved() {
		t.Error("another of that name is not it")
	}
}

// TestMessageFileOfAnotherMessageIsNotRead: an agent has outlived its scheduler. The next
// one has finished the message, and a new message has got its number.
func TestMessageFileOfAnotherMessageIsNotRead(t *testing.T) {
	o := newTestSpool(t)
	o.put("1", rcpt("smtp", "a.example", "a"))
	var out bytes.Buffer
	m, err := newSession(&Server{Channel: "smtp", Dir: o.transport(), Marking: SchedulerMarks}, newOutput(&out), 0).open(JobLine{Path: "1", Host: "a.example"})
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	if err := errors.Join(m.findMessage(), os.Remove(filepath.Join(o.dir, "transport/1")), os.Remove(filepath.Join(o.dir, "queue/1"))); err != nil {
		t.Fatal(err)
	}
	o.put("1", rcpt("smtp", "a.example", "other"))
	if _, err := m.Whole(); err == nil {
		t.Error("the message file of another message was opened")
	}
}

func TestMessageFileWithALeaseDoesNotBlockASession(t *testing.T) {
	o := newTestSpool(t)
	o.put("B/I/7", rcpt("smtp", "a.example", "bob"))
	f, err := os.OpenFile(filepath.Join(o.dir, "queue/B/I/7"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const setLease = 1024
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), setLease, syscall.F_WRLCK); errno != 0 {
		t.Skipf("no leases here: %v", errno)
	}
	said := o.serve(&Server{Deliver: func(m *Message) {
		if _, err := m.Body(); !errors.Is(err, syscall.EAGAIN) {
			t.Errorf("open the message file: %v", err)
		}
	}}, "B/I/7\ta.example\n")
	if !strings.Contains(said, "deferred") {
		t.Errorf("the agent answers %q", said)
	}
}

func TestControlFileThatOthersCanWriteIsRefused(t *testing.T) {
	deliveries := 0
	s := &Server{Deliver: func(m *Message) { deliveries++; with(Result{Status: OK})(m) }}
	try := func(owner int, mode os.FileMode, want int) {
		t.Helper()
		o := newTestSpool(t)
		o.put("B/I/7", rcpt("smtp", "a.example", "bob"))
		name := filepath.Join(o.dir, "transport/B/I/7")
		if err := errors.Join(os.Chown(name, owner, -1), os.Chmod(name, mode)); err != nil {
			t.Fatal(err)
		}
		deliveries = 0
		said := o.serve(s, "B/I/7\ta.example\n")
		if deliveries != want || strings.Contains(said, "#resync B/I/7") == (want > 0) {
			t.Errorf("owner %d, mode %04o: %d deliveries, the agent answers %q", owner, mode, deliveries, said)
		}
	}
	try(-1, 0o640, 1)
	try(-1, 0o660, 1)
	try(-1, 0o646, 0)
	if os.Getuid() != 0 {
		t.Log("the rest needs root")
		return
	}
	try(4711, 0o460, 0)
	s.SenderOwned = true
	try(4711, 0o460, 1)
	try(4711, 0o462, 0)
}
