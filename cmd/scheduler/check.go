package main

// Option --check reads the configuration file and reports what is wrong with it.

import (
	"fmt"
	"io"

	"zsched/internal/zenv"
	"zsched/scheduler/config"
)

// check reports the errors and warnings for the configuration file.
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
	for _, w := range append(file.Warnings, file.CheckPrograms(env.Value("MAILBIN"))...) {
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
	fmt.Fprintf(stdout, "%s: %d clauses, no errors\n", name, len(file.Scheduler.Clauses))
	return exitOK
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
