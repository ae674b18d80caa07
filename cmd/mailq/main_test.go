package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	// A program with the race detector would sleep a second at its end.
	if os.Getenv("GORACE") == "" {
		_ = os.Setenv("GORACE", "atexit_sleep_ms=0")
	}
	testscript.Main(m, map[string]func(){"mailq": main})
}

// TestScripts runs testdata with a zmailer.conf that has MAILSHARE=$WORK and the
// postoffice $PO, which does not exist. "serve socket session..." plays servers on
// a UNIX socket. Each session is a file of lines that the server sends ("S: "),
// that must come ("C: "), or that must begin so ("C~ ").
// "exits n command..." runs a command that must exit with n.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Condition: func(name string) (bool, error) { // [root]: the test runs as root
			if name != "root" {
				return false, fmt.Errorf("unknown condition %q", name)
			}
			return os.Geteuid() == 0, nil
		},
		Setup: func(env *testscript.Env) error {
			env.Setenv("TZ", "UTC")
			env.Setenv("GORACE", os.Getenv("GORACE"))
			env.Setenv("PO", env.WorkDir+"/po")
			env.Setenv("SOCKET", env.WorkDir+"/mailq")
			conf := "POSTOFFICE=" + env.WorkDir + "/po\nMAILSHARE=" + env.WorkDir + "\n"
			return os.WriteFile(env.WorkDir+"/zmailer.conf", []byte(conf), 0o644)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":  exits,
			"daemon": daemon,
			"serve":  func(ts *testscript.TestScript, neg bool, args []string) { serve(t, ts, neg, args) },
			"listen": func(ts *testscript.TestScript, neg bool, args []string) { listen(t, ts, neg, args) },
		},
	})
}

// daemon starts a process of this name, which ends with the script, and writes its pid into
// a file.
func daemon(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: daemon name file")
	}
	sleep, err := exec.LookPath("sleep")
	ts.Check(err)
	program := filepath.Join(ts.Getenv("WORK"), args[0])
	ts.Check(os.Symlink(sleep, program)) // the name of a process is that of the link
	cmd := exec.Command(program, "600")
	ts.Check(cmd.Start())
	ts.Defer(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	ts.Check(os.WriteFile(args[1], fmt.Appendln(nil, cmd.Process.Pid), 0o644))
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits code command...")
	}
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		text, ok := strings.CutPrefix(err.Error(), "exit status ")
		if code, err = strconv.Atoi(text); !ok || err != nil {
			ts.Fatalf("%s", text)
		}
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit %d, want %s", code, args[0])
	}
}

// serve listens on a UNIX socket.
func serve(t *testing.T, ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: serve socket session...")
	}
	_ = os.Remove(args[0])
	listener, err := net.Listen("unix", args[0])
	ts.Check(err)
	playTo(t, ts, listener, args[1:])
}

// listen listens on a TCP port and puts its number into a variable.
func listen(t *testing.T, ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: listen variable session...")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Setenv(args[0], strconv.Itoa(listener.Addr().(*net.TCPAddr).Port))
	playTo(t, ts, listener, args[1:])
}

// playTo plays sessions in order. At the end of the script it checks that each was
// played.
func playTo(t *testing.T, ts *testscript.TestScript, listener net.Listener, files []string) {
	var sessions []string
	for _, file := range files {
		sessions = append(sessions, ts.ReadFile(file))
	}
	done := make(chan error, 1)
	go func() {
		for i, session := range sessions {
			conn, err := listener.Accept()
			if err == nil {
				err = play(conn, session)
				_ = conn.Close()
			}
			if err != nil {
				done <- fmt.Errorf("%s: %w", files[i], err)
				return
			}
		}
		done <- nil
	}()
	ts.Defer(func() {
		_ = listener.Close()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", ts.Name(), err)
		}
	})
}

func play(conn net.Conn, session string) error {
	in := bufio.NewReader(conn)
	for line := range strings.Lines(session) {
		kind, text, _ := strings.Cut(line, " ")
		if kind == "S:" {
			// The client may have read enough and closed the connection.
			_, _ = io.WriteString(conn, text)
			continue
		}
		got, err := in.ReadString('\n')
		if err != nil {
			return fmt.Errorf("%w where %q should come", err, text)
		}
		if kind == "C:" && got != text || kind == "C~" && !strings.HasPrefix(got, strings.TrimSuffix(text, "\n")) {
			return fmt.Errorf("%q came where %q should", got, text)
		}
	}
	return nil
}
