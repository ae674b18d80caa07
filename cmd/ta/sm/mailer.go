package main

// This file finds the mailer's line in sm.conf.

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"zsched/cmd/ta/internal/program"
	"zsched/internal/zenv"
	"zsched/ta"
	"zsched/ta/sm"
)

// readMailer finds the mailer's line. It prints all errors of the file. The exit
// status is for a mailer that is missing or whose own line has an error.
func readMailer(env *zenv.File, file, name string, stderr io.Writer) (*sm.Mailer, int) {
	share := env.Value("MAILSHARE")
	if file == "" {
		file = filepath.Join(share, "sm.conf")
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			if _, err := os.Stat(filepath.Join(share, "sm.cf")); err == nil {
				file = filepath.Join(share, "sm.cf")
			}
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		fmt.Fprintf(stderr, "# sm: %v\n", err)
		return nil, ta.ExitOSFile
	}
	status := ta.ExitOSFile
	mailers, problems := sm.Parse(file, string(text), program.Mailbin(env), lookUp(env))
	for _, p := range problems {
		fmt.Fprintf(stderr, "# sm: %v\n", p)
		if p.Mailer == name {
			status = ta.ExitConfig
		}
	}
	m := mailers[name]
	if m == nil && status == ta.ExitOSFile {
		fmt.Fprintf(stderr, "# sm: %s: there is no mailer %q\n", file, name)
	}
	if m != nil && m.Unsupported != "" {
		fmt.Fprintf(stderr, "# sm: %s: mailer %q needs %s, which is not supported: its mail waits\n", file, name, m.Unsupported)
	}
	return m, status
}

// lookUp returns a function that finds the value of ${NAME}: one that
// zmailer.conf sets, or a default that is not empty.
func lookUp(env *zenv.File) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, set := env.Lookup(name)
		return value, set || value != ""
	}
}
