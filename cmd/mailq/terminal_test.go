package main

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
)

// TestTerminalIsNotCommanded: whatever the server says.
func TestTerminalIsNotCommanded(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "mailq")
	playOnce(t, socket, "S: version zmailer 2.0\nS: 220 x\nC~ AUTH\nS: +OK\nC: SHOW SNMP\nS: +OK until LF.LF\nS: a\rb\x1b[2J (due)\nS: .\nC: QUIT\nS: +Bye bye\n")
	terminal := start(t, "-p", socket, "-QQQ")
	terminal.shows("(due)\r\n")
	if got, want := terminal.read, "a^Mb^[[2J (due)\r\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	terminal.ends(exitOK)
}

// playOnce plays one session after the other and then sends the first error, or
// nil.
func playOnce(t *testing.T, socket string, sessions ...string) <-chan error {
	t.Helper()
	_ = os.Remove(socket)
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	done := make(chan error, 1)
	go func() {
		for _, session := range sessions {
			conn, err := listener.Accept()
			if err == nil {
				err = play(conn, session)
				_ = conn.Close()
			}
			if err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	return done
}

// terminal is a pseudo-terminal in which mailq runs.
type terminal struct {
	*os.File
	t    *testing.T
	cmd  *exec.Cmd
	read string // everything that mailq wrote
	seen string // the part of it that shows has not passed yet
}

func start(t *testing.T, args ...string) *terminal {
	t.Helper()
	return startWith(t, "TZ=UTC", args...)
}

func startWith(t *testing.T, env string, args ...string) *terminal {
	t.Helper()
	return startCommand(t, env, append([]string{"mailq"}, args...)...)
}

// startCommand runs a command. TestMain has put mailq where programs are found.
func startCommand(t *testing.T, env string, args ...string) *terminal {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "TERM=xterm", env)
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 100})
	if err != nil {
		t.Fatal(err)
	}
	// Where the program shows something else, reading the terminal ends too.
	limit := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() {
		limit.Stop()
		_ = cmd.Process.Kill()
		_ = f.Close()
	})
	return &terminal{File: f, t: t, cmd: cmd}
}

// shows reads what the program writes until a text is among it.
func (term *terminal) shows(text string) {
	term.t.Helper()
	buffer := make([]byte, 4096)
	for {
		if _, after, found := strings.Cut(term.seen, text); found {
			term.seen = after
			return
		}
		n, err := term.Read(buffer)
		term.read += string(buffer[:n])
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
