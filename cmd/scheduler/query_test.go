package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"zsched/mailq/client"
)

// freePorts finds ports that nobody listens at now.
func freePorts(e *testscript.Env, names ...string) error {
	for _, name := range names {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer l.Close()
		e.Setenv(name, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	}
	return nil
}

// mailqAt calls mailq for the queue of the script.
func mailqAt(ts *testscript.TestScript, neg bool, args []string) {
	err := ts.Exec("mailq", append([]string{"-Z", "zmailer.conf", "-p", ts.Getenv("SOCKET")}, args...)...)
	if neg && err == nil || !neg && err != nil {
		ts.Fatalf("mailq %s: %v", strings.Join(args, " "), err)
	}
}

func answers(ts *testscript.TestScript, neg bool, args []string) {
	pattern := regexp.MustCompile("(?m)" + args[0])
	args = append([]string{"-Z", ts.MkAbs("zmailer.conf"), "-p", ts.Getenv("SOCKET")}, args[1:]...)
	until(ts, "mailq to say "+pattern.String(), func() bool {
		out, err := exec.Command(ts.Getenv("MAILQ"), args...).Output()
		return err == nil && pattern.Match(out)
	})
}

// threads asks without a process for each question, which costs far more than the answer.
func threads(ts *testscript.TestScript, neg bool, args []string) {
	pattern, socket := regexp.MustCompile("(?m)"+args[0]), ts.Getenv("SOCKET")
	if len(args) > 1 {
		socket = args[1]
	}
	until(ts, "threads to match "+pattern.String(), func() bool {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			return false
		}
		defer conn.Close()
		c, err := client.New(conn, client.Options{Server: "the scheduler", Timeout: patience})
		if err != nil {
			return false
		}
		var lines []string
		for line, err := range c.Show("SHOW QUEUE THREADS") {
			if err != nil {
				return false
			}
			lines = append(lines, line)
		}
		return pattern.MatchString(strings.Join(lines, "\n"))
	})
}

// get asks by HTTP; a URL that begins with a slash is a path at $PORT2.
func get(ts *testscript.TestScript, neg bool, args []string) {
	pattern := regexp.MustCompile("(?m)" + strings.Join(args[2:], " "))
	until(ts, args[0]+" to answer "+strings.Join(args[1:], " "), func() bool {
		answer, err := http.Get("http://127.0.0.1:" + ts.Getenv("PORT2") + args[0])
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		return err == nil && strconv.Itoa(answer.StatusCode) == args[1] && pattern.Match(body)
	})
}

// conditions that a script may ask for: [ipv6] where this machine has it.
func conditions(name string) (bool, error) {
	if name == "root" {
		return os.Geteuid() == 0, nil
	}
	if name != "ipv6" {
		return false, fmt.Errorf("unknown condition %q", name)
	}
	l, err := net.Listen("tcp6", "[::1]:0")
	if err == nil {
		l.Close()
	}
	return err == nil, nil
}

// TestSocketActivation hands the scheduler listeners as systemd does.
func TestSocketActivation(t *testing.T) {
	self, err := exec.LookPath("scheduler")
	if err != nil {
		t.Fatal(err)
	}
	f := &bench{dir: t.TempDir(), scheduler: self}
	po := f.postoffice(t)
	f.write(t, po, "PARAMmetrics=TCP:1\nsmtp/*\tcommand=discard\n")
	path := filepath.Join(po, "handed")
	queries, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer queries.Close()
	metrics, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer metrics.Close()
	first, err := queries.(*net.UnixListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	second, err := metrics.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()

	// The pid has to be that of the scheduler itself.
	cmd := exec.Command("/bin/sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`,
		f.scheduler, "-i", "-M", "2", "-Z", filepath.Join(po, "zmailer.conf"), "-L", filepath.Join(po, "log"))
	cmd.Env = append(os.Environ(), "LISTEN_FDS=2", "LISTEN_FDNAMES=scheduler.socket:metrics")
	cmd.ExtraFiles = []*os.File{first, second}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()

	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	fmt.Fprint(conn, "SHOW SNMP\nQUIT\n")
	said, err := io.ReadAll(conn)
	if err != nil || !strings.Contains(string(said), "\nKids: ") {
		t.Errorf("%v: %q", err, said)
	}
	answer, err := http.Get("http://" + metrics.Addr().String() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("health is %s", answer.Status)
	}
	if _, err := os.Stat(filepath.Join(po, "mailq")); err == nil {
		t.Error("the configuration's socket was opened, too")
	}
	cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		log, _ := os.ReadFile(filepath.Join(po, "log"))
		t.Errorf("%v\n%s", err, log)
	}
}
