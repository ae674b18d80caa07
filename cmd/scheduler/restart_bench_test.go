package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"zsched/scheduler"
	"zsched/scheduler/state"
)

// BenchmarkRestart gives the time from the SIGTERM to a scheduler until the first
// agent of its successor has a job line, with 100 000 messages that wait for their
// retry. A hundred come while no scheduler runs. They look older than the saved
// state, so that they wait until that is read.
func BenchmarkRestart(b *testing.B) {
	const messages, hosts, due = 100_000, 1000, 100
	f := newBench(b)
	po := f.postoffice(b)
	stamps := filepath.Join(po, "stamps")
	f.write(b, po, "smtp/* marking=scheduler overfeed=0 maxring=1 interval=1h command=\"stamper "+stamps+"\"\n")
	fill(b, po, messages, hosts)
	saveWaiting(b, po, messages, hosts)
	sched := f.start(b, po)
	awaitLog(b, sched, "Startup scan completed")
	var waits, stops []float64
	for b.Loop() {
		began := time.Now()
		sched.stop(b)
		stops = append(stops, time.Since(began).Seconds())
		submitting := time.Now()
		for n := range due {
			submitOld(b, po, messages+1+len(stops)*due+n, hosts)
		}
		began = began.Add(time.Since(submitting))
		os.Remove(stamps)
		sched = f.start(b, po)
		awaitStamps(b, stamps, 1)
		waits = append(waits, time.Since(began).Seconds())
		b.StopTimer()
		awaitStamps(b, stamps, due)
		awaitLog(b, sched, "Startup scan completed")
		b.StartTimer()
	}
	sched.stop(b)
	b.ReportMetric(median(waits), "s-to-first-feed")
	b.ReportMetric(median(stops), "s-to-exit")
	table, err := state.ReadFile(filepath.Join(po, state.Name))
	if err != nil || table.Recipients() != messages {
		b.Errorf("%d recipients are saved, %v", table.Recipients(), err)
	}
}

// BenchmarkRestartReading gives the time from the start until a saved state of ten
// million lines is read, and until new mail, which comes in meanwhile, is fed.
func BenchmarkRestartReading(b *testing.B) {
	const lines = 10_000_000
	f := newBench(b)
	po := f.postoffice(b)
	stamps := filepath.Join(po, "stamps")
	f.write(b, po, "smtp/* marking=scheduler overfeed=0 maxring=1 interval=1h command=\"stamper "+stamps+"\"\n")
	path := filepath.Join(po, state.Name)
	var reads, feeds []float64
	for b.Loop() {
		b.StopTimer()
		saveOthers(b, path, lines)
		os.Remove(stamps)
		b.StartTimer()
		began := time.Now()
		sched := f.start(b, po)
		submitLetter(b, po, 1+len(reads), 1)
		awaitStamps(b, stamps, 1)
		feeds = append(feeds, time.Since(began).Seconds())
		awaitLog(b, sched, fmt.Sprintf(`"recipients":%d,`, lines))
		reads = append(reads, time.Since(began).Seconds())
		b.StopTimer()
		sched.stop(b)
		b.StartTimer()
	}
	b.ReportMetric(0, "ns/op") // mostly the writing
	b.ReportMetric(median(feeds), "s-to-feed-new")
	b.ReportMetric(median(reads), "s-to-read")
}

// saveOthers writes lines about messages that are not in the queue.
func saveOthers(b *testing.B, path string, lines int) {
	w, err := state.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	next := time.Now().Add(time.Hour).Unix()
	one := scheduler.Saved{Recipients: make([]scheduler.SavedRecipient, 1)}
	for n := range lines {
		one.Recipients[0] = scheduler.SavedRecipient{
			Message: scheduler.MessageID(10_000_000 + n*7919%(lines+1)), Offset: 187, ModifiedAt: next - 7200,
			Attempts: 1, NextAt: next, FedAt: next - 3600, Step: 1, Text: "451 4.7.1 refused for now",
		}
		if err := w.Write(&one); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		b.Fatal(err)
	}
	w.Close()
}

// submitOld submits a message whose message file is an hour old.
func submitOld(b *testing.B, po string, n, hosts int) {
	submitLetter(b, po, n, hosts)
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(po, "queue", strconv.Itoa(n)), old, old); err != nil {
		b.Fatal(err)
	}
}

// saveWaiting writes the state of a scheduler that has tried all messages.
func saveWaiting(b *testing.B, po string, messages, hosts int) {
	w, err := state.Create(filepath.Join(po, state.Name))
	if err != nil {
		b.Fatal(err)
	}
	next := time.Now().Add(time.Hour).Unix()
	for n := 1; n <= messages; n++ {
		info, err := os.Stat(filepath.Join(po, "queue", strconv.Itoa(n)))
		if err != nil {
			b.Fatal(err)
		}
		control, _ := letter(n, hosts)
		err = w.Write(&scheduler.Saved{Recipients: []scheduler.SavedRecipient{{
			Message: scheduler.MessageID(n), Offset: int64(bytes.Index([]byte(control), []byte("\nr ")) + 1),
			ModifiedAt: info.ModTime().Unix(), Attempts: 1, NextAt: next, FedAt: next - 3600, Step: 1,
			Text: fmt.Sprintf("451 4.7.1 h%d.example refuses for now", n%hosts),
		}}})
		if err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		b.Fatal(err)
	}
	w.Close()
}

func countStamps(file string) int {
	data, _ := os.ReadFile(file)
	return bytes.Count(data, []byte("\n"))
}

func awaitStamps(b *testing.B, file string, count int) {
	b.Helper()
	for deadline := time.Now().Add(time.Minute); countStamps(file) < count; time.Sleep(200 * time.Microsecond) {
		if time.Now().After(deadline) {
			b.Fatalf("%d job lines, not %d", countStamps(file), count)
		}
	}
}

// awaitLog waits for a line of this scheduler in the log.
func awaitLog(b *testing.B, r *running, text string) {
	b.Helper()
	own := fmt.Appendf(nil, `"pid":%d,`, r.cmd.Process.Pid)
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		log, _ := os.ReadFile(r.log)
		if _, after, found := bytes.Cut(log, own); found && bytes.Contains(after, []byte(text)) {
			return
		}
	}
	log, _ := os.ReadFile(r.log)
	b.Fatalf("no %q in the log:\n%s", text, log)
}
