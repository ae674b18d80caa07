package client

import (
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
		if _, err := spool.Read("15582", "h7.example"); err != nil {
			b.Fatal(err)
		}
	}
}
