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
	"zsched/ta/sm"
)

// readMailer finds the mailer's line. It prints the errors of other lines, which do not matter.
func readMailer(env *zenv.File, file, name string, stderr io.Writer) (*sm.Mailer, error) {
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
		return nil, err
	}
	mailers, problems := sm.Parse(file, string(text), program.Mailbin(env), lookUp(env))
	for _, p := range problems {
		if p.Mailer == name {
			return nil, p
		}
		fmt.Fprintf(stderr, "# sm: %v\n", p)
	}
	m := mailers[name]
	if m == nil {
		return nil, fmt.Errorf("%s: there is no mailer %q", file, name)
	}
	if m.Unsupported != "" {
		fmt.Fprintf(stderr, "# sm: %s: mailer %q needs %s, which is not supported: its mail waits\n", file, name, m.Unsupported)
	}
	return m, nil
}

// lookUp returns a function that finds the value of ${NAME}: one that
// zmailer.conf sets, or a default that is not empty.
func lookUp(env *zenv.File) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, set := env.Lookup(name)
		return value, set || value != ""
	}
}
