package mailbox

// This file delivers to a command: its process, environment and exit codes.

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/ta"
)

// outputWait is how long processes that a command leaves behind may hold its
// output open.
const outputWait = 5 * time.Second

// script runs a command in the home directory of its user, if there is one. A
// second shell parses the command.
const script = `cd "$HOME" 2>/dev/null; exec /bin/sh -c -- "$1"`

// delivery is a message and its target.
type delivery struct {
	target
	*message
}

// run gives a message to a command, as the user of the address.
func (a *Agent) run(m *ta.Message, r *ta.Recipient, j delivery) outcome {
	input, out, err := a.input(j)
	if err != nil {
		return failed(err, false)
	}
	defer input.Close()
	ctx, cancel := context.WithTimeout(context.Background(), a.TimeLimit)
	defer cancel()
	output := &ta.ProgramOutput{}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", script, "sh", j.name)
	cmd.Env, cmd.Dir = a.environment(m, r, j.Account), "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = input, output, output
	// In a session of its own the command gets only our signals, and they reach
	// all of its processes.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if a.uid == 0 {
		cmd.SysProcAttr.Credential = j.Account.Credential(j.GID)
	}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = outputWait
	err = cmd.Run()
	f := &failure{status: ta.Deferred, code: "4.3.0 (command failed)"}
	switch {
	case cmd.ProcessState != nil && cmd.ProcessState.Success():
		// Any error now only means that other processes still hold the output
		// open, perhaps beyond the time limit.
		out.Status = ta.OK
		return out
	case ctx.Err() != nil:
		f.cause = fmt.Errorf("command took more than %v", a.TimeLimit)
	case cmd.ProcessState == nil:
		f.cause = fmt.Errorf("start command: %w", err)
	default:
		f = exitFailure(cmd.ProcessState, output.Text())
	}
	return failed(f, false)
}

// input writes the message for a command to a file. It also returns the outcome
// to log.
func (a *Agent) input(j delivery) (f *os.File, out outcome, err error) {
	out.Name = "|" + j.name
	uid, gid := -1, -1
	if a.uid == 0 {
		uid, gid = j.UID, j.GID
	}
	f, err = ta.Input(func(w *bufio.Writer) error {
		_, _ = w.Write(j.Separator) // w keeps its first error
		return j.write(w)
	}, uid, gid)
	if err != nil {
		return nil, out, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, out, err
	}
	out.Bytes = info.Size()
	return f, out, nil
}

// exitFailure returns the failure that a command's exit status means. Five exit
// codes are final; all others, and any signal, defer the recipient.
func exitFailure(state interface {
	ExitCode() int
	String() string
}, output string) *failure {
	f := &failure{status: ta.Deferred, code: "4.3.0 (command failed)"}
	codes := map[int]string{
		ta.ExitDataErr:     "5.6.0 (data format error)",
		ta.ExitNoUser:      "5.1.1 (no such user)",
		ta.ExitNoHost:      "5.1.2 (no such host)",
		ta.ExitUnavailable: "5.3.0 (unavailable)",
		ta.ExitNoPerm:      "5.7.1 (not allowed)",
	}
	if code, ok := codes[state.ExitCode()]; ok {
		f.status, f.code = ta.Error, code
	}
	text := "command ended with " + state.String()
	if output != "" {
		text += "\r" + strings.ReplaceAll(output, "\n", "\r")
	}
	f.cause = errors.New(text)
	return f
}

// environment is the whole environment of a command. Only the words of the
// recipient and sender come from outside; they are as the control file has them.
func (a *Agent) environment(m *ta.Message, r *ta.Recipient, acc *ta.Account) []string {
	sender := r.From.User
	if nullSender(r) {
		sender = "<>"
	}
	env := append([]string{}, a.Environ...)
	env = append(env,
		"SHELL=/bin/sh", "IFS= \t\n",
		"HOME="+acc.Home, "USER="+acc.Name, "LOGNAME="+acc.Name, "UID="+strconv.Itoa(acc.UID),
		"SENDER="+sender, "RECIPIENT="+originalOrUser(r),
		"MSGSPOOLID="+m.SpoolID())
	if m.File.LogID != "" {
		env = append(env, "MESSAGEID="+m.File.LogID)
	}
	for _, key := range []string{"ORCPT", "INRCPT", "NOTIFY"} {
		if value, ok := ctlfile.DSNWord(r.DSN, key); ok {
			env = append(env, key+"="+value)
		}
	}
	if r.EnvID != "" {
		env = append(env, "ENVID="+r.EnvID)
	}
	return env
}
