// Ctlfile submits messages to the queue: ctlfile(1).
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"zsched/ctlfile"
	"zsched/internal/command"
	"zsched/internal/header"
	"zsched/internal/text"
	"zsched/queue"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

const usage = `usage: ctlfile submit -P DIRECTORY --from ADDRESS [OPTION...] CHANNEL/HOST/USER... < MESSAGE
       ctlfile --help | --version

Put a message into the queue as a router does, and print the path of its control file.
`

// submission holds the options for a new message.
type submission struct {
	postoffice string
	levels     int
	from       string // "" or "<>": the null sender
	notify     string // value of NOTIFY
	privilege  string
}

func newFlags(s *submission) *pflag.FlagSet {
	f := command.Flags("ctlfile")
	f.StringVarP(&s.postoffice, "postoffice", "P", "", "the postoffice `directory`; required")
	f.IntVarP(&s.levels, "hash", "H", 0, "`levels` of hash directories, 0 to 2")
	f.StringVar(&s.from, "from", "", "the sender's `address`; empty or <> is the null sender; required")
	f.StringVar(&s.notify, "notify", "", "`outcomes` to tell the sender of, such as SUCCESS,FAILURE")
	f.StringVar(&s.privilege, "privilege", ctlfile.Nobody, "`uid` whose rights agents use to deliver")
	return f
}

// run returns the exit status of the program.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var s submission
	line := command.Line{Flags: newFlags(&s), Usage: usage, Operands: true, Stdout: stdout, Stderr: stderr}
	if status, ended := line.Parse(args); ended {
		return status
	}
	envelope, err := s.envelope(line.Flags)
	if err != nil {
		return line.Wrong(err)
	}
	if err := s.submit(envelope, stdin, stdout); err != nil {
		fmt.Fprintf(stderr, "ctlfile: %s\n", text.Escape(err.Error()))
		return command.ExitFault
	}
	return 0
}

// envelope returns the sender, in the form that the router writes, and the
// recipients. The error is one of the command line.
func (s *submission) envelope(f *pflag.FlagSet) (e ctlfile.Envelope, err error) {
	switch {
	case f.Arg(0) != "submit":
		return e, fmt.Errorf("unknown verb %q", f.Arg(0))
	case s.postoffice == "":
		return e, errors.New("no postoffice (-P)")
	case !f.Changed("from"):
		return e, errors.New("no sender (--from)")
	case s.levels < 0 || s.levels > 2:
		return e, fmt.Errorf("%d levels of hash directories", s.levels)
	case f.NArg() == 1:
		return e, errors.New("no recipient")
	}
	e.Sender = ctlfile.Address{Channel: "local", Host: s.from, User: s.from, Privilege: "0"}
	if s.from == "" || s.from == "<>" {
		e.Sender = ctlfile.Address{Channel: "error", Host: "<>", User: "<>", Privilege: "0"}
	}
	dsn := ""
	if s.notify != "" {
		dsn = "NOTIFY=" + s.notify
	}
	for _, recipient := range f.Args()[1:] {
		words := strings.SplitN(recipient, "/", 3)
		if len(words) < 3 || words[0] == "" || words[2] == "" {
			return e, fmt.Errorf("recipient %q is not channel/host/user", recipient)
		}
		e.Recipients = append(e.Recipients, ctlfile.EnvelopeRecipient{
			Address: ctlfile.Address{Channel: words[0], Host: words[1], User: words[2], Privilege: s.privilege}, DSN: dsn,
		})
	}
	return e, nil
}

// submit puts the message into the queue and tells the scheduler, if one listens.
func (s *submission) submit(e ctlfile.Envelope, stdin io.Reader, stdout io.Writer) error {
	fields, body, message, err := header.Read(stdin)
	if err != nil {
		return err
	}
	path, err := queue.Submit(s.postoffice, s.levels, &ctlfile.Contents{
		Body: body, MessageID: header.Split(fields).Value("Message-ID"),
		Blocks: []ctlfile.HeaderBlock{{Envelopes: []ctlfile.Envelope{e}, Header: fields}},
	}, message)
	if path == "" {
		return err
	}
	fmt.Fprintln(stdout, path)
	// An error does not matter: the scheduler finds the file without the notice too.
	_ = queue.Announce(filepath.Join(s.postoffice, ".scheduler.notify"), path)
	return err
}
