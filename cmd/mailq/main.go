// Mailq shows a mail queue and gives orders about it: mailq(1).
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"zsched/internal/text"
	"zsched/mailq/client"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// Exit codes (mailq(1), "EXIT STATUS"). Those above 1 are ZMailer's, from sysexits.h.
const (
	exitOK          = 0
	exitFailure     = 1 // nothing was found or done, or the server refuses it
	exitUsage       = 64
	exitUnavailable = 69
	exitNoQueue     = 72
)

// usageError is the error of an invalid command line.
type usageError string

func (e usageError) Error() string { return string(e) }

// loginHint follows the error of a refused request.
const loginHint = "mailq: -U user/password logs in as another user. The users, with their passwords, addresses and rights,\n" +
	"are in the scheduler's auth file (PARAMauthfile in scheduler.cf). At a UNIX socket, root needs no password."

func run(args []string, _ io.Reader, stdout, stderr io.Writer) int {
	out := bufio.NewWriterSize(stdout, 64<<10)
	p := &program{options: new(options), asker: asker{stderr: stderr}, out: out, terminal: text.IsTerminal(stdout)}
	commands := newCommands(p, out, stderr)
	commands.SetArgs(args)
	err := client.RefusalOf(commands.Execute(), p.what)
	if flushed := out.Flush(); flushed != nil {
		err = flushed
	}
	if err != nil && !errors.Is(err, errSilent) {
		fmt.Fprintf(stderr, "mailq: %s\n", text.Escape(err.Error()))
	}
	if usage := usageError(""); errors.As(err, &usage) {
		fmt.Fprintln(stderr, "mailq help lists the subcommands and options.")
	}
	if client.KindOf(err) == client.Refused {
		fmt.Fprintln(stderr, loginHint)
	}
	return exitCode(err)
}

func exitCode(err error) int {
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		return exitUsage
	case errors.Is(err, errNeverActive):
		return exitNoQueue
	case client.KindOf(err) == client.Unavailable:
		return exitUnavailable
	}
	return exitFailure
}
