package main

// Option --check reads all files of an installation, and reports what is wrong with them.

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"zsched/internal/certificate"
	"zsched/internal/zenv"
	"zsched/router/table"
	"zsched/scheduler/config"
	"zsched/xfer"
)

// checker checks the files of an installation.
type checker struct {
	env    *zenv.File
	where  *places
	file   *config.File
	stderr io.Writer
	faults int // that were reported
}

// fail reports what would keep mail from being taken or delivered, a line for each error.
func (c *checker) fail(err error) {
	if err != nil {
		c.faults++
		fmt.Fprintln(c.stderr, err)
	}
}

// warn reports what may be a mistake.
func (c *checker) warn(text string) {
	if text != "" {
		fmt.Fprintf(c.stderr, "%s (warning)\n", text)
	}
}

// check reports the errors and warnings for all files. It returns exitFault after an error.
func check(o *options, env *zenv.File, stdout, stderr io.Writer) int {
	where, err := findPlaces(o, env)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitFault
	}
	name := cmp.Or(o.config, config.DefaultFile(env)) // as it was given
	c := &checker{env: env, where: where, stderr: stderr}
	c.file, err = config.Load(name, env)
	c.fail(err)
	if err == nil && o.tryReply != "" {
		tryReply(c.file, o.tryReply, stdout)
		return exitOK
	}
	for _, doubt := range env.Doubts() {
		c.warn(doubt)
	}
	if err == nil {
		c.checkConfig()
		c.checkNodes()
		c.checkAgents()
	}
	c.checkTables()
	c.checkServer(o.zenv)
	if c.faults > 0 {
		return exitFault
	}
	fmt.Fprintf(stdout, "%s: %d clauses, no errors\n", name, len(c.file.Scheduler.Clauses))
	return exitOK
}

// checkConfig reports the warnings about scheduler.cf, and what it and zmailer.conf name and is
// not there.
func (c *checker) checkConfig() {
	for _, w := range c.file.Warnings {
		c.warn(w.Error())
	}
	for _, err := range append(authProblems(c.file), c.file.CheckMoves()...) {
		c.warn(err.Error())
	}
	if _, err := os.Stat(c.where.transport()); err != nil {
		c.fail(fmt.Errorf("POSTOFFICE: %w", err))
	}
	_, err := c.env.RouterMaxSize()
	c.fail(err)
	for _, err := range c.file.CheckPrograms(c.where.mailbin) {
		c.fail(err)
	}
}

// checkNodes reports what is wrong with the table of nodes and the certificate of this one.
func (c *checker) checkNodes() {
	path := c.file.Params.XferNodes
	if path == "" {
		return
	}
	_, err := xfer.ReadNodes(path)
	c.fail(err)
	files := xfer.CredentialsOf(path)
	if _, err := os.Stat(files.Cert); err == nil { // nodes at UNIX sockets need none
		c.checkCertificate(files.Cert, files.Key)
	}
}

func (c *checker) checkCertificate(path, key string) {
	soon, err := certificate.Check(path, key, time.Now())
	c.warn(soon)
	c.fail(err)
}

// checkTables reports what is wrong with the tables of router(8): errors, routes to a channel
// that no clause has an agent for, and members of aliases that fail. Another router has no such tables.
func (c *checker) checkTables() {
	host, err := os.Hostname()
	c.fail(err)
	l := table.NewLoader(c.env.Value("MAILSHARE"), c.env.Value("ORGDOMAIN"), host)
	_, noRoutes := os.Stat(l.RoutesFile)
	_, noAliases := os.Stat(l.AliasesFile)
	if noRoutes != nil && noAliases != nil {
		return
	}
	l.HasUser = table.MachineHasUser
	if err := l.Load(); err != nil {
		c.fail(err)
		return
	}
	t := l.Table()
	for _, doubt := range t.Routes.Doubts(l.RoutesFile) {
		c.warn(doubt.Error())
	}
	for _, r := range t.Routes.All() {
		// A pattern of domains matches the patterns of clauses that are as wide.
		host := cmp.Or(r.Host, r.Pattern[strings.LastIndexByte(r.Pattern, '@')+1:])
		if c.file != nil && !c.file.HasAgent(r.Channel, host) {
			c.fail(fmt.Errorf("%v: no clause of %s gives a command for %s/%s, so this mail would wait",
				config.Place{File: l.RoutesFile, Line: r.Line}, c.file.Name, r.Channel, host))
		}
	}
	for _, f := range t.MemberFaults() {
		at := config.Place{File: l.AliasesFile, Line: f.Line}
		if f.Form == table.UnknownUser {
			c.warn(fmt.Sprintf("%v: alias %.200q: %.200q is neither a user of this machine nor an alias", at, f.Alias, f.Member))
			continue
		}
		c.fail(fmt.Errorf("%v: alias %.200q: no route takes %.200q, so this mail would fail", at, f.Alias, f.Member))
	}
}

// checkServer reports what is wrong with smtpserver.cf. Without it, smtpserver(8) may not be used.
func (c *checker) checkServer(zmailerConf string) {
	path := filepath.Join(c.env.Value("MAILSHARE"), "smtpserver.cf")
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return
	}
	program := filepath.Join(c.where.mailbin, "smtpserver")
	if !isOurs(program, "zsched/cmd/smtpserver") {
		c.warn(fmt.Sprintf("%s is not checked: %s is missing or another program", path, program))
		return
	}
	spec := own(program, "--check")
	if zmailerConf != "" {
		spec.Args = append(spec.Args, "--zmailer-conf", zmailerConf)
	}
	c.ask(spec, "")
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
