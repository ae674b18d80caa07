package ta_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ta"
)

// runCommitter is an agent that commits. It never has a result for the user before, and
// one for the user after only when there is a file go.
func runCommitter() int {
	s := &ta.Server{Name: "play", Channel: "smtp", Sessions: 2, Marking: ta.SchedulerMarks, Commits: true}
	s.Deliver = func(m *ta.Message) {
		if m.Recipients[0].User == "before" {
			fmt.Fprintln(os.Stderr, "connecting")
			select {}
		}
		var all []*ta.Recipient
		for i := range m.Recipients {
			all = append(all, &m.Recipients[i])
		}
		if !m.Commit(all...) {
			return
		}
		for _, r := range all {
			if r.User == "after" {
				fmt.Fprintln(os.Stderr, "sent")
				for _, err := os.Stat("go"); err != nil; _, err = os.Stat("go") {
					time.Sleep(time.Millisecond)
				}
			}
			res := ta.Result{Status: ta.OK, Text: "delivered"}
			if r.User == "eve" {
				res = ta.Result{Status: ta.Error, Text: "refused", Fields: ta.Fields{Code: "5.1.1"}}
			}
			r.Report(res)
		}
	}
	return s.Main()
}

// startCommitter starts it in a postoffice whose messages have these users in place of bob
// and slow joe.
func startCommitter(t *testing.T, first, second string) (a *agent, transport string) {
	t.Helper()
	transport = filepath.Join(postoffice(t), "transport")
	for name, user := range map[string]string{"B/I/15582": first, "B/I/15583": second} {
		path := filepath.Join(transport, name)
		text := strings.Replace(get(t, path), " bob ", " "+user+" ", 1)
		put(t, path, strings.Replace(text, `smtp a.example "slow joe"`, `else a.example "slow joe"`, 1))
	}
	a = startWith(t, []string{"HELPER=committer", "TA_MARKING=scheduler"}, transport, "/proc/self/exe")
	a.dialogue("#reports\n#hungry\n#hungry")
	return a, transport
}

// barred reports whether the next scheduler would wait.
func barred(t *testing.T, transport string) bool {
	t.Helper()
	dir, err := os.Open(transport)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	return unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil
}

// What is safe to drop is dropped at once: nothing is reported, locked or marked.
func TestEndOfSchedulerDropsWhatIsNotCommitted(t *testing.T) {
	a, transport := startCommitter(t, "before", "before")
	a.dialogue("S: B/I/15582|a.example\nE: connecting\nS: B/I/15583|a.example\nE: connecting")
	if !barred(t, transport) {
		t.Error("the next scheduler would not wait for it")
	}
	a.dialogue("EOF\nexit status 0")
	for _, name := range []string{"B/I/15582", "B/I/15583"} {
		if got := fronts(t, filepath.Join(transport, name)); strings.Trim(got, "r |") != "" {
			t.Errorf("%s has the tags %q", name, got)
		}
	}
}

// What may be delivered is locked before the next scheduler may begin, and marked by the
// agent when the answer comes. A failure has its reason.
func TestEndOfSchedulerLocksWhatIsCommitted(t *testing.T) {
	a, transport := startCommitter(t, "after", "before")
	first := filepath.Join(transport, "B/I/15582")
	a.dialogue("S: B/I/15582|a.example\nE: sent\nS: B/I/15583|a.example\nE: connecting\nEOF\n#locked")
	if want := fmt.Sprintf("r~%6d", a.child.PID()); !strings.HasPrefix(fronts(t, first), want) {
		t.Errorf("tags %q, want %q first", fronts(t, first), want)
	}
	if barred(t, transport) {
		t.Error("the next scheduler would wait for it")
	}
	put(t, filepath.Join(transport, "go"), "")
	a.dialogue("exit status 0")
	if got := fronts(t, first); !strings.HasPrefix(got, "r+") {
		t.Errorf("tags %q", got)
	}
	if got := fronts(t, filepath.Join(transport, "B/I/15583")); strings.Trim(got, "r |") != "" {
		t.Errorf("of the other message: %q", got)
	}
}

// A success that was reported a moment ago is marked, in case nobody has read the report, also
// if the file has changed since. The file of another message is left alone.
func TestEndOfSchedulerMarksWhatWasReported(t *testing.T) {
	a, transport := startCommitter(t, "ann", "joe")
	both := filepath.Join(transport, "B/I/15582")
	put(t, both, strings.Replace(get(t, both), `else a.example "slow joe"`, `smtp a.example "slow joe"`, 1))
	a.dialogue("S: B/I/15582|a.example\n15582/86 delivered ok delivered\n15582/119 delivered ok delivered\n#hungry\n" +
		"S: B/I/15583|a.example\n15583/86 delivered ok delivered\n#hungry")
	put(t, both, get(t, both)) // as a scheduler that marks another recipient
	other := filepath.Join(transport, "B/I/15583")
	text := get(t, other)
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	put(t, other, text) // its inode cannot be that of the former file
	a.dialogue("EOF\nexit status 0")
	if got := fronts(t, both); !regexp.MustCompile(`^r\+.{6}\|r\+`).MatchString(got) {
		t.Errorf("tags %q", got)
	}
	if get(t, other) != text {
		t.Errorf("the file of another message is marked: %q", get(t, other))
	}
}

// A failure that comes after the end has its d line and its tag.
func TestFailureAfterTheEndOfTheSchedulerIsRecorded(t *testing.T) {
	a, transport := startCommitter(t, "after", "x")
	path := filepath.Join(transport, "B/I/15582")
	put(t, path, strings.Replace(get(t, path), `else a.example "slow joe" 0`, `smtp a.example eve 0       `, 1))
	a.dialogue("S: B/I/15582|a.example\nE: sent\nEOF\n#locked")
	put(t, filepath.Join(transport, "go"), "")
	a.dialogue("exit status 0")
	got := get(t, path)
	if tags := fronts(t, path); !regexp.MustCompile(`^r\+.{6}\|r-`).MatchString(tags) || !strings.Contains(got, "\x01failed\x015.1.1\x01") {
		t.Errorf("tags %q in\n%s", tags, got)
	}
}
