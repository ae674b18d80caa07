// Package command reads command lines. All programs treat --help, --version and errors in the
// same way.
package command

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"zsched/internal/version"
)

// Exit statuses.
const (
	ExitFault = 1  // after any error but one in the command line
	ExitUsage = 64 // after an error in the command line (EX_USAGE)
)

// Line is the command line of a program.
type Line struct {
	Flags          *pflag.FlagSet // from Flags, with the program's own options
	Usage          string         // how to use it, with a line end
	Operands       bool           // it may have operands
	Stdout, Stderr io.Writer
}

// Flags returns the options that every program has.
func Flags(name string) *pflag.FlagSet {
	f := pflag.NewFlagSet(name, pflag.ContinueOnError)
	f.SortFlags = false
	f.Usage = func() {}
	f.BoolP("version", "V", false, "print the version and exit")
	return f
}

// Parse reads the arguments. If ended, the program has to exit with this status.
func (l *Line) Parse(args []string) (status int, ended bool) {
	err := l.Flags.Parse(args)
	if errors.Is(err, pflag.ErrHelp) {
		fmt.Fprint(l.Stdout, l.Usage, "\n", l.Flags.FlagUsages())
		return 0, true
	}
	if err == nil && l.Flags.Changed("version") {
		fmt.Fprintln(l.Stdout, version.Line(l.Flags.Name()))
		return 0, true
	}
	if err == nil && l.Flags.NArg() > 0 && !l.Operands {
		err = fmt.Errorf("unexpected operand %q", l.Flags.Arg(0))
	}
	if err != nil {
		return l.Wrong(err), true
	}
	return 0, false
}

// Wrong reports an error in the command line, and returns the exit status.
func (l *Line) Wrong(err error) int {
	fmt.Fprintf(l.Stderr, "%s: %v\n%s", l.Flags.Name(), Plain(err), l.Usage)
	return ExitUsage
}

// forms say what the values of some kinds of options have to be; the errors of Go's library do not.
var forms = map[string]string{"bool": "yes or no", "boolfunc": "yes or no", "int": "a whole number"}

// Plain returns an error of pflag in plain words.
func Plain(err error) error {
	var wrong *pflag.InvalidValueError
	if !errors.As(err, &wrong) {
		return err
	}
	flag := wrong.GetFlag()
	if form := forms[flag.Value.Type()]; form != "" {
		return fmt.Errorf("%s %q: must be %s", flag.Name, wrong.GetValue(), form)
	}
	return fmt.Errorf("%s %q: %w", flag.Name, wrong.GetValue(), wrong.Unwrap())
}
