package main

// Benchmarks beside Postfix: mail that comes in, and mail that goes through the
// whole server.

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"zsched/internal/testing/peertest"
)

// rounds is how often both servers run, in turn, for one result.
const rounds = 5

// mailShape is what smtp-source sends in a run.
type mailShape struct {
	name           string
	through        bool // it is delivered, too
	newConnections bool // each message has one
	messages       int
	size           int // of each, in bytes
}

var mailShapes = []mailShape{
	{name: "in", messages: 4000, size: 1900},
	{name: "in/new-connections", newConnections: true, messages: 4000, size: 1900},
	{name: "through", through: true, messages: 4000, size: 1900},
	{name: "through/new-connections", through: true, newConnections: true, messages: 4000, size: 1900},
	{name: "through/10kB", through: true, messages: 4000, size: 10_000},
	{name: "through/100kB", through: true, messages: 1000, size: 100_000},
	{name: "through/10MB", through: true, messages: 20, size: 10_000_000},
}

// BenchmarkMail sends mail with Postfix's smtp-source over twenty sessions, to our
// server and to Postfix in turn. "in" ends when all messages are acknowledged, and
// nothing takes them out of the queue meanwhile. "through" ends when Postfix's smtp-sink
// has all of them; ours go through smtpserver, router, scheduler and the smtp agent. Sessions are
// kept from message to message unless the name says that connections are new.
// Both servers wait for the disk as their manuals say. Each run has a new queue, in a
// part of the file system of its own (peertest.SpreadTempDirs).
//
// messages/s are the medians of all runs, and ratio is ours divided by Postfix's.
// sync-ms is what it takes to write and sync a new file of such a size, just before the first run.
// cpu-µs/message is the median of the processor time that all processes of a server and their
// children take, with their start. waits/message counts the calls of fsync, fdatasync and syncfs
// of all processes of a server, in a run of its own under strace.
//
// Postfix comes from .peers ("make peers").
func BenchmarkMail(b *testing.B) {
	peers := peertest.Find(b)
	bin := buildPrograms(b)
	for _, shape := range mailShapes {
		b.Run(shape.name, func(b *testing.B) {
			peertest.SpreadTempDirs(b)
			sync, messages := syncTime(b, shape.size), float64(shape.messages)
			servers := []server{{"zsched", startOurs}, {"postfix", startPostfix}}
			rates, cpu := map[string][]float64{}, map[string][]float64{}
			for b.Loop() {
				for range rounds {
					for _, s := range servers {
						r := mailRun{peers: peers, bin: bin, mailShape: shape}
						rates[s.name] = append(rates[s.name], messages/r.send(b, s).Seconds())
						all := 0.0
						for _, cmd := range r.started {
							used := cmd.ProcessState.SystemTime() + cmd.ProcessState.UserTime()
							name, each := filepath.Base(cmd.Path), float64(used.Microseconds())/messages
							cpu[name] = append(cpu[name], each)
							all += each
						}
						cpu[s.name] = append(cpu[s.name], all)
					}
					slices.Reverse(servers)
				}
			}
			for _, s := range servers {
				b.ReportMetric(peertest.Median(rates[s.name]), s.name+"-messages/s")
				r := mailRun{peers: peers, bin: bin, mailShape: shape, trace: filepath.Join(b.TempDir(), "calls")}
				r.send(b, s)
				b.ReportMetric(float64(calls(b, r.trace))/messages, s.name+"-waits/message")
			}
			for program, each := range cpu {
				b.ReportMetric(peertest.Median(each), program+"-cpu-µs/message")
			}
			b.ReportMetric(peertest.Median(rates["zsched"])/peertest.Median(rates["postfix"]), "ratio")
			b.ReportMetric(float64(sync.Microseconds())/1000, "sync-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// buildPrograms builds the programs that a message goes through.
func buildPrograms(b *testing.B) (bin string) {
	b.Helper()
	bin = b.TempDir()
	for program, source := range map[string]string{
		"smtpserver": ".", "router": "../router", "scheduler": "../scheduler", "ta/smtp": "../ta/smtp", "ta/mailbox": "../ta/mailbox",
	} {
		peertest.Run(b, exec.Command("go", "build", "-o", filepath.Join(bin, program), source))
	}
	return bin
}

// server is what is measured. start starts it, with all mail sent to a port, and
// returns the port at which it takes mail.
type server struct {
	name  string
	start func(b *testing.B, r *mailRun, to int) (in int, stop func())
}

type mailRun struct {
	mailShape
	peers   peertest.Peers
	bin     string // our programs
	trace   string // names of files for strace, or ""
	started []*exec.Cmd
}

// send sends the messages and returns how long it took.
func (r *mailRun) send(b *testing.B, s server) time.Duration {
	b.Helper()
	to := peertest.FreePort(b)
	sink := r.peers.Command("sbin/smtp-sink", "-u", "nobody", "-M", strconv.Itoa(r.messages), fmt.Sprint("127.0.0.1:", to), "100")
	arrived := make(chan error, 1)
	if r.through {
		if err := sink.Start(); err != nil {
			b.Fatal(err)
		}
		go func() { arrived <- sink.Wait() }()
		defer func() { _ = sink.Process.Kill() }()
		peertest.Until(b, "smtp-sink listens", peertest.Answers(to))
	}
	in, stop := s.start(b, r, to)
	defer stop()
	peertest.Until(b, s.name+" listens", peertest.Answers(in))
	options := []string{"-l", strconv.Itoa(r.size)}
	if !r.newConnections {
		options = append(options, "-d")
	}
	began := time.Now()
	peertest.Run(b, r.peers.Source(in, r.messages, "alice@sender.example", "bob@a.example", options...))
	if r.through {
		select {
		case <-arrived:
		case <-time.After(3 * time.Minute):
			b.Fatalf("%s: not all messages have arrived in three minutes", s.name)
		}
	}
	return time.Since(began)
}

// traced is the command of a program of the server. It runs under strace if a trace is wanted. A process
// and its children write to files that begin with the name of the trace.
func (r *mailRun) traced(cmd *exec.Cmd) *exec.Cmd {
	if r.trace == "" {
		r.started = append(r.started, cmd)
		return cmd
	}
	args := []string{"-ff", "--seccomp-bpf", "-e", "trace=fsync,fdatasync,syncfs", "-o", r.trace + "." + filepath.Base(cmd.Path), cmd.Path}
	traced := exec.Command("strace", append(args, cmd.Args[1:]...)...)
	traced.Env = cmd.Env
	return traced
}

// calls counts the calls in all files of a trace.
func calls(b *testing.B, trace string) int {
	b.Helper()
	files, err := filepath.Glob(trace + ".*")
	if err != nil || len(files) == 0 {
		b.Fatalf("no trace %s: %v", trace, err)
	}
	n := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			b.Fatal(err)
		}
		n += strings.Count(string(text), "sync(") + strings.Count(string(text), "syncfs(")
	}
	return n
}

func startOurs(b *testing.B, r *mailRun, to int) (in int, stop func()) {
	b.Helper()
	return ours(b, r, to).startPrograms(b, r.bin, r.through, r.traced)
}

// ours makes the place of our programs.
func ours(b *testing.B, r *mailRun, to int) place {
	b.Helper()
	p := newPlace(b, "domain ours.example\nrouter-max 0\nmin-free 1k\n")
	for _, dir := range []string{"postman", "log"} {
		if err := os.Mkdir(filepath.Join(p.dir, dir), 0o700); err != nil {
			b.Fatal(err)
		}
	}
	peertest.Put(b, filepath.Join(p.dir, "scheduler.cf"), fmt.Sprintf("PARAMmailqsock = \"UNIX:%s/.mailq\"\n*/*\n\tuser=0 group=0 expiry=1h\n"+
		"smtp/*.waiting.example\n\tqueueonly command=\"hold -c $channel\"\n"+
		"smtp/*\n\tmaxta=1 maxthr=20 sessions=20\n\tcommand=\"smtp -c $channel -F [127.0.0.1] -p %d --sessions ${sessions}\"\n", p.dir, to))
	return p
}

// startPrograms starts smtpserver and, if the mail is delivered, scheduler and router. It returns the
// port at which smtpserver takes mail. command makes the command of a program that runs.
func (p place) startPrograms(b *testing.B, bin string, delivered bool, command func(*exec.Cmd) *exec.Cmd) (in int, stop func()) {
	b.Helper()
	zenv := filepath.Join(p.dir, "zmailer.conf")
	peertest.Put(b, zenv, fmt.Sprintf("POSTOFFICE=%s\nMAILSHARE=%s\nMAILBIN=%s\nLOGDIR=%s/log\nSYSLOGFLG=\n",
		p.dir, p.dir, bin, p.dir))
	in = peertest.FreePort(b)
	var stops []func()
	run := func(program string, args ...string) {
		cmd := exec.Command(filepath.Join(bin, program), append([]string{"-i", "-Z", zenv}, args...)...)
		stops = append(stops, peertest.Background(b, command(cmd)))
	}
	if delivered {
		log := filepath.Join(p.dir, "log", "scheduler")
		run("scheduler", "-L", log)
		run("router")
		peertest.Until(b, "scheduler and router are ready", func() bool {
			_, err := os.Stat(filepath.Join(p.dir, ".pid.router"))
			text, _ := os.ReadFile(log)
			return err == nil && strings.Contains(string(text), "Startup scan completed")
		})
	}
	run("smtpserver", "-l", fmt.Sprint("127.0.0.1:", in))
	return in, func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// startPostfix starts Postfix. Mail that only comes in is put into its queue
// "hold", so that the queue manager does not see it.
func startPostfix(b *testing.B, r *mailRun, to int) (in int, stop func()) {
	b.Helper()
	more := []string{"in_flow_delay = 0"}
	if !r.through {
		more = append(more, "smtpd_client_restrictions = check_client_access static:HOLD")
	}
	p := peertest.NewPostfix(b, r.peers, to, more...)
	_, stop = p.StartAs(b, r.traced)
	return p.In, stop
}

// syncTime is what it takes to write and sync a new file of a size in bytes.
func syncTime(b *testing.B, size int) time.Duration {
	b.Helper()
	dir, text := b.TempDir(), make([]byte, size)
	const files = 50
	var took time.Duration
	for i := range files {
		f, err := os.Create(filepath.Join(dir, strconv.Itoa(i)))
		if err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		_, err = f.Write(text)
		if err := errors.Join(err, f.Sync()); err != nil {
			b.Fatal(err)
		}
		took += time.Since(began)
		_ = f.Close()
	}
	return took / files
}
