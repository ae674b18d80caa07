package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"zsched/internal/version"
	child "zsched/scheduler/agent"
	"zsched/ta"
)

// The test binary runs as discard if PLAY says so.
func TestMain(m *testing.M) {
	if os.Getenv("PLAY") == "discard" {
		main()
	}
	os.Exit(m.Run())
}

// spool makes a postoffice with n single-recipient messages.
func spool(tb testing.TB, n int) (transport string) {
	tb.Helper()
	dir := tb.TempDir()
	for _, d := range []string{"transport", "queue"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			tb.Fatal(err)
		}
	}
	for i := range n {
		control := fmt.Sprintf("@ 0x00000007\ni %d\no 24\nl <m@example.org>\ne alice@example.org\n"+
			"s smtp mx.example.org alice@example.org 0\nr           smtp a.example bob@a.example 0\n"+
			"m\nReceived: by mx\n\tid 1\nSubject: x\nTo: you\n\n", i+1)
		for file, text := range map[string]string{"transport": control, "queue": "Subject: x\n\nthe text of a message\n"} {
			if err := os.WriteFile(filepath.Join(dir, file, fmt.Sprint(i+1)), []byte(text), 0o644); err != nil {
				tb.Fatal(err)
			}
		}
	}
	return filepath.Join(dir, "transport")
}

func start(tb testing.TB, marking, transport string, args ...string) (*child.Agent, chan []child.Event) {
	tb.Helper()
	heard := make(chan []child.Event, 64)
	c, err := child.Start(child.Spec{
		Path: "/proc/self/exe", Args: append([]string{"discard"}, args...), Dir: transport,
		Env: []string{"PLAY=discard", "GORACE=atexit_sleep_ms=0", "TA_MARKING=" + marking}, UID: -1, GID: -1,
	}, func(b []child.Event) { heard <- b })
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Signal(unix.SIGKILL) })
	return c, heard
}

// rest returns the lines of an agent up to its end.
func rest(heard chan []child.Event) (lines []string, end child.Exited) {
	for {
		for _, h := range <-heard {
			switch h := h.(type) {
			case child.Line:
				line := "#hungry"
				switch h.Kind {
				case ta.Reported:
					line = string(ta.AppendReport(nil, h.Report))
				case ta.Reports:
					line = ta.ReportsLine
				}
				lines = append(lines, strings.TrimSpace(line))
			case child.Exited:
				return lines, h
			}
		}
	}
}

func TestDiscard(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	for _, c := range []struct {
		args, told, said, end string
		marking               string // who marks, as the scheduler says
	}{
		{args: "-c smtp", told: "1\ta.example\n#idle\n\n", said: "#hungry;1/102\t\tok3 discarded;#hungry;#hungry", end: "exit status 0"},
		{args: "-c smtp --sessions 2 --fail 100", told: "1\ta.example\n\n", said: "#hungry;#hungry;1/102\t\terror2 failed on request;#hungry", end: "exit status 0"},
		{args: "--marking agent", told: "1\ta.example\n\n", marking: "scheduler",
			said: "#hungry;1/102\tbob@a.example\x01delivered\x012.0.0\x01x-local; 250 (discarded)\x01\x01discard[PID]\tok3 discarded;#hungry", end: "exit status 0"},
		{args: "a.example", told: "1\n\n", marking: "scheduler",
			said: "#reports;#hungry;1/102\tbob@a.example\x01delivered\x012.0.0\x01x-local; 250 (discarded)\x01\x01discard[PID]\tok discarded;#hungry", end: "exit status 0"},
		{args: "--log LOG", told: "1\ta.example\n\n", said: "#hungry;1/102\t\tok3 discarded;#hungry", end: "exit status 0"},
		{args: "--log /dev/full", told: "1\ta.example\n\n",
			said: "#hungry;1/102\tbob@a.example\x01delayed\x014.3.0\x01x-local; 400 (write /dev/full: no space left on device)\x01\x01discard[PID]\tdeferred write /dev/full: no space left on device;#hungry", end: "exit status 0"},
		{args: "--defer 100", told: "1\ta.example\n\n",
			said: "#hungry;1/102\tbob@a.example\x01delayed\x014.3.0\x01x-local; 400 (deferred on request)\x01\x01discard[PID]\tdeferred deferred on request;#hungry", end: "exit status 0"},
		{args: "--deferall 100", told: "1\ta.example\n\n",
			said: "#hungry;1/102\tbob@a.example\x01delayed\x014.4.1\x01x-local; 400 (destination is out of order)\x01\x01discard[PID]\tdeferall destination is out of order;#hungry", end: "exit status 0"},
		{args: "--fail 60 --defer 60", end: "exit status 64"},
		{args: "--log /none/such", end: "exit status 64"},
		{args: "--marking nobody", end: "exit status 64"},
		{args: "one two", end: "exit status 64"},
		{args: "--fail 101", end: "exit status 64"},
		{args: "--fail", end: "exit status 64"},
	} {
		agent, heard := start(t, c.marking, spool(t, 1), strings.Fields(strings.ReplaceAll(c.args, "LOG", log))...)
		_ = agent.Send([]byte(c.told)) // the last ones may be gone already
		said, end := rest(heard)
		got := strings.ReplaceAll(strings.Join(said, ";"), fmt.Sprint("[", agent.PID(), "]"), "[PID]")
		if got != c.said || end.Status != c.end {
			t.Errorf("discard %s: says %q and ends with %q, want %q and %q", c.args, got, end.Status, c.said, c.end)
		}
	}
	if text, err := os.ReadFile(log); err != nil || string(text) != "1 102\n" {
		t.Errorf("the log has %q, %v", text, err)
	}
}

func TestVersion(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if status := run([]string{"--version"}, &stdout, &stderr); status != 0 || !strings.HasPrefix(stdout.String(), "discard "+version.Number) {
		t.Errorf("exit status %d, %q, %q", status, &stdout, &stderr)
	}
}

// BenchmarkDiscard is the rate of a process at its socket, with a window of so
// many job lines.
func BenchmarkDiscard(b *testing.B) {
	for _, window := range []int{1, 50} {
		b.Run(fmt.Sprint("window=", window), func(b *testing.B) {
			transport := spool(b, b.N)
			agent, heard := start(b, "", transport, "-c", "smtp")
			fed, answered := 0, -1
			b.ResetTimer()
			for answered < b.N {
				for _, h := range <-heard {
					if said, ok := h.(child.Line); ok && said.Kind == ta.Hungry {
						answered++
					} else if _, gone := h.(child.Exited); gone {
						b.Fatal(h)
					}
				}
				var lines bytes.Buffer
				for ; fed < b.N && fed < answered+window; fed++ {
					fmt.Fprintf(&lines, "%d\ta.example\n", fed+1)
				}
				if err := agent.Send(lines.Bytes()); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
			agent.CloseWrite()
			rest(heard)
		})
	}
}
