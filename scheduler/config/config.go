// Package config reads scheduler.cf, the file that says how mail is scheduled.
//
// The file is a list of clauses. A pattern or a parameter begins in the first
// column; indented words belong to the clause above them:
//
//	PARAMauthfile = "${MAILSHARE}/scheduler.auth"   a parameter of the scheduler itself
//	# a comment
//	*/*                                             a pattern: channel/host
//	        interval=1m expiry=3d                   keywords, one or several on a line
//	smtp/*.example.org                              an empty clause has the settings of the next one
//	smtp
//	        maxthr=10 ageorder
//	        command="smtp -c $channel \
//	                 -l ${LOGDIR}/smtp"             only a quoted value continues on the next line
//
// A file is read in this order: grammar.go splits it into sections and words;
// reader.go turns them into clauses and parameters, according to the tables in
// keyword.go, which follow from the fields of rule.Params and Params (param.go); kind.go has the
// kinds of values; check.go finds settings that cannot work or are probably mistakes. The fields
// alone define the name, kind, default and bounds of a keyword, and a test compares the manual page
// with them.
//
// The whole file is read before any of it is used, and all its errors are
// reported, each with its place. This package does not match recipients against
// patterns: package scheduler does.
package config

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"zsched/internal/zenv"
	"zsched/scheduler/rule"
)

// File is the content of one scheduler.cf.
type File struct {
	Name string
	// Scheduler has the clauses, the defaults, the names that commands may use,
	// the report interval and the shares. The caller sets the other fields.
	Scheduler *rule.Config
	Params    Params
	Warnings  []Warning // probable mistakes, in the order of the file

	setParams map[string]Place // the PARAMs that the file sets
}

// maxFile is the maximum length of a configuration file, 4 megabytes. The length
// of a line has no other limit.
const maxFile = 4 << 20

// DefaultFile returns the configuration file of a scheduler without option -f:
// scheduler.cf in MAILSHARE, or scheduler.conf if only that exists.
func DefaultFile(env *zenv.File) string {
	share := env.Value("MAILSHARE")
	file := filepath.Join(share, "scheduler.cf")
	older := filepath.Join(share, "scheduler.conf")
	if !exists(file) && exists(older) {
		return older
	}
	return file
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// Load reads a configuration file for this machine and the user that the
// process runs as. If the file has mistakes, the error is an Errors. A nil env
// means the defaults of zmailer.conf.
func Load(file string, env *zenv.File) (*File, error) {
	data, err := readFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	return Parse(file, data, Host(env))
}

// LoadParams reads only the PARAMs. It also returns them with an error that is about
// other lines: a PARAM without an error has the value that the file gives it.
func LoadParams(file string, env *zenv.File) (Params, error) {
	data, err := readFile(file)
	if err != nil {
		return Params{}, fmt.Errorf("reading the configuration: %w", err)
	}
	r := parse(file, data, Host(env))
	if len(r.errors) > 0 {
		return r.file.Params, r.errors
	}
	return r.file.Params, nil
}

// readFile limits how much it reads, because the path may name a device or a
// core dump.
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

// NodeName returns the name of this node: PARAMnode, or else the host's name and the
// postoffice.
func (p Params) NodeName(postoffice string) string {
	if p.Node != "" {
		return p.Node
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return host + ":" + filepath.Clean(postoffice)
}
