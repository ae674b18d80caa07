package main

import (
	"fmt"
	"io"

	"zsched/internal/zenv"
	"zsched/scheduler/config"
)

// check reads the configuration file and says what is wrong with it.
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
	for _, err := range authProblems(file) {
		fmt.Fprintf(stderr, "%v (warning)\n", err)
	}
	fmt.Fprintf(stdout, "%s: %d clauses, no errors\n", name, len(file.Scheduler.Clauses))
	return exitOK
}
