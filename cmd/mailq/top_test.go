package main

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

const (
	until    = "S: +OK until LF.LF\n"
	end      = "S: .\n"
	greeting = "S: version zmailer 2.0\nS: 220 MAILQ-V2-CHALLENGE: 1.2.3\nC~ AUTH nobody \nS: +OK\n"
	checked  = greeting + "C: QUIT\nS: +Bye bye\n"
	totals   = greeting + "C: JSON SHOW SNMP\n" + until + `S: {"agents":3}` + "\n" + end
)

// threads is a session that shows the page of threads.
func threads(hosts ...string) string {
	session := totals + "C: JSON SHOW QUEUE THREADS\n" + until
	for i, host := range hosts {
		session += fmt.Sprintf(`S: {"ring":1,"channel":"smtp","host":%q,"jobs":1,"recipients":%d,"oldest_at":"2026-11-21T10:00:00Z","reason":"busy"}`+"\n", host, 1+i)
	}
	return session + end
}

// TestTop drives mailq top in a pseudo-terminal: it must show the queue,
// follow the keys, survive another size of the screen, and leave the terminal
// as it was.
func TestTop(t *testing.T) {
	jobs := func(id string) string {
		return totals + "C: JSON SHOW THREAD smtp b.example\n" + until +
			`S: {"channel":"smtp","host":"b.example","spoolid":"` + id + `","sender":"alice@a.example","recipients":[{"offset":1,"attempts":2,"reason":"busy"}]}` + "\n" + end
	}
	const outcome = "S: +OK; {\"messages\":1,\"recipients\":1,\"threads\":1}\n"
	socket := filepath.Join(t.TempDir(), "mailq")
	server := playOnce(t, socket, checked, threads("a.example", "b.example"), jobs("S1abc"),
		greeting+"C: HOLD MSG S1abc DRYRUN FOR 2h BECAUSE rain\n"+outcome, greeting+"C: HOLD MSG S1abc FOR 2h BECAUSE rain\n"+outcome,
		jobs("S2def"), jobs("S3ghi"), threads("a.example", "b.example", "c.example"))

	terminal := start(t, "-p", socket, "top", "--every", "1h")
	terminal.shows("smtp/b.example")
	terminal.types("\r")
	terminal.shows("S1abc")
	terminal.types("h")
	terminal.shows("released):")
	terminal.types("2h\rrain\r")
	terminal.shows("(y/n)")
	terminal.types("y\r")
	terminal.shows("done:")
	terminal.shows("2def")
	if err := pty.Setsize(terminal.File, &pty.Winsize{Rows: 24, Cols: 90}); err != nil {
		t.Fatal(err)
	}
	terminal.types("?")
	terminal.shows("release;")
	terminal.types("\x7f")
	terminal.shows("S3ghi")
	terminal.types("\x7f")
	terminal.shows("smtp/c.example")
	terminal.types("q")
	terminal.shows(normalScreen)
	terminal.ends(0)
	if err := <-server; err != nil {
		t.Errorf("the server: %v", err)
	}
}

// TestTopSuspends: Ctrl-Z gives the terminal back to the shell as it was, and fg
// shows the queue again. The end leaves the terminal as it was, too.
func TestTopSuspends(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "mailq")
	servers := playOnce(t, socket, checked, threads("a.example"), threads("zzzz"))
	terminal := startCommand(t, "TZ=UTC", "sh", "-c", `set -m
		before=$(stty -g)
		mailq -p `+socket+` top --every 1h
		echo "stopped $?"
		test "$before" = "$(stty -g)" && echo same settings
		fg >/dev/null
		echo "ended $?"
		test "$before" = "$(stty -g)" && echo same again`)
	terminal.shows("smtp/a.example")
	terminal.types("\x1a")
	terminal.shows(normalScreen)
	terminal.shows("stopped 148") // 128 and SIGTSTP
	terminal.shows("same settings")
	terminal.shows("zzzz")
	terminal.types("q")
	terminal.shows(normalScreen)
	terminal.shows("ended 0")
	terminal.shows("same again")
	terminal.ends(0)
	if err := <-servers; err != nil {
		t.Errorf("the server: %v", err)
	}
}

// A process that no shell would continue is not stopped: the view comes back.
func TestTopWithoutJobControl(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "mailq")
	playOnce(t, socket, checked, greeting+"C: never\n")
	terminal := start(t, "-p", socket, "top")
	terminal.shows("asking")
	terminal.types("\x1a")
	terminal.shows(normalScreen)
	terminal.shows("asking")
	terminal.types("q")
	terminal.ends(0)
}

// TestTopEnds: on signals of a terminal that goes away, and before it has
// begun where nobody answers.
func TestTopEnds(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "mailq")
	terminal := start(t, "-p", socket, "top")
	terminal.shows("connect failed")
	terminal.ends(exitUnavailable)

	playOnce(t, socket, checked, greeting+"C: never\n")
	terminal = start(t, "-p", socket, "top")
	terminal.shows("asking")
	if err := terminal.cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	terminal.shows(normalScreen)
	terminal.ends(0)
}

// normalScreen is what an xterm is told at the end of a full screen.
const normalScreen = "\x1b[?1049l"
