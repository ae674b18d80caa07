package ta

// This file runs the programs that deliver mail, and says what their exit codes mean.

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Program is a program that gets a message as its standard input.
type Program struct {
	Path      string
	Args, Env []string
	Input     *os.File
	As        *syscall.Credential // nil: our own user
	Limit     time.Duration       // 0: none
	// Grace is the time from SIGTERM to SIGKILL at the limit, and how long processes that the
	// program leaves behind may hold its output open.
	Grace time.Duration
}

// Run runs the program to its end or to the limit, in a session of its own: it gets only
// our signals, which reach all its processes, and has no terminal of ours. The result of a
// success has what the program printed as its text. An error has it behind the reason,
// because lists and events show the last line of a text; reply rules use the notary data,
// which get that line.
func (p *Program) Run() Result {
	ctx := context.Background()
	if p.Limit > 0 {
		limited, stop := context.WithTimeout(ctx, p.Limit)
		defer stop()
		ctx = limited
	}
	var out programOutput
	late := false
	cmd := exec.CommandContext(ctx, p.Path)
	cmd.Args, cmd.Env, cmd.Dir = p.Args, p.Env, "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.Input, &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: p.As}
	cmd.WaitDelay = p.Grace
	cmd.Cancel = func() error {
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		late = err == nil
		return err
	}
	if err := cmd.Start(); err != nil {
		return notStarted(err)
	}
	// Only the state matters. An error in reading the output does not change
	// what the program has done.
	_ = cmd.Wait()
	if late {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case late && !cmd.ProcessState.Success(): // a program that succeeded has delivered
		return out.after(Failed("4.3.0", fmt.Sprintf("killed after %v", p.Limit)))
	case status.Signaled() && status.CoreDump():
		return out.after(Failed("4.3.0", fmt.Sprintf("signal %d (%v), core dumped", status.Signal(), status.Signal())))
	case status.Signaled():
		return out.after(Failed("4.3.0", fmt.Sprintf("signal %d (%v)", status.Signal(), status.Signal())))
	}
	return out.after(exitResult(cmd.ProcessState.ExitCode()))
}

func notStarted(err error) Result {
	code := "4.3.5"
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.EMFILE) {
		code = "4.3.2"
	}
	return Failed(code, fmt.Sprintf("the program does not start: %v", err))
}

// exitMeanings are the enhanced status (RFC 3463) and the words of exit codes. Those of class
// 5 are final.
var exitMeanings = map[int]struct{ code, words string }{
	ExitUsage:       {"4.3.5", "command line usage error"},
	ExitDataErr:     {"5.6.0", "data format error"},
	ExitNoInput:     {"4.3.0", "cannot open input"},
	ExitNoUser:      {"5.1.1", "addressee unknown"},
	ExitNoHost:      {"5.1.2", "host name unknown"},
	ExitUnavailable: {"5.3.0", "service unavailable"},
	ExitSoftware:    {"4.3.0", "internal software error"},
	ExitOSErr:       {"4.3.0", "system error"},
	ExitOSFile:      {"4.3.5", "critical OS file missing"},
	ExitCantCreate:  {"4.2.0", "can't create output file"},
	ExitIOErr:       {"4.3.0", "input/output error"},
	ExitTempFail:    {"4.3.0", "temporary failure"},
	ExitProtocol:    {"4.5.0", "remote error in protocol"},
	ExitNoPerm:      {"5.7.0", "permission denied"},
	ExitConfig:      {"4.3.5", "configuration error"},
}

// exitResult is the result for an exit code. A code that is not known to be final is a
// deferral.
func exitResult(code int) Result {
	if code == ExitOK {
		return Result{Status: OK, Fields: Fields{Action: "relayed", Code: "2.0.0", Diagnostic: "x-local; 250 (delivered)"}}
	}
	m, known := exitMeanings[code]
	if !known {
		m.code, m.words = "4.3.0", "not one of sysexits"
	}
	return Failed(m.code, fmt.Sprintf("exit status %d (%s)", code, m.words))
}

// Failed is the result with an enhanced status of class 4 (deferred) or 5 (failed for good), and its reason.
func Failed(code, text string) Result {
	res := Result{Status: Deferred, Text: text, Fields: Fields{Code: code, Diagnostic: "x-local; " + code[:1] + "00 (" + text + ")"}}
	if code[0] == '5' {
		res.Status = Error
	}
	return res
}

// Input is the standard input of a program: a file without a name, in $TMPDIR
// or /tmp, that holds what write writes. It is complete before the program
// starts, so a program never gets half a message, whatever happens to the
// agent. The file is positioned at its start and belongs to uid and gid (-1:
// to us), who may open it again as /dev/stdin.
func Input(write func(*bufio.Writer) error, uid, gid int) (f *os.File, err error) {
	if f, err = os.CreateTemp("", "message-*"); err != nil {
		return nil, fmt.Errorf("write the message: %w", err)
	}
	w := bufio.NewWriterSize(f, 32<<10)
	if err = os.Remove(f.Name()); err == nil {
		err = write(w)
	}
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Chown(uid, gid)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("write the message: %w", err)
	}
	return f, nil
}

// maxOutput is how much of a program's output is kept, in bytes.
const maxOutput = 4000

// programOutput takes what a program prints and keeps the beginning of it for a
// report.
type programOutput struct {
	mu      sync.Mutex // processes that the program left behind may still write
	kept    []byte
	dropped int // bytes not kept
}

// Write takes everything; it returns no error.
func (o *programOutput) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := min(len(b), maxOutput-len(o.kept))
	o.kept = append(o.kept, b[:n]...)
	o.dropped += len(b) - n
	return len(b), nil
}

// text is the output as lines for a report, without the control characters
// that would act on a terminal.
func (o *programOutput) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	kept := strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || 0x7f <= r && r < 0xa0 {
			return -1
		}
		return r
	}, strings.ToValidUTF8(string(o.kept), "?"))
	kept = strings.Trim(kept, "\n \t")
	if o.dropped > 0 {
		kept += fmt.Sprintf("\n... and %d bytes more", o.dropped)
	}
	return kept
}

// maxLastLine bounds what the notary data get of a line, in bytes.
const maxLastLine = 500

// after adds the output to a result.
func (o *programOutput) after(res Result) Result {
	printed := o.text()
	switch {
	case res.Status == OK:
		res.Text = printed
	case printed != "":
		res.Text += "\n" + printed
		last := printed[strings.LastIndexByte(printed, '\n')+1:]
		res.Fields.Diagnostic += ": " + last[:min(len(last), maxLastLine)]
	}
	return res
}

// The exit codes of delivery programs (sysexits.h).
const (
	ExitOK          = 0
	ExitUsage       = 64
	ExitDataErr     = 65
	ExitNoInput     = 66
	ExitNoUser      = 67
	ExitNoHost      = 68
	ExitUnavailable = 69
	ExitSoftware    = 70
	ExitOSErr       = 71
	ExitOSFile      = 72
	ExitCantCreate  = 73
	ExitIOErr       = 74
	ExitTempFail    = 75
	ExitProtocol    = 76
	ExitNoPerm      = 77
	ExitConfig      = 78
)
