package main

// Detaching: how the scheduler becomes a daemon (scheduler(8), -d).

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// readyVariable is set in the environment of a detached scheduler whose parent
// waits for it to start: the scheduler then writes a line to descriptor 3.
const readyVariable = "SCHEDULER_READY_FD"

// readyPipe returns descriptor 3, or nil if no parent waits.
func readyPipe() *os.File {
	if os.Getenv(readyVariable) != "3" {
		return nil
	}
	os.Unsetenv(readyVariable)
	syscall.CloseOnExec(3)
	return os.NewFile(3, "ready")
}

// detach runs the same command line in a new session, without a terminal. It
// returns 0 when that scheduler has started, or else its exit code.
func detach(args []string, stderr io.Writer) int {
	code, err := detached(args, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "scheduler: daemon not started: %v\n", err)
		return exitFault
	}
	return code
}

func detached(args []string, stderr io.Writer) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	ready, theirs, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer ready.Close()
	// Until its log is open, the child writes its errors to our standard error.
	child := &exec.Cmd{
		Path:        self,
		Args:        append([]string{os.Args[0]}, args...),
		Env:         append(os.Environ(), readyVariable+"=3"),
		Stdout:      stderr,
		Stderr:      stderr,
		ExtraFiles:  []*os.File{theirs},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	// The child inherits the umask; nothing is created here before it runs.
	syscall.Umask(0o022)
	err = child.Start()
	theirs.Close()
	if err != nil {
		return 0, err
	}
	if n, _ := ready.Read(make([]byte, 1)); n == 1 {
		return exitOK, nil
	}
	child.Wait()
	if code := child.ProcessState.ExitCode(); code > 0 {
		return code, nil
	}
	return 0, fmt.Errorf("%v", child.ProcessState)
}
