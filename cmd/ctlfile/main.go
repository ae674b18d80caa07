// Ctlfile submits messages to the queue: ctlfile(1).
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

	"zsched/internal/text"
	"zsched/internal/version"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// Exit codes.
const (
	exitOK    = 0
	exitFault = 1 // the message could not be read or written
	exitUsage = 2
)

const usage = `usage: ctlfile submit -P DIRECTORY --from ADDRESS [OPTION...] CHANNEL/HOST/USER... < MESSAGE
       ctlfile --help | --version
`

const help = `Put a message into the queue as a router does, and print the path of its control file.

Options of submit:
`

// run returns the exit code of the program.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return exitUsage
	}
	var err error
	switch verb, rest := args[0], args[1:]; verb {
	case "submit":
		err = submit(rest, stdin, stdout, stderr)
	case "help", "-h", "--help":
		err = pflag.ErrHelp
	case "version", "-V", "--version":
		fmt.Fprintln(stdout, version.Line("ctlfile"))
	default:
		err = usageError(fmt.Sprintf("unknown verb %q", verb))
	}
	var wrongUsage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, pflag.ErrHelp):
		fmt.Fprint(stdout, usage, "\n", help, submitFlags(new(submission)).FlagUsages())
		return exitOK
	case errors.As(err, &wrongUsage):
		fmt.Fprintf(stderr, "ctlfile: %v\n%s", err, usage)
		return exitUsage
	}
	fmt.Fprintf(stderr, "ctlfile: %s\n", text.Escape(err.Error()))
	return exitFault
}

// usageError is the error of an invalid command line.
type usageError string

func (e usageError) Error() string { return string(e) }
