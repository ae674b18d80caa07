package main

// Asking: the options about the server and the user, and sessions with the server.

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"zsched/internal/zenv"
	"zsched/mailq/client"
)

// asker finds the server and has sessions with it.
type asker struct {
	prefer         int    // address family to try first: 0, 4 or 6
	server         string // a host
	address        string // -p
	user, password string
	userGiven      bool   // -U
	zenv           string // -Z
	timeout        time.Duration
	debug          bool

	stderr io.Writer
	env    *zenv.File     // once it is read
	target *target        // once it is found
	client *client.Client // of the session
}

// flags are the options about the server and the user. Every subcommand has them.
func (a *asker) flags(f *pflag.FlagSet) {
	a.user, a.password, a.timeout = "nobody", "nobody", 2*time.Minute
	f.StringVar(&a.server, "server", "", "ask the scheduler of this `host`")
	f.StringVarP(&a.address, "port", "p", "", "`port`, TCP service, or /path of a UNIX socket")
	f.BoolFuncP("ipv4", "4", "try IPv4 addresses first", flagAction(func() { a.prefer = 4 }))
	f.BoolFuncP("ipv6", "6", "try IPv6 addresses first (the default)", flagAction(func() { a.prefer = 6 }))
	f.FuncP("login", "U", "log in with this `user/password` (default nobody/nobody)", a.setLogin)
	f.Func("password-file", "read the password from the first line of this `file`", a.readPassword)
	spanFlag(f, &a.timeout, "timeout", "longest `time` that the server may be silent (default 2m)")
	f.StringVarP(&a.zenv, "zmailer-conf", "Z", "", "read this zmailer.conf `file` (default /opt/mail/zmailer.conf)")
	f.BoolVarP(&a.debug, "debug", "d", false, "print every line from the server on standard error")
	f.Bool("help", false, "print this help")
}

// setLogin splits user and password at the first "/", or at the first ":" if there
// is no "/", or else at the first ",".
func (a *asker) setLogin(s string) error {
	a.userGiven = true
	for _, separator := range []string{"/", ":", ","} {
		if name, password, ok := strings.Cut(s, separator); ok {
			a.user, a.password = name, password
			return nil
		}
	}
	a.user = s
	return nil
}

func (a *asker) readPassword(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	a.password, _, _ = strings.Cut(string(text), "\n")
	return nil
}

// find reads zmailer.conf and finds the server. dead says that it need not be running.
func (a *asker) find(dead bool) (err error) {
	if err := a.readEnv(); err != nil {
		return err
	}
	if a.target, err = findTarget(a, dead); err != nil {
		return err
	}
	if a.target.badConfig != nil {
		fmt.Fprintf(a.stderr, "mailq: %v\n", a.target.badConfig)
	}
	return nil
}

// readEnv reads zmailer.conf. A file that is not named on the command line may be missing
// or wrong.
func (a *asker) readEnv() (err error) {
	a.env, err = zenv.Read(a.zenv)
	if err != nil && a.zenv != "" {
		return usageError(err.Error())
	}
	if err != nil {
		fmt.Fprintf(a.stderr, "mailq: %v\n", err)
	}
	return nil
}

// connectTimeout is the timeout for each address of a server.
const connectTimeout = 30 * time.Second

// session connects to the server that was found and calls do.
func (a *asker) session(do func() error) (err error) {
	if a.client, err = a.connect(); err != nil {
		return err
	}
	defer func() { _ = a.client.Quit() }()
	return do()
}

// connect begins a session and logs in, unless the scheduler has another postoffice than the one
// that is meant.
func (a *asker) connect() (*client.Client, error) {
	at := a.target.Address
	conn, err := client.Dialer{Prefer: a.prefer, Timeout: connectTimeout}.Dial(context.Background(), at)
	if err != nil {
		return nil, cmp.Or(a.target.inactive, err)
	}
	options := client.Options{Server: at.String(), Timeout: a.timeout}
	if a.debug {
		options.Trace = a.stderr
	}
	c, err := client.New(conn, options)
	if err != nil {
		return nil, err
	}
	theirs, ours := c.Postoffice(), a.target.spool.Identity()
	if a.target.own && theirs != ours && theirs != "" && theirs != "-" && ours != "-" {
		_ = c.Close()
		return nil, &client.Error{Kind: client.Unavailable, Err: fmt.Errorf("%s: the scheduler there has another postoffice than %s; "+
			"name the one to ask with -p, or with -Z and its zmailer.conf", at, a.target.spool.Dir)}
	}
	err = c.Login(a.user, a.password)
	if client.KindOf(err) == client.Refused && at.Path != "" && !a.userGiven {
		// On a UNIX socket the server may admit the user by the kernel's
		// credentials, without a login. If it does not, it refuses the first
		// command.
		return c, nil
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}
