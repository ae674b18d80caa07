package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// TestTop drives mailq --top in a pseudo-terminal: it must show the queue,
// follow the keys, survive another size of the screen, and leave the terminal
// as it was.
func TestTop(t *testing.T) {
	const until, end = "S: +OK until LF.LF\n", "S: .\n"
	const help = "C: HELP\n" + until + "S: [JSON] SHOW COUNTERS\n" + end
	threads := "C: JSON SHOW QUEUE THREADS\n" + until +
		`S: {"ring":1,"channel":"smtp","host":"a.example","jobs":1,"recipients":1,"oldest_at":"2026-11-21T10:00:00Z"}` + "\n" +
		`S: {"ring":1,"channel":"smtp","host":"b.example","jobs":9,"recipients":12,"oldest_at":"2026-11-21T10:00:00Z","reason":"busy"}` + "\n" + end +
		"C: JSON SHOW SNMP\n" + until + `S: {"agents":3}` + "\n" + end
	// The server has more when it is asked again.
	later := strings.Replace(threads, end, `S: {"ring":1,"channel":"smtp","host":"c.example","jobs":1}`+"\n"+end, 1)
	jobs := "C: JSON SHOW THREAD smtp b.example\n" + until +
		`S: {"channel":"smtp","host":"b.example","spoolid":"S1abc","sender":"alice@a.example","recipients":[{"offset":1,"attempts":2,"reason":"busy"}]}` + "\n" + end
	socket := filepath.Join(t.TempDir(), "mailq")
	server := playOnce(t, socket, "S: version zmailer 2.0\nS: 220 MAILQ-V2-CHALLENGE: 1.2.3\nC~ AUTH nobody \nS: +OK\n"+help+
		threads+jobs+"C: HOLD MSG S1abc\nS: +OK; HOLD 1 messages, 1 recipients, 1 threads.\n"+jobs+later)

	terminal := start(t, "-p", socket, "--top", "--every", "1h")
	terminal.shows("smtp/b.example")
	terminal.types("\r")
	terminal.shows("S1abc")
	terminal.types("h")
	terminal.shows("S1abc? (y/n)")
	terminal.types("y")
	terminal.shows("threads.")
	if err := pty.Setsize(terminal.File, &pty.Winsize{Rows: 12, Cols: 60}); err != nil {
		t.Fatal(err)
	}
	terminal.types("?")
	terminal.shows("explain")
	terminal.types("\x7f")
	terminal.types("\x7f")
	terminal.shows("smtp/c.example")
	terminal.types("q")
	terminal.shows(normalScreen)
	terminal.ends(0)
	if err := <-server; err != nil {
		t.Errorf("the server: %v", err)
	}
}

// TestTopEnds: on signals of a terminal that goes away, and before it has
// begun where nobody answers.
func TestTopEnds(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "mailq")
	terminal := start(t, "-p", socket, "--top")
	terminal.shows("connect failed")
	terminal.ends(exitUnavailable)

	playOnce(t, socket, "S: version zmailer 2.0\nS: 220 MAILQ-V2-CHALLENGE: 1.2.3\nC~ AUTH nobody \nS: +OK\nC: HELP\nC: never\n")
	terminal = start(t, "-p", socket, "--top")
	terminal.shows("asking")
	if err := terminal.cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	terminal.shows(normalScreen)
	terminal.ends(0)
}

// normalScreen is what an xterm is told at the end of a full screen.
const normalScreen = "\x1b[?1049l"
