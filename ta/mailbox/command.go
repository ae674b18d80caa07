package mailbox

// This file delivers to a command: its process and environment.

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"time"

	"zsched/ctlfile"
	"zsched/ta"
)

// grace is how long a command that took too long has to end, and how long processes that a
// command leaves behind may hold its output open.
const grace = 5 * time.Second

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
	program := ta.Program{
		Path: "/bin/sh", Args: []string{"/bin/sh", "-c", script, "sh", j.name}, Env: a.environment(m, r, j.Account), Input: input,
		Limit: a.TimeLimit, Grace: grace,
	}
	if a.uid == 0 {
		program.As = j.Account.Credential(j.GID)
	}
	res := program.Run()
	if out.Status = res.Status; res.Status != ta.OK {
		return outcome{Status: res.Status, Code: res.Fields.Code, Text: strings.ReplaceAll(res.Text, "\n", "\r")}
	}
	return out
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
	if m.File.MessageID != "" {
		env = append(env, "MESSAGEID="+m.File.MessageID)
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
