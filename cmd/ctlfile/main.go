// Ctlfile shows, checks and submits message control files: ctlfile(1).
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

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
       ctlfile submit -P postoffice --from address [option...] channel/host/user... < message
       ctlfile --version
`

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
	case "help", "-h", "--help":
		err = pflag.ErrHelp
	case "-V", "--version":
		fmt.Fprintln(stdout, version.Line("ctlfile"))
	default:
		err = usageError(fmt.Sprintf("unknown verb %q", verb))
	}
	var wrong usageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, pflag.ErrHelp):
		fmt.Fprint(stdout, usage, "\n", submitFlags(new(submission)).FlagUsages())
		return exitOK
	case errors.As(err, &wrong):
		fmt.Fprintf(stderr, "ctlfile: %v\n%s", err, usage)
		return exitUsage
	case !errors.Is(err, errTold):
		fmt.Fprintf(stderr, "ctlfile: %v\n", err)
	}
	return exitFault
}

// A usageError is a command line that makes no sense.
type usageError string

func (e usageError) Error() string { return string(e) }

// errTold says that what went wrong has been printed.
var errTold = errors.New("told")

// A controlFile is one that has been read.
type controlFile struct {
	path string
	text []byte
	*ctlfile.File
}

// eachFile calls do with every file that is a control file, and reports the
// others as file:line: reason.
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
			fmt.Fprintln(stderr, err)
			failed = errTold
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
