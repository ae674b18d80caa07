package main

// The subcommands of mailq: their arguments, options and help.

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"zsched/ctlfile"
	"zsched/internal/command"
	"zsched/internal/text"
	"zsched/internal/version"
	"zsched/mailq"
	"zsched/scheduler/view"
)

// The groups of subcommands in help.
const (
	groupLists  = "lists"
	groupOrders = "orders"
)

// targetHelp explains the arguments of orders.
const targetHelp = `
A TARGET is one of these:
  S860194HfBVWBh   a message: its spoolid, its number or the name of its control file
  smtp/example.com a thread, which is the mail for one channel and host
  older=3d         a condition; the keys are thread, msg, channel, host, sender, source,
                   recipient, message-id, state, reason, older and younger

Several messages, or several threads, are alternatives. Mail must match every condition, and one of
the threads and one of the messages if there are any. "mailq list TARGET..." shows what is selected.`

// newCommands returns the command that is ZMailer's mailq, with all subcommands.
func newCommands(p *program, stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   "mailq [-46disSQtvVM] [-c channel] [-h host] [-p port|socket] [-u user] [-U user/password] [-Z file] [server]",
		Short: "Show the mail queue, and give orders for it",
		Long:  "Show the mail queue, and give orders for it. Without a subcommand, mailq lists the queue as ZMailer's does.",
		Args:  arguments(0, 1, "a subcommand (mailq help) or one server"),
		RunE: func(_ *cobra.Command, args []string) error {
			p.what = "this list"
			if p.version {
				fmt.Fprintln(stdout, version.Line("mailq"))
				return nil
			}
			return p.zmailer(args)
		},
		SilenceErrors: true, SilenceUsage: true, DisableFlagsInUseLine: true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError(command.Plain(err).Error()) })
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	root.AddGroup(&cobra.Group{ID: groupLists, Title: "Lists and reports:"}, &cobra.Group{ID: groupOrders, Title: "Orders:"})
	p.asker.flags(root.PersistentFlags())
	p.listFlags(root.Flags())
	for _, c := range p.subcommands() {
		root.AddCommand(c.command(p))
	}
	return root
}

// subcommand is one subcommand.
type subcommand struct {
	use   string // its name and arguments; "..." follows what may be repeated, brackets enclose what may be missing
	short string // for help
	group string
	flags []func(*pflag.FlagSet)
	run   func(args []string) error
}

// command returns the subcommand for the parser of the command line.
func (s *subcommand) command(p *program) *cobra.Command {
	name, takes, _ := strings.Cut(s.use, " ")
	least, most := 1, 1
	if takes == "" {
		takes, least, most = "no argument", 0, 0
	}
	if strings.HasPrefix(takes, "[") {
		least = 0
	}
	if strings.Contains(takes, "...") {
		most = -1
	}
	long := s.short + ".\n"
	if strings.Contains(takes, "TARGET") {
		long += targetHelp
	}
	c := &cobra.Command{
		Use: s.use, Short: s.short, Long: long, GroupID: s.group,
		Args:                  arguments(least, most, takes),
		DisableFlagsInUseLine: true,
		RunE: func(_ *cobra.Command, args []string) error {
			p.what = "mailq " + name
			return s.run(args)
		},
	}
	c.Flags().SortFlags = false
	for _, add := range s.flags {
		add(c.Flags())
	}
	return c
}

// arguments checks the number of arguments.
func arguments(least, most int, takes string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < least || most >= 0 && len(args) > most {
			return usageError(fmt.Sprintf("%s takes %s", c.CommandPath(), takes))
		}
		return nil
	}
}

// subcommands returns all subcommands, in the order of help.
func (p *program) subcommands() []subcommand {
	return append(p.lists(), p.orderCommands()...)
}

// lists are the subcommands that show something.
func (p *program) lists() []subcommand {
	type flags = []func(*pflag.FlagSet)
	all := []subcommand{{use: "list [TARGET...]", short: "list messages, thread by thread",
		flags: flags{p.verboseFlag, p.limitFlag, p.jsonFlag}, run: p.runList}}
	for i := range questions {
		all = append(all, questions[i].subcommand(p))
	}
	all = append(all, []subcommand{
		{use: "top", short: "show the totals and the largest threads, again and again", flags: flags{p.everyFlag}, run: func([]string) error { return p.top() }},
		{use: "trace MESSAGE|ADDRESS|SOURCE", short: "print what happened to a message, also if it is gone, or to all mail of an address, a client or a source",
			flags: flags{p.eventLogFlag, p.lastFlag, p.jsonFlag}, run: func(args []string) error { return p.printTrace(args[0]) }},
	}...)
	for i := range all {
		all[i].group = groupLists
	}
	return all
}

func (o *options) everyFlag(f *pflag.FlagSet) {
	o.every = 5 * time.Second
	spanFlag(f, &o.every, "every", "`time` between two updates (default 5s)")
}

// orderCommands are the subcommands that change something: those of the verbs, and some more.
func (p *program) orderCommands() []subcommand {
	type flags = []func(*pflag.FlagSet)
	to := func(f *pflag.FlagSet) {
		f.Func("to", "the new `channel/host`", func(s string) (err error) {
			p.order.To, err = mailq.ParseName(s)
			return err
		})
	}
	node := func(f *pflag.FlagSet) {
		f.Func("to", "the other `node`", func(node string) error {
			if node == "" {
				return usageError("a node has a name")
			}
			p.order.To = mailq.Name{Channel: ctlfile.TransferChannel, Host: strings.ToLower(node)}
			return nil
		})
	}
	order := func(verb view.Verb) func(args []string) error {
		return func(args []string) error {
			p.order.Verb = verb
			return p.runOrder(args)
		}
	}
	var all []subcommand
	for _, verb := range view.Verbs {
		s := subcommand{use: strings.ToLower(string(verb.Verb)), short: verb.Help, run: order(verb.Verb)}
		if verb.To {
			s.use, s.flags = s.use+" --to CHANNEL/HOST", flags{to}
		}
		if verb.For {
			s.flags = flags{p.forFlag}
		}
		if verb.Where {
			s.use += " TARGET..."
		} else {
			s.use += " CHANNEL/HOST..."
		}
		s.flags = append(s.flags, p.orderFlags)
		all = append(all, s)
	}
	all = append(all, []subcommand{
		{use: "move --to NODE TARGET...", short: "move mail to another node",
			flags: flags{node, p.orderFlags}, run: order(view.VerbReroute)},
		{use: "etrn HOST", short: "start delivery of the mail for a host now",
			run: func(args []string) error {
				return p.ask(func() error {
					said, err := p.asker.client.Ask("ETRN " + mailq.Quote(args[0]))
					if err == nil {
						fmt.Fprintln(p.out, text.Escape(strings.TrimPrefix(said, "OK; ")))
					}
					return err
				})
			}},
	}...)
	for i := range all {
		all[i].group = groupOrders
	}
	return all
}
