package main

// Option --check reads the configuration file and reports what is wrong with it.

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"zsched/internal/zenv"
	"zsched/scheduler/config"
)

// check reports the errors and warnings for the configuration file. With
// --compat, or if the file has ZMailer's name, it also reports what ZMailer did
// differently.
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
	for _, w := range append(warnings(file, o.compat), file.CheckPrograms(env.Value("MAILBIN"))...) {
		fmt.Fprintf(stderr, "%s (warning)\n", w)
	}
	if idle := file.WithoutEffect(); len(idle) > 0 {
		fmt.Fprintf(stderr, "%s: without effect in this version: %s\n", name, strings.Join(idle, ", "))
	}
	for _, err := range append(authProblems(file), file.CheckMoves()...) {
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
	try := file.TryReply(reply)
	for _, r := range try.Rules {
		fmt.Fprintf(stdout, "%s: reply %s/%s \"%s\" %s\n", r.Place(), r.Channel, r.Host, r.Expression, r.Action)
	}
	if len(try.Rules) == 0 {
		fmt.Fprintf(stdout, "%s: no reply rule matches %q\n", file.Name, try.Text)
	}
}

// warnings returns the warnings of a file, and the differences from ZMailer
// where they matter.
func warnings(file *config.File, compat bool) []config.Warning {
	if compat || filepath.Base(file.Name) == config.OldName {
		return append(append([]config.Warning(nil), file.Warnings...), file.Differences...)
	}
	return file.Warnings
}
