package mailbox

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
	input, out, err := a.input(j)
	if err != nil {
		return failed(err, false)
	}
	defer input.Close()
	ctx, cancel := context.WithTimeout(context.Background(), a.TimeLimit)
	defer cancel()
	said := &ta.ProgramOutput{}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", script, "sh", j.name)
	cmd.Env, cmd.Dir = a.environment(m, r, j.Account), "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = input, said, said
	// A session of its own: no signal but ours reaches it, and ours all of it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if a.uid == 0 {
		cmd.SysProcAttr.Credential = j.Account.Credential(j.GID)
	}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = commandGrace
	err = cmd.Run()
	f := &failure{status: ta.Deferred, code: "4.3.0 (command failed)"}
	switch {
	case cmd.ProcessState != nil && cmd.ProcessState.Success():
		// Errors that are left are of output that others hold open, perhaps
		// beyond the time limit.
		out.Status = ta.OK
		return out
	case ctx.Err() != nil:
		f.cause = fmt.Errorf("command took more than %v", a.TimeLimit)
	case cmd.ProcessState == nil:
		f.cause = fmt.Errorf("start command: %w", err)
	default:
		f = ended(cmd.ProcessState, said.Text())
	}
	return failed(f, false)
}

// input is the letter as a command reads it, with what is to be logged of it.
func (a *Agent) input(j job) (f *os.File, out outcome, err error) {
	out.Name = "|" + j.name
	uid, gid := -1, -1
	if a.uid == 0 {
		uid, gid = j.UID, j.GID
	}
	f, err = ta.Input(func(w *bufio.Writer) (err error) {
		_, _ = w.Write(j.Separator) // w keeps its first error
		out.Cvt, err = j.write(w)
		return err
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
func (a *Agent) environment(m *ta.Message, r *ta.Recipient, acc *ta.Account) []string {
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
