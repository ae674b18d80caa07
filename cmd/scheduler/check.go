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
	for _, err := range authProblems(file) {
		fmt.Fprintf(stderr, "%v (warning)\n", err)
	}
	fmt.Fprintf(stdout, "%s: %d clauses, no errors\n", name, len(file.Scheduler.Clauses))
	return exitOK
}

// warnings returns the warnings of a file, and the differences from ZMailer
// where they matter.
func warnings(file *config.File, compat bool) []config.Warning {
	if compat || filepath.Base(file.Name) == config.OldName {
		return append(append([]config.Warning(nil), file.Warnings...), file.Differences...)
	}
	return file.Warnings
}
