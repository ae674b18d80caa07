package main

// Option --check reads the configuration file and reports what is wrong with it.

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"

	"zsched/internal/zenv"
	"zsched/router/table"
	"zsched/scheduler/config"
)

// check reports the errors and warnings for the configuration file. It returns exitFault also
// for what would keep mail waiting: an agent that is missing, or a route to a channel that no
// clause has an agent for.
func check(o *options, env *zenv.File, stdout, stderr io.Writer) int {
	name := o.config
	if name == "" {
		name = config.DefaultFile(env)
	}
	file, err := config.Load(name, env)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitFault
	}
	for _, w := range file.Warnings {
		fmt.Fprintf(stderr, "%s (warning)\n", w)
	}
	problems := append(authProblems(file), file.CheckMoves()...)
	for _, err := range problems {
		fmt.Fprintf(stderr, "%v (warning)\n", err)
	}
	if o.tryReply != "" {
		tryReply(file, o.tryReply, stdout)
		return exitOK
	}
	faults := append(file.CheckPrograms(env.Value("MAILBIN")), checkRoutes(file, env)...)
	for _, err := range faults {
		fmt.Fprintln(stderr, err)
	}
	if len(faults) > 0 {
		return exitFault
	}
	fmt.Fprintf(stdout, "%s: %d clauses, no errors\n", name, len(file.Scheduler.Clauses))
	return exitOK
}

// checkRoutes reports the routes of router(8) to a channel that no clause has an agent for. The
// errors of the table itself are for router --check; another router has no such table.
func checkRoutes(file *config.File, env *zenv.File) (faults []error) {
	name := table.RoutesFile(env.Value("MAILSHARE"))
	text, err := os.ReadFile(name)
	if err != nil {
		return nil
	}
	routes, _ := table.ParseRoutes(name, string(text))
	for _, r := range routes.All() {
		// A pattern of domains matches the patterns of clauses that are as wide.
		host := cmp.Or(r.Host, r.Pattern[strings.LastIndexByte(r.Pattern, '@')+1:])
		if !file.HasAgent(r.Channel, host) {
			faults = append(faults, fmt.Errorf("%s:%d: no clause of %s gives a command for %s/%s, so this mail would wait",
				name, r.Line, file.Name, r.Channel, host))
		}
	}
	return faults
}

// tryReply prints the reply rules that match a reply. The first of those for a
// channel and host applies there.
func tryReply(file *config.File, reply string, stdout io.Writer) {
	rules := file.TryReply(reply)
	for _, r := range rules {
		fmt.Fprintf(stdout, "%s: reply %s/%s \"%s\" %s\n", r.Place(), r.Channel, r.Host, r.Expression, r.Action)
	}
	if len(rules) == 0 {
		fmt.Fprintf(stdout, "%s: no reply rule matches %q\n", file.Name, reply)
	}
}
