package main

// Synchronous waits: how often each program waits for the disk for one message.

import (
	"fmt"
	"net/smtp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"zsched/internal/testing/peertest"
	"zsched/ta/smtp/smtptest"
)

// maxWaits is how often a lone message that goes out by SMTP may wait for the disk in
// all programs together.
const maxWaits = 3

// BenchmarkWaits counts the calls of fsync, fdatasync, syncfs and sync_file_range in
// the whole way of a message: smtpserver, router, scheduler and the agent. "lone" has
// one message at a time, each sent when the one before has been delivered; "20 sessions"
// has twenty senders at once. The mail goes to an SMTP server or, with the mailbox agent,
// into a Maildir. The calls of programs that start and stop without mail are subtracted.
func BenchmarkWaits(b *testing.B) {
	if _, err := exec.LookPath("strace"); err != nil {
		b.Skip("no strace")
	}
	bin := b.TempDir()
	for program, source := range map[string]string{
		"smtpserver": ".", "router": "../router", "scheduler": "../scheduler", "ta/smtp": "../ta/smtp", "ta/mailbox": "../ta/mailbox",
	} {
		peertest.Run(b, exec.Command("go", "build", "-o", filepath.Join(bin, program), source))
	}
	for _, c := range []struct {
		name, to          string
		sessions, perEach int
		must              float64
	}{
		{"lone/smtp", "bob@far.example", 1, 50, maxWaits},
		{"lone/maildir", "nobody@ours.example", 1, 50, 0},
		{"20 sessions/smtp", "bob@far.example", 20, 20, maxWaits},
		{"20 sessions/maildir", "nobody@ours.example", 20, 20, 0},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				idle := (&waitsRun{bin: bin}).count(b)
				busy := (&waitsRun{bin: bin, to: c.to, sessions: c.sessions, perEach: c.perEach}).count(b)
				all := 0.0
				for _, program := range []string{"smtpserver", "router", "scheduler", "agent"} {
					n := float64(busy[program]-idle[program]) / float64(c.sessions*c.perEach)
					b.ReportMetric(n, program+"-waits/message")
					all += n
				}
				b.ReportMetric(all, "waits/message")
				if c.must > 0 && all > c.must {
					b.Errorf("%.2f waits a message, must be %.0f", all, c.must)
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// waitsRun is one start of all programs under strace.
type waitsRun struct {
	bin, to           string
	sessions, perEach int
	dir               string
	peer              *smtptest.Peer
}

// count sends the messages, waits until they are delivered, stops the programs and
// returns the number of waits of each.
func (r *waitsRun) count(b *testing.B) map[string]int {
	b.Helper()
	var err error
	if r.peer, err = smtptest.Start(smtptest.Options{}); err != nil {
		b.Fatal(err)
	}
	defer r.peer.Close()
	in, stop := r.start(b)
	var clients sync.WaitGroup
	for range r.sessions {
		clients.Go(func() {
			for range r.perEach {
				if err := sendOne(in, r.to); err != nil {
					b.Error(err)
					return
				}
				if r.sessions == 1 {
					r.awaitDelivery(b)
				}
			}
		})
	}
	clients.Wait()
	if !b.Failed() {
		r.awaitDelivery(b)
	}
	stop()
	return r.waits(b)
}

// awaitDelivery waits until nothing is in the queue.
func (r *waitsRun) awaitDelivery(b *testing.B) {
	peertest.Until(b, "all mail is delivered", func() bool {
		for _, dir := range []string{"router", "transport", "queue"} {
			files, err := filepath.Glob(filepath.Join(r.dir, dir, "[0-9]*"))
			if err != nil || len(files) > 0 {
				return false
			}
		}
		return true
	})
}

func sendOne(port int, to string) error {
	c, err := smtp.Dial(fmt.Sprint("127.0.0.1:", port))
	if err != nil {
		return err
	}
	defer c.Close()
	if err = c.Mail("alice@sender.example"); err == nil {
		err = c.Rcpt(to)
	}
	if err != nil {
		return err
	}
	w, err := c.Data()
	if err != nil {
		return err
	}
	fmt.Fprint(w, "From: alice@sender.example\r\nSubject: waits\r\n\r\n", strings.Repeat("text of a small message\r\n", 80))
	if err = w.Close(); err == nil {
		err = c.Quit()
	}
	return err
}

// start starts the programs, each under strace.
func (r *waitsRun) start(b *testing.B) (in int, stop func()) {
	b.Helper()
	p := newPlace(b, "domain ours.example\nrouter-max 0\nmin-free 1k\n")
	r.dir = p.dir
	in = peertest.FreePort(b)
	for up := r.dir; up != os.TempDir() && up != "/"; up = filepath.Dir(up) {
		if err := os.Chmod(up, 0o755); err != nil {
			b.Fatal(err)
		}
	}
	for _, dir := range []string{"postman", "log", "trace", "box"} {
		if err := os.Mkdir(filepath.Join(r.dir, dir), 0o777); err != nil {
			b.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(r.dir, "box"), 0o1777); err != nil {
		b.Fatal(err)
	}
	_, port, _ := strings.Cut(r.peer.Addr, ":")
	zenv := filepath.Join(r.dir, "zmailer.conf")
	peertest.Put(b, zenv, fmt.Sprintf("POSTOFFICE=%s\nMAILSHARE=%s\nMAILBIN=%s\nLOGDIR=%s/log\nSYSLOGFLG=\n",
		r.dir, r.dir, r.bin, r.dir))
	peertest.Put(b, filepath.Join(r.dir, "routes"), "ours.example local\n* smtp\n")
	peertest.Put(b, filepath.Join(r.dir, "scheduler.cf"), fmt.Sprintf("PARAMmailqsock = \"UNIX:%s/.mailq\"\n*/*\n\tuser=0 group=0 expiry=1h maxthr=20\n"+
		"local/*\n\tmaxta=4 command=\"mailbox -c $channel -d %s/box/%%u/\"\n"+
		"smtp/*\n\tmaxta=1 sessions=20 command=\"smtp -c $channel -F [127.0.0.1] -p %s --sessions ${sessions}\"\n", r.dir, r.dir, port))
	var stops []func()
	run := func(program string, args ...string) {
		path := filepath.Join(r.bin, program)
		args = append([]string{"-f", "--decode-pids=comm", "--seccomp-bpf", "-e", "trace=fsync,fdatasync,syncfs,sync_file_range",
			"-o", filepath.Join(r.dir, "trace", program), path, "-i", "-Z", zenv}, args...)
		stops = append(stops, peertest.Background(b, exec.Command("strace", args...)))
	}
	run("scheduler")
	run("router")
	peertest.Until(b, "scheduler and router are ready", func() bool {
		_, err := os.Stat(filepath.Join(r.dir, ".pid.router"))
		_, err2 := os.Stat(filepath.Join(r.dir, ".mailq"))
		return err == nil && err2 == nil
	})
	run("smtpserver", "-l", fmt.Sprint("127.0.0.1:", in))
	peertest.Until(b, "smtpserver listens", peertest.Answers(in))
	return in, func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// waits counts the calls of each program in the traces. The scheduler's trace has those
// of its agents, too.
func (r *waitsRun) waits(b *testing.B) map[string]int {
	b.Helper()
	counts := map[string]int{}
	for _, program := range []string{"smtpserver", "router", "scheduler"} {
		text, err := os.ReadFile(filepath.Join(r.dir, "trace", program))
		if err != nil {
			b.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if !strings.Contains(line, "sync(") && !strings.Contains(line, "syncfs(") && !strings.Contains(line, "sync_file_range(") {
				continue
			}
			name := program
			if program == "scheduler" && !strings.Contains(line, "<scheduler>") {
				name = "agent"
			}
			counts[name]++
		}
	}
	return counts
}
