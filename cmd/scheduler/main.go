// Scheduler is the mail queue's daemon: scheduler(8).
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

	"zsched/internal/command"
	"zsched/internal/process"
	"zsched/internal/version"
	"zsched/internal/zenv"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Exit codes, as scheduler(8) lists them.
const (
	exitOK    = 0
	exitFault = command.ExitFault // configuration, log, pid file, spool
	exitUsage = command.ExitUsage // options
)

func run(args []string, _ io.Reader, stdout, stderr io.Writer) int {
	o, err := parseOptions(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		fmt.Fprint(stdout, usageLine, "\n", newFlags(new(options)).FlagUsages())
		return exitOK
	case err != nil:
		fmt.Fprintf(stderr, "scheduler: %v\n%s", command.Plain(err), usageLine)
		return exitUsage
	case o.version:
		fmt.Fprintln(stdout, version.Line("scheduler"))
		return exitOK
	}

	if o.init != "" {
		return initialise(o.init, stdout, stderr)
	}
	env, err := zenv.Read(o.zenv)
	if err != nil {
		fmt.Fprintf(stderr, "scheduler: %v\n", err)
		if o.zenv != "" {
			return exitFault
		}
	}
	// Whatever contains ${POSTOFFICE} follows option -P.
	if env, err = env.WithPostoffice(o.postoffice); err != nil {
		fmt.Fprintf(stderr, "scheduler: exit(%d): %v\n", exitFault, err)
		return exitFault
	}
	if o.check {
		return check(o, env, stdout, stderr)
	}
	process.CoarsenTimers() // before readyPipe, because the program starts again
	ready := readyPipe()
	if o.daemon && ready == nil && os.Getppid() != 1 {
		return detach(args, stderr)
	}
	if err := serve(o, env, stderr, ready); err != nil {
		fmt.Fprintf(stderr, "scheduler: exit(%d): %v\n", exitFault, err)
		return exitFault
	}
	return exitOK
}
