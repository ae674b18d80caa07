package sm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"zsched/ta"
)

// outcome is how a run ended.
type outcome struct {
	err     error // the program could not be started
	state   *os.ProcessState
	limit   time.Duration // it was ended after that; 0: it was not
	printed string
}

// run runs the program to its end or the limit, at which its process group is
// sent SIGTERM and, after Grace, SIGKILL. Processes that it leaves behind with
// its output open are waited for no longer than Grace.
func (a *Agent) run(argv []string, input *os.File, as runner) outcome {
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
	// A session of its own has no terminal: from one of ours, a program of
	// another user could type on it.
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
	// Only the state counts: that output was cut off, or read with an error,
	// does not change what the program did.
	_ = cmd.Wait()
	o := outcome{state: cmd.ProcessState, printed: out.Text()}
	if ended {
		o.limit = a.Limit
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	return o
}

// environment is the agent's own, with what tells a program whose it is.
func environment(as runner) []string {
	env := os.Environ()
	if _, ok := os.LookupEnv("PATH"); !ok {
		env = append(env, "PATH=/usr/bin:/bin")
	}
	name, home := as.Name, as.Home
	if name == "" && !as.own { // not ours, in any case
		name, home = strconv.Itoa(as.UID), "/"
	}
	if name != "" {
		env = append(env, "USER="+name, "LOGNAME="+name, "HOME="+home, "SHELL=/bin/sh")
	}
	return env
}

// meaning is what an exit code says.
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
	case o.limit > 0 && !o.state.Success(): // else it was done when the limit came
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

// exitResult reads an exit code as delivery programs mean it. What is not
// known to be final is tried again.
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
		return refused(m.code, text)
	}
	return deferred(m.code, text)
}

// with puts what the program printed before what became of it.
func (o outcome) with(r ta.Result) ta.Result {
	switch {
	case r.Status == ta.OK:
		r.Text = o.printed
	case o.printed != "":
		r.Text = o.printed + "\n[" + r.Text + "]"
	}
	return r
}

func refused(code, text string) ta.Result {
	return ta.Result{Status: ta.Error, Text: text, Cvt: "NONE", Fields: ta.Fields{
		Code: code, Diagnostic: "x-local; 500 (" + text + ")",
	}}
}

func deferred(code, text string) ta.Result {
	return ta.Result{Status: ta.Deferred, Text: text, Cvt: "NONE", Fields: ta.Fields{
		Code: code, Diagnostic: "x-local; 400 (" + text + ")",
	}}
}
