package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"zsched/internal/testing/peertest"
)

const (
	// messagesPerRun is how many messages each run of the benchmark delivers.
	messagesPerRun = 3000
	// rounds is how often both servers run, in turn, for one result.
	rounds = 3
)

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
// the start of the programs. The two run in turn, each time in a part of the file
// system of its own (peertest.SpreadTempDirs). All results are medians, and ratio is
// that of ours divided by that of Postfix.
//
// Postfix comes from .peers ("make peers"), and runs in a folder of its own, for
// which it must be started by root.
func BenchmarkDelivery(b *testing.B) {
	peers := peertest.Find(b)
	peertest.SpreadTempDirs(b)
	to := peers.Sink(b)
	ours, postfix := benchScheduler(b, to), benchPostfix(b, peers, to)
	results := map[string][]float64{}
	add := func(server string, m measured) {
		results[server+"-messages/s"] = append(results[server+"-messages/s"], messagesPerRun/m.elapsed.Seconds())
		for program, d := range m.cpu {
			unit := program + "-cpu-µs/message"
			results[unit] = append(results[unit], float64(d.Microseconds())/messagesPerRun)
		}
	}
	for b.Loop() {
		for range rounds {
			add("zsched", ours())
			add("postfix", postfix())
		}
	}
	for unit, values := range results {
		b.ReportMetric(peertest.Median(values), unit)
	}
	b.ReportMetric(peertest.Median(results["zsched-messages/s"])/peertest.Median(results["postfix-messages/s"]), "ratio")
	b.ReportMetric(0, "ns/op")
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

func benchScheduler(b *testing.B, port int) func() measured {
	b.Helper()
	bin := b.TempDir()
	for program, source := range map[string]string{"scheduler": "../../scheduler", "ta/smtp": "."} {
		peertest.Run(b, exec.Command("go", "build", "-o", filepath.Join(bin, program), source))
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
			peertest.Put(b, filepath.Join(office, "queue", fmt.Sprint(i+1)), body)
		}
		for _, d := range []string{"router", "public", "postman"} {
			if err := os.Mkdir(filepath.Join(office, d), 0o755); err != nil {
				b.Fatal(err)
			}
		}
		peertest.Put(b, filepath.Join(office, "zmailer.conf"), "POSTOFFICE="+office+"\nMAILBIN="+bin+"\nMAILSHARE="+office+"\nLOGDIR="+office+"\nSYSLOGFLG=\n")
		peertest.Put(b, filepath.Join(office, "scheduler.cf"), fmt.Sprintf("PARAMmailqsock = \"UNIX:%s/.mailq\"\n*/*\n\tuser=0 group=0 expiry=1h\n"+
			"smtp/*\n\tmaxta=1 maxthr=20 sessions=20\n\tcommand=\"smtp -c $channel -F [127.0.0.1] -p %d --sessions ${sessions}\"\n", office, port))
		cmd := exec.Command(filepath.Join(bin, "scheduler"), "-i", "-Z", filepath.Join(office, "zmailer.conf"), "-f", filepath.Join(office, "scheduler.cf"))
		start := time.Now()
		stop := peertest.Background(b, cmd)
		peertest.Until(b, "the scheduler has delivered", emptied(b, transport))
		m := measured{elapsed: changedAt(b, transport).Sub(start), cpu: cpuTimes(b, cmd.Process.Pid)}
		stop()
		return m
	}
}
