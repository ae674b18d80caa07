package ta

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func BenchmarkParseSaid(b *testing.B) {
	for name, line := range map[string]string{
		"hungry":   "#hungry",
		"ok3":      "15582/109\t\tok3 250 ok",
		"deferred": "860242/160\ttemp1@one.example\x01failed\x014.2.2\x01smtp; 451 (later)\x01dns; mx\x01smtp[2445]\tdeferred \r<<- MAIL\r->> 451 4.2.2 later",
	} {
		b.Run(name, func(b *testing.B) {
			in := []byte(line)
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				ParseLine(in)
			}
		})
	}
}

func BenchmarkAppendReport(b *testing.B) {
	r := Report{Message: 15582, Offset: 109, Status: OK3, Text: "250 ok"}
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		out = AppendReport(out[:0], r)
	}
}

func BenchmarkLines(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			stream := bytes.Repeat([]byte("B/I/15582\texample.net\n"), n)
			b.SetBytes(int64(len(stream)))
			b.ReportAllocs()
			for b.Loop() {
				l := NewLineReader(bytes.NewReader(stream), MaxLine)
				for {
					if _, err := l.Next(); err != nil {
						break
					}
				}
			}
		})
	}
}

// BenchmarkWork is one message from job line to report, with nothing done to
// deliver it: what the protocol and the control file cost.
func BenchmarkWork(b *testing.B) {
	for name, marking := range map[string]Marking{"agent": AgentMarks, "scheduler": SchedulerMarks} {
		for _, recipients := range []int{1, 100} {
			b.Run(fmt.Sprintf("%s/%d", name, recipients), func(b *testing.B) { benchWork(b, marking, recipients) })
		}
	}
}

func benchWork(b *testing.B, marking Marking, recipients int) {
	dir := b.TempDir()
	for _, d := range []string{"transport", "queue"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			b.Fatal(err)
		}
	}
	const messages = 500
	to := strings.Repeat(rcpt("smtp", "a.example", "bob@a.example")+"\n", recipients)
	for i := range messages {
		control := fmt.Sprintf("@ 0x00000007\ni %d\no 24\nl <m@example.org>\ne alice@example.org\n"+
			"s smtp mx.example.org alice@example.org 0\n%sm\nReceived: by mx\n\tid 1\nSubject: x\n\n", i+1, to)
		for name, text := range map[string]string{"transport": control, "queue": ""} {
			if err := os.WriteFile(filepath.Join(dir, name, fmt.Sprint(i+1)), []byte(text), 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	s := &Server{Channel: "smtp", Marking: marking, Dir: filepath.Join(dir, "transport"),
		Err: os.Stderr, Deliver: with(Result{Status: OK})}
	at := newSession(s, newOutput(io.Discard), 0)
	done := 0
	b.ReportAllocs()
	for b.Loop() {
		at.work(JobLine{Path: fmt.Sprint(done%messages + 1), Host: "a.example"})
		if done++; done%messages == 0 && marking == AgentMarks {
			b.StopTimer()
			for i := range messages {
				reopen(b, filepath.Join(s.Dir, fmt.Sprint(i+1)))
			}
			b.StartTimer()
		}
	}
	if err := at.out.close(); err != nil {
		b.Fatal(err)
	}
}

// reopen takes back all deliveries of a message.
func reopen(b *testing.B, control string) {
	f, err := os.OpenFile(control, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := f.WriteAt(bytes.ReplaceAll(text, []byte("\nr+"), []byte("\nr ")), 0); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkManyHosts is one job line for one recipient of eight messages, whose job lines take
// turns. Each is for 20 000 hosts, and its control file has 1.1 MB.
func BenchmarkManyHosts(b *testing.B) {
	const hosts = 20_000
	dir := b.TempDir()
	var to strings.Builder
	for i := range hosts {
		fmt.Fprintf(&to, "%s\n", rcpt("smtp", fmt.Sprintf("h%d.example", i), fmt.Sprintf("user@h%d.example", i)))
	}
	for name, text := range map[string]string{"queue": "", "transport": "@ 0x00000007\ni %d\no 24\ne alice@example.org\n" +
		"s smtp mx.example.org alice@example.org 0\n" + to.String() + "m\nSubject: x\n\n"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			b.Fatal(err)
		}
		for i := range 8 {
			number := strconv.Itoa(i + 1)
			if err := os.WriteFile(filepath.Join(dir, name, number), []byte(strings.Replace(text, "%d", number, 1)), 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	s := &Server{Channel: "smtp", Dir: filepath.Join(dir, "transport"), Err: os.Stderr, Deliver: with(Result{Status: Deferred})}
	at := newSession(s, newOutput(io.Discard), 0)
	done := 0
	b.ReportAllocs()
	for b.Loop() {
		at.work(JobLine{Path: strconv.Itoa(done%8 + 1), Host: fmt.Sprintf("h%d.example", done/8%hosts)})
		done++
	}
}
