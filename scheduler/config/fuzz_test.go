package config

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"zsched/scheduler/rule"
)

// Whatever the bytes are: nothing panics, two reads agree, errors and clauses
// have places in the file, and there are no more of them than words.
func FuzzParse(f *testing.F) {
	// Whole files take too long to vary; their lines do.
	data, err := os.ReadFile("testdata/wrong.cf")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		f.Add([]byte("x\n" + line))
	}
	f.Add([]byte("*/*\n\tinterval=1m\na\nb/*\n command=\"c \\\n d\" # e\nPARAMagent-timeout = 1h"))
	f.Add([]byte("x=\"a\\\n\\"))
	f.Add([]byte("\n \n\n \r\n#\n #\nPARAM=\n=\n = \"\xff\x00"))
	system := debian(0)
	f.Fuzz(func(t *testing.T, data []byte) {
		one, errOne := Parse("f", data, system)
		two, errTwo := Parse("f", data, system)
		if got, want := report(two, errTwo), report(one, errOne); got != want {
			t.Fatalf("two reads differ:\n%s\nand\n%s", want, got)
		}
		lines := strings.Count(string(data), "\n") + 1
		var wrong Errors
		if errors.As(errOne, &wrong) {
			if len(wrong) == 0 || len(wrong) > len(data)+1 {
				t.Fatalf("%d errors", len(wrong))
			}
			for _, e := range wrong {
				if e.Line < 1 || e.Line > lines || e.Column < 1 {
					t.Fatalf("an error out of the file: %v", e)
				}
			}
			return
		}
		settings := 0
		for _, c := range one.Scheduler.Clauses {
			if c.Line < 1 || c.Line > lines || c.Host == "" {
				t.Fatalf("clause %+v", c)
			}
			settings = max(settings, len(c.Settings))
		}
		if len(one.Scheduler.Clauses) > len(data) || settings > len(data) {
			t.Fatal("more clauses or settings than bytes")
		}
	})
}

// report is all that reading a file gave, as text.
func report(f *File, err error) string {
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	b.WriteString(clauses(f))
	for i := range f.Scheduler.Clauses {
		b.WriteString(strings.Join(lines(keywords, f.Effective(i)), " ") + "\n")
	}
	for _, w := range f.Warnings {
		b.WriteString(w.String() + "\n")
	}
	return b.String() + strings.Join(lines(params, f.Params), "\n")
}

// FuzzTables reads any rate and any file of shares: spans and weights are within their bounds.
func FuzzTables(f *testing.F) {
	f.Add("500/1d", "example.org 3\n# x\na@b 100\n")
	f.Add("0", "x 0\ny 99999999999999999999\n\x00 1\n")
	f.Add("1/1y", "a 1 b\n")
	f.Fuzz(func(t *testing.T, text, shares string) {
		if r, err := parseRate(text); err == nil && (r.Recipients < 1 || r.Span < time.Second) {
			t.Errorf("%q is read as %v", text, r)
		}
		weights, _ := parseShares("f", []byte(shares))
		for name, weight := range weights {
			if name == "" || weight < 1 || weight > maxWeight {
				t.Errorf("%q has the weight %d", name, weight)
			}
		}
	})
}

// FuzzReply reads any line as a reply rule: one that is accepted has an action, with a
// time if the action takes one, and matches or not.
func FuzzReply(f *testing.F) {
	f.Add(`reply smtp/*.example "^4\.7\.\d+ 421 " suspend 15m`, "4.7.1 421 later")
	f.Add(`reply * "a\"b" rate 2/1m 1h # x`, `a"b`)
	f.Add(`reply x/y "(?i)(" rate 1/1s 1d`, "")
	f.Add("reply smtp/* \"\\", "\x00")
	f.Fuzz(func(t *testing.T, line, text string) {
		reply, err := parseReply(line)
		if err != nil {
			return
		}
		reply.Match(text)
		if reply.Verb != rule.ReplyFail && (reply.Span < time.Second || reply.Span > year) || reply.Host == "" || reply.Action == "" {
			t.Errorf("%q is read as %+v", line, reply)
		}
	})
}
