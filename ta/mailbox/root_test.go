package mailbox

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ta"
)

// The user that root delivers to here, and a group of mail spools.
const (
	otherUID, otherGID, extraGID = 4242, 4243, 4244
	spoolGID                     = 4245
)

// newRootSpool is an testSpool in which dave is another user, with a home directory
// of his own.
func newRootSpool(t *testing.T) (testSpool, func(Options) *Agent) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can deliver to others")
	}
	o := newTestSpool(t)
	if err := os.Chmod(filepath.Dir(o.dir), 0o711); err != nil {
		t.Fatal(err)
	}
	o.mkdir("dave/sub")
	o.own("dave", otherUID, otherGID, 0o700)
	o.own("dave/sub", otherUID, otherGID, 0o700)
	return o, func(options Options) *Agent {
		a := o.agent(options)
		a.uid = 0
		dave := &ta.Account{
			Name: "dave", Home: o.path("dave"), UID: otherUID, GID: otherGID, Groups: []int{otherGID, extraGID},
		}
		byName, byUID := a.ByName, a.ByUID
		a.ByName = func(name string) (*ta.Account, error) {
			if name == "dave" {
				return dave, nil
			}
			return byName(name)
		}
		a.ByUID = func(uid int) (*ta.Account, error) {
			if uid == otherUID {
				return dave, nil
			}
			return byUID(uid)
		}
		return a
	}
}

// own sets owner, group and mode of a file.
func (o testSpool) own(name string, uid, gid int, mode uint32) {
	o.t.Helper()
	if err := os.Lchown(o.path(name), uid, gid); err != nil {
		o.t.Fatal(err)
	}
	if err := syscall.Chmod(o.path(name), mode); err != nil {
		o.t.Fatal(err)
	}
}

// owner describes a file's owner, group and mode.
func (o testSpool) owner(name string) string {
	o.t.Helper()
	var st syscall.Stat_t
	if err := syscall.Lstat(o.path(name), &st); err != nil {
		o.t.Fatal(err)
	}
	return fmt.Sprintf("%d:%d %o", st.Uid, st.Gid, st.Mode&0o7777)
}

func davesCommand(line string) string { return `"|` + line + `" ` + strconv.Itoa(otherUID) }

func TestRootDeliversToAMaildirAsItsUser(t *testing.T) {
	o, agent := newRootSpool(t)
	a := agent(Options{Place: Place{Path: "%h/Maildir/"}})
	o.delivered(a, mail("dave 0"))
	names := o.names("dave/Maildir/new")
	if len(names) != 1 {
		t.Fatalf("new has %q", names)
	}
	expect(t, o.owner("dave/Maildir/new/"+names[0]), "4242:4243 600")
	expect(t, o.owner("dave/Maildir/cur"), "4242:4243 700")
	expect(t, o.owner("dave/Maildir"), "4242:4243 700")
}

func TestRootRunsCommandsAsTheirUser(t *testing.T) {
	o, agent := newRootSpool(t)
	a := agent(Options{Environ: []string{"PATH=/usr/bin:/bin"}})
	o.delivered(a, mail(davesCommand("(id -u; id -g; id -G; pwd) >who; cat >>who; exec ls /proc/self/fd >fds")))
	want := fmt.Sprintf("4242\n4243\n4243 4244\n%s\nFrom alice", o.path("dave"))
	if got := o.read("dave/who"); !strings.HasPrefix(got, want) {
		t.Errorf("got %q", got)
	}
	expect(t, o.owner("dave/who"), "4242:4243 644")
	// Standard streams, and the one by which ls looks.
	expect(t, strings.Join(strings.Fields(o.read("dave/fds")), " "), "0 1 2 3")
	o.delivered(a, mail(o.path("dave/file")+" 4242"))
	expect(t, o.owner("dave/file"), "4242:4243 600")
}

func TestRootIsReplacedOnRequest(t *testing.T) {
	o, agent := newRootSpool(t)
	a := agent(Options{Environ: []string{"PATH=/usr/bin:/bin"}})
	a.RootAs = "dave"
	o.delivered(a, mail(`"|id -u >who" 0`, o.path("dave/file")+" 0"))
	expect(t, o.read("dave/who"), "4242\n")
	expect(t, o.owner("dave/file"), "4242:4243 600")
	// A mailbox of root's stays root's.
	a.ByName = func(name string) (*ta.Account, error) { return &ta.Account{Name: name, Home: o.path("home")}, nil }
	o.delivered(a, mail("root 0"))
	expect(t, o.owner("spool/root"), "0:0 600")
}

// A lock file of a user whom the mbox is no business of keeps nobody out of it. Those of
// root and of dave do.
func TestLockFilesOfStrangersInAPublicDirectoryAreIgnored(t *testing.T) {
	for _, c := range []struct {
		uid   int
		mode  uint32
		waits bool
	}{
		{4999, 0o1777, false}, {0, 0o1777, true}, {otherUID, 0o1777, true}, {4999, 0o2775, true},
	} {
		o, agent := newRootSpool(t)
		o.own("spool", 0, spoolGID, c.mode)
		o.write("spool/dave", "old\n\n")
		o.own("spool/dave", otherUID, otherGID, 0o600)
		o.write("spool/dave.lock", fmt.Sprintln(os.Getppid()))
		o.own("spool/dave.lock", c.uid, c.uid, 0o644)
		a := agent(Options{Place: Place{Path: o.path("spool")}})
		if c.waits {
			o.refused(a, mail("dave 0"), "deferred", `4\.2\.0 \(mailbox is locked\)`)
		} else {
			o.delivered(a, mail("dave 0"))
		}
		expect(t, fmt.Sprint(o.names("spool")), "[dave dave.lock]")
	}
}

// In each kind of spool directory dave gets a mailbox that is his, and no lock
// file stays.
func TestRootMakesMailboxesInSpoolDirectories(t *testing.T) {
	for _, c := range []struct {
		gid  int
		mode uint32
		want string
	}{
		{0, 0o755, "4242:4243 600"},
		{0, 0o775, "4242:4243 600"}, // group root is lent to nobody
		{spoolGID, 0o775, "4242:4245 600"},
		{spoolGID, 0o2775, "4242:4245 600"},
		{0, 0o1777, "4242:4243 600"},
	} {
		for _, pattern := range []string{"", "/%u/"} {
			o, agent := newRootSpool(t)
			o.own("spool", 0, c.gid, c.mode)
			a := agent(Options{Place: Place{Path: o.path("spool") + pattern}})
			o.delivered(a, mail("dave 0"))
			o.delivered(a, mail("dave 0"))
			expect(t, fmt.Sprint(o.names("spool")), "[dave]")
			want := c.want
			if pattern != "" {
				want = strings.Replace(want, "600", "700", 1)
				// A directory made in a set-gid one is one, too.
				if got := o.owner("spool/dave"); got != want && got != strings.Replace(want, " 700", " 2700", 1) {
					t.Errorf("%o: %s", c.mode, got)
				}
				if n := len(o.names("spool/dave/new")); n != 2 {
					t.Errorf("%o: %d messages", c.mode, n)
				}
				continue
			}
			expect(t, o.owner("spool/dave"), want)
			if n := strings.Count(o.read("spool/dave"), "From alice"); n != 2 {
				t.Errorf("%o: %d messages", c.mode, n)
			}
		}
	}
}

// What a user prepares in a directory of his own does not make root touch, or
// the agent change, what is not his.
func TestRootIsNotLedAstray(t *testing.T) {
	for name, trap := range map[string]func(o testSpool) error{
		"symbolic link to another's file": func(o testSpool) error { return os.Symlink(o.path("home/secret"), o.path("dave/sub/box")) },
		"dangling link":                   func(o testSpool) error { return os.Symlink(o.path("home/new"), o.path("dave/sub/box")) },
		"another's file":                  func(o testSpool) error { return os.Rename(o.path("home/secret"), o.path("dave/sub/box")) },
		"another link to a file":          func(o testSpool) error { return os.Link(o.path("home/secret"), o.path("dave/sub/box")) },
		"writable file of another's": func(o testSpool) error {
			o.write("dave/sub/box", "secret\n")
			return os.Chmod(o.path("dave/sub/box"), 0o666)
		},
		"directory that leads elsewhere": func(o testSpool) error {
			if err := os.Remove(o.path("dave/sub")); err != nil {
				return err
			}
			return os.Symlink(o.path("home"), o.path("dave/sub"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, agent := newRootSpool(t)
			o.write("home/secret", "secret\n")
			if err := trap(o); err != nil {
				t.Fatal(err)
			}
			before := o.everything()
			for _, place := range []string{"%h/sub/box", o.dir + "/%u/sub/box"} {
				o.refused(agent(Options{Place: Place{Path: place}}), mail("dave 0"), "deferred", `4\.2\.0`)
			}
			o.refused(agent(Options{}), mail(o.path("dave/sub/box")+" 4242"), "error2", `5\.7\.1`)
			expect(t, o.everything(), before)
		})
	}
}

// A lock file is not followed or cut either, whoever it is of.
func TestLockFileThatLeadsElsewhereIsLeftAlone(t *testing.T) {
	o, agent := newRootSpool(t)
	o.write("home/secret", "4242\nhere\n0 \"secret\"\n")
	if err := os.Symlink(o.path("home/secret"), o.path("dave/box.lock")); err != nil {
		t.Fatal(err)
	}
	before := o.everything()
	o.refused(agent(Options{Place: Place{Path: "%h/box"}}), mail("dave 0"), "deferred", `is locked`)
	expect(t, o.everything(), before)

	// In a directory that all can write to, another's note is not believed.
	o.own("spool", 0, 0, 0o1777)
	o.write("spool/dave", "From x\nA: b\n\n")
	o.own("spool/dave", otherUID, otherGID, 0o600)
	o.write("spool/dave.lock", fmt.Sprintf("%d\nhere\n0 \"From x\\n\"\n", gone(t)))
	o.own("spool/dave.lock", otherUID+1, otherGID, 0o644)
	o.delivered(agent(Options{}), mail("dave 0"))
	if got := o.read("spool/dave"); !strings.HasPrefix(got, "From x\nA: b\n\nFrom alice") {
		t.Errorf("%q", got)
	}
}

// everything is all files outside the queue, with their contents.
func (o testSpool) everything() (all string) {
	for _, dir := range []string{"dave", "home", "spool"} {
		_ = filepath.WalkDir(o.path(dir), func(path string, d os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			text, _ := os.ReadFile(path)
			all += fmt.Sprintf("%s %v %q\n", path, d.Type(), text)
			return nil
		})
	}
	return all
}

// Root itself writes only where nobody else could have laid a trap.
func TestRootsOwnMailGoesOnlyWhereRootRules(t *testing.T) {
	o, agent := newRootSpool(t)
	a := agent(Options{Place: Place{Path: o.path("dave")}})
	a.ByUID = func(uid int) (*ta.Account, error) { return &ta.Account{Name: "root"}, nil }
	byName := a.ByName
	a.ByName = func(name string) (*ta.Account, error) {
		if name == "root" {
			return &ta.Account{Name: "root"}, nil
		}
		return byName(name)
	}
	o.refused(a, mail("root 0"), "deferred", `root does not write to .*users other than root can change it`)
	o.refused(a, mail(o.path("dave/log")+" 0"), "error2", `root does not write to`)
	o.delivered(a, mail(o.path("home/log")+" 0"))
	o.own("home", 0, spoolGID, 0o775)
	o.refused(a, mail(o.path("home/log")+" 0"), "error2", `root does not write to`)
	a.Place.Path = o.path("home")
	o.delivered(a, mail("root 0"))
	o.own("home", 0, 0, 0o1777)
	o.refused(a, mail(o.path("home/new")+" 0"), "error2", `root does not write to`)
	o.delivered(a, mail("root 0"))
	expect(t, fmt.Sprint(o.names("dave")), "[sub]")
}

func TestTrustedDirectories(t *testing.T) {
	o, _ := newRootSpool(t)
	o.mkdir("home/in")
	for _, c := range []struct{ link, to string }{
		{"home/here", "in"}, {"home/up", "../home/in/../in"}, {"home/abs", o.path("home/in")},
		{"home/loop", "loop"}, {"home/out", "../dave"}, {"home/file/x", ""},
	} {
		if c.to != "" {
			if err := os.Symlink(c.to, o.path(c.link)); err != nil {
				t.Fatal(err)
			}
		}
		real, _, err := trusted(o.path(c.link))
		if good := strings.HasSuffix(c.to, "in"); good != (err == nil) || good && real != o.path("home/in") {
			t.Errorf("%s leads to %q, %v", c.link, real, err)
		}
	}
	o.mkdir("home/in/deep")
	o.own("home/in", 0, spoolGID, 0o775)
	if _, _, err := trusted(o.path("home/in")); err != nil {
		t.Error(err)
	}
	if _, _, err := trusted(o.path("home/in/deep")); err == nil {
		t.Error("what a group can replace is trusted")
	}
	o.own("home/in", 0, 0, 0o757)
	if _, _, err := trusted(o.path("home/in")); err == nil {
		t.Error("what all can change is trusted")
	}
}

func TestHelperThatDiesDefers(t *testing.T) {
	o, agent := newRootSpool(t)
	for _, c := range []struct {
		path, pattern string
		args          []string
	}{
		{"/bin/false", `4\.3\.0.*ended: exit status 1`, []string{"false"}},
		{"/bin/echo", `wrote status 7`, []string{"echo", `{"Status":7}`}},
		{"/bin/sh", `ended: signal: killed`, []string{"sh", "-c", "kill -9 $$"}},
		{"/bin/sh", `wrote status 0`, []string{"sh", "-c", "echo '{}'"}},
		{"/bin/echo", `wrote no outcome: "panic`, []string{"echo", "panic"}},
		{"/none/such", `start the delivery helper`, []string{"x"}},
	} {
		a := agent(Options{})
		a.helper.path, a.helper.args = c.path, c.args
		o.refused(a, mail("dave 0"), "deferred", c.pattern)
	}
	// What was said counts, or what is in the mailbox would be sent again.
	a := agent(Options{})
	a.helper.path, a.helper.args = "/bin/sh", []string{"sh", "-c", `echo '{"Status":1}'; echo more >&2; kill -9 $$`}
	o.delivered(a, mail("dave 0"))
	// The user may stop it: the limit is that of mailboxes, not of commands.
	a = agent(Options{MailboxLimit: time.Millisecond, TimeLimit: time.Hour})
	a.helper.path, a.helper.args = "/bin/sh", []string{"sh", "-c", "kill -STOP $$"}
	o.refused(a, mail("dave 0"), "deferred", `took more than 1ms`)
}

// A disk that is full leaves mailboxes as they were.
func TestFullDiskDefers(t *testing.T) {
	o, agent := newRootSpool(t)
	if err := unix.Mount("tmpfs", o.path("spool"), "tmpfs", 0, "size=64k,mode=1777"); err != nil {
		t.Skipf("no small disk to fill: %v", err)
	}
	defer func() {
		if err := unix.Unmount(o.path("spool"), 0); err != nil {
			t.Error(err)
		}
	}()
	big := mail("dave 0")
	big.body = strings.Repeat("0123456789abcde\n", 1<<14)
	for _, options := range []Options{{}, {Place: Place{Path: o.path("spool") + "/%u.d/"}}} {
		a := agent(options)
		o.delivered(a, mail("dave 0"))
		before := o.everything()
		o.refused(a, big, "deferred", `4\.3\.1 \(disk is full\)`)
		expect(t, o.everything(), before)
		o.delivered(a, mail("dave 0"))
	}
}

// The accounts of the system, seen by what it has for certain.
func TestAccountsOfTheSystem(t *testing.T) {
	me, err := user.Current()
	if err != nil {
		t.Skip(err)
	}
	acc, err := ta.AccountByName(me.Username)
	if err != nil || acc.UID != os.Getuid() || acc.Home != me.HomeDir {
		t.Errorf("%+v, %v", acc, err)
	}
	if acc, err := ta.AccountByUID(os.Getuid()); err != nil || acc.Name != me.Username {
		t.Errorf("%+v, %v", acc, err)
	}
	if _, err := ta.AccountByName("no such user"); err != ta.ErrNoAccount {
		t.Error(err)
	}
	if _, err := ta.AccountByUID(1<<31 - 7); err != ta.ErrNoAccount {
		t.Error(err)
	}
}
