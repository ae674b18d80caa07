package agent

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// How agents are started: environment, limits, priority, user and groups.

func TestStartErrors(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		change func(*Spec)
		want   string
	}{
		{func(s *Spec) { s.Path = filepath.Join(dir, "none") }, "/none: no such file or directory"},
		{func(s *Spec) { s.Path = plain }, "/plain: permission denied"},
		{func(s *Spec) { s.Path = dir }, ": permission denied"},
		{func(s *Spec) { s.Dir = filepath.Join(dir, "gone") }, "working directory: stat "},
		{func(s *Spec) { s.Dir = plain }, "is not a directory"},
	} {
		spec := Spec{Path: "/bin/sh", Args: []string{"sh"}, UID: -1, GID: -1}
		c.change(&spec)
		fds := openFiles(t)
		_, err := Start(spec, func([]Event) { t.Error("sink was called") })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", spec, err, c.want)
		}
		if now := openFiles(t); now != fds {
			t.Errorf("%+v: %d descriptors are left", spec, now-fds)
		}
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc")
	}
	return len(list)
}

// answers collects the lines "name value" that the part "telling" writes.
func (a *agent) answers() map[string]string {
	a.t.Helper()
	_, stderr, e := a.rest()
	if !e.Clean {
		a.t.Fatalf("%q, %+v", stderr, e)
	}
	m := map[string]string{}
	for _, line := range stderr {
		name, value, _ := strings.Cut(line, " ")
		m[name] += value + ";"
	}
	return m
}

func TestChildStartsAsSpecified(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	other := begin(t, "mute") // its descriptors must not be inherited
	a := begin(t, "telling", func(s *Spec) {
		s.Args = []string{"argv0", "-c", "smtp"}
		s.Env = append(s.Env, "FOO=bar baz")
		s.Dir = dir
		s.Priority, s.PrioritySet = 5, true
	})
	a.send("tell\n")
	got := a.answers()
	for name, want := range map[string]string{
		"args": `["argv0" "-c" "smtp"];`,
		"env":  `["HELPER=telling" "` + quick + `" "FOO=bar baz"];`,
		"cwd":  dir + ";",
		"nice": "5;",
		"fd":   "0 socket;1 socket;2 pipe;",
		"same": "true;",
	} {
		if got[name] != want {
			t.Errorf("%s: %s, want %s", name, got[name], want)
		}
	}
	other.CloseWrite()

	// The runtime of an agent in Go raises the limit again.
	sh := begin(t, "", func(s *Spec) {
		s.Path, s.Args = "/bin/sh", []string{"sh", "-c", "read go; echo soft `ulimit -Sn` >&2; exit 0"}
		s.NoFile = 77
	})
	sh.send("go\n")
	if got := sh.answers(); got["soft"] != "77;" {
		t.Errorf("soft limit %s", got["soft"])
	}
}

// A limit above the hard one is the hard one. The words of the command are as they were.
func TestLimitOfFiles(t *testing.T) {
	tells := func(s *Spec) {
		s.Path, s.Args = "/bin/sh", []string{"/bin/sh", "-c", `[ $(ulimit -S -n) = $(ulimit -H -n) ] && echo "$0 $1" >&2`, "a b", "c"}
		s.NoFile = 1 << 40
	}
	_, stderr, end := begin(t, "", tells).rest()
	if got := strings.Join(stderr, ";"); got != "a b c" || !end.Clean {
		t.Errorf("the agent wrote %q, %v", got, end)
	}
	missing := Spec{Path: "/none/such", Args: []string{"x"}, UID: -1, GID: -1, NoFile: 77}
	if _, err := Start(missing, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing program: %v", err)
	}
}

func TestChildHasASessionOfItsOwn(t *testing.T) {
	a := begin(t, "mute")
	session, err := unix.Getsid(a.PID())
	if err != nil || session != a.PID() {
		t.Errorf("process %d is in session %d, %v", a.PID(), session, err)
	}
}

func TestNiceIsAddedToOurs(t *testing.T) {
	own, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	a := begin(t, "telling", func(s *Spec) { s.Nice = 3 })
	a.send("tell\n")
	want := fmt.Sprintf("%d;", min(20-own+3, 19))
	if got := a.answers(); got["nice"] != want {
		t.Errorf("nice %s, want %s", got["nice"], want)
	}
	if now, _ := unix.Getpriority(unix.PRIO_PROCESS, 0); now != own {
		t.Errorf("our own went from %d to %d", own, now)
	}
}

func TestUserAndGroups(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can change the user")
	}
	if err := unix.Setgroups([]int{1, 2, 3}); err != nil {
		t.Skip("no right to change groups: ", err)
	}
	defer unix.Setgroups(nil)
	const tell = "echo uid `id -u` >&2; echo gid `id -g` >&2; echo groups `id -G` >&2"
	for _, c := range []struct {
		uid, gid, fileGroup int
		want                string
	}{
		{-1, -1, 0, "0;0;0;"},
		{65534, 65533, 0, "65534;65533;65533;"},
		{65534, -1, 0, "65534;0;0;"},
		{65534, 65533, 65532, "65534;65533;65533 65532;"},
		{-1, 65533, 65532, "0;65533;65533;"}, // root needs no group
	} {
		a := begin(t, "", func(s *Spec) {
			s.Path, s.Args = "/bin/sh", []string{"sh", "-c", tell}
			s.Env = []string{"PATH=/bin:/usr/bin"}
			s.UID, s.GID, s.FileGroup = c.uid, c.gid, c.fileGroup
		})
		got := a.answers()
		if s := got["uid"] + got["gid"] + got["groups"]; s != c.want {
			t.Errorf("%d/%d became %s, want %s", c.uid, c.gid, s, c.want)
		}
	}
}

// As an ordinary user, a request for another is refused in words. Root plays
// the ordinary user with a copy of the test binary that one can read.
func TestOrdinaryUserCannotBecomeAnother(t *testing.T) {
	if os.Geteuid() != 0 {
		if got := startAsRoot(); !strings.Contains(got, "only root can run an agent as user 0") {
			t.Errorf("error %q", got)
		}
		return
	}
	dir, err := os.MkdirTemp("", "child")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "agent")
	copyFile(t, bin, "/proc/self/exe")
	a := begin(t, "ordinary", func(s *Spec) {
		s.Path, s.Dir = bin, "/"
		s.UID, s.GID = 65534, 65534
	})
	_, stderr, _ := a.rest()
	if len(stderr) != 1 || !strings.Contains(stderr[0], "only root can run an agent as user 0; this is user 65534") {
		t.Errorf("error %q", stderr)
	}
}

func copyFile(t *testing.T, to, from string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}
