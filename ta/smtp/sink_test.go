package smtp

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

// findSink finds Postfix's smtp-sink in the PATH or in .peers ("make peers"), and what
// it needs in its environment.
func findSink(t testing.TB) (program, environment string) {
	t.Helper()
	if program, err := exec.LookPath("smtp-sink"); err == nil {
		return program, ""
	}
	peers, err := filepath.Abs("../../.peers")
	if err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(peers, "usr/sbin/smtp-sink")
	if _, err := os.Stat(program); err != nil {
		t.Skip("no smtp-sink, neither installed nor in .peers: make peers gets it")
	}
	return program, "LD_LIBRARY_PATH=" + filepath.Join(peers, "usr/lib/postfix")
}

// sink starts smtp-sink and returns its port.
func sink(t testing.TB, args ...string) int {
	t.Helper()
	program, environment := findSink(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	if os.Geteuid() == 0 {
		args = append([]string{"-u", "nobody"}, args...)
	}
	cmd := exec.Command(program, append(args, fmt.Sprintf("127.0.0.1:%d", port), "100")...)
	cmd.Env = append(os.Environ(), environment)
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for range 500 {
		nc, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = nc.Close()
			return port
		}
		<-time.After(10 * time.Millisecond)
	}
	t.Fatalf("smtp-sink does not listen: %s", said.String())
	return 0
}

func TestPostfixSink(t *testing.T) {
	findSink(t)
	for _, c := range []struct{ args, said string }{
		{"", "ok3"}, {"-p", "ok3"}, {"-e", "ok3"}, {"-8", "ok3"}, {"-L", "ok3"}, {"-p -L", "ok3"},
		{"-r rcpt", "deferred"}, {"-r mail", "deferred"}, {"-r .", "deferback"}, {"-r data", "deferback"}, {"-r connect", "deferall"},
		{"-f rcpt", "error2"}, {"-f mail", "error2"}, {"-f .", "error2"}, {"-f data", "error2"},
		{"-q mail", "deferred"}, {"-q data", "deferback"}, {"-q .", "deferback"}, {"-q connect", "deferall"},
	} {
		t.Run("smtp-sink"+c.args, func(t *testing.T) {
			o := newTestSpool(t)
			opts := Options{Name: "mta.example", Port: sink(t, strings.Fields(c.args)...), Resolver: one, Limits: DefaultLimits(), LMTP: strings.Contains(c.args, "-L")}
			a := New(opts)
			defer a.Close()
			o.message(1, to("bob@a.example", "eve@a.example"), header, ".dots\n..\nGrüße\n"+strings.Repeat(strings.Repeat("long ", 190)+"\n", 500))
			said := o.brief(o.feed(a, "1"))
			want := 2
			if c.said == "deferall" {
				want = 1
			}
			if strings.Count(said, " "+c.said+" ") != want || strings.Count(said, "\n") != want {
				t.Errorf("smtp-sink %s: %s, want %s", c.args, said, c.said)
			}
			if c.said != "ok3" {
				return
			}
			// Nine more over the same connection.
			var jobs []string
			for i := range 9 {
				o.message(i+2, to("bob@a.example"), header, "text\n")
				jobs = append(jobs, fmt.Sprint(i+2))
			}
			if said := o.feed(a, jobs...); strings.Count(said, "\tok3 ") != 9 || a.pool.opened != 1 {
				t.Errorf("smtp-sink %s: %d connections, %s", c.args, a.pool.opened, said)
			}
		})
	}
}

// BenchmarkSink measures deliveries to smtp-sink, and the processor time that the agent
// takes for each.
func BenchmarkSink(b *testing.B) {
	findSink(b)
	for _, sessions := range []int{1, 20} {
		b.Run(fmt.Sprint("sessions=", sessions), func(b *testing.B) {
			o := newTestSpool(b)
			limits := DefaultLimits()
			limits.Sessions = sessions
			a := New(Options{Name: "mta.example", Port: sink(b), Resolver: one, Limits: limits})
			defer a.Close()
			var jobs []string
			for i := range b.N {
				o.message(i+1, to("bob@a.example"), header, strings.Repeat("text of a message\n", 100))
				jobs = append(jobs, fmt.Sprintf("%d\ta.example", i+1))
			}
			w := o.talk(a, sessions)
			before := cpuTime(b)
			b.ResetTimer()
			w.feed(b, jobs...)
			said := w.end(b)
			b.StopTimer()
			b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/1000/float64(b.N), "cpu-µs/message")
			if n := strings.Count(said, "\tok3 "); n != b.N {
				b.Fatalf("%d of %d delivered", n, b.N)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
		})
	}
}

// cpuTime returns the processor time of this process.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
