// Package config reads scheduler.cf, the file that says how mail is scheduled.
//
// It is a list of clauses (scheduler.cf(5)). What stands in the
// first column begins something; what is indented belongs to the clause above:
//
//	PARAMauthfile = "${MAILSHARE}/scheduler.auth"   a parameter of the scheduler itself
//	# a comment
//	*/*                                             a pattern: channel/host
//	        interval=1m expiry=3d                   keywords, several a line if one likes
//	smtp/*.example.org                              an empty clause has what the next one has
//	smtp
//	        maxthr=10 ageorder
//	        command="smtp -c $channel \
//	                 -l ${LOGDIR}/smtp"             only a quoted value goes on over lines
//
// The way through the package is the way of a file: grammar.go cuts it into
// sections and words, reader.go turns those into clauses and parameters by the
// table in param.go, whose rows name a kind of value from kind.go, and old.go
// says where a file written for ZMailer now acts differently. The table is the
// only place that knows a keyword's name, kind, default and bounds; the manual
// page is checked against it.
//
// A file is read whole before anything of it is used, and all its errors are
// reported, each with its place. Nothing here matches a pattern: that is the
// core's.
package config

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"zsched/internal/zenv"
	"zsched/scheduler"
)

// File is what one scheduler.cf says.
type File struct {
	Name string
	// Scheduler has the clauses, the defaults, the names for commands and the
	// agent's time limit. The rest of it is the caller's to fill in.
	Scheduler *scheduler.Config
	Params    Params
	// SysNice and SysPriority are for the scheduler process itself and to be
	// applied once, not at every reload; nil where the file has none.
	SysNice, SysPriority *int
	// Warnings in the order of the file: what is probably a mistake, and what
	// ZMailer would have done differently.
	Warnings []Warning
}

// maxFile is how long a configuration file may be, in bytes. A line may be as
// long as the file.
const maxFile = 4 << 20

// DefaultFile is the configuration file for a scheduler that was given none:
// scheduler.cf in MAILSHARE, or scheduler.conf where only that exists.
func DefaultFile(env *zenv.File) string {
	share := env.Value("MAILSHARE")
	file := filepath.Join(share, "scheduler.cf")
	if _, err := os.Stat(file); err != nil {
		if older := filepath.Join(share, "scheduler.conf"); exists(older) {
			return older
		}
	}
	return file
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// Load reads a configuration file on this machine, for the user the process
// runs as. If the file itself is at fault the error is an Errors. A nil env
// has the defaults.
func Load(file string, env *zenv.File) (*File, error) {
	data, err := readFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	return Parse(file, data, Host(env))
}

// readFile reads a file that an admin wrote; a device or a forgotten core dump
// in its place must not eat the memory.
func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s: longer than %d bytes", name, maxFile)
	}
	return data, err
}

// Lines returns parameters as a clause would set them, a line each, in the
// order of scheduler.cf(5). What has no value is left out.
func Lines(p scheduler.Params) []string {
	return lines(keywords, "", &p)
}

// Lines returns the parameters as a file would set them, a line each.
func (p Params) Lines() []string {
	return lines(params, "PARAM", &p)
}

func lines[T any](table []row[T], prefix string, v *T) []string {
	var out []string
	for _, r := range table {
		if value := r.kind.show(v); value != "" {
			out = append(out, prefix+r.name+"="+value)
		}
	}
	return out
}
