package main

// SMTP on standard input and output: option -bs.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

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
	if host, err := os.Hostname(); err == nil {
		o.Hostname = host
	}
	o.Log = zerolog.New(text.JSONWriter{To: os.Stderr}).Level(zerolog.WarnLevel)
	server, err := smtpserver.New(o)
	if err != nil {
		return withCode(err)
	}
	signal.Ignore(syscall.SIGPIPE) // the client may have gone; its last message is still finished
	conn, written, err := standardConn(os.Stdin, os.Stdout)
	if err != nil {
		return err
	}
	err = server.ServeConn(conn, smtpserver.SMTP)
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err = errors.Join(err, server.Close(ctx))
	_ = conn.Close()
	<-written
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
		return exitf(exitIO, "SMTP session: %w", err)
	}
	return nil
}

// standardConn makes a connection from two files, which may be of any kind. It
// copies between them and one end of a socket pair, and returns the other end.
// written is closed when all output is written.
func standardConn(in io.Reader, out io.Writer) (conn net.Conn, written <-chan struct{}, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a socket pair: %w", err)
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		file := os.NewFile(uintptr(fd), "socketpair")
		var e error
		ends[i], e = net.FileConn(file)
		err = errors.Join(err, e, file.Close())
	}
	if err != nil {
		return nil, nil, err
	}
	go func() {
		_, _ = io.Copy(ends[0], in)
		_ = ends[0].(*net.UnixConn).CloseWrite()
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(out, ends[0])
	}()
	return ends[1], done, nil
}
