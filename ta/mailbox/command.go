package mailbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/ta"
)

// commandGrace is how long processes that a command leaves behind may hold its
// output open.
const commandGrace = 5 * time.Second

// script runs a command in its user's home directory, if there is one. The
// command is parsed by a shell of its own.
const script = `cd "$HOME" 2>/dev/null; exec /bin/sh -c -- "$1"`

// job is what a command is to do.
type job struct {
	target
	*letter
}

// run gives a letter to a command, as its user.
func (a *Agent) run(m *ta.Message, r *ta.Recipient, j job) outcome {
	ctx, cancel := context.WithTimeout(context.Background(), a.TimeLimit)
	defer cancel()
	said := &ta.Printed{}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", script, "sh", j.name)
	cmd.Env, cmd.Dir = a.environment(m, r, j.Account), "/"
	cmd.Stdout, cmd.Stderr = said, said
	// A session of its own: no signal but ours reaches it, and ours all of it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if j.UID != a.uid {
		cmd.SysProcAttr.Credential = credential(j.Account, j.GID)
	}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = commandGrace
	out, unread, err := feed(cmd, j.letter)
	f := &failure{status: ta.Deferred, code: "4.3.0 (command failed)"}
	switch {
	case cmd.ProcessState != nil && cmd.ProcessState.Success() && unread == nil:
		// Errors that are left are of output that others hold open, perhaps
		// beyond the time limit.
		out.Status, out.Name = ta.OK, "|"+j.name
		return out
	case ctx.Err() != nil:
		f.cause = fmt.Errorf("command took more than %v", a.TimeLimit)
	case cmd.ProcessState == nil:
		f.cause = fmt.Errorf("start command: %w", err)
	case !cmd.ProcessState.Success():
		f = ended(cmd.ProcessState, said.Text())
	default:
		return failed(unread, false)
	}
	return failed(f, false)
}

// feed runs a command with a letter as its standard input. It need not read
// that; unread is why it could not have been all.
func feed(cmd *exec.Cmd, l *letter) (out outcome, unread, err error) {
	stdin, input := io.Pipe()
	cmd.Stdin = stdin
	written := make(chan error, 1)
	go func() {
		n := &tally{w: input}
		_, err := n.Write(l.Separator)
		if err == nil {
			out.Cvt, err = l.write(n)
		}
		out.Bytes = n.n
		_ = input.CloseWithError(err)
		written <- err
	}()
	err = cmd.Run()
	_ = stdin.Close()
	if unread = <-written; errors.Is(unread, io.ErrClosedPipe) {
		unread = nil
	}
	return out, unread, err
}

// ended is what a command's exit status means: five codes are final, a core
// dump, any other signal and all other codes are not (sysexits).
func ended(state interface {
	ExitCode() int
	String() string
}, said string) *failure {
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
	if said != "" {
		text += "\r" + strings.ReplaceAll(said, "\n", "\r")
	}
	f.cause = errors.New(text)
	return f
}

// environment is all that a command has in its environment. Only the
// recipient's own words come from outside, and they are as the control file
// has them.
func (a *Agent) environment(m *ta.Message, r *ta.Recipient, acc *Account) []string {
	sender := r.From.User
	if nobodys(r) {
		sender = "<>"
	}
	env := append([]string{}, a.Environ...)
	env = append(env,
		"SHELL=/bin/sh", "IFS= \t\n",
		"HOME="+acc.Home, "USER="+acc.Name, "LOGNAME="+acc.Name, "UID="+strconv.Itoa(acc.UID),
		"SENDER="+sender, "RECIPIENT="+originally(r),
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

// tally counts what is written.
type tally struct {
	w io.Writer
	n int64
}

func (t *tally) Write(b []byte) (int, error) {
	n, err := t.w.Write(b)
	t.n += int64(n)
	return n, err
}
