package main

// One run of mailq: which server is asked, and which exit status tells how it went.

import (
	"bufio"
	"errors"
	"fmt"
	"time"

	"zsched/internal/text"
	"zsched/mailq/client"
)

// program is one run of mailq: it finds the server, asks, and prints.
type program struct {
	*options
	asker    asker
	out      *bufio.Writer
	terminal bool   // standard output is a terminal
	what     string // what the user asked for, for errors
}

// errSilent leads to exit code 1 without an error message.
var errSilent = errors.New("nothing found")

// zmailer does what ZMailer's mailq does: it lists the queue, or shows the state of the
// daemons.
func (p *program) zmailer(args []string) error {
	if len(args) > 0 {
		p.asker.server = args[0]
	}
	switch {
	case p.queue > 4:
		return usageError("-Q may be given four times at most")
	case p.thread != threadFilter{} && p.queue > 0:
		return usageError("-c and -h can only be used with the list of messages")
	case p.thread.host != "" && p.thread.channel == "":
		p.thread.channel = "smtp"
	}
	if err := p.asker.find(p.status > 0); err != nil {
		return err
	}
	p.announce()
	if p.status > 0 {
		err := p.asker.target.spool.WriteStatus(p.out, p.asker.target.local)
		if p.status > 1 && !p.summary {
			return err
		}
		if err != nil {
			fmt.Fprintf(p.asker.stderr, "mailq: %v\n", err)
		}
	}
	return p.asker.session(func() error {
		if p.queue > 0 {
			return p.listQueue()
		}
		return p.list(nil)
	})
}

// announce names a server on another host.
func (p *program) announce() {
	if !p.asker.target.local && !p.json {
		fmt.Fprintf(p.out, "[%s]\n", text.Escape(p.asker.target.Host))
	}
}

// ask finds the server, and calls do in a session with it.
func (p *program) ask(do func() error) error {
	if err := p.asker.find(false); err != nil {
		return err
	}
	p.announce()
	return p.asker.session(do)
}

// printer returns a printer for the options given.
func (p *program) printer() *client.Printer {
	return &client.Printer{
		Out: p.out, Now: time.Now(), Terminal: p.terminal,
		Verbose: p.verbose, Summary: p.summary, Spool: p.asker.target.spool, Owner: p.owner,
	}
}

// listQueue shows threads, rings, totals or counters, in the words of the server.
func (p *program) listQueue() error {
	printer := p.printer()
	for line, err := range p.asker.client.Show("SHOW " + [...]string{"QUEUE THREADS", "QUEUE SHORT", "SNMP", "COUNTERS"}[p.queue-1]) {
		if err == nil {
			err = printer.Line(line)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
