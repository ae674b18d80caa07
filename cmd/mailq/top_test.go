package main

import (
	"io"
	"net"
	"os"
	"os/exec"
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
	threads := "C: JSON SHOW QUEUE THREADS\n" + until +
		`S: {"ring":1,"channel":"smtp","host":"a.example","jobs":1,"recipients":1,"oldest_at":"2026-11-21T10:00:00Z"}` + "\n" +
		`S: {"ring":1,"channel":"smtp","host":"b.example","jobs":9,"recipients":12,"oldest_at":"2026-11-21T10:00:00Z","reason":"busy"}` + "\n" + end +
		"C: JSON SHOW SNMP\n" + until + `S: {"agents":3}` + "\n" + end
	// The server has more when it is asked again.
	later := strings.Replace(threads, end, `S: {"ring":1,"channel":"smtp","host":"c.example","jobs":1}`+"\n"+end, 1)
	jobs := "C: JSON SHOW THREAD smtp b.example\n" + until +
		`S: {"channel":"smtp","host":"b.example","spoolid":"S1abc","sender":"alice@a.example","recipients":[{"offset":1,"attempts":2,"reason":"busy"}]}` + "\n" + end
	socket := filepath.Join(t.TempDir(), "mailq")
	server := playOnce(t, socket, "S: version zmailer 2.0\nS: 220 MAILQ-V2-CHALLENGE: 1.2.3\nC~ AUTH nobody \nS: +OK\n"+
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

	playOnce(t, socket, "S: version zmailer 2.0\nS: 220 MAILQ-V2-CHALLENGE: 1.2.3\nC~ AUTH nobody \nS: +OK\nC: JSON SHOW QUEUE THREADS\nC: never\n")
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

// playOnce plays one session and tells how it went.
func playOnce(t *testing.T, socket, session string) <-chan error {
	t.Helper()
	_ = os.Remove(socket)
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	done := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			err = play(conn, session)
			_ = conn.Close()
		}
		done <- err
	}()
	return done
}

// terminal is a pseudo-terminal with mailq in it.
type terminal struct {
	*os.File
	t    *testing.T
	cmd  *exec.Cmd
	seen string // and not yet looked at
}

// start runs mailq, which TestMain has put where programs are found.
func start(t *testing.T, args ...string) *terminal {
	t.Helper()
	cmd := exec.Command("mailq", args...)
	cmd.Env = append(os.Environ(), "TERM=xterm", "TZ=UTC")
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 100})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = f.Close()
	})
	return &terminal{File: f, t: t, cmd: cmd}
}

func (term *terminal) types(keys string) {
	term.t.Helper()
	if _, err := io.WriteString(term.File, keys); err != nil {
		term.t.Fatal(err)
	}
}

// shows reads what the program writes until a text is among it. Only cells
// that change are written, so the text must be where no letter of it was, and
// have blanks only where there were none.
func (term *terminal) shows(text string) {
	term.t.Helper()
	buffer := make([]byte, 4096)
	for {
		if _, after, found := strings.Cut(term.seen, text); found {
			term.seen = after
			return
		}
		n, err := term.Read(buffer)
		term.seen += string(buffer[:n])
		if err != nil {
			term.t.Fatalf("%q does not appear: %v; seen %q", text, err, term.seen)
		}
	}
}

func (term *terminal) ends(code int) {
	term.t.Helper()
	_, _ = io.Copy(io.Discard, term.File)
	_ = term.cmd.Wait()
	if got := term.cmd.ProcessState.ExitCode(); got != code {
		term.t.Errorf("exit %d, want %d", got, code)
	}
}
