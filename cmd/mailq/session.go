package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"zsched/cmd/mailq/top"
	"zsched/internal/zenv"
	"zsched/mailq"
	"zsched/mailq/client"
)

// A session is one call of the program.
type session struct {
	*options
	out      *bufio.Writer
	stderr   io.Writer
	terminal bool // standard output is one
	place    *place
	client   *client.Client
	shown    bool // a line of an answer
}

// connectTimeout is for each address of a server.
const connectTimeout = 30 * time.Second

func (s *session) run() error {
	orders, err := s.orders()
	if err != nil {
		return usageError(err.Error())
	}
	env, err := zenv.Read(s.zenv)
	if err != nil && s.zenv != "" {
		return usageError(err.Error())
	}
	if err != nil {
		fmt.Fprintf(s.stderr, "mailq: %v\n", err)
	}
	if s.place, err = findPlace(s.options, env); err != nil {
		return err
	}
	if s.top {
		return s.watch()
	}
	if !s.place.local && !s.json {
		fmt.Fprintf(s.out, "[%s]\n", client.Plain(canonical(s.place.Host)))
	}
	if s.status > 0 {
		if err := s.place.spool.WriteStatus(s.out, s.place.local); err != nil {
			fmt.Fprintf(s.stderr, "mailq: %v\n", err)
		}
		if s.status > 1 && s.summary == 0 {
			return nil
		}
	}
	if s.client, err = s.connect(); err != nil {
		return err
	}
	defer func() { _ = s.client.Quit() }()
	if s.client.Version == 1 {
		return s.version1()
	}
	return s.version2(orders)
}

// connect begins a dialogue and, in version 2, logs in.
func (s *session) connect() (*client.Client, error) {
	dialer := client.Dialer{Prefer: s.prefer, Timeout: connectTimeout}
	conn, err := dialer.Dial(context.Background(), s.place.Address)
	if err != nil {
		return nil, err
	}
	how := client.Dialogue{Server: s.place.String(), Patience: s.wait}
	if s.debug {
		how.Trace = s.stderr
	}
	c, err := client.New(conn, how)
	if err != nil || c.Version == 1 {
		return c, err
	}
	err = c.Login(s.name, s.password)
	if client.FaultOf(err) == client.Refused && s.place.Path != "" && !s.named {
		// On its socket the server may know us by our credentials and need
		// no login. If not, it will say so at the first command.
		return c, nil
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// printer is what is asked for, for this output.
func (s *session) printer() *client.Printer {
	return &client.Printer{
		Out: s.out, Now: time.Now(), Terminal: s.terminal, Colour: s.terminal && colourful(),
		Verbose: s.verbose, Summary: s.summary, Spool: s.place.spool, Owner: s.owner,
	}
}

// colourful: see https://no-color.org.
func colourful() bool {
	term := os.Getenv("TERM")
	return os.Getenv("NO_COLOR") == "" && term != "" && term != "dumb"
}

func (s *session) version1() error {
	switch {
	case s.report != "", s.etrn != "", s.order.Verb != "", s.json:
		return &client.Error{Fault: client.Refused,
			Err: fmt.Errorf("%s speaks MAILQ version 1, which has only lists", s.place)}
	case s.queue == 0:
		d, err := s.client.Dump()
		if err != nil {
			return err
		}
		return s.printer().Dump(d)
	}
	if err := s.client.SkipDump(); err != nil {
		return err
	}
	p := s.printer()
	for line, err := range s.client.Rest() {
		if err != nil {
			return err
		}
		if s.queue > 1 && strings.HasPrefix(line, " ") {
			continue
		}
		if err := p.Line(line); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) version2(orders []mailq.Order) error {
	switch {
	case len(orders) > 0:
		return s.act(orders)
	case s.etrn != "":
		text, err := s.client.Ask("ETRN " + mailq.Quote(s.etrn))
		if err == nil {
			fmt.Fprintln(s.out, client.Plain(strings.TrimPrefix(text, "OK; ")))
		}
		return err
	case s.report == "HELP":
		return s.lines(s.report)
	case s.report != "":
		err := s.lines(s.prefix() + s.report)
		if err == nil && s.finds && !s.shown {
			return errNothing
		}
		return err
	case s.queue > 0:
		return s.lines(s.prefix() + "SHOW " + [...]string{"QUEUE THREADS", "QUEUE SHORT", "SNMP", "COUNTERS"}[s.queue-1])
	}
	return s.list()
}

func (s *session) prefix() string {
	if s.json {
		return "JSON "
	}
	return ""
}

// lines shows an answer as it comes.
func (s *session) lines(command string) error {
	if err := s.client.Send(command); err != nil {
		return err
	}
	show := s.line(s.printer())
	for line, err := range s.client.Lines() {
		if err == nil {
			err = show(line)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// errNothing is a search without a result; there is nothing to say about it.
var errNothing = errors.New("nothing found")

// line is what is done with a line of a report or an object of JSON.
func (s *session) line(p *client.Printer) func(string) error {
	return func(line string) error {
		s.shown = true
		if s.json {
			return p.JSON(line)
		}
		return p.Line(line)
	}
}

// list shows the mail of one thread or of all.
func (s *session) list() error {
	var names []mailq.Name
	if s.host != "" {
		channel := s.channel
		if channel == "" {
			channel = "smtp"
		}
		names = []mailq.Name{{Channel: channel, Host: s.host}}
	} else {
		var err error
		if names, err = s.client.Names(); err != nil {
			return err
		}
	}
	p := s.printer()
	if !s.json {
		return s.client.List(names, p)
	}
	show := s.line(p)
	return s.client.Many(len(names),
		func(i int) string { return "JSON " + client.ShowThread(names[i]) },
		func(_ int, line string) error { return show(line) })
}

// act gives orders and says what came of each. The first that is refused ends
// it.
func (s *session) act(orders []mailq.Order) error {
	for i := range orders {
		text, err := s.client.Ask(orders[i].String())
		if err != nil {
			return err
		}
		outcome, err := mailq.ParseOutcome("+" + text)
		if err != nil {
			return &client.Error{Fault: client.Garbled, Err: err}
		}
		if s.json {
			err = json.NewEncoder(s.out).Encode(orderItem{orders[i].Verb, orders[i].DryRun, outcome})
		} else {
			_, err = fmt.Fprintln(s.out, strings.TrimPrefix(text, "OK; "))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// orderItem is what --json makes of the answer to an order.
type orderItem struct {
	Verb   mailq.Verb `json:"verb"`
	DryRun bool       `json:"dry_run"`
	mailq.Outcome
}

// watch shows the threads on a full screen until the user leaves.
func (s *session) watch() error {
	source, err := client.NewReconnecting(s.connect)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGHUP)
	defer stop()
	return top.Watch(ctx, source, s.every)
}
