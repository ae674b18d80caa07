package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/rs/zerolog"

	"zsched/smtpserver"
)

// strangers is a listener for which the clients at 127.1.x.y have the addresses 192.1.x.y, and
// are on another machine.
type strangers struct{ net.Listener }

func (l strangers) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if from := *conn.RemoteAddr().(*net.TCPAddr); from.IP.To4()[1] == 1 {
		from.IP = append(net.IP{192}, from.IP.To4()[1:]...)
		return strange{conn, &from}, nil
	}
	return conn, nil
}

type strange struct {
	net.Conn
	from net.Addr
}

func (c strange) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4(198, 51, 100, 1), Port: 25} }
func (c strange) RemoteAddr() net.Addr { return c.from }

// serveStrangers runs a server as main does, with strangers as its listener, until SIGTERM.
func serveStrangers(args []string) error {
	c := &configuration{args: args, log: zerolog.New(os.Stderr)}
	o, err := c.read()
	if err != nil {
		return err
	}
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	server, err := smtpserver.New(o)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", c.options.listen[0].at.Address)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, `{"message":"listening","address":%q}`+"\n", l.Addr())
	go func() { _ = server.Serve(strangers{l}, smtpserver.SMTP) }()
	<-stop.Done()
	return server.Close(stop)
}
