package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// messagesPerRun is how many messages each run of the benchmark delivers.
const messagesPerRun = 3000

// measured is the result of one run.
type measured struct {
	elapsed time.Duration
	cpu     map[string]time.Duration // of all processes of a program
}

// BenchmarkDelivery measures deliveries to Postfix's smtp-sink, over twenty
// connections: by our scheduler with this agent, and by Postfix's own queue manager
// and smtp. Both have their queue on disk when they are started. The end is the
// modification time of the queue's directory after the last message has left it, so
// that the benchmark need not read the directory meanwhile. Processor time includes
// the start of the programs.
//
// Postfix comes from .peers ("make peers"), and runs in a folder of its own, for
// which it must be started by root.
func BenchmarkDelivery(b *testing.B) {
	peers := findPeers(b)
	for name, prepare := range map[string]func(*testing.B, string, int) func() measured{"scheduler": benchScheduler, "postfix": benchPostfix} {
		b.Run(name, func(b *testing.B) {
			if os.Geteuid() != 0 {
				b.Skip("Postfix and its smtp-sink must be started by root")
			}
			deliver := prepare(b, peers, startSink(b, peers))
			var elapsed time.Duration
			cpu := map[string]time.Duration{}
			for b.Loop() {
				m := deliver()
				elapsed += m.elapsed
				for program, d := range m.cpu {
					cpu[program] += d
				}
			}
			n := float64(messagesPerRun * b.N)
			b.ReportMetric(n/elapsed.Seconds(), "messages/s")
			for program, d := range cpu {
				b.ReportMetric(float64(d.Microseconds())/n, program+"-cpu-µs/message")
			}
		})
	}
}

// findPeers returns the folder that Postfix's package was unpacked in.
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

func mustRun(tb testing.TB, cmd *exec.Cmd) {
	tb.Helper()
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("%s: %v\n%s", cmd.Path, err, out)
	}
}

// background runs a program and its children until stop is called or the benchmark
// is over.
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

// freePort returns a port that nobody listens at now.
func freePort(tb testing.TB) int {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

// until waits until a condition holds.
func until(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	for end := time.Now().Add(time.Minute); !holds(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatal("waited a minute until " + what)
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

// empty reports whether no file is left below some folders.
func empty(folders ...string) func() bool {
	return func() bool {
		found := false
		for _, f := range folders {
			_ = filepath.WalkDir(f, func(_ string, d os.DirEntry, err error) error {
				if err == nil && d.Type().IsRegular() && !strings.HasPrefix(d.Name(), ".") {
					found = true
					return filepath.SkipAll
				}
				return nil
			})
		}
		return !found
	}
}

// emptied reports whether folders are empty, like empty, but looks into them only
// when the first has not changed for a while: to read a folder that is worked in
// takes as long as a good part of that work.
func emptied(tb testing.TB, folders ...string) func() bool {
	look := empty(folders...)
	return func() bool { return time.Since(changedAt(tb, folders[0])) > 50*time.Millisecond && look() }
}

// changedAt is when a file was last put into a folder or removed from it.
func changedAt(tb testing.TB, folder string) time.Time {
	tb.Helper()
	info, err := os.Stat(folder)
	if err != nil {
		tb.Fatal(err)
	}
	return info.ModTime()
}

// cpuTimes is the processor time of a process and its descendants by program, as
// far as it has used any. A process includes its children that have ended.
func cpuTimes(tb testing.TB, root int) map[string]time.Duration {
	tb.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		tb.Fatal(err)
	}
	type process struct {
		program string
		parent  int
		used    time.Duration
	}
	all := map[int]process{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// pid (program) state ppid … utime stime cutime cstime, proc(5)
		start, end := strings.IndexByte(string(text), '('), strings.LastIndexByte(string(text), ')')
		fields := strings.Fields(string(text[end+1:]))
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		p := process{program: string(text[start+1 : end])}
		p.parent, _ = strconv.Atoi(fields[1])
		for _, f := range fields[11:15] {
			ticks, _ := strconv.Atoi(f)
			p.used += time.Duration(ticks) * 10 * time.Millisecond // USER_HZ is 100
		}
		all[pid] = p
	}
	times := map[string]time.Duration{}
	for pid, p := range all {
		for up := pid; up != 0; up = all[up].parent {
			if up == root && p.used > 0 {
				times[p.program] += p.used
				break
			}
		}
	}
	return times
}

func benchScheduler(b *testing.B, _ string, port int) func() measured {
	b.Helper()
	bin := b.TempDir()
	for program, source := range map[string]string{"scheduler": "../../scheduler", "ta/smtp": "."} {
		mustRun(b, exec.Command("go", "build", "-o", filepath.Join(bin, program), source))
	}
	hosts := make([]string, messagesPerRun)
	for i := range hosts {
		hosts[i] = "a.example"
	}
	return func() measured {
		transport := spool(b, hosts...)
		office := filepath.Dir(transport)
		body := strings.Repeat("text of a message\n", 100)
		for i := range messagesPerRun {
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
		start := time.Now()
		stop := background(b, cmd)
		until(b, "the scheduler has delivered", emptied(b, transport))
		m := measured{elapsed: changedAt(b, transport).Sub(start), cpu: cpuTimes(b, cmd.Process.Pid)}
		stop()
		return m
	}
}

func put(tb testing.TB, name, text string) {
	tb.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		tb.Fatal(err)
	}
}
