package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// perRun is how many messages each run of the benchmark delivers.
const perRun = 3000

// BenchmarkDelivery is deliveries a second to Postfix's smtp-sink: of our
// scheduler with this agent, and of Postfix's own queue manager and smtp, on
// the same machine, twenty connections each. Both have their queue on disk
// when the clock starts, and have emptied it when it stops.
//
// Postfix comes from .peers ("make peers"), and runs in a folder of its own,
// for which it must be started by root.
func BenchmarkDelivery(b *testing.B) {
	peers := findPeers(b)
	for name, deliver := range map[string]func(*testing.B, string, int){"scheduler": benchScheduler, "postfix": benchPostfix} {
		b.Run(name, func(b *testing.B) {
			if os.Geteuid() != 0 {
				b.Skip("Postfix and its smtp-sink must be started by root")
			}
			port := startSink(b, peers)
			for b.Loop() {
				b.StopTimer()
				deliver(b, peers, port)
			}
			b.ReportMetric(float64(perRun*b.N)/b.Elapsed().Seconds(), "messages/s")
		})
	}
}

// findPeers is the folder that Postfix's package was unpacked in.
func findPeers(b *testing.B) string {
	b.Helper()
	peers, err := filepath.Abs("../../../.peers")
	if err == nil {
		peers, err = filepath.EvalSymlinks(peers)
	}
	if err != nil {
		b.Skip("no Postfix in .peers: make peers gets it")
	}
	return peers
}

// peerCommand is a program of Postfix's package.
func peerCommand(peers, program string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(peers, "usr", program), args...)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Join(peers, "usr/lib/postfix"))
	return cmd
}

func run1(tb testing.TB, cmd *exec.Cmd) {
	tb.Helper()
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("%s: %v\n%s", cmd.Path, err, out)
	}
}

// background runs a program until the benchmark is over.
func background(tb testing.TB, cmd *exec.Cmd) (stop func()) {
	tb.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
			_ = cmd.Wait()
		}
	}
	tb.Cleanup(stop)
	return stop
}

// freePort is one that nobody listens at now.
func freePort(tb testing.TB) int {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

// until looks again and again.
func until(tb testing.TB, what string, done func() bool) {
	tb.Helper()
	for end := time.Now().Add(time.Minute); !done(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatal("waited in vain until " + what)
		}
	}
}

func answers(port int) func() bool {
	return func() bool {
		nc, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", port))
		if err == nil {
			_ = nc.Close()
		}
		return err == nil
	}
}

func startSink(b *testing.B, peers string) (port int) {
	b.Helper()
	port = freePort(b)
	background(b, peerCommand(peers, "sbin/smtp-sink", "-u", "nobody", fmt.Sprint("127.0.0.1:", port), "100"))
	until(b, "smtp-sink listens", answers(port))
	return port
}

// empty says that no file is left below some folders.
func empty(folders ...string) func() bool {
	return func() bool {
		left := 0
		for _, f := range folders {
			_ = filepath.WalkDir(f, func(_ string, d os.DirEntry, err error) error {
				if err == nil && d.Type().IsRegular() && !strings.HasPrefix(d.Name(), ".") {
					left++
					return filepath.SkipAll
				}
				return nil
			})
		}
		return left == 0
	}
}

func benchScheduler(b *testing.B, _ string, port int) {
	b.Helper()
	bin := b.TempDir()
	for program, source := range map[string]string{"scheduler": "../../scheduler", "ta/smtp": "."} {
		run1(b, exec.Command("go", "build", "-o", filepath.Join(bin, program), source))
	}
	hosts := make([]string, perRun)
	for i := range hosts {
		hosts[i] = "a.example"
	}
	transport := spool(b, hosts...)
	office := filepath.Dir(transport)
	body := strings.Repeat("text of a message\n", 100)
	for i := range perRun {
		put(b, filepath.Join(office, "queue", fmt.Sprint(i+1)), body)
	}
	for _, d := range []string{"router", "public", "postman"} {
		if err := os.Mkdir(filepath.Join(office, d), 0o755); err != nil {
			b.Fatal(err)
		}
	}
	put(b, filepath.Join(office, "zmailer.conf"), "POSTOFFICE="+office+"\nMAILBIN="+bin+"\nMAILSHARE="+office+"\nLOGDIR="+office+"\nSYSLOGFLG=\n")
	put(b, filepath.Join(office, "scheduler.cf"), fmt.Sprintf("PARAMmailqsock = \"UNIX:%s/.mailq\"\n*/*\n\tuser=0 group=0 expiry=1h\n"+
		"smtp/*\n\tmaxta=1 maxthr=20 sessions=20\n\tcommand=\"smtp -c $channel -F [127.0.0.1] -p %d --sessions ${sessions}\"\n", office, port))
	cmd := exec.Command(filepath.Join(bin, "scheduler"), "-i", "-Z", filepath.Join(office, "zmailer.conf"), "-f", filepath.Join(office, "scheduler.cf"))
	b.StartTimer()
	stop := background(b, cmd)
	until(b, "the scheduler has delivered", empty(transport))
	b.StopTimer()
	stop()
	b.StartTimer()
}

func put(tb testing.TB, name, text string) {
	tb.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		tb.Fatal(err)
	}
}

// benchPostfix fills Postfix's queue while its transport is deferred, and lets
// it go.
func benchPostfix(b *testing.B, peers string, port int) {
	b.Helper()
	dir := postfixFolders(b)
	b.Cleanup(func() {
		if log, err := os.ReadFile(filepath.Join(dir, "log")); b.Failed() && err == nil {
			b.Logf("the end of Postfix's log: %s", log[max(len(log)-1000, 0):])
		}
	})
	in := freePort(b)
	postfixConfig(b, dir, peers, in, port)
	main := filepath.Join(dir, "conf/main.cf")
	text, err := os.ReadFile(main)
	if err != nil {
		b.Fatal(err)
	}
	put(b, main, string(text)+"defer_transports = smtp\n")
	master := func() func() {
		cmd := peerCommand(peers, "lib/postfix/sbin/master", "-c", filepath.Join(dir, "conf"), "-d")
		cmd.Env = append(cmd.Env, "MAIL_CONFIG="+filepath.Join(dir, "conf"))
		return background(b, cmd)
	}
	stop := master()
	until(b, "Postfix listens", answers(in))
	run1(b, peerCommand(peers, "sbin/smtp-source", "-s", "20", "-m", fmt.Sprint(perRun), "-l", "1900",
		"-f", "alice@sender.example", "-t", "bob@a.example", fmt.Sprint("127.0.0.1:", in)))
	queues := []string{filepath.Join(dir, "spool/active"), filepath.Join(dir, "spool/incoming"), filepath.Join(dir, "spool/deferred")}
	until(b, "all is deferred", empty(queues[:2]...))
	stop()
	put(b, main, string(text))
	b.StartTimer()
	stop = master()
	// What it deferred would wait for its time; this says not to.
	until(b, "Postfix runs", func() bool {
		return peerCommand(peers, "sbin/postkick", "-c", filepath.Join(dir, "conf"), "public", "qmgr", "DFAI").Run() == nil
	})
	until(b, "Postfix has delivered", empty(queues...))
	b.StopTimer()
	stop()
	log, err := os.ReadFile(filepath.Join(dir, "log"))
	if n := strings.Count(string(log), "status=sent"); n != perRun {
		b.Fatalf("Postfix has delivered %d of %d, %v", n, perRun, err)
	}
	b.StartTimer()
}

func postfixFolders(b *testing.B) (dir string) {
	b.Helper()
	dir = b.TempDir()
	for up := dir; up != os.TempDir() && up != "/"; up = filepath.Dir(up) {
		if err := os.Chmod(up, 0o755); err != nil {
			b.Fatal(err)
		}
	}
	mail, operator := idOf(b, "passwd", "mail"), idOf(b, "group", "operator")
	for _, d := range []string{"conf", "data", "spool", "spool/pid", "spool/maildrop", "spool/public", "spool/active", "spool/bounce",
		"spool/corrupt", "spool/defer", "spool/deferred", "spool/flush", "spool/hold", "spool/incoming", "spool/private", "spool/saved", "spool/trace"} {
		name := filepath.Join(dir, d)
		if err := os.Mkdir(name, 0o755); err != nil {
			b.Fatal(err)
		}
		if d == "conf" || d == "spool" || d == "spool/pid" {
			continue
		}
		if err := os.Chown(name, mail, operator); err != nil {
			b.Fatal(err)
		}
	}
	return dir
}

// idOf is the number of a user or a group.
func idOf(b *testing.B, database, name string) (id int) {
	b.Helper()
	text, err := os.ReadFile("/etc/" + database)
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Split(line, ":"); len(f) > 2 && f[0] == name {
			if _, err := fmt.Sscan(f[2], &id); err == nil {
				return id
			}
		}
	}
	b.Skipf("no %s in /etc/%s for Postfix to run as", name, database)
	return 0
}

func postfixConfig(b *testing.B, dir, peers string, in, to int) {
	b.Helper()
	lib := filepath.Join(peers, "usr/lib/postfix")
	put(b, filepath.Join(dir, "conf/main.cf"), strings.Join([]string{
		"compatibility_level = 3.6", "queue_directory = " + dir + "/spool", "data_directory = " + dir + "/data",
		"command_directory = " + peers + "/usr/sbin", "daemon_directory = " + lib + "/sbin", "shlib_directory = " + lib,
		"meta_directory = " + dir + "/conf", "mail_owner = mail", "setgid_group = operator", "default_privs = nobody",
		"myhostname = bench.example", "mydestination =", "mynetworks = 127.0.0.0/8", "inet_interfaces = 127.0.0.1",
		"inet_protocols = ipv4", fmt.Sprint("default_transport = smtp:[127.0.0.1]:", to), "alias_maps =", "alias_database =",
		"local_recipient_maps =", "smtpd_relay_restrictions = permit_mynetworks, reject", "import_environment = MAIL_CONFIG LD_LIBRARY_PATH TZ",
		"maillog_file = " + dir + "/log", "maillog_file_prefixes = " + os.TempDir(), "",
	}, "\n"))
	put(b, filepath.Join(dir, "conf/dynamicmaps.cf"), "")
	put(b, filepath.Join(dir, "conf/postfix-files"), "")
	services := fmt.Sprintf("127.0.0.1:%d inet n - n - - smtpd\n", in)
	for _, s := range []string{"cleanup n - n - 0 cleanup", "qmgr n - n 300 1 qmgr", "rewrite - - n - - trivial-rewrite",
		"bounce - - n - 0 bounce", "defer - - n - 0 bounce", "trace - - n - 0 bounce", "verify - - n - 1 verify",
		"flush n - n 1000? 0 flush", "proxymap - - n - - proxymap", "smtp - - n - 20 smtp", "error - - n - - error",
		"retry - - n - - error", "scache - - n - 1 scache", "anvil - - n - 1 anvil", "tlsmgr - - n 1000? 1 tlsmgr"} {
		name, rest, _ := strings.Cut(s, " ")
		services += name + " unix " + rest + "\n"
	}
	put(b, filepath.Join(dir, "conf/master.cf"), services+"postlog unix-dgram n - n - 1 postlogd\n")
}
