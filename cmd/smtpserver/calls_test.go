package main

// System calls: how many each program makes for one message, and how often it waits for the disk.

import (
	"flag"
	"fmt"
	"maps"
	"net/smtp"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"zsched/internal/testing/peertest"
	"zsched/ta/smtp/smtptest"
)

const (
	// maxWaits is how often a lone message that goes out by SMTP may wait for the disk in
	// all programs together.
	maxWaits = 3
	// growth bounds how many times the calls of a program may be those in callsFile.
	growth = 1.03
	// callsFile has the calls a message of each program for each of the cases.
	callsFile = "testdata/calls"
	// notCounted are calls of Go's scheduler and memory. How many there are depends on time.
	notCounted = "futex,epoll_pwait,nanosleep,clock_nanosleep,clock_gettime,sched_yield,tgkill,getpid,rt_sigreturn,rt_sigaction,rt_sigprocmask,madvise,mmap,munmap,mprotect"
)

var update = flag.Bool("update", false, "write "+callsFile)

// callsOf are the calls a message of each program, by name.
type callsOf map[string]map[string]float64

// BenchmarkCalls counts the system calls in the whole way of a message: smtpserver, router, scheduler
// and the agent. "lone" has one message at a time, each sent when the one before has been delivered;
// "20 sessions" has twenty senders at once. The mail goes to an SMTP server or, with the mailbox
// agent, into a Maildir. The calls of programs that start and stop without mail are subtracted, and
// so are those that found nothing (EAGAIN).
//
// waits/message are those of fsync, fdatasync, syncfs and sync_file_range. The calls of a lone message
// must not grow: callsFile has them, written by -update.
func BenchmarkCalls(b *testing.B) {
	if _, err := exec.LookPath("strace"); err != nil {
		b.Skip("no strace")
	}
	bin := buildPrograms(b)
	before := readCalls(b)
	var after strings.Builder
	for _, c := range []struct {
		name, to          string
		sessions, perEach int
		must              float64 // waits
	}{
		{"lone/smtp", "bob@far.example", 1, 200, maxWaits},
		{"lone/maildir", "nobody@ours.example", 1, 200, 0},
		{"20 sessions/smtp", "bob@far.example", 20, 20, maxWaits},
		{"20 sessions/maildir", "nobody@ours.example", 20, 20, 0},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				idle := (&callsRun{bin: bin}).count(b)
				busy := (&callsRun{bin: bin, to: c.to, sessions: c.sessions, perEach: c.perEach}).count(b)
				all := 0.0
				for _, program := range []string{"smtpserver", "router", "scheduler", "agent"} {
					calls, waits := 0.0, 0.0
					for _, call := range slices.Sorted(maps.Keys(busy[program])) {
						n := (busy[program][call] - idle[program][call]) / float64(c.sessions*c.perEach)
						calls += n
						if strings.Contains(call, "sync") {
							waits += n
						}
						if n >= 0.01 {
							fmt.Fprintf(&after, "%s\t%s\t%s\t%.2f\n", c.name, program, call, n)
						}
					}
					b.ReportMetric(calls, program+"-calls/message")
					b.ReportMetric(waits, program+"-waits/message")
					all += waits
					if most := growth * before[c.name+" "+program]; c.sessions == 1 && calls > most && !*update {
						b.Errorf("%s: %.2f calls a message, must be %.2f (%s)", program, calls, most, callsFile)
					}
				}
				b.ReportMetric(all, "waits/message")
				if c.must > 0 && all > c.must {
					b.Errorf("%.2f waits a message, must be %.0f", all, c.must)
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
	if *update {
		peertest.Put(b, callsFile, after.String())
	}
}

// readCalls returns the sum of the calls in callsFile of each case and program.
func readCalls(b *testing.B) map[string]float64 {
	b.Helper()
	sums := map[string]float64{}
	text, err := os.ReadFile(callsFile)
	if err != nil && !*update {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		var n float64
		if _, err := fmt.Sscan(fields[len(fields)-1], &n); err != nil || len(fields) != 4 {
			b.Fatalf("%s: %q", callsFile, line)
		}
		sums[fields[0]+" "+fields[1]] += n
	}
	return sums
}

// callsRun is one start of all programs under strace.
type callsRun struct {
	bin, to           string
	sessions, perEach int
	dir               string
	peer              *smtptest.Peer
}

// count sends the messages, waits until they are delivered, stops the programs and
// returns the number of calls of each.
func (r *callsRun) count(b *testing.B) callsOf {
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
	return r.calls(b)
}

// awaitDelivery waits until nothing is in the queue.
func (r *callsRun) awaitDelivery(b *testing.B) {
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
func (r *callsRun) start(b *testing.B) (in int, stop func()) {
	b.Helper()
	p := newPlace(b, "domain ours.example\nrouter-max 0\nmin-free 1k\n")
	r.dir = p.dir
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
	peertest.Put(b, filepath.Join(r.dir, "routes"), "ours.example local\n* smtp\n")
	peertest.Put(b, filepath.Join(r.dir, "scheduler.cf"), fmt.Sprintf("PARAMmailqsock = \"UNIX:%s/.mailq\"\n*/*\n\tuser=0 group=0 expiry=1h maxthr=20\n"+
		"local/*\n\tmaxta=4 command=\"mailbox -c $channel -d %s/box/%%u/\"\n"+
		"smtp/*\n\tmaxta=1 sessions=20 command=\"smtp -c $channel -F [127.0.0.1] -p %s --sessions ${sessions}\"\n", r.dir, r.dir, port))
	in, stop = p.startPrograms(b, r.bin, true, func(cmd *exec.Cmd) *exec.Cmd {
		args := []string{"-f", "--decode-pids=comm", "--seccomp-bpf", "-e", "trace=!" + notCounted,
			"-o", filepath.Join(r.dir, "trace", filepath.Base(cmd.Path)), cmd.Path}
		return exec.Command("strace", append(args, cmd.Args[1:]...)...)
	})
	peertest.Until(b, "smtpserver listens", peertest.Answers(in))
	return in, stop
}

// traced is a line of a trace: its process, and the call that begins or goes on there.
var traced = regexp.MustCompile(`^\d+<(\S*)>\s+(<... )?(\w+)`)

// calls counts the calls of each program in the traces. The scheduler's trace has those of its
// agents, too.
func (r *callsRun) calls(b *testing.B) callsOf {
	b.Helper()
	counts := callsOf{}
	for _, program := range []string{"smtpserver", "router", "scheduler"} {
		text, err := os.ReadFile(filepath.Join(r.dir, "trace", program))
		if err != nil {
			b.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			part := traced.FindStringSubmatch(line)
			if part == nil {
				continue
			}
			name := program
			if program == "scheduler" && part[1] != program {
				name = "agent"
			}
			if counts[name] == nil {
				counts[name] = map[string]float64{}
			}
			if part[2] == "" {
				counts[name][part[3]]++
			}
			if strings.Contains(line, ") = -1 EAGAIN") {
				counts[name][part[3]]--
			}
		}
	}
	return counts
}
