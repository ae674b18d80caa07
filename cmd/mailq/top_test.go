package main

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	until    = "S: +OK until LF.LF\n"
	end      = "S: .\n"
	greeting = "S: version zmailer 2.0\nS: 220 MAILQ-V2-CHALLENGE: 1.2.3\nC~ AUTH nobody \nS: +OK\n"
	totals   = greeting + "C: JSON SHOW SNMP\n" + until + `S: {"agents":3}` + "\n" + end
)

// screen is a session that shows a thread, which is as wide as the screen.
func screen(host string) string {
	return totals + "C: JSON SHOW QUEUE THREADS\n" + until +
		`S: {"ring":1,"channel":"smtp","host":"` + host + `","job_lines":1,"recipients":1,"oldest_at":"2026-11-21T10:00:00Z","reason":"` +
		strings.Repeat("busy ", 30) + `"}` + "\n" + end + "C: QUIT\nS: +Bye bye\n"
}

// TestTop drives mailq top in a pseudo-terminal: it shows the queue again and again, says when the
// server does not answer, and leaves the terminal as it was. No line is wider than the screen.
func TestTop(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "mailq")
	server := playOnce(t, socket, screen("a.example"), screen("b.example"), "S: 500 no\n", screen("c.example"))
	terminal := start(t, "-p", socket, "top", "--every", "1s")
	for _, text := range []string{"3 agents", "smtp/a.example", "smtp/b.example", "no answer: ", "smtp/c.example"} {
		terminal.shows(text)
	}
	if err := <-server; err != nil {
		t.Errorf("the server: %v", err)
	}
	if err := terminal.cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	terminal.shows(usualScreen)
	terminal.ends(0)
	for page := range strings.SplitSeq(terminal.read, clearScreen) {
		for line := range strings.SplitSeq(page, "\r\n") {
			if line = strings.TrimSuffix(line, usualScreen); len(line) > 100 {
				t.Errorf("%d columns: %q", len(line), line)
			}
		}
	}
}

// TestTopNeedsAServer: where nobody answers, it ends before it has begun.
func TestTopNeedsAServer(t *testing.T) {
	terminal := start(t, "-p", filepath.Join(t.TempDir(), "mailq"), "top")
	terminal.shows("connect failed")
	terminal.ends(exitUnavailable)
}
