package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// benchPostfix fills Postfix's queue while its transport is deferred. A run lets the
// queue go.
func benchPostfix(b *testing.B, peers string, port int) func() measured {
	b.Helper()
	return func() measured {
		dir := postfixFolders(b)
		in := freePort(b)
		postfixConfig(b, dir, peers, in, port)
		config := filepath.Join(dir, "conf/main.cf")
		text, err := os.ReadFile(config)
		if err != nil {
			b.Fatal(err)
		}
		put(b, config, string(text)+"defer_transports = smtp\n")
		master := func() (pid int, stop func()) {
			cmd := peerCommand(peers, "lib/postfix/sbin/master", "-c", filepath.Join(dir, "conf"), "-d")
			cmd.Env = append(cmd.Env, "MAIL_CONFIG="+filepath.Join(dir, "conf"))
			stop = background(b, cmd)
			return cmd.Process.Pid, stop
		}
		_, stop := master()
		until(b, "Postfix listens", answers(in))
		mustRun(b, peerCommand(peers, "sbin/smtp-source", "-s", "20", "-m", fmt.Sprint(messagesPerRun), "-l", "1900",
			"-f", "alice@sender.example", "-t", "bob@a.example", fmt.Sprint("127.0.0.1:", in)))
		active := filepath.Join(dir, "spool/active")
		incoming, deferred := filepath.Join(dir, "spool/incoming"), filepath.Join(dir, "spool/deferred")
		until(b, "all is deferred", emptied(b, active, incoming))
		stop()
		put(b, config, string(text))
		start := time.Now()
		pid, stop := master()
		// Have it try the deferred messages now.
		until(b, "Postfix runs", func() bool {
			return peerCommand(peers, "sbin/postkick", "-c", filepath.Join(dir, "conf"), "public", "qmgr", "DFAI").Run() == nil
		})
		until(b, "Postfix has delivered", emptied(b, active, incoming, deferred))
		m := measured{elapsed: changedAt(b, active).Sub(start), cpu: map[string]time.Duration{}}
		for _, d := range cpuTimes(b, pid) {
			m.cpu["postfix"] += d
		}
		stop()
		log, err := os.ReadFile(filepath.Join(dir, "log"))
		if n := strings.Count(string(log), "status=sent"); n != messagesPerRun {
			b.Fatalf("Postfix has delivered %d of %d, %v; the end of its log: %s", n, messagesPerRun, err, log[max(len(log)-1000, 0):])
		}
		return m
	}
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

// idOf returns the number of a user or a group.
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
