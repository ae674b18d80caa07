// Sendmail submits mail for programs that send mail by running /usr/sbin/sendmail:
// sendmail(8).
package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"zsched/internal/version"
	"zsched/internal/zenv"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// Exit codes, which are those of sysexits.h (sendmail(8), "EXIT STATUS").
const (
	exitOK       = 0
	exitUsage    = 64
	exitData     = 65 // an address or a header is wrong
	exitOSFile   = 72 // one of our other programs is missing
	exitIO       = 74 // standard input or output
	exitTempFail = 75 // the message was not accepted; try again
	exitNoPerm   = 77
	exitConfig   = 78
)

// exit is an error with the exit code that goes with it.
type exit struct {
	code int
	error
}

func (e exit) Unwrap() error { return e.error }

func exitf(code int, format string, args ...any) error {
	return exit{code, fmt.Errorf(format, args...)}
}

type options struct {
	mode      string // after -b
	from      string
	fullName  string
	dots      bool // -i: a line with only a dot does not end the message
	recipient bool // -t: the header has recipients
	notify    string
	ret       string
	envID     string
	bodyType  string
	queue     bool // -q
	zenv      string
	version   bool
	more      []string // -o, as they were given
	ignored   string   // the value of the last option without effect
	verbose   bool
}

const usageLine = "usage: sendmail [-bm] [-it] [-f SENDER] [-F NAME] [-N WHEN] [-R PART] [-V ENVID] [-Z FILE] [ADDRESS...]\n" +
	"       sendmail -bs | -bp | -bi | -q\n"

func newFlags(o *options) *pflag.FlagSet {
	f := pflag.NewFlagSet("sendmail", pflag.ContinueOnError)
	f.SortFlags = false
	f.Usage = func() {}
	f.SetInterspersed(false)
	f.StringVarP(&o.mode, "mode", "b", "m", "`m` submit, s speak SMTP, p print the queue, i check the aliases")
	f.StringVarP(&o.from, "from", "f", "", "the sender's `address`; <> is the null sender")
	f.StringVarP(&o.from, "sender", "r", "", "the same as -f")
	f.StringVarP(&o.fullName, "full-name", "F", "", "the sender's `name`, used if there is no From field")
	f.BoolVarP(&o.dots, "ignore-dots", "i", false, "a line with only a dot does not end the message")
	f.BoolVarP(&o.recipient, "read-recipients", "t", false, "the header's To, Cc and Bcc are recipients too")
	f.StringVarP(&o.notify, "notify", "N", "", "`when` to send notices: never, or success, failure and delay, separated by commas")
	f.StringVarP(&o.ret, "return", "R", "", "`part` of the message that a notice returns: hdrs or full")
	f.StringVarP(&o.envID, "envid", "V", "", "the envelope's `identity` in notices")
	f.StringVarP(&o.bodyType, "body", "B", "", "`type` of the body: 7BIT or 8BITMIME")
	f.BoolVarP(&o.queue, "queue", "q", false, "try all mail in the queue now")
	f.StringVarP(&o.zenv, "zmailer-conf", "Z", "", "read this `zmailer.conf`")
	f.StringArrayVarP(&o.more, "option", "o", nil, "i is -i; other `letters` have no effect")
	for _, letter := range "ACDLOXdhp" {
		f.StringVarP(&o.ignored, "ignored-"+string(letter), string(letter), "", "no `effect`")
	}
	f.BoolVarP(&o.verbose, "verbose", "v", false, "no effect")
	for _, letter := range "GUmn" {
		f.BoolVarP(new(bool), "ignored-"+string(letter), string(letter), false, "no effect")
	}
	f.BoolVar(&o.version, "version", false, "print the version and exit")
	f.VisitAll(func(flag *pflag.Flag) { flag.Hidden = strings.HasPrefix(flag.Name, "ignored-") })
	return f
}

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	err := execute(args, stdin, stdout)
	var coded exit
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, pflag.ErrHelp):
		fmt.Fprint(stdout, usageLine, "\n", newFlags(new(options)).FlagUsages())
		return exitOK
	case !errors.As(err, &coded):
		coded = exit{exitTempFail, err}
	}
	fmt.Fprintf(stderr, "sendmail: %v\n", err)
	if coded.code == exitUsage {
		fmt.Fprint(stderr, usageLine)
	}
	return coded.code
}

func execute(args []string, stdin io.Reader, stdout io.Writer) error {
	o := new(options)
	flags := newFlags(o)
	if err := flags.Parse(withoutIntervals(args)); errors.Is(err, pflag.ErrHelp) {
		return err
	} else if err != nil {
		return exit{exitUsage, err}
	}
	if o.version {
		fmt.Fprintln(stdout, version.Line("sendmail"))
		return nil
	}
	for _, letters := range o.more {
		o.dots = o.dots || letters == "i" || letters == "itrue"
	}
	// Sites may link this program to these names too.
	switch filepath.Base(os.Args[0]) {
	case "mailq":
		o.mode = "p"
	case "newaliases":
		o.mode = "i"
	}
	env, err := zenv.Read(o.zenv)
	if err != nil {
		return exit{exitConfig, err}
	}
	switch {
	case o.queue:
		return o.retry(env, stdout)
	case o.mode == "m":
		return o.submit(env, flags.Args(), flags.Changed("from") || flags.Changed("sender"), stdin)
	case o.mode == "s":
		return serve(env)
	case o.mode == "p":
		return o.become(env, "mailq")
	case o.mode == "i":
		return o.become(env, "router", "--check")
	}
	return exitf(exitUsage, "-b%s is not supported", o.mode)
}

// withoutIntervals reduces every option that begins with -q to -q. That drops the
// interval of -q15m and the values of queue group options; the mail is tried at once.
func withoutIntervals(args []string) []string {
	var list []string
	for i, arg := range args {
		if arg == "--" || !strings.HasPrefix(arg, "-") {
			return append(list, args[i:]...)
		}
		if strings.HasPrefix(arg, "-q") {
			arg = "-q"
		}
		list = append(list, arg)
	}
	return list
}

// become replaces this program with another one of this tree.
func (o *options) become(env *zenv.File, name string, args ...string) error {
	path, argv := o.program(env, name, args...)
	err := syscall.Exec(path, argv, os.Environ())
	return exitf(exitOSFile, "run %s: %w", path, err)
}

// program returns the path and the arguments of another program of this tree. It is in
// MAILBIN or, if zmailer.conf does not set that, in the directory of this program.
func (o *options) program(env *zenv.File, name string, args ...string) (path string, argv []string) {
	dir, set := env.Lookup("MAILBIN")
	if self, err := os.Executable(); err == nil && !set {
		dir = filepath.Dir(self)
	}
	argv = append([]string{name}, args...)
	if o.zenv != "" {
		argv = append(argv, "-Z", o.zenv)
	}
	return filepath.Join(dir, name), argv
}

// mailqNothing is mailq's exit code if no mail matches.
const mailqNothing = 1

// retry asks the scheduler to try all mail now. An empty queue is not an error.
func (o *options) retry(env *zenv.File, stdout io.Writer) error {
	path, argv := o.program(env, "mailq", "retry", "host=*", "--yes")
	var said strings.Builder
	cmd := exec.Cmd{Path: path, Args: argv, Stdout: stdout, Stderr: &said}
	err := cmd.Run()
	var failed *exec.ExitError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &failed):
		return exitf(exitOSFile, "run %s: %w", path, err)
	case failed.ExitCode() == mailqNothing:
		return nil
	}
	return exitf(max(failed.ExitCode(), mailqNothing), "%s", strings.TrimSpace(said.String()))
}

// withCode adds the exit code for an error of the postoffice.
func withCode(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return exit{exitNoPerm, err}
	}
	return exit{exitTempFail, err}
}
