package sm

// Programs: the user that a program runs as, its run, and its result.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"zsched/ta"
)

// user is the user that a program runs as.
type user struct {
	*ta.Account
	own bool // the agent's own user: the program inherits it
}

// nobody is the uid and the gid of the user nobody.
const nobody = 65534

// runAs is the user that a recipient's program runs as: the recipient's
// privilege or, with flag S, the agent's own user.
func (a *Agent) runAs(r *ta.Recipient) (user, error) {
	if a.Mailer.Flags&OwnUser != 0 {
		return user{&ta.Account{UID: a.UID}, true}, nil
	}
	uid, err := parsePrivilege(r.Privilege)
	if err != nil {
		return user{}, err
	}
	if uid != a.UID && a.UID != 0 {
		return user{}, fmt.Errorf("the recipient's privilege is uid %d and sm runs as uid %d: "+
			"sm must be started by root, or its mailer %s must have flag S", uid, a.UID, a.Mailer.Name)
	}
	account, err := a.Account(uid)
	if err != nil {
		return user{}, fmt.Errorf("find uid %d: %w", uid, err)
	}
	// For root the groups are set too: the agent may have groups that are not
	// root's.
	return user{account, uid == a.UID && uid != 0}, nil
}

// parsePrivilege parses the number that a privilege begins with. A negative
// number means nobody, as it always did in ZMailer.
func parsePrivilege(s string) (uid int, err error) {
	number := strings.TrimPrefix(s, "-")
	digits := number[:len(number)-len(strings.TrimLeft(number, "0123456789"))]
	if uid, err = strconv.Atoi(digits); err != nil || int64(uid) > 1<<32-2 {
		return 0, fmt.Errorf("the recipient's privilege %q is not a uid", s)
	}
	if number != s && uid != 0 {
		uid = nobody
	}
	return uid, nil
}

// findAccount looks the uid up in the system. For a uid that no user has it
// returns an account without groups, name and home.
func findAccount(uid int) (*ta.Account, error) {
	acc, err := ta.AccountByUID(uid)
	if errors.Is(err, ta.ErrNoAccount) {
		return &ta.Account{UID: uid, GID: nobody}, nil
	}
	return acc, err
}

// outcome is how a run ended.
type outcome struct {
	err     error // why the program could not be started
	state   *os.ProcessState
	limit   time.Duration // the time limit that ended it, 0 if none did
	printed string        // the start of what it wrote
}

// run runs the program to its end or to the limit. At the limit its process
// group gets SIGTERM and, after Grace, SIGKILL. If the program leaves behind processes
// that have its output open, run waits for them no longer than Grace.
func (a *Agent) run(argv []string, input *os.File, as user) outcome {
	ctx := context.Background()
	if a.Limit > 0 {
		limited, stop := context.WithTimeout(ctx, a.Limit)
		defer stop()
		ctx = limited
	}
	var out ta.ProgramOutput
	ended := false
	cmd := exec.CommandContext(ctx, a.Mailer.Program)
	cmd.Args, cmd.Env, cmd.Dir = argv, environment(as), "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = input, &out, &out
	// In a session of its own the program has no terminal. A program of another
	// user could write input into a terminal of ours.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if !as.own {
		cmd.SysProcAttr.Credential = as.Credential(as.GID)
	}
	cmd.WaitDelay = a.Grace
	cmd.Cancel = func() error {
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		ended = err == nil
		return err
	}
	if err := cmd.Start(); err != nil {
		return outcome{err: err}
	}
	// Only the state matters. An error in reading the output does not change
	// what the program has done.
	_ = cmd.Wait()
	o := outcome{state: cmd.ProcessState, printed: out.Text()}
	if ended {
		o.limit = a.Limit
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	return o
}

// environment is the agent's own environment with the user's name and home.
func environment(as user) []string {
	env := os.Environ()
	if _, ok := os.LookupEnv("PATH"); !ok {
		env = append(env, "PATH=/usr/bin:/bin")
	}
	name, home := as.Name, as.Home
	if name == "" && !as.own { // the agent's own name and home would be wrong
		name, home = strconv.Itoa(as.UID), "/"
	}
	if name != "" {
		env = append(env, "USER="+name, "LOGNAME="+name, "HOME="+home, "SHELL=/bin/sh")
	}
	return env
}

// meaning is the meaning of an exit code.
type meaning struct {
	code  string // enhanced status, RFC 3463
	words string
}

// result is the result of all recipients of the run.
func (o outcome) result() ta.Result {
	switch {
	case o.err != nil:
		code := "4.3.5"
		if errors.Is(o.err, syscall.EAGAIN) || errors.Is(o.err, syscall.ENOMEM) || errors.Is(o.err, syscall.EMFILE) {
			code = "4.3.2"
		}
		return deferred(code, fmt.Sprintf("the program does not start: %v", o.err))
	case o.limit > 0 && !o.state.Success(): // a program that succeeded has delivered
		return o.with(deferred("4.3.0", fmt.Sprintf("killed after %v", o.limit)))
	}
	status, _ := o.state.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		what := fmt.Sprintf("signal %d (%v)", status.Signal(), status.Signal())
		if status.CoreDump() {
			what += ", core dumped"
		}
		return o.with(deferred("4.3.0", what))
	}
	return o.with(exitResult(o.state.ExitCode()))
}

// exitResult is the result for an exit code, as delivery programs use them
// (sysexits). A code that is not known to be final is a deferral.
func exitResult(code int) ta.Result {
	if code == ta.ExitOK {
		return ta.Result{Status: ta.OK, Fields: ta.Fields{
			Action: "relayed", Code: "2.0.0", Diagnostic: "x-local; 250 (delivered)",
		}}
	}
	m, known := map[int]meaning{
		ta.ExitUsage:       {"4.3.5", "command line usage error"},
		ta.ExitDataErr:     {"5.6.0", "data format error"},
		ta.ExitNoInput:     {"4.3.0", "cannot open input"},
		ta.ExitNoUser:      {"5.1.1", "addressee unknown"},
		ta.ExitNoHost:      {"5.1.2", "host name unknown"},
		ta.ExitUnavailable: {"5.3.0", "service unavailable"},
		ta.ExitSoftware:    {"4.3.0", "internal software error"},
		ta.ExitOSErr:       {"4.3.0", "system error"},
		ta.ExitOSFile:      {"4.3.5", "critical OS file missing"},
		ta.ExitCantCreate:  {"4.2.0", "can't create output file"},
		ta.ExitIOErr:       {"4.3.0", "input/output error"},
		ta.ExitTempFail:    {"4.3.0", "temporary failure"},
		ta.ExitProtocol:    {"4.5.0", "remote error in protocol"},
		ta.ExitNoPerm:      {"5.7.0", "permission denied"},
		ta.ExitConfig:      {"4.3.5", "configuration error"},
	}[code]
	if !known {
		m = meaning{"4.3.0", "not one of sysexits"}
	}
	text := fmt.Sprintf("exit status %d (%s)", code, m.words)
	if m.code[0] == '5' {
		return failed(m.code, text)
	}
	return deferred(m.code, text)
}

// with appends what the program printed to the text of a result, because lists and events
// show the last line of a text. Reply rules use the notary data, which get that line.
func (o outcome) with(r ta.Result) ta.Result {
	switch {
	case r.Status == ta.OK:
		r.Text = o.printed
	case o.printed != "":
		r.Text += "\n" + o.printed
		if r.Fields.Diagnostic != "" {
			last := o.printed[strings.LastIndexByte(o.printed, '\n')+1:]
			r.Fields.Diagnostic += ": " + last[:min(len(last), maxLastLine)]
		}
	}
	return r
}

// maxLastLine bounds what the notary data get of a line, in bytes.
const maxLastLine = 500

func failed(code, text string) ta.Result {
	return ta.Result{Status: ta.Error, Text: text, Fields: ta.Fields{
		Code: code, Diagnostic: "x-local; 500 (" + text + ")",
	}}
}

func deferred(code, text string) ta.Result {
	return ta.Result{Status: ta.Deferred, Text: text, Fields: ta.Fields{
		Code: code, Diagnostic: "x-local; 400 (" + text + ")",
	}}
}
