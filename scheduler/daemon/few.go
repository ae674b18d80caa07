package daemon

import (
	"net"
	"sync"
)

// fewConns is a listener that has so many connections open at most. One more
// is closed at once: file descriptors are for mail.
type fewConns struct {
	net.Listener
	free chan struct{} // a token for each that may still be opened
}

func newFewConns(listener net.Listener, most int) *fewConns {
	l := &fewConns{listener, make(chan struct{}, most)}
	for range most {
		l.free <- struct{}{}
	}
	return l
}

func (l *fewConns) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case <-l.free:
			return &countedConn{Conn: conn, gone: sync.OnceFunc(func() { l.free <- struct{}{} })}, nil
		default:
			conn.Close()
		}
	}
}

// countedConn makes room for another when it is closed.
type countedConn struct {
	net.Conn
	gone func()
}

func (c *countedConn) Close() error {
	defer c.gone()
	return c.Conn.Close()
}
