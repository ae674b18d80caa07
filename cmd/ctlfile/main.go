// Ctlfile shows, checks and submits message control files, and tries agents with
// them: ctlfile(1).
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
       ctlfile check FILE...
       ctlfile submit -P DIRECTORY --from ADDRESS [OPTION...] CHANNEL/HOST/USER... < MESSAGE
       ctlfile try [OPTION...] FILE -- COMMAND [ARGUMENT...]
       ctlfile try [OPTION...] - -- COMMAND [ARGUMENT...]
       ctlfile --help | --version
`

const help = `Show, check and submit message control files, the files in POSTOFFICE/transport.

  show     print every line of each file with its offset and its meaning
  check    print what is wrong with each file, and nothing for a file without faults
  submit   put a message into the queue as a router does, and print the path of
           its control file
  try      start an agent, give it a copy of a message as the scheduler does, and
           show the lines of both sides; with - the lines to send come from standard input

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
		err = eachFile(rest, stdout, stderr, show)
	case "check":
		err = eachFile(rest, stdout, stderr, check)
	case "submit":
		err = submit(rest, stdin, stdout, stderr)
	case "try":
		err = try(rest, stdin, stdout)
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
		fmt.Fprint(stdout, usage, "\n", help, submitFlags(new(submission)).FlagUsages(),
			"\nOptions of try:\n", tryFlags(new(trial)).FlagUsages())
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

// controlFile is a parsed control file with its path and text.
type controlFile struct {
	path string
	text []byte
	*ctlfile.File
}

// eachFile calls do for every path that is a valid control file. It prints the errors
// of the other files, and those of do, as file:line: reason.
func eachFile(paths []string, stdout, stderr io.Writer, do func(io.Writer, controlFile) error) error {
	if len(paths) == 0 {
		return usageError("no file")
	}
	var failed error
	for _, path := range paths {
		file, err := read(path)
		if err == nil {
			err = do(stdout, file)
		}
		if err != nil {
			fmt.Fprintln(stderr, printable(err.Error()))
			failed = errPrinted
		}
	}
	return failed
}

func read(path string) (controlFile, error) {
	in, err := os.Open(path)
	if err != nil {
		return controlFile{}, err
	}
	defer func() { _ = in.Close() }()
	text, err := io.ReadAll(io.LimitReader(in, ctlfile.MaxSize+1))
	if err != nil {
		return controlFile{}, err
	}
	file, err := ctlfile.Parse(text)
	var malformed *ctlfile.ParseError
	if errors.As(err, &malformed) {
		return controlFile{}, fmt.Errorf("%s:%d: %s", path, malformed.Line, malformed.Reason)
	}
	return controlFile{path, text, file}, err
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
