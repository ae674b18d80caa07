// Smtpserver takes mail by SMTP for the router: smtpserver(8).
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/rs/zerolog"

	"zsched/internal/certificate"
	"zsched/internal/command"
	"zsched/internal/listen"
	"zsched/internal/metrics"
	"zsched/internal/postoffice"
	"zsched/internal/process"
	"zsched/internal/text"
	"zsched/internal/zenv"
	"zsched/smtpserver"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// stopTimeout is how long messages that are being received may still take when the
// server stops.
const stopTimeout = 20 * time.Second

func run(args []string, stdout, stderr io.Writer) int {
	o := new(options)
	line := command.Line{Flags: newFlags(o), Usage: usageLine, Stdout: stdout, Stderr: stderr}
	if status, ended := line.Parse(args); ended {
		return status
	}
	if !o.check {
		process.CoarsenTimers()
	}
	c := &configuration{args: args, log: zerolog.New(text.JSONWriter{To: stderr}).With().Timestamp().Logger()}
	server, err := c.read()
	if err != nil {
		fmt.Fprintf(stderr, "smtpserver: %v\n", err)
		return command.ExitFault
	}
	if o.check {
		return c.check(server.Passwords, stderr)
	}
	if err := c.maySubmit(os.Geteuid()); err != nil {
		fmt.Fprintf(stderr, "smtpserver: %v\n", err)
		return command.ExitFault
	}
	if err := serve(server, c); err != nil {
		fmt.Fprintf(stderr, "smtpserver: %v\n", err)
		return command.ExitFault
	}
	return 0
}

// configuration reads the options of the command line and of smtpserver.cf, at the start
// and at each reload.
type configuration struct {
	args    []string
	log     zerolog.Logger
	options *options // in force; nil: none yet
	env     *zenv.File
	reloads postoffice.ReloadRecord
}

// read returns the options of the server. After an error those in force do not change.
func (c *configuration) read() (smtpserver.Options, error) {
	o := new(options)
	flags := newFlags(o)
	if err := flags.Parse(c.args); err != nil {
		return smtpserver.Options{}, err
	}
	env, err := zenv.Read(o.zenv)
	if err == nil {
		err = o.readFile(flags, env.Value("MAILSHARE"))
	}
	if err != nil {
		return smtpserver.Options{}, err
	}
	server, err := o.server(env)
	if err == nil && o.checkRecipients {
		var known *recipients
		if known, err = newRecipients(env, server.Hostname, c.log); err == nil {
			server.CheckRecipient = known.check
		}
	}
	if err != nil {
		return server, err
	}
	server.Log = c.log
	c.options, c.env = o, env
	return server, nil
}

// check reports what is wrong with files that a running server reads at each use: the passwords,
// and a certificate that expires. It returns the exit status.
func (c *configuration) check(passwords string, stderr io.Writer) (status int) {
	report := func(problem error, code int) {
		if problem != nil {
			fmt.Fprintf(stderr, "smtpserver: %v\n", problem)
			status = max(status, code)
		}
	}
	problems, err := smtpserver.CheckPasswords(passwords)
	for _, p := range problems {
		report(p, 0)
	}
	report(err, command.ExitFault)
	soon, err := c.checkCertificate()
	if soon != "" {
		report(errors.New(soon), 0)
	}
	report(err, command.ExitFault)
	return status
}

// serve runs the server until SIGTERM or SIGINT.
func serve(o smtpserver.Options, c *configuration) error {
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	signal.Ignore(syscall.SIGPIPE) // the reader of the log may have gone
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP, syscall.SIGUSR1)
	defer signal.Stop(hangups)
	server, err := smtpserver.New(o)
	if err != nil {
		return err
	}
	c.reloads.Path = filepath.Join(o.Router.Postoffice, postoffice.SMTPReload)
	c.recordReload(nil)
	c.warn(o.Passwords)
	sockets := listen.New(o.Log)
	addresses, scrapes := c.options.listen, c.options.metrics
	for _, at := range addresses {
		sockets.Open(at.String(), at.at, nil, func(l net.Listener) error { return server.Serve(l, at.protocol) })
	}
	sockets.Open("metrics", scrapes, nil, func(l net.Listener) error { return metrics.Serve(l, numbers(server), server.Unhealthy) })
	_, _ = daemon.SdNotify(false, daemon.SdNotifyReady)
	for stop.Err() == nil {
		select {
		case <-stop.Done():
		case <-hangups:
			reload(server, c)
			if !slices.Equal(addresses, c.options.listen) || scrapes != c.options.metrics {
				c.log.Warn().Msg("the addresses to listen on have changed; this takes effect at the next start")
			}
		}
	}
	_, _ = daemon.SdNotify(false, daemon.SdNotifyStopping)
	sockets.Close()
	deadline, cancelDeadline := context.WithTimeout(context.Background(), stopTimeout)
	defer cancelDeadline()
	return server.Close(deadline)
}

// reload reads smtpserver.cf again, for sessions that begin later. After an error the
// old options stay in force.
func reload(server *smtpserver.Server, c *configuration) {
	o, err := c.read()
	c.recordReload(err)
	if err != nil {
		c.log.Error().Err(err).Msg("smtpserver.cf not reloaded; the old options stay in force")
		return
	}
	server.Configure(o)
	c.warn(o.Passwords)
	c.log.Info().Msg("smtpserver.cf reloaded, for sessions that begin now")
}

// warn logs why nobody can log in, and what is wrong with the certificate.
func (c *configuration) warn(passwords string) {
	if _, err := smtpserver.CheckPasswords(passwords); err != nil {
		c.log.Warn().Err(err).Msg("nobody can log in")
	}
	soon, err := c.checkCertificate()
	if soon != "" {
		c.log.Warn().Msg(soon)
	}
	if err != nil {
		c.log.Error().Err(err).Msg("TLS does not work for clients")
	}
}

// checkCertificate says what is wrong with the certificate, if there is one, or that it ends soon.
func (c *configuration) checkCertificate() (soon string, err error) {
	if c.options.certificate == "" {
		return "", nil
	}
	path, key := c.options.certificateFiles(c.env.Value("MAILSHARE"))
	return certificate.Check(path, key, time.Now())
}

// recordReload writes why a reload failed to a file in POSTOFFICE, where the scheduler
// finds it for mailq, or removes that file.
func (c *configuration) recordReload(failure error) {
	if err := c.reloads.Set(failure); err != nil {
		c.log.Warn().Err(err).Msg("the result of the reload is not recorded for mailq")
	}
}

// absolute returns a path relative to dir as a path below dir, and an absolute or
// empty one as it is.
func absolute(dir, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
