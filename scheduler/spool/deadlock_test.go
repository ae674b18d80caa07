package spool

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/scheduler"
)

func TestLivingAgentsHoldLocks(t *testing.T) {
	dir := t.TempDir()
	pid, lines, stop := startHelper(t, "wait", dir)
	lines.Scan()
	if !holdsLock(t, dir, pid) {
		t.Error("a running agent holds no lock")
	}
	// Init is no agent.
	if holdsLock(t, dir, 1) {
		t.Error("a process that does not work in transport/ holds a lock")
	}
	stop()
	if holdsLock(t, dir, pid) {
		t.Error("a dead process holds a lock")
	}
	for _, pid := range []int{0, -1, ctlfile.MaxPID, os.Getpid()} {
		if holdsLock(t, dir, pid) {
			t.Errorf("pid %d holds a lock", pid)
		}
	}
}

// holdsLock reports whether a process holds the lock of a recipient of a message that is not
// known. dir is transport/.
func holdsLock(t *testing.T, dir string, pid int) bool {
	t.Helper()
	transport, err := postoffice.OpenDir(postoffice.WorkingDir, dir)
	check(t, err)
	defer unix.Close(transport)
	l := locks{holders: &lockHolders{transport: transport, scheduler: os.Getpid()}}
	return l.held(&ctlfile.Recipient{Tag: ctlfile.Locked, Lock: fmt.Sprint(pid)})
}

// A process that nobody has waited for yet has a pid, but does nothing.
func TestZombiesAreDead(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "SPOOL_TEST_HELPER=wait")
	check(t, cmd.Start()) // its standard input is empty
	check(t, unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil))
	if holdsLock(t, cmd.Dir, cmd.Process.Pid) {
		t.Error("a dead process holds a lock")
	}
	check(t, cmd.Wait())
}

func locked(pid int) string {
	return fmt.Sprintf("r~%6d    smtp b.example bob@b.example 65534", pid)
}

func TestTakeClearsDeadLocks(t *testing.T) {
	pid, _, stop := startHelper(t, "wait", "")
	stop()
	for name, line := range map[string]string{
		"dead":       locked(pid),
		"zero":       locked(0),
		"overflow":   locked(ctlfile.MaxPID),
		"our own":    locked(os.Getpid()),
		"blank":      "r~          smtp b.example bob@b.example 65534",
		"unreadable": "r~  1x34    smtp b.example bob@b.example 65534",
	} {
		o := newTestSpool(t)
		o.put("7", control("7", line))
		o.age("transport/7", 0)
		if m := o.open(Options{}).loaded("7"); len(m.Recipients) != 1 {
			t.Errorf("%s: %+v", name, m)
		}
		if got := o.tags("transport/7"); got != " " {
			t.Errorf("%s: the file is\n%s", name, o.read("transport/7"))
		}
	}
}

// Files of old have no pid field, and the old program never really locked
// them: the tag alone is the lock, and after a restart nobody's.
func TestTakeClearsALockWithoutPid(t *testing.T) {
	o := newTestSpool(t)
	o.put("7", "i 7\ns local - alice 0\nr~smtp b.example bob@b.example 65534\nm\nSubject: x\n\n")
	if m := o.open(Options{}).loaded("7"); len(m.Recipients) != 1 {
		t.Errorf("%+v", m)
	}
	if got := o.read("transport/7"); got != "i 7\ns local - alice 0\nr smtp b.example bob@b.example 65534\nm\nSubject: x\n\n" {
		t.Errorf("the file is\n%s", got)
	}
}

func TestTakeRespectsLiveLocks(t *testing.T) {
	o := newTestSpool(t)
	pid, lines, stop := startHelper(t, "wait", filepath.Join(o.dir, "transport"))
	lines.Scan()
	text := control("7", toCarol, locked(pid))
	o.put("7", text)
	o.age("transport/7", 0)
	o.open(Options{HashLevels: 2}).refused("7", Busy)
	o.holds("queue/7", "transport/7")
	if o.read("transport/7") != text {
		t.Error("the file was changed")
	}
	stop()
	if m := o.loaded("7"); len(m.Recipients) != 2 {
		t.Errorf("%+v", m)
	}
}

// The pid of an agent that died may by now be somebody else's. The old
// program waited for that somebody.
func TestTakeClearsALockOfAReusedPid(t *testing.T) {
	pid, lines, _ := startHelper(t, "wait", "") // it does not work in transport/
	lines.Scan()
	o := newTestSpool(t)
	o.put("7", control("7", locked(pid)))
	if m := o.open(Options{}).loaded("7"); len(m.Recipients) != 1 {
		t.Errorf("%+v", m)
	}
}

func TestRereadSparesLiveLocks(t *testing.T) {
	dead, _, stop := startHelper(t, "wait", "")
	stop()
	another, _, stopAnother := startHelper(t, "wait", "")
	stopAnother()
	const big = ctlfile.MaxPID
	for name, c := range map[string]struct {
		died int
		had  []int  // recipients of a dead agent with a large pid, by index
		want string // tags of live, dead, and two of agents with large pids
	}{
		"none died":           {0, nil, "~ ~~"},
		"another died":        {another, nil, "~ ~~"},
		"it died just now":    {-1, nil, "  ~~"},
		"one without a field": {4194000, []int{2}, "~  ~"},
		"the other of them":   {4194001, []int{3}, "~ ~ "},
		"both, as one line":   {4194000, []int{2, 3}, "~   "},
	} {
		o := newTestSpool(t)
		pid, lines, _ := startHelper(t, "wait", filepath.Join(o.dir, "transport"))
		lines.Scan()
		if c.died < 0 {
			c.died = pid
		}
		text := control("7", locked(pid), locked(dead), locked(big), locked(big))
		o.put("7", text)
		var offsets []int64
		for _, i := range c.had {
			offsets = append(offsets, recipientsOf(t, text)[i].Offset)
		}
		o.age("transport/7", 0)
		o.open(Options{})
		o.s.Reread(5, "7", scheduler.Read{PID: c.died, Offsets: offsets})
		r := answered[scheduler.Read](o)
		got := ""
		for _, state := range r.Recipients {
			got += string(state.Tag)
		}
		if r.Op != 5 || r.Err != nil || r.Missing || got != c.want {
			t.Errorf("%s: %+v, tags %q, want %q", name, r, got, c.want)
		}
	}
}

// A lock cannot name an agent with a large pid. The test lets any pid be large, and
// the helper be no agent of ours.
func TestTakeRespectsTheLockOfAnOutlivingAgentWithALargePid(t *testing.T) {
	o := newTestSpool(t)
	pid, lines, stop := startHelper(t, "wait", filepath.Join(o.dir, "transport"))
	lines.Scan()
	o.open(Options{Unwatched: true})
	o.s.lockHolders.large, o.s.lockHolders.scheduler = pid, 1
	o.write("transport/7", control("7", toCarol, locked(ctlfile.MaxPID)))
	o.write("queue/7", "message")
	o.age("transport/7", 0)
	r := o.refused("7", Busy)
	if !strings.Contains(r.Reason, "an agent of an earlier scheduler") {
		t.Errorf("%+v", r)
	}
	if u := o.s.Files().Unloaded(); len(u) != 1 || u["7"].Reason != r.Reason || u["7"].Since.IsZero() {
		t.Errorf("%+v", u)
	}
	stop()
	if m := o.loaded("7"); len(m.Recipients) != 2 {
		t.Errorf("%+v", m)
	}
}

func TestWhoHoldsALockOfALargePid(t *testing.T) {
	dir := t.TempDir()
	pid, lines, _ := startHelper(t, "wait", dir)
	lines.Scan()
	transport, err := postoffice.OpenDir(postoffice.WorkingDir, dir)
	check(t, err)
	defer unix.Close(transport)
	elsewhere, err := postoffice.OpenDir(postoffice.WorkingDir, t.TempDir())
	check(t, err)
	defer unix.Close(elsewhere)
	for name, c := range map[string]struct {
		transport, scheduler, least int
		want                        bool
	}{
		"an agent":                   {transport, 1, pid, true},
		"an agent of ours":           {transport, os.Getpid(), pid, false},
		"a process elsewhere":        {elsewhere, 1, pid, false},
		"a process with a small pid": {transport, 1, pid + 1<<23, false},
	} {
		holders := &lockHolders{c.transport, c.scheduler, c.least}
		if got := holders.anyLarge(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// An agent locks a recipient, the scheduler ends, and the clock is set forward by an
// hour before the next scheduler starts. The agent then seems to be younger than its lock.
func TestTakeRespectsTheLockOfAnOutlivingAgentAlthoughTheClockIsSet(t *testing.T) {
	o := newTestSpool(t)
	pid, lines, stop := startHelper(t, "wait", filepath.Join(o.dir, "transport"))
	lines.Scan()
	o.open(Options{Unwatched: true})
	o.write("queue/7", "message")
	o.write("transport/7", control("7", toCarol, locked(pid)))
	o.age("transport/7", time.Hour)
	o.refused("7", Busy)
	stop()
	if m := o.loaded("7"); len(m.Recipients) != 2 {
		t.Errorf("%+v", m)
	}
}

// An agent has reported a recipient and could not remove its lock, because the disk was
// faulty. It lives on and does other work.
func TestRereadClearsTheLocksThatALiveAgentHasLeft(t *testing.T) {
	const big = ctlfile.MaxPID
	for name, c := range map[string]struct {
		atWork func(pid int) []int
		want   string // tags of the agent, init, and one with a large pid
	}{
		"not known":               {func(int) []int { return nil }, "~ ~"},
		"none works on it":        {func(int) []int { return []int{} }, "   "},
		"the agent works on it":   {func(pid int) []int { return []int{pid} }, "~  "},
		"another one works on it": {func(pid int) []int { return []int{pid + 1} }, "   "},
		"one with a large pid":    {func(int) []int { return []int{4194000} }, "  ~"},
	} {
		o := newTestSpool(t)
		pid, lines, _ := startHelper(t, "wait", filepath.Join(o.dir, "transport")) // a child of ours, as an agent is
		lines.Scan()
		o.put("7", control("7", locked(pid), locked(1), locked(big)))
		o.age("transport/7", 0)
		o.open(Options{})
		o.s.Reread(5, "7", scheduler.Read{AtWork: c.atWork(pid)})
		r := answered[scheduler.Read](o)
		got := ""
		for _, state := range r.Recipients {
			got += string(state.Tag)
		}
		if r.Err != nil || got != c.want {
			t.Errorf("%s: tags %q, want %q, %+v", name, got, c.want, r)
		}
	}
}

// recipientsOf parses a control file.
func recipientsOf(t *testing.T, text string) []ctlfile.Recipient {
	f, err := ctlfile.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f.Recipients
}
