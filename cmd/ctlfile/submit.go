package main

// The verb submit: puts a message from standard input into the queue.

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"zsched/ctlfile"
	"zsched/internal/header"
	"zsched/queue"
)

// submission holds the options for a new message.
type submission struct {
	postoffice   string
	levels       int
	from         string // "" or "<>": the null sender
	errorTo      string
	notify       string // value of the N lines; NOTIFY= may be left out
	ret, envID   string
	messageID    string // "": the message's Message-ID
	privilege    string
	notifySocket string // "": that of the postoffice, if it exists
	quiet        bool   // do not notify the scheduler
}

func submitFlags(s *submission) *pflag.FlagSet {
	f := pflag.NewFlagSet("ctlfile submit", pflag.ContinueOnError)
	f.SortFlags = false
	f.Usage = func() {}
	f.StringVarP(&s.postoffice, "postoffice", "P", "", "the postoffice `directory`; required")
	f.IntVarP(&s.levels, "hash", "H", 0, "`levels` of hash directories, 0 to 2")
	f.StringVar(&s.from, "from", "", "the sender's `address`; empty or <> is the null sender; required")
	f.StringVar(&s.errorTo, "error-to", "", "`address` for error messages instead of the sender's")
	f.StringVar(&s.notify, "notify", "", "`outcomes` to tell the sender of, such as SUCCESS,FAILURE; or words such as NOTIFY=NEVER ORCPT=...")
	f.StringVar(&s.ret, "ret", "", "`part` of the message that a notice returns, HDRS or FULL")
	f.StringVar(&s.envID, "envid", "", "envelope `identity`, in xtext")
	f.StringVar(&s.messageID, "log-id", "", "`identity` in logs instead of the Message-ID")
	f.StringVar(&s.privilege, "privilege", "65534", "`uid` whose rights agents use to deliver")
	f.StringVar(&s.notifySocket, "notify-socket", "", "notify the scheduler at this `socket`, not at POSTOFFICE/.scheduler.notify")
	f.BoolVar(&s.quiet, "no-notify", false, "do not notify the scheduler")
	return f
}

func submit(args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	var s submission
	flags := submitFlags(&s)
	if err := flags.Parse(args); errors.Is(err, pflag.ErrHelp) {
		return err
	} else if err != nil {
		return usageError(err.Error())
	}
	switch {
	case s.postoffice == "":
		return usageError("no postoffice (-P)")
	case !flags.Changed("from"):
		return usageError("no sender (--from)")
	case s.levels < 0 || s.levels > 2:
		return usageError(fmt.Sprintf("%d levels of hash directories", s.levels))
	case flags.NArg() == 0:
		return usageError("no recipient")
	}
	envelope, err := s.envelope(flags.Args())
	if err != nil {
		return err
	}
	fields, body, message, err := header.Read(stdin)
	if err != nil {
		return err
	}
	if s.messageID == "" {
		s.messageID = header.Split(fields).Value("Message-ID")
	}
	path, err := queue.Submit(s.postoffice, s.levels, &ctlfile.Contents{
		Body: body, MessageID: s.messageID, ErrorTo: s.errorTo,
		Blocks: []ctlfile.HeaderBlock{{Envelopes: []ctlfile.Envelope{envelope}, Header: fields}},
	}, message)
	if path != "" {
		fmt.Fprintln(stdout, path)
		s.announce(path, stderr)
	}
	return err
}

// envelope returns the sender, in the form that the router writes, and the
// recipients.
func (s *submission) envelope(recipients []string) (ctlfile.Envelope, error) {
	e := ctlfile.Envelope{Sender: ctlfile.Address{Channel: "local", Host: s.from, User: s.from, Privilege: "0"}}
	if s.from == "" || s.from == "<>" {
		e.Sender = ctlfile.Address{Channel: "error", Host: "<>", User: "<>", Privilege: "0"}
	}
	dsn := s.notify
	if dsn != "" && !strings.Contains(dsn, "=") {
		dsn = "NOTIFY=" + dsn
	}
	for _, recipient := range recipients {
		words := strings.SplitN(recipient, "/", 3)
		if len(words) < 3 || words[0] == "" || words[2] == "" {
			return e, usageError(fmt.Sprintf("recipient %q is not channel/host/user", recipient))
		}
		e.Recipients = append(e.Recipients, ctlfile.EnvelopeRecipient{
			Address: ctlfile.Address{Channel: words[0], Host: words[1], User: words[2], Privilege: s.privilege},
			DSN:     dsn, Ret: s.ret, EnvID: s.envID,
		})
	}
	return e, nil
}

// announce notifies the scheduler. An error is only printed, because the
// scheduler finds the file without the notice too.
func (s *submission) announce(path string, stderr io.Writer) {
	if s.quiet {
		return
	}
	socket := s.notifySocket
	if socket == "" {
		socket = filepath.Join(s.postoffice, ".scheduler.notify")
		if _, err := os.Lstat(socket); err != nil {
			return
		}
	}
	if err := queue.Announce(socket, path); err != nil {
		fmt.Fprintf(stderr, "ctlfile: %v\n", err)
	}
}
