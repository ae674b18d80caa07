// Ctlfile shows and submits message control files: ctlfile(1).
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"github.com/spf13/pflag"

	"zsched/ctlfile"
	"zsched/internal/version"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// Exit codes.
const (
	exitOK    = 0
	exitFault = 1 // a file is malformed, or could not be read or written
	exitUsage = 2
)

const usage = `usage: ctlfile show FILE...
       ctlfile submit -P DIRECTORY --from ADDRESS [OPTION...] CHANNEL/HOST/USER... < MESSAGE
       ctlfile --help | --version
`

const help = `Show and submit message control files, the files in POSTOFFICE/transport.

  show     print every line of each file with its offset and its meaning
  submit   put a message into the queue as a router does, and print the path of
           its control file

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
	case "show":
		err = showAll(rest, stdout, stderr)
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
	case !errors.Is(err, errPrinted):
		fmt.Fprintf(stderr, "ctlfile: %v\n", printable(err.Error()))
	}
	return exitFault
}

// usageError is the error of an invalid command line.
type usageError string

func (e usageError) Error() string { return string(e) }

// errPrinted says that the errors have been printed already.
var errPrinted = errors.New("errors were printed")

// showAll shows every file that is a valid control file. It prints the errors of the
// others as file:line: reason.
func showAll(paths []string, stdout, stderr io.Writer) error {
	if len(paths) == 0 {
		return usageError("no file")
	}
	var failed error
	for _, path := range paths {
		file, err := read(path)
		if err == nil {
			err = show(stdout, path, file)
		}
		if err != nil {
			fmt.Fprintln(stderr, printable(err.Error()))
			failed = errPrinted
		}
	}
	return failed
}

func read(path string) (*ctlfile.File, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	text, err := io.ReadAll(io.LimitReader(in, ctlfile.MaxSize+1))
	if err != nil {
		return nil, err
	}
	file, err := ctlfile.Parse(text)
	var malformed *ctlfile.ParseError
	if errors.As(err, &malformed) {
		return nil, fmt.Errorf("%s:%d: %s", path, malformed.Line, malformed.Reason)
	}
	return file, err
}

// printable replaces the characters that could control a terminal or change the
// order in which its text is read: control characters (C0 and C1) except line
// ends and TABs, format characters (bidirectional marks among them), and
// separators of lines and paragraphs.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			return '?'
		}
		return r
	}, s)
}
