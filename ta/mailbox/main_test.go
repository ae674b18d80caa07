package mailbox

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMain makes the test binary a delivery helper, or another process:
//
//	locker FILE     locks a file by fcntl until it is killed
//	stuck           delivers stdin's request and stands still in the middle
//	limited BYTES   delivers stdin's request; no file may grow beyond that
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == HelperArg {
		os.Exit(RunHelper())
	}
	switch os.Getenv("HELPER") {
	case "locker":
		f, err := os.OpenFile(os.Args[1], os.O_RDWR, 0)
		if err == nil {
			err = unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
		}
		fmt.Println("here", err)
		select {}
	case "stuck":
		l := &message{Separator: []byte("From x\n"), Header: []byte("A: b\n"), Length: 1 << 20, file: endless{}}
		requestOnStdin(l).do()
	case "limited":
		var limit uint64
		fmt.Sscan(os.Args[1], &limit)
		unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: limit, Max: limit})
		signal.Ignore(syscall.SIGXFSZ)
		l := &message{Separator: []byte("From x\n"), Header: []byte("A: b\n"), Length: 1 << 20, file: zeros{}}
		json.NewEncoder(os.Stdout).Encode(requestOnStdin(l).do())
	default:
		os.Exit(m.Run())
	}
	os.Exit(0)
}

func requestOnStdin(msg *message) *request {
	o := &request{}
	if err := json.NewDecoder(os.Stdin).Decode(o); err != nil {
		panic(err)
	}
	o.Message = msg
	return o
}

// endless says so when half of it is read, and then stands still.
type endless struct{}

func (endless) ReadAt(b []byte, at int64) (int, error) {
	if at >= 1<<19 {
		fmt.Println("here")
		select {}
	}
	return len(b), nil
}

// zeros is a message of as many as one likes.
type zeros struct{}

func (zeros) ReadAt(b []byte, at int64) (int, error) { return len(b), nil }

// startProcess starts the test binary in one of these roles, and kills it at the
// end of the test.
func startProcess(t *testing.T, role string, stdin io.Reader, args ...string) (cmd *exec.Cmd, stdout *bufio.Reader) {
	t.Helper()
	cmd = exec.Command("/proc/self/exe", args...)
	cmd.Env = []string{"HELPER=" + role, "GORACE=atexit_sleep_ms=0"}
	cmd.Stdin, cmd.Stderr = stdin, os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kill(cmd) })
	return cmd, bufio.NewReader(out)
}

func kill(cmd *exec.Cmd) {
	if cmd.ProcessState == nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// requestFor is a request for a helper or another process.
func (o testSpool) requestFor(name string) *request {
	slash := name[len(strings.TrimRight(name, "/")):]
	return &request{Path: []byte(o.path(name) + slash), Host: "here"}
}

func (o *request) json(t *testing.T) io.Reader {
	t.Helper()
	b, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReader(string(b))
}
