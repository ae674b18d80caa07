package owner

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMain also plays the processes that the tests start.
func TestMain(m *testing.M) {
	switch os.Getenv("OWNER_TEST_HELPER") {
	case "":
		os.Exit(m.Run())
	case "wait": // until our standard input ends
		fmt.Println("ready")
		_, _ = os.Stdin.Read(make([]byte, 1))
	case "daemon":
		helpDaemon(os.Getenv("OWNER_TEST_PATH"))
	}
}

// helpDaemon owns a postoffice until it is asked to leave.
func helpDaemon(office string) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, unix.SIGTERM)
	c := Claim{Postoffice: office, Node: "mx1"}
	o, err := c.Acquire(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("ready")
	<-asked
	o.Release()
}

// startHelper starts the test binary in one of its roles. lines is what it says. It ends with
// the test.
func startHelper(t *testing.T, role, path string) (pid int, lines *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "OWNER_TEST_HELPER="+role, "OWNER_TEST_PATH="+path)
	cmd.Stderr = os.Stderr
	lines = startPiped(t, cmd)
	return cmd.Process.Pid, lines
}

// startPiped starts a process and returns what it says. It is killed at the end of the test.
func startPiped(t *testing.T, cmd *exec.Cmd) (lines *bufio.Scanner) {
	t.Helper()
	in, err := cmd.StdinPipe()
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return bufio.NewScanner(out)
}
