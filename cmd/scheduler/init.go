package main

// A first postoffice: scheduler --init.

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// firstDirs are the directories that a postoffice has before its scheduler starts. The
// scheduler makes the others.
var firstDirs = []struct {
	name string
	mode os.FileMode
}{{"transport", 0o750}, {"queue", 0o750}, {"postman", 0o750}, {"router", 0o755}, {"public", 0o755}, {"log", 0o755}}

const firstEnv = `# Where everything is: zmailer.conf(5).
POSTOFFICE=%[1]s
MAILSHARE=%[1]s
MAILBIN=%[2]s
LOGDIR=%[1]s/log
`

const firstConfig = `# How mail is delivered: scheduler.cf(5). A pattern in the first column begins a clause;
# its settings are indented. What */* sets holds for all clauses that follow.
PARAMmailqsock = "UNIX:${POSTOFFICE}/.mailq"
PARAMevent-log = "${LOGDIR}/scheduler.events"
*/*
	interval=1m retries="1 2 4 8" expiry=1d
smtp/*
	# discard delivers nothing: it defers half of the mail and drops the rest.
	# With "smtp -c $channel" instead, mail leaves this machine.
	command="discard -c $channel --defer 50"
`

// initialise makes a postoffice with a configuration in a directory that does not exist
// or is empty, and prints how to use it.
func initialise(dir string, stdout, stderr io.Writer) int {
	p, err := makePostoffice(dir)
	if err != nil {
		fmt.Fprintf(stderr, "scheduler: %v\n", err)
		return exitFault
	}
	fmt.Fprintf(stdout, `%[1]s is a postoffice now. To start its scheduler in this terminal:
	%[2]s/scheduler -i -M 2 -Z %[1]s/zmailer.conf
In another, to submit a message and to watch the queue:
	%[2]s/ctlfile submit -P %[1]s --from a@example.org smtp/example.net/bob@example.net < message
	%[2]s/mailq top -Z %[1]s/zmailer.conf
`, p.dir, p.bin)
	return exitOK
}

// firstPlaces are the directories of a new postoffice and of its programs.
type firstPlaces struct{ dir, bin string }

func makePostoffice(dir string) (p firstPlaces, err error) {
	if p.dir, err = filepath.Abs(dir); err != nil {
		return p, err
	}
	program, err := os.Executable()
	if err != nil {
		return p, fmt.Errorf("finding this program: %w", err)
	}
	p.bin = filepath.Dir(program)
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		return p, err
	}
	switch entries, err := os.ReadDir(p.dir); {
	case err != nil:
		return p, err
	case len(entries) > 0:
		return p, fmt.Errorf("%s is not empty", p.dir)
	}
	for _, d := range firstDirs {
		if err := os.Mkdir(filepath.Join(p.dir, d.name), d.mode); err != nil {
			return p, err
		}
	}
	for name, text := range map[string]string{
		"zmailer.conf": fmt.Sprintf(firstEnv, p.dir, p.bin),
		"scheduler.cf": firstConfig,
	} {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o644); err != nil {
			return p, err
		}
	}
	return p, nil
}
