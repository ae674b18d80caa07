package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"zsched/internal/text"
	"zsched/internal/zenv"
	"zsched/mailq"
	"zsched/mailq/client"
)

// program is one run of mailq: it finds the server, asks, and prints.
type program struct {
	*options
	out      *bufio.Writer
	stderr   io.Writer
	terminal bool // standard output is a terminal
	env      *zenv.File
	what     string // what the user asked for, for errors
	target   *target
	client   *client.Client
}

// connectTimeout is the timeout for each address of a server.
const connectTimeout = 30 * time.Second

// errSilent leads to exit code 1 without an error message.
var errSilent = errors.New("nothing found")

// zmailer does what ZMailer's mailq does: it lists the queue, or shows the state of the
// daemons.
func (p *program) zmailer(args []string) error {
	if len(args) > 0 {
		p.server = args[0]
	}
	switch {
	case p.queue > 4:
		return usageError("-Q may be given four times at most")
	case p.thread != threadFilter{} && p.queue > 0:
		return usageError("-c and -h can only be used with the list of messages")
	case p.thread.host != "" && p.thread.channel == "":
		p.thread.channel = "smtp"
	}
	if err := p.find(); err != nil {
		return err
	}
	p.announce()
	if p.status > 0 {
		err := p.target.spool.WriteStatus(p.out, p.target.local)
		if p.status > 1 && !p.summary {
			return err
		}
		if err != nil {
			fmt.Fprintf(p.stderr, "mailq: %v\n", err)
		}
	}
	return p.session(func() error {
		if p.queue > 0 {
			return p.listQueue()
		}
		return p.list(nil)
	})
}

// find reads zmailer.conf and finds the server.
func (p *program) find() (err error) {
	if err := p.readEnv(); err != nil {
		return err
	}
	if p.target, err = findTarget(p.options, p.env); err != nil {
		return err
	}
	if p.target.badConfig != nil {
		fmt.Fprintf(p.stderr, "mailq: %v\n", p.target.badConfig)
	}
	return nil
}

// readEnv reads zmailer.conf. A file that is not named on the command line may be missing
// or wrong.
func (p *program) readEnv() (err error) {
	p.env, err = zenv.Read(p.zenv)
	if err != nil && p.zenv != "" {
		return usageError(err.Error())
	}
	if err != nil {
		fmt.Fprintf(p.stderr, "mailq: %v\n", err)
	}
	return nil
}

// announce names a server on another host.
func (p *program) announce() {
	if !p.target.local && !p.json {
		fmt.Fprintf(p.out, "[%s]\n", text.Escape(p.target.Host))
	}
}

// session connects to the server that was found and calls do.
func (p *program) session(do func() error) (err error) {
	if p.client, err = p.connect(); err != nil {
		return err
	}
	defer func() { _ = p.client.Quit() }()
	return do()
}

// ask finds the server, and calls do in a session with it.
func (p *program) ask(do func() error) error {
	if err := p.find(); err != nil {
		return err
	}
	p.announce()
	return p.session(do)
}

// connect begins a session and logs in, unless the scheduler has another postoffice than the one
// that is meant.
func (p *program) connect() (*client.Client, error) {
	at := p.target.Address
	conn, err := client.Dialer{Prefer: p.prefer, Timeout: connectTimeout}.Dial(context.Background(), at)
	if err != nil {
		return nil, cmp.Or(p.target.inactive, err)
	}
	options := client.Options{Server: at.String(), Timeout: p.timeout}
	if p.debug {
		options.Trace = p.stderr
	}
	c, err := client.New(conn, options)
	if err != nil {
		return nil, err
	}
	theirs, ours := c.Postoffice(), p.target.spool.Identity()
	if p.target.own && theirs != ours && theirs != "" && theirs != "-" && ours != "-" {
		_ = c.Close()
		return nil, &client.Error{Kind: client.Unavailable, Err: fmt.Errorf("%s: the scheduler there has another postoffice than %s; "+
			"name the one to ask with -p, or with -Z and its zmailer.conf", at, p.target.spool.Dir)}
	}
	err = c.Login(p.user, p.password)
	if client.KindOf(err) == client.Refused && at.Path != "" && !p.userGiven {
		// On a UNIX socket the server may admit the user by the kernel's
		// credentials, without a login. If it does not, it refuses the first
		// command.
		return c, nil
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// printer returns a printer for the options given.
func (p *program) printer() *client.Printer {
	return &client.Printer{
		Out: p.out, Now: time.Now(), Terminal: p.terminal,
		Verbose: p.verbose, Summary: p.summary, Spool: p.target.spool, Owner: p.owner,
	}
}

// listQueue shows threads, rings, totals or counters, in the words of the server.
func (p *program) listQueue() error {
	printer := p.printer()
	for line, err := range p.client.Show("SHOW " + [...]string{"QUEUE THREADS", "QUEUE SHORT", "SNMP", "COUNTERS"}[p.queue-1]) {
		if err == nil {
			err = printer.Line(line)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// etrn starts delivery of the mail for a host.
func (p *program) etrn(host string) error {
	s, err := p.client.Ask("ETRN " + mailq.Quote(host))
	if err == nil {
		fmt.Fprintln(p.out, text.Escape(strings.TrimPrefix(s, "OK; ")))
	}
	return err
}
