package spool

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"zsched/scheduler"
)

// The message file of a control file that is loaded.

// A sender can set the time of a message file that is still open to any time.
func TestMessageFromTheFutureArrivesNow(t *testing.T) {
	o := newTestSpool(t)
	o.put("7", control("7", toBob))
	path := filepath.Join(o.dir, "queue/7")
	future := time.Date(2250, 1, 1, 0, 0, 0, 0, time.UTC)
	check(t, os.Chtimes(path, future, future))
	m := o.open(Options{}).loaded("7")
	if m.ModifiedAt.After(time.Now()) || time.Since(m.ModifiedAt) > time.Hour {
		t.Errorf("it arrived at %v", m.ModifiedAt)
	}
	// The spoolid is that of the file.
	if info, err := os.Stat(path); err != nil || !info.ModTime().Equal(m.ModifiedAt) {
		t.Errorf("the file is of %v, %v; want %v", info.ModTime(), err, m.ModifiedAt)
	}
}

// A message without its file is put aside, but not while somebody may be making it.
func TestMessageWithoutItsFileIsPutAside(t *testing.T) {
	for _, place := range []Place{Queue, Hold} {
		o := newTestSpool(t)
		o.mkdir(place.dir() + "queue/A/H")
		o.write(place.dir()+"transport/A/H/7", control("7", toBob))
		o.age(place.dir()+"transport/A/H/7", 0)
		o.open(Options{Unwatched: true})
		o.refused(place.dir()+"A/H/7", Unfinished)
		o.age(place.dir()+"transport/A/H/7", time.Hour)
		o.refused(place.dir()+"A/H/7", Quarantined)
		o.holds("corrupt/transport/A/H/7", "corrupt/transport/A/H/7.reason")
	}
}

// What is not a file is not a message that has lost its file.
func TestSpecialFileInPlaceOfAMessageGoesToQuarantine(t *testing.T) {
	o := newTestSpool(t)
	o.write("transport/7", control("7", toBob))
	o.age("transport/7", 3*time.Hour)
	check(t, unix.Mkfifo(filepath.Join(o.dir, "queue/7"), 0o600))
	o.open(Options{})
	o.refused("7", Quarantined)
}

// A restart makes mail that is not loaded no younger.
func TestAgeOfMailThatIsNotLoadedCountsFromItsControlFile(t *testing.T) {
	o := newTestSpool(t)
	o.write("transport/A/H/7", control("7", toBob))
	o.age("transport/A/H/7", 3*time.Hour)
	for range 2 {
		o.open(Options{Unwatched: true})
		o.refused("A/H/7", Unreadable)
		u := o.s.Files().Unloaded()
		if age := time.Since(u["A/H/7"].Since); len(u) != 1 || age < 3*time.Hour || age > 4*time.Hour {
			t.Errorf("%+v, %v old", u, age)
		}
	}
}

// What is not mounted, or was moved away, may come back.
func TestMessageWaitsForTheDirectoryOfItsFile(t *testing.T) {
	o := newTestSpool(t)
	o.write("transport/A/H/7", control("7", toBob))
	o.age("transport/A/H/7", time.Hour)
	o.open(Options{}).refused("A/H/7", Unreadable)
	o.holds("transport/A/H/7")
}

// Files taken in mid-flight: what is open after a restart, when the agents
// that held locks are gone.
func TestTakeInterrupted(t *testing.T) {
	for name, want := range map[string][]string{
		"crash-after-2-jobs-860223":   {"a0@boom", "b0@boom"},
		"crash-after-2-jobs-860227":   {"b2@boom"},
		"d2-delay-885303":             {"d1@slow", "d2@slow"},
		"real-smtp-after-retry":       {"temp5@"},
		"real-smtp-kill9-after-retry": {"ok1@", "stall3@"},
		"real-smtp-kill9-stale-lock":  {"ok1@", "stall3@"},
		"real-smtp-killed-stale-lock": {"temp5@"},
		"real-smtp-stalled-inflight":  {"ok1@", "perm2@", "stall3@", "ok4@", "temp5@"},
		"startup-tags-before":         {"a@live", "b@dead", "e@norm", "f@nopid"},
		"startup-tags-after":          {"a@live", "b@dead", "e@norm", "f@nopid"},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile("testdata/control-files/" + name + ".ctl")
			check(t, err)
			path := regexp.MustCompile(`(?m)^i (\d+)$`).FindStringSubmatch(string(text))[1]
			o := newTestSpool(t)
			o.put(path, string(text))
			o.write("queue/"+path, strings.Repeat("message\n", 100))
			// Whoever has these pids today is younger than the file.
			o.age("transport/"+path, 20*365*24*time.Hour)
			m := o.open(Options{}).loaded(path)
			var open []int64
			for _, user := range want {
				open = append(open, offset(t, string(text), " "+user))
			}
			if !slices.Equal(offsets(m.Recipients), open) {
				t.Errorf("open are %v, want %v", offsets(m.Recipients), open)
			}
			if strings.Contains(o.read("transport/"+path), "\nr~") {
				t.Error("locks are left")
			}
		})
	}
}

func TestAMessageFileThatEndsBeforeItsBodyIsQuarantined(t *testing.T) {
	o := newTestSpool(t)
	o.write("transport/7", strings.Replace(control("7", toBob), "o 05", "o 100", 1))
	o.write("queue/7", "message")
	if r := o.open(Options{}).refused("7", Quarantined); !strings.Contains(r.Reason, "has 7 bytes, and its body begins after 100") {
		t.Errorf("%+v", r)
	}
}

// A user who truncates his files has no place in corrupt/, where nothing expires.
func TestTruncatedFileOfAUserIsLoaded(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to users")
	}
	o := newTestSpool(t)
	o.write("transport/7", strings.Replace(control("7", toBob), "o 05", "o 100", 1))
	o.write("queue/7", "message")
	check(t, os.Chown(filepath.Join(o.dir, "queue/7"), 65534, -1))
	o.open(Options{})
	o.loaded("7")
}

// Nothing is fed while queue/ is gone, and no message is called incomplete.
func TestAMissingQueueIsTheSpoolsFault(t *testing.T) {
	o := newTestSpool(t)
	o.put("7", control("7", toBob))
	o.open(Options{Unwatched: true})
	o.loaded("7")
	o.write("transport/8", control("8", toBob))
	check(t, os.Rename(filepath.Join(o.dir, "queue"), filepath.Join(o.dir, "aside")))
	o.refused("8", Unreadable)
	for _, replaced := range []bool{false, true} {
		if replaced {
			o.mkdir("queue")
		}
		o.s.Reread(1, "7", scheduler.Read{})
		if r := answered[scheduler.Read](o); !IsDown(r.Err) {
			t.Errorf("replaced %v: %v", replaced, r.Err)
		}
		o.s.Probe()
		if p := answer[Probed](o); p.Err == nil {
			t.Errorf("replaced %v: the spool works", replaced)
		}
	}
	check(t, os.Remove(filepath.Join(o.dir, "queue")))
	check(t, os.Rename(filepath.Join(o.dir, "aside"), filepath.Join(o.dir, "queue")))
	o.s.Probe()
	if p := answer[Probed](o); p.Err != nil {
		t.Error(p.Err)
	}
}

// Agents find queue/ beside the transport/ in which they are. After a volume was mounted over
// the postoffice, that is another queue/ than the postoffice's of the start.
func TestAQueueThatAgentsDoNotFindIsTheSpoolsFault(t *testing.T) {
	o := newTestSpool(t)
	o.put("7", control("7", toBob))
	o.open(Options{Unwatched: true})
	o.loaded("7")
	o.mkdir("other/queue")
	check(t, os.Rename(filepath.Join(o.dir, "transport"), filepath.Join(o.dir, "other/transport")))
	o.s.Reread(1, "7", scheduler.Read{})
	if r := answered[scheduler.Read](o); !IsDown(r.Err) {
		t.Errorf("%v", r.Err)
	}
	check(t, os.Rename(filepath.Join(o.dir, "other/transport"), filepath.Join(o.dir, "transport")))
	o.s.Probe()
	if p := answer[Probed](o); p.Err != nil {
		t.Error(p.Err)
	}
}
