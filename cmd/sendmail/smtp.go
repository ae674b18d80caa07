package main

// SMTP on standard input and output: option -bs.

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"zsched/internal/text"
	"zsched/internal/zenv"
	"zsched/queue"
	"zsched/smtpserver"
)

// closeTimeout is how long the end of a session may take.
const closeTimeout = 10 * time.Second

// serve speaks SMTP as smtpserver(8) does, with a client that may send anywhere.
// Unless the router trusts the user, it makes the user the sender.
func serve(env *zenv.File) error {
	o := smtpserver.Default()
	o.Router = queue.Router{Postoffice: env.Value("POSTOFFICE"), Levels: env.RouterLevels(), Notify: env.Value("ROUTERNOTIFY")}
	o.NotifySock = env.Value("SCHEDULERNOTIFY")
	switch limit, err := env.RouterMaxSize(); {
	case err != nil:
		return exit{exitConfig, err}
	case limit > 0:
		o.MaxSize = min(o.MaxSize, limit)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	o.Hostname = host
	o.Log = zerolog.New(text.JSONWriter{To: os.Stderr}).Level(zerolog.WarnLevel)
	server, err := smtpserver.New(o)
	if err != nil {
		return withCode(err)
	}
	signal.Ignore(syscall.SIGPIPE) // the client may have gone; its last message is still finished
	in, input := net.Pipe()
	defer in.Close()
	go func() {
		_, _ = io.Copy(input, os.Stdin)
		_ = input.Close()
	}()
	err = server.ServeConn(standardConn{in, os.Stdout}, smtpserver.SMTP)
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err = errors.Join(err, server.Close(ctx))
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
		return exitf(exitIO, "SMTP session: %w", err)
	}
	return nil
}

// standardConn is a connection that reads what comes on standard input, with deadlines, and
// writes to standard output.
type standardConn struct {
	net.Conn
	out io.Writer
}

func (c standardConn) Write(b []byte) (int, error) { return c.out.Write(b) }

func (c standardConn) SetWriteDeadline(time.Time) error { return nil }
