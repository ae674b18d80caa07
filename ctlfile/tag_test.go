package ctlfile

import (
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// aSpoolFile is a control file on disk. Each descriptor that open returns stands
// for another program.
type aSpoolFile struct {
	t    *testing.T
	path string
}

func spoolFile(t *testing.T, text string) aSpoolFile {
	t.Helper()
	path := filepath.Join(t.TempDir(), "7")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return aSpoolFile{t, path}
}

func (s aSpoolFile) open() int {
	s.t.Helper()
	file, err := os.OpenFile(s.path, os.O_RDWR, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = file.Close() })
	return int(file.Fd())
}

func (s aSpoolFile) text() string {
	s.t.Helper()
	text, err := os.ReadFile(s.path)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

func (s aSpoolFile) swap(offset int64, from, to Tag, pid int) {
	s.t.Helper()
	if done, err := Swap(s.open(), offset, from, to, pid); !done || err != nil {
		s.t.Fatalf("Swap = %v, %v", done, err)
	}
}

func TestSwapWritesTagAndPIDAlone(t *testing.T) {
	for _, c := range []struct {
		name, field string // tag and pid before
		from, to    Tag
		pid         int
		want        string
	}{
		{"lock", "       ", Open, Locked, 23456, "~ 23456"},
		{"lock, one digit", "       ", Open, Locked, 1, "~     1"},
		{"lock over an old pid", "   7806", Open, Locked, 12, "~    12"},
		{"other's lock", "~  8660", Locked, Locked, 4711, "~  4711"},
		{"deliver", "~ 23456", Locked, Delivered, 0, "+      "},
		{"fail", "~ 23456", Locked, Failed, 0, "-      "},
		{"defer", "~ 23456", Locked, Open, 0, "       "},
		{"defer with pid given", "~ 23456", Locked, Open, 23456, "       "},
		{"settle", "   7806", Open, Failed, 0, "-      "},
		{"settle as delivered", "   7806", Open, Delivered, 0, "+  7806"},
		{"greatest pid", "       ", Open, Locked, 999999, "~999999"},
	} {
		for _, letter := range []string{"r", "X"} {
			line := letter + c.field + "    "
			rest := "1 smtp h u 0\nm\n\n"
			s := spoolFile(t, "i 7\n"+line+rest)
			s.swap(4, c.from, c.to, c.pid)
			equal(t, c.name, s.text(), "i 7\n"+letter+c.want+"    "+rest)
		}
	}
}

// The old agents wrote the first six digits, which is the pid of another process.
func TestLockNeverTruncatesAPID(t *testing.T) {
	for _, pid := range []int{1000000, 4194304, 1 << 40} {
		s := spoolFile(t, worked)
		s.swap(109, Open, Locked, pid)
		f := mustParse(t, s.text())
		equal(t, "PID", f.Recipients[0].PID(), MaxPID)
	}
}

// The old agents reported a lock on such lines without having written it.
func TestLineWithoutPIDFieldIsLockedByItsTag(t *testing.T) {
	for _, rest := range []string{"local - rayan 7", " local - rayan 7", "  1 x 7"} {
		front := "i 15582\no 60\ns local - rayan 7\n"
		text := func(tag Tag) string { return front + "r" + string(rune(tag)) + rest + "\nm\nTo: rayan\n\n" }
		s := spoolFile(t, text(Open))
		at := int64(len(front))
		s.swap(at, Open, Locked, 23456)
		equal(t, "file", s.text(), text(Locked))
		done, err := Swap(s.open(), at, Open, Locked, 11)
		if done || err != nil {
			t.Errorf("locked twice: %v, %v", done, err)
		}
		s.swap(at, Locked, Delivered, 0)
		equal(t, "file", s.text(), text(Delivered))
	}
	f := mustParse(t, "i 15582\ns local - rayan 7\nr~local - rayan 7\n")
	equal(t, "PID", f.Recipients[0].PID(), 0)
	equal(t, "tag", f.Recipients[0].Tag, Locked)
}

func TestDiagnosticIsMarkedByItsTagAlone(t *testing.T) {
	const line = "d 109:262:156::1047508710\tn\tt\n"
	for _, to := range []Tag{Delivered, Failed, Locked} {
		s := spoolFile(t, worked+line)
		s.swap(296, Open, to, 4711)
		equal(t, "file", s.text(), worked+"d"+string(rune(to))+line[2:])
	}
}

// An agent with many recipients in one file must not leave the kernel a list of as many locks.
func TestSwapLeavesNoFileLock(t *testing.T) {
	s := spoolFile(t, worked)
	fd := s.open()
	if done, err := Swap(fd, 109, Open, Locked, 4711); !done || err != nil {
		t.Fatal(done, err)
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(uintptr(s.open()), unix.F_OFD_GETLK, &lock); err != nil || lock.Type != unix.F_UNLCK {
		t.Errorf("a lock of type %d is left: %v", lock.Type, err)
	}
}

func TestSwapRefusesAnotherState(t *testing.T) {
	s := spoolFile(t, worked)
	for _, from := range []Tag{Locked, Delivered, Failed} {
		if done, err := Swap(s.open(), 109, from, Open, 0); done || err != nil {
			t.Errorf("from %q: %v, %v", from, done, err)
		}
	}
	equal(t, "file", s.text(), worked)
}

// Swap never reports a change that it has not written.
func TestSwapFailsLoudly(t *testing.T) {
	for _, c := range []struct {
		name, text string
		offset     int64
		pid        int
	}{
		{"no pid", worked, 109, 0},
		{"negative pid", worked, 109, -1},
		{"sender line", worked, 67, 1},
		{"middle of a line", worked, 115, 1},
		{"word that looks like a line", "i 7\nl for all\n", 8, 1},
		{"behind the end", worked, 400, 1},
		{"negative offset", worked, -1, 1},
		{"letter alone", "r", 0, 1},
	} {
		s := spoolFile(t, c.text)
		if done, err := Swap(s.open(), c.offset, Open, Locked, c.pid); done || err == nil {
			t.Errorf("%s: %v, %v", c.name, done, err)
		}
		equal(t, c.name, s.text(), c.text)
	}
	file, err := os.Open(spoolFile(t, worked).path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if done, err := Swap(int(file.Fd()), 109, Open, Failed, 0); done || err == nil {
		t.Errorf("read-only: %v, %v", done, err)
	}
}

// manyRecipients is a file of n recipients.
func manyRecipients(n int) string {
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, "r           smtp h u%d 0\n", i)
	}
	return aFile(lines.String())
}

func TestAgentsNeverLockTheSameRecipient(t *testing.T) {
	const agents, recipients = 8, 300
	s := spoolFile(t, manyRecipients(recipients))
	f := mustParse(t, s.text())
	owners := make([][]int, agents)
	var wg sync.WaitGroup
	for agent := range agents {
		fd := s.open()
		wg.Go(func() {
			for i := range f.Recipients {
				done, err := Swap(fd, f.Recipients[i].Offset, Open, Locked, 1000+agent)
				if err != nil {
					t.Error(err)
				}
				if done {
					owners[agent] = append(owners[agent], i)
				}
			}
		})
	}
	wg.Wait()
	locked := mustParse(t, s.text())
	total := 0
	for agent, owned := range owners {
		total += len(owned)
		for _, i := range owned {
			equal(t, "owner", locked.Recipients[i].PID(), 1000+agent)
		}
	}
	equal(t, "locks", total, recipients)
	equal(t, "tags", tags(locked), strings.Repeat("~", recipients))
}

// Each agent locks and fails recipients of its own in the same file. No change
// may get lost, and nothing else may change.
func TestAgentsMarkAndAppendSideBySide(t *testing.T) {
	const agents, recipients = 6, 48
	text := manyRecipients(recipients)
	s := spoolFile(t, text)
	f := mustParse(t, text)
	var wg sync.WaitGroup
	for agent := range agents {
		fd := s.open()
		random := rand.New(rand.NewSource(int64(agent)))
		wg.Go(func() {
			for i := agent; i < recipients; i += agents {
				r := &f.Recipients[i]
				swapOrFail(t, fd, r.Offset, Open, Locked)
				d := Diagnostic{
					Recipient: r.Offset, Header: r.Header, N: r.N, At: time.Unix(1, 0),
					Notary: r.User + "\x01failed", Text: strings.Repeat("x", random.Intn(9000)),
				}
				if err := new(File).AppendDiagnostic(fd, d); err != nil {
					t.Error(err)
				}
				swapOrFail(t, fd, r.Offset, Locked, Failed)
			}
		})
	}
	wg.Wait()
	after := mustParse(t, s.text())
	equal(t, "tags", tags(after), strings.Repeat("-", recipients))
	equal(t, "diagnostics", len(after.Diagnostics), recipients)
	told := map[int64]string{}
	for _, d := range after.Diagnostics {
		told[d.Recipient] = d.Notary
	}
	for _, r := range after.Recipients {
		equal(t, "notary", told[r.Offset], r.User+"\x01failed")
	}
	equal(t, "the rest", strings.ReplaceAll(s.text()[:len(text)], "\nr-", "\nr "), text)
}

func swapOrFail(t *testing.T, fd int, offset int64, from, to Tag) {
	if done, err := Swap(fd, offset, from, to, 4711); !done || err != nil {
		t.Errorf("Swap at %d from %q: %v, %v", offset, from, done, err)
	}
}

func TestSetDelaysWritesTheDelayFieldAlone(t *testing.T) {
	const quad = "smtp x y 0\nm\nSubject: x\n\n"
	for before, after := range map[string]string{
		"r           ": "r          7", // blanks in both fields
		"r~  4711    ": "r~  4711   7", // locked meanwhile
		"X-         6": "X-         7",
		"r    4711  ":  "r    4711  ",  // the field is too short
		"d           ": "d           ", // no recipient
		"r ":           "r ",           // an old file without fields
	} {
		s := spoolFile(t, "@ 0x00000007\n"+before+quad)
		if err := SetDelays(s.open(), 13, 7); err != nil {
			t.Errorf("%q: %v", before, err)
		}
		if got := s.text(); got != "@ 0x00000007\n"+after+quad {
			t.Errorf("%q: %q", before, got)
		}
	}
}

func TestDelayFieldIsRead(t *testing.T) {
	f, err := Parse([]byte("@ 0x00000007\ni 7\ns local - a 0\nr         12smtp x y 0\nr           smtp x z 0\nm\n\n"))
	if err != nil || f.Recipients[0].Delays != 12 || f.Recipients[1].Delays != 0 || f.Recipients[0].Channel != "smtp" {
		t.Errorf("%+v, %v", f, err)
	}
}
