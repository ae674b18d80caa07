package spool

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Control files that are quarantined, and those that stay where they are.

// What cannot be understood is moved aside with its message, never unlinked.
func TestTakeQuarantines(t *testing.T) {
	good := control("7", toBob)
	for name, text := range map[string]string{
		"unknown format":    strings.Replace(good, "00000007", "0000000f", 1),
		"no name":           strings.Replace(good, "i 7\n", "", 1),
		"another name":      strings.Replace(good, "i 7\n", "i 8\n", 1),
		"same number":       strings.Replace(good, "i 7\n", "i 7-1\n", 1),
		"empty line":        strings.Replace(good, "o 05\n", "\no 05\n", 1),
		"block without end": strings.TrimSuffix(good, "\n"),
		"no host":           strings.Replace(good, "b.example bob@b.example 65534", "", 1),
		"empty file":        "",
		"zeros":             string(make([]byte, 500)),
	} {
		o := newTestSpool(t)
		o.put("A/H/7", text)
		r := o.open(Options{}).refused("A/H/7", Quarantined)
		o.holds("corrupt/queue/A/H/7", "corrupt/transport/A/H/7", "corrupt/transport/A/H/7.reason")
		if o.read("corrupt/transport/A/H/7") != text {
			t.Errorf("%s: the file was changed", name)
		}
		reason := o.read("corrupt/transport/A/H/7.reason")
		if !strings.HasPrefix(reason, "transport/A/H/7 and queue/A/H/7, ") || !strings.Contains(reason, r.Reason) {
			t.Errorf("%s: reason %q, and the answer's %q", name, reason, r.Reason)
		}
	}
}

func TestQuarantineOverwritesNothing(t *testing.T) {
	o := newTestSpool(t).open(Options{})
	for range 3 {
		o.put("7", "garbage")
		o.refused("7", Quarantined)
	}
	o.write("transport/7", "without a message")
	o.refused("7", Quarantined)
	o.holds("corrupt/queue/7", "corrupt/queue/7.1", "corrupt/queue/7.2",
		"corrupt/transport/7", "corrupt/transport/7.1", "corrupt/transport/7.1.reason",
		"corrupt/transport/7.2", "corrupt/transport/7.2.reason", "corrupt/transport/7.3",
		"corrupt/transport/7.3.reason", "corrupt/transport/7.reason")
}

// What changed a moment ago may still be written by somebody.
func TestTakeWaitsForAnUnfinishedFile(t *testing.T) {
	o := newTestSpool(t).open(Options{})
	good := control("7", toBob)
	for i, text := range []string{"", good[:40], strings.TrimSuffix(good, "\n")} {
		o.put("7", text)
		o.age("transport/7", 0)
		if r := o.refused("7", Unfinished); r.Tries != i+1 {
			t.Errorf("%+v, want try %d", r, i+1)
		}
		o.holds("queue/7", "transport/7")
	}
	o.put("7", good)
	o.loaded("7")
}

func TestTakeLeavesWhatIsNoFile(t *testing.T) {
	o := newTestSpool(t).open(Options{})
	o.mkdir("transport/5")
	check(t, os.Symlink("/etc/passwd", filepath.Join(o.dir, "transport/6")))
	check(t, unix.Mkfifo(filepath.Join(o.dir, "transport/7"), 0o600))
	for _, path := range []string{"4", "5", "6", "7"} {
		o.refused(path, Vanished)
	}
}

func TestTakeLeavesWhatItMayNotRead(t *testing.T) {
	restricted(t)
	o := newTestSpool(t)
	o.put("7", control("7", toBob))
	o.put("8", control("8", "r~     0    smtp b.example b@b.example 1"))
	check(t, os.Chmod(filepath.Join(o.dir, "transport/7"), 0))
	check(t, os.Chmod(filepath.Join(o.dir, "transport/8"), 0o400))
	o.open(Options{})
	o.refused("7", Unreadable)
	o.refused("8", Unreadable)
	o.holds("queue/7", "queue/8", "transport/7", "transport/8")
}

// What is looked at again is what lies there by then.
func TestTakeTellsWhereTheRefusedFileIsNow(t *testing.T) {
	restricted(t)
	o := newTestSpool(t)
	o.put("7", control("7", "r~     0    smtp b.example b@b.example 1"))
	check(t, os.Chmod(filepath.Join(o.dir, "transport/7"), 0o400))
	r := o.open(Options{HashLevels: 2}).refused("7", Unreadable)
	o.holds("queue/A/H/7", "transport/A/H/7")
	in := o.s.refusals
	in.mu.Lock()
	defer in.mu.Unlock()
	if _, waits := in.waiting["A/H/7"]; r.Name.Path != "A/H/7" || !waits {
		t.Errorf("%+v, waiting %v", r, in.waiting)
	}
}

func TestTakeLeavesWhatItCannotMoveAside(t *testing.T) {
	restricted(t)
	o := newTestSpool(t)
	o.put("7", "garbage")
	o.open(Options{})
	check(t, os.Chmod(filepath.Join(o.dir, "transport"), 0o555))
	o.refused("7", Unreadable)
	check(t, os.Chmod(filepath.Join(o.dir, "transport"), 0o755))
	// The message file was moved first, and then moved back.
	o.holds("corrupt/transport/7.reason", "queue/7", "transport/7")
	o.refused("7", Quarantined)
	o.holds("corrupt/queue/7", "corrupt/transport/7", "corrupt/transport/7.reason")
}

// The event log knows a quarantined message by the time of its message file.
func TestQuarantineKeepsTheTimeOfTheMessage(t *testing.T) {
	o := newTestSpool(t)
	o.put("7", "garbage")
	at := time.Date(2003, 3, 12, 22, 38, 19, 0, time.UTC)
	check(t, os.Chtimes(filepath.Join(o.dir, "queue/7"), at, at))
	o.age("transport/7", time.Hour)
	o.open(Options{})
	if r := o.refused("7", Quarantined); !r.ModifiedAt.Equal(at) {
		t.Errorf("the message file is of %v", r.ModifiedAt)
	}
}
