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

const (
	// commandGrace is how long processes that a command leaves behind may
	// hold its output open.
	commandGrace = 5 * time.Second
	// maxSaid is how many bytes of a command's output become the diagnostic.
	maxSaid = 4 << 10
)

// script runs a command in its user's home directory, if there is one. The
// command is parsed by a shell of its own.
const script = `cd "$HOME" 2>/dev/null; exec /bin/sh -c "$1"`

// job is what a command is to do.
type job struct {
	target
	*letter
}

// run gives a letter to a command, as its user.
func (a *Agent) run(m *ta.Message, r *ta.Recipient, j job) outcome {
	ctx, cancel := context.WithTimeout(context.Background(), a.TimeLimit)
	defer cancel()
	said := &beginning{}
	read := &counted{r: io.MultiReader(strings.NewReader(string(j.Separator)), j.reader())}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", script, "sh", j.name)
	cmd.Env, cmd.Dir = a.environment(m, r, j.Account), "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = read, said, said
	// A session of its own: no signal but ours reaches it, and all of it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if j.UID != a.uid {
		cmd.SysProcAttr.Credential = credential(j.Account, j.GID)
	}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = commandGrace
	err := cmd.Run()
	var unread readError
	switch {
	case ctx.Err() != nil:
		err = &failure{ta.Deferred, "4.3.0 (command failed)", fmt.Errorf("command took more than %v", a.TimeLimit)}
	case errors.Is(err, exec.ErrWaitDelay):
		err = nil // it has ended well; what it left behind is not ours
	case errors.As(err, &unread):
	case cmd.ProcessState == nil:
		err = &failure{ta.Deferred, "4.3.0 (command failed)", fmt.Errorf("start command: %w", err)}
	case err != nil:
		err = ended(cmd.ProcessState, said.text())
	}
	if err != nil {
		return failed(err, false)
	}
	return outcome{Status: ta.OK, Bytes: read.n, Name: "|" + j.name, Converted: j.Decode}
}

// ended is what a command's exit status means: five codes are final, a core
// dump, any other signal and all other codes are not (sysexits).
func ended(state interface {
	ExitCode() int
	String() string
}, said string) error {
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
		text += "\r" + said
	}
	f.cause = errors.New(text)
	return f
}

// environment is all that a command has in its environment. Only the
// recipient's own words come from outside, and they are as the control file
// has them.
func (a *Agent) environment(m *ta.Message, r *ta.Recipient, acc *Account) []string {
	sender := r.From.User
	if r.From.Channel == "error" {
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

// beginning keeps the first of what is written.
type beginning struct{ b []byte }

func (k *beginning) Write(b []byte) (int, error) {
	k.b = append(k.b, b[:min(len(b), maxSaid-len(k.b))]...)
	return len(b), nil
}

// text is the output as a diagnostic, a carriage return for each line end.
func (k *beginning) text() string {
	return strings.ReplaceAll(strings.TrimSpace(string(k.b)), "\n", "\r")
}

// counted counts what is read of it.
type counted struct {
	r io.Reader
	n int64
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}
