package client

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"zsched/mailq"
)

// repeated is a text that comes again and again.
type repeated struct {
	text string
	left int
	at   int
}

func (r *repeated) Read(b []byte) (int, error) {
	if r.at == len(r.text) {
		r.left--
		r.at = 0
	}
	if r.left <= 0 {
		return 0, io.EOF
	}
	n := copy(b, r.text[r.at:])
	r.at += n
	return n, nil
}

// BenchmarkListMillion: a million recipients of ten thousand threads pass
// through the client, a hundred at a time.
func BenchmarkListMillion(b *testing.B) {
	const threads, each = 10_000, 100
	row := "M/836224\t0\talice@sender.example\t210\t1795666563\t1795234580\t1795234563\t1\tretry in 8s\tsmtp; 500 (connect to 127.0.0.1: Connection refused)\n"
	answer := "+OK until LF.LF\n#smtp/x.example/0\n" + strings.Repeat(row, each) + ".\n"
	names := make([]mailq.Name, threads)
	for i := range names {
		names[i] = mailq.Name{Channel: "smtp", Host: fmt.Sprintf("h%d.example", i)}
	}
	b.ReportAllocs()
	for b.Loop() {
		server := io.MultiReader(strings.NewReader(mailq.GreetingV2+"\n220 x\n"), &repeated{text: answer, left: threads})
		c, err := New(scriptedServer{Reader: server}, Options{})
		if err != nil {
			b.Fatal(err)
		}
		var count lineCount
		if err := c.TextJobs(names, (&Printer{Out: &count, Now: captureTime, ZMailer: true}).Job); err != nil {
			b.Fatal(err)
		}
		if count != threads*(each+1) {
			b.Fatalf("%d lines", count)
		}
	}
}

// BenchmarkThreadsMillion: the report of -Q, a line for each of a million
// threads.
func BenchmarkThreadsMillion(b *testing.B) {
	const threads = 1_000_000
	line := "    smtp/h04.smtp.example/0\tN=1   R=20  A=0  P={10340} HA={12}s FA={12}s OF={1} S={STUFF} UF=0 QA=22m39s\n"
	b.ReportAllocs()
	for b.Loop() {
		server := io.MultiReader(strings.NewReader(mailq.GreetingV2+"\n220 x\n+OK until LF.LF\n"), &repeated{text: line, left: threads}, strings.NewReader(".\n"))
		c, err := New(scriptedServer{Reader: server}, Options{})
		if err != nil {
			b.Fatal(err)
		}
		var count lineCount
		p := &Printer{Out: &count, Now: captureTime}
		for line, err := range c.Show("SHOW QUEUE THREADS") {
			if err != nil {
				b.Fatal(err)
			}
			_ = p.Line(line)
		}
		if count != threads {
			b.Fatalf("%d lines", count)
		}
	}
}

// lineCount counts the lines that are written to it, each in one piece.
type lineCount int

func (c *lineCount) Write(b []byte) (int, error) {
	*c += lineCount(strings.Count(string(b), "\n"))
	return len(b), nil
}

// BenchmarkReadManyHosts is what mailq -v reads for one thread of a message to 20 000
// hosts.
func BenchmarkReadManyHosts(b *testing.B) {
	spool, _ := manyHosts(b, 20_000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := spool.Read("15582"); err != nil {
			b.Fatal(err)
		}
	}
}
