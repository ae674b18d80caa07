package peertest

// A whole Postfix with a configuration of its own.

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Postfix is a Postfix in a folder of its own. It takes mail for any address at
// the port In and sends all of it to the one port that it was made with.
type Postfix struct {
	Dir   string
	In    int
	peers Peers
}

// NewPostfix makes the folder, with more lines of main.cf. Postfix runs as the
// user mail, and syncs to disk as often as it does by default.
func NewPostfix(tb testing.TB, peers Peers, to int, more ...string) *Postfix {
	tb.Helper()
	p := &Postfix{Dir: tb.TempDir(), In: FreePort(tb), peers: peers}
	for up := p.Dir; up != os.TempDir() && up != "/"; up = filepath.Dir(up) {
		if err := os.Chmod(up, 0o755); err != nil {
			tb.Fatal(err)
		}
	}
	p.makeFolders(tb)
	p.Configure(tb, to, more...)
	p.services(tb)
	return p
}

func (p *Postfix) makeFolders(tb testing.TB) {
	tb.Helper()
	mail, operator := idOf(tb, "passwd", "mail"), idOf(tb, "group", "operator")
	for _, d := range []string{"conf", "data", "spool", "spool/pid", "spool/maildrop", "spool/public", "spool/active", "spool/bounce",
		"spool/corrupt", "spool/defer", "spool/deferred", "spool/flush", "spool/hold", "spool/incoming", "spool/private", "spool/saved", "spool/trace"} {
		name := filepath.Join(p.Dir, d)
		if err := os.Mkdir(name, 0o755); err != nil {
			tb.Fatal(err)
		}
		if d == "conf" || d == "spool" || d == "spool/pid" {
			continue
		}
		if err := os.Chown(name, mail, operator); err != nil {
			tb.Fatal(err)
		}
	}
}

// idOf returns the ID of a user or a group.
func idOf(tb testing.TB, database, name string) (id int) {
	tb.Helper()
	text, err := os.ReadFile("/etc/" + database)
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Split(line, ":"); len(f) > 2 && f[0] == name {
			if _, err := fmt.Sscan(f[2], &id); err == nil {
				return id
			}
		}
	}
	tb.Skipf("no %s in /etc/%s for Postfix to run as", name, database)
	return 0
}

// Configure writes main.cf.
func (p *Postfix) Configure(tb testing.TB, to int, more ...string) {
	tb.Helper()
	dir, peers := p.Dir, string(p.peers)
	lib := filepath.Join(peers, "usr/lib/postfix")
	Put(tb, filepath.Join(dir, "conf/main.cf"), strings.Join(append([]string{
		"compatibility_level = 3.6", "queue_directory = " + dir + "/spool", "data_directory = " + dir + "/data",
		"command_directory = " + peers + "/usr/sbin", "daemon_directory = " + lib + "/sbin", "shlib_directory = " + lib,
		"meta_directory = " + dir + "/conf", "mail_owner = mail", "setgid_group = operator", "default_privs = nobody",
		"myhostname = bench.example", "mydestination =", "mynetworks = 127.0.0.0/8", "inet_interfaces = 127.0.0.1",
		"inet_protocols = ipv4", fmt.Sprint("default_transport = smtp:[127.0.0.1]:", to), "alias_maps =", "alias_database =",
		"local_recipient_maps =", "smtpd_relay_restrictions = permit_mynetworks, reject", "import_environment = MAIL_CONFIG LD_LIBRARY_PATH TZ",
		"maillog_file = " + p.Log(), "maillog_file_prefixes = " + os.TempDir(),
	}, append(more, "")...), "\n"))
}

func (p *Postfix) services(tb testing.TB) {
	tb.Helper()
	Put(tb, filepath.Join(p.Dir, "conf/dynamicmaps.cf"), "")
	Put(tb, filepath.Join(p.Dir, "conf/postfix-files"), "")
	services := fmt.Sprintf("127.0.0.1:%d inet n - n - - smtpd\n", p.In)
	for _, s := range []string{"cleanup n - n - 0 cleanup", "qmgr n - n 300 1 qmgr", "rewrite - - n - - trivial-rewrite",
		"bounce - - n - 0 bounce", "defer - - n - 0 bounce", "trace - - n - 0 bounce", "verify - - n - 1 verify",
		"flush n - n 1000? 0 flush", "proxymap - - n - - proxymap", "smtp - - n - 20 smtp", "error - - n - - error",
		"retry - - n - - error", "scache - - n - 1 scache", "anvil - - n - 1 anvil", "tlsmgr - - n 1000? 1 tlsmgr"} {
		name, rest, _ := strings.Cut(s, " ")
		services += name + " unix " + rest + "\n"
	}
	Put(tb, filepath.Join(p.Dir, "conf/master.cf"), services+"postlog unix-dgram n - n - 1 postlogd\n")
}

// Log is the path of Postfix's log.
func (p *Postfix) Log() string { return filepath.Join(p.Dir, "log") }

// Start runs Postfix until stop is called or the test is over.
func (p *Postfix) Start(tb testing.TB) (pid int, stop func()) {
	tb.Helper()
	return p.StartAs(tb, func(cmd *exec.Cmd) *exec.Cmd { return cmd })
}

// StartAs is Start with another command in place of Postfix's master, such as
// strace with that command.
func (p *Postfix) StartAs(tb testing.TB, command func(*exec.Cmd) *exec.Cmd) (pid int, stop func()) {
	tb.Helper()
	cmd := p.peers.Command("lib/postfix/sbin/master", "-c", filepath.Join(p.Dir, "conf"), "-d")
	cmd.Env = append(cmd.Env, "MAIL_CONFIG="+filepath.Join(p.Dir, "conf"))
	cmd = command(cmd)
	stop = Background(tb, cmd)
	return cmd.Process.Pid, stop
}
