package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"zsched/cmd/mailq/top"
	"zsched/internal/escape"
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
	target   *target
	client   *client.Client
}

// connectTimeout is the timeout for each address of a server.
const connectTimeout = 30 * time.Second

// errSilent leads to exit code 1 without an error message.
var errSilent = errors.New("nothing found")

func (p *program) run() error {
	orders, err := p.orders()
	if err != nil {
		return usageError(err.Error())
	}
	env, err := zenv.Read(p.zenv)
	if err != nil && p.zenv != "" {
		return usageError(err.Error())
	}
	if err != nil {
		fmt.Fprintf(p.stderr, "mailq: %v\n", err)
	}
	if p.trace != "" {
		return p.printTrace(env)
	}
	if p.target, err = findTarget(p.options, env); err != nil {
		return err
	}
	if p.target.badConfig != nil {
		fmt.Fprintf(p.stderr, "mailq: %v\n", p.target.badConfig)
	}
	if p.top {
		return p.watch(env)
	}
	if !p.target.local && !p.json {
		fmt.Fprintf(p.out, "[%s]\n", escape.Text(canonicalName(p.target.Host)))
	}
	if p.status > 0 {
		err := p.target.spool.WriteStatus(p.out, p.target.local)
		if p.status > 1 && p.summary == 0 {
			return err
		}
		if err != nil {
			fmt.Fprintf(p.stderr, "mailq: %v\n", err)
		}
	}
	if p.client, err = p.connect(); err != nil {
		return err
	}
	defer func() { _ = p.client.Quit() }()
	if p.client.Version == 1 {
		return p.version1()
	}
	return p.version2(orders)
}

// errOtherPostoffice says that the scheduler at an address is that of another postoffice.
var errOtherPostoffice = errors.New("the scheduler there has another postoffice")

// connect begins a session at the first address at which the scheduler answers and, in
// version 2, logs in.
func (p *program) connect() (*client.Client, error) {
	dialer := client.Dialer{Prefer: p.prefer, Timeout: connectTimeout}
	var failed, other error
	for _, at := range append([]client.Address{p.target.Address}, p.target.others...) {
		conn, err := dialer.Dial(context.Background(), at)
		if err != nil {
			failed = cmp.Or(failed, err)
			continue
		}
		c, err := p.begin(conn, at)
		if errors.Is(err, errOtherPostoffice) {
			other = cmp.Or(other, err)
			continue
		}
		p.target.Address = at
		return c, err
	}
	return nil, cmp.Or(other, p.target.inactive, failed)
}

// begin begins a session on a connection, unless the scheduler has another postoffice than the
// one that is meant.
func (p *program) begin(conn net.Conn, at client.Address) (*client.Client, error) {
	options := client.Options{Server: at.String(), Timeout: p.timeout}
	if p.debug {
		options.Trace = p.stderr
	}
	c, err := client.New(conn, options)
	if err != nil || c.Version == 1 {
		return c, err
	}
	theirs, ours := c.Location(), p.target.spool.Location()
	if p.target.own && theirs.IsOther(ours) {
		_ = c.Close()
		return nil, &client.Error{Kind: client.Unavailable, Err: fmt.Errorf("%s: %w: %s, not %s; name the one to ask with -p, or with -Z and its zmailer.conf",
			at, errOtherPostoffice, escape.Text(theirs.Postoffice), ours.Postoffice)}
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

// mayLogIn reports whether the server knows users: version 1 does not.
func (p *program) mayLogIn() bool { return p.client == nil || p.client.Version != 1 }

// printer returns a printer for the options given.
func (p *program) printer() *client.Printer {
	return &client.Printer{
		Out: p.out, Now: time.Now(), Terminal: p.terminal, Colour: p.terminal && colourful(),
		Verbose: p.verbose, Summary: p.summary, Spool: p.target.spool, Owner: p.owner,
	}
}

// colourful reports whether the user wants colours: see https://no-color.org.
func colourful() bool {
	term := os.Getenv("TERM")
	return os.Getenv("NO_COLOR") == "" && term != "" && term != "dumb"
}

func (p *program) version1() error {
	printer := p.printer()
	switch {
	case p.report != "", p.etrn != "", p.order.Verb != "", p.json, p.sort != "", p.limit > 0, len(p.where) > 0:
		return p.client.NeedsVersion2()
	case p.queue == 0:
		dump, err := p.client.Dump()
		if err != nil {
			return err
		}
		dump.Threads = filterThreads(dump.Threads, p.thread, func(t client.DumpThread) mailq.Name { return t.Name })
		return printer.Dump(dump)
	}
	if err := p.client.SkipDump(); err != nil {
		return err
	}
	for line, err := range p.client.Rest() {
		if err != nil {
			return err
		}
		if p.queue > 1 && strings.HasPrefix(line, " ") || !p.thread.matchesLine(line) {
			continue
		}
		if err := printer.Line(line); err != nil {
			return err
		}
	}
	return nil
}

func (p *program) version2(orders []mailq.Order) error {
	switch {
	case p.all:
		return p.moveAll()
	case len(orders) > 0:
		return p.act(orders)
	case p.etrn != "":
		text, err := p.client.Ask("ETRN " + mailq.Quote(p.etrn))
		if err == nil {
			fmt.Fprintln(p.out, escape.Text(strings.TrimPrefix(text, "OK; ")))
		}
		return err
	case p.showsSenders():
		return p.listSenders()
	case p.report != "":
		shown, err := p.lines(p.report)
		if err == nil && p.mayFindNothing && !shown {
			return errSilent
		}
		return err
	case p.queue == 1 && (p.sort != "" || p.limit > 0):
		return p.sortedLines()
	case p.queue > 0:
		_, err := p.lines("SHOW " + [...]string{"QUEUE THREADS", "QUEUE SHORT", "SNMP", "COUNTERS"}[p.queue-1])
		return err
	case len(p.where) > 0:
		return p.listSelected()
	}
	return p.list()
}

// lines prints the lines of an answer as they arrive. shown is false if nothing
// was printed.
func (p *program) lines(command string) (shown bool, err error) {
	printer := p.printer()
	show, matches := printer.Line, p.thread.matchesLine
	if p.json {
		command = "JSON " + command
		show, matches = printer.JSON, p.thread.matchesJSON
	}
	found := 0 // messages; their further lines begin with a TAB
	for line, err := range p.client.Show(command) {
		if err != nil {
			return shown, err
		}
		if !matches(line) {
			continue
		}
		if !strings.HasPrefix(line, "\t") {
			found++
		}
		if p.limit > 0 && found > p.limit {
			fmt.Fprintf(p.stderr, "mailq: there are more; --limit %d\n", p.limit)
			return shown, nil
		}
		shown = true
		if err := show(line); err != nil {
			return shown, err
		}
	}
	return shown, nil
}

// act gives orders and prints what each did. An order that cannot be executed is
// reported, and the next one is given; act returns any other error at once.
func (p *program) act(orders []mailq.Order) error {
	if err := p.confirm(orders); err != nil {
		return err
	}
	var failed error
	for i := range orders {
		order := &orders[i]
		did, err := p.client.Order(order)
		if client.KindOf(err) == client.NotDone {
			fmt.Fprintf(p.stderr, "mailq: %s: %v\n", escape.Text(targetOf(order)), err)
			failed = errSilent
			continue
		}
		if err != nil {
			return err
		}
		if p.all { // another of its orders moves held mail
			did.Held = 0
		}
		if (order.Verb == mailq.Hold || order.Verb == mailq.Suspend) && order.Thread != nil && did.Messages == 0 {
			fmt.Fprintf(p.stderr, "mailq: %s has no mail now\n", escape.Text(targetOf(order)))
		}
		if p.json {
			err = json.NewEncoder(p.out).Encode(orderItem{order.Verb, order.DryRun, targetOf(order), did})
		} else {
			_, err = fmt.Fprintln(p.out, outcomeText(order, did, len(orders) > 1))
		}
		if err != nil {
			return err
		}
	}
	return failed
}

// maxUnconfirmed is how many messages an order may touch without --yes.
const maxUnconfirmed = 100

// confirm refuses orders that would touch many messages, unless the user has
// given --yes. The scheduler counts them in a dry run.
func (p *program) confirm(orders []mailq.Order) error {
	if p.yes || p.order.DryRun {
		return nil
	}
	messages, suspended, held := 0, 0, ""
	for _, order := range orders {
		if order.Message != "" && p.to == "" {
			messages++
			continue
		}
		order.DryRun = true
		would, err := p.client.Order(&order)
		if err != nil && client.KindOf(err) != client.NotDone {
			return err
		}
		messages += would.Messages
		suspended += would.Suspended
		if text := order.HeldText(would); text != "" && !p.all {
			held = "; " + strings.TrimSuffix(text, ".")
		}
	}
	if suspended > 0 {
		return fmt.Errorf("%s mail for suspended destinations (--suspended), and the suspension does not move: %s would deliver it; "+
			"hold it first, or give --yes if that is what you want", mailq.Plural(suspended, "message has", "messages have"), p.to)
	}
	if messages > maxUnconfirmed {
		return fmt.Errorf("%s would touch %d messages; give --yes if that is what you want%s", p.chosen[0], messages, held)
	}
	return nil
}

// orderItem is the line of --json for an order.
type orderItem struct {
	Verb   mailq.Verb `json:"verb"`
	DryRun bool       `json:"dry_run"`
	Target string     `json:"target"`
	mailq.Outcome
}

// targetOf says what an order is about.
func targetOf(o *mailq.Order) string {
	switch {
	case o.Thread != nil:
		return "thread " + o.Thread.Channel + "/" + o.Thread.Host
	case o.Where != nil:
		return o.Where.String()
	}
	return "message " + o.Message
}

// outcomeText says what an order did, and if named is true, to what.
func outcomeText(o *mailq.Order, did mailq.Outcome, named bool) string {
	text := fmt.Sprintf("%s %s, %s, %s.", o.Verb, mailq.Plural(did.Messages, "message", "messages"),
		mailq.Plural(did.Recipients, "recipient", "recipients"), mailq.Plural(did.Threads, "thread", "threads"))
	if did.Suspended > 0 {
		text += fmt.Sprintf(" %s of suspended destinations: the suspension does not move.", mailq.Plural(did.Suspended, "message", "messages"))
	}
	if with := o.WithAgentsText(did); with != "" {
		text += " " + with
	}
	for _, note := range o.Notes(did) {
		text += " " + escape.Text(note)
	}
	if o.DryRun {
		text = "DRYRUN " + text
	}
	if named {
		text = escape.Text(targetOf(o)) + ": " + text
	}
	return text
}

// watch shows the live view until the user quits it.
func (p *program) watch(env *zenv.File) error {
	source, err := client.NewReconnecting(p.connect)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGHUP)
	defer stop()
	return (&top.Top{Source: source, Every: p.every, Trace: p.traceLines(env)}).Watch(ctx)
}
