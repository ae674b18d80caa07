// Smtpserver takes mail by SMTP and LMTP for the router: smtpserver(8).
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/rs/zerolog"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"zsched/internal/listen"
	"zsched/internal/version"
	"zsched/internal/zenv"
	"zsched/smtpserver"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

const (
	exitUsage  = 64 // EX_USAGE
	exitFault  = 71 // EX_OSERR
	exitConfig = 78 // EX_CONFIG
)

// stopTimeout is how long messages that are being received may still take when the
// server stops.
const stopTimeout = 20 * time.Second

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	o := new(options)
	flags := newFlags(o)
	switch err := flags.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		fmt.Fprint(stdout, usageLine, "\n", flags.FlagUsages())
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "smtpserver: %v\n%s", err, usageLine)
		return exitUsage
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "smtpserver: unexpected %q\n%s", flags.Arg(0), usageLine)
		return exitUsage
	case o.version:
		fmt.Fprintln(stdout, version.Line("smtpserver"))
		return 0
	case o.hashPassword:
		return hashPassword(stdin, stdout, stderr)
	}
	env, err := zenv.Read(o.zenv)
	if err == nil {
		err = o.readFile(flags, env.Value("MAILSHARE"))
	}
	var server smtpserver.Options
	if err == nil {
		server, err = o.server(env)
	}
	log := newLog(stderr)
	if err == nil && o.checkRecipients {
		var r *recipients
		r, err = newRecipients(env, server.Hostname, log)
		server.CheckRecipient = r.check
	}
	if err != nil {
		fmt.Fprintf(stderr, "smtpserver: %v\n", err)
		return exitConfig
	}
	if o.check {
		return 0
	}
	server.Log = log
	if err := serve(server, o.listen); err != nil {
		fmt.Fprintf(stderr, "smtpserver: %v\n", err)
		return exitFault
	}
	return 0
}

// hashPassword reads a password from standard input and prints its hash for a line of
// the password file.
func hashPassword(stdin io.Reader, stdout, stderr io.Writer) int {
	line, _ := bufio.NewReader(stdin).ReadString('\n')
	hash, err := smtpserver.HashPassword(strings.TrimRight(line, "\r\n"))
	if err != nil {
		fmt.Fprintf(stderr, "smtpserver: a password has 1 to 72 bytes\n")
		return exitUsage
	}
	fmt.Fprintln(stdout, hash)
	return 0
}

func newLog(stderr io.Writer) zerolog.Logger {
	if f, ok := stderr.(*os.File); ok {
		if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err == nil {
			stderr = zerolog.ConsoleWriter{Out: stderr, TimeFormat: time.DateTime}
		}
	}
	return zerolog.New(stderr).With().Timestamp().Logger()
}

// serve runs the server until SIGTERM or SIGINT.
func serve(o smtpserver.Options, addresses []address) error {
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	server, err := smtpserver.New(o)
	if err != nil {
		return err
	}
	sockets := listen.New(o.Log)
	for _, at := range addresses {
		sockets.Open(at.String(), at.at, nil, func(l net.Listener) error { return server.Serve(l, at.protocol) })
	}
	_, _ = daemon.SdNotify(false, daemon.SdNotifyReady)
	for stop.Err() == nil {
		select {
		case <-stop.Done():
		case <-hangups:
			o.Log.Info().Msg("SIGHUP: certificate, passwords and tables are read whenever they have changed; " +
				"smtpserver.cf is read at the next start")
		}
	}
	_, _ = daemon.SdNotify(false, daemon.SdNotifyStopping)
	sockets.Close()
	deadline, cancelDeadline := context.WithTimeout(context.Background(), stopTimeout)
	defer cancelDeadline()
	return server.Close(deadline)
}

// absolute returns a path relative to dir as a path below dir, and an absolute or
// empty one as it is.
func absolute(dir, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
