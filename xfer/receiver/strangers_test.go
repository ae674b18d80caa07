package receiver

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// tcpConn is one side of a pipe with a TCP address.
type tcpConn struct {
	net.Conn
	address net.TCPAddr
}

func (c *tcpConn) RemoteAddr() net.Addr { return &c.address }

// pipeFrom returns a connection from an address, and its other end.
func pipeFrom(ip net.IP) (server, client net.Conn) {
	ours, theirs := net.Pipe()
	return &tcpConn{ours, net.TCPAddr{IP: ip, Port: 1}}, theirs
}

// A flood closes no connection of an address that has only one, and none whose node is
// known.
func TestConnectionsWithoutIntroductionAreLimited(t *testing.T) {
	for what, c := range map[string]struct {
		address func(i int) net.IP
		most    int
	}{
		"one address":        {func(int) net.IP { return net.IPv4(192, 0, 2, 1) }, maxOfAddress + 1},
		"one IPv6 network":   {func(i int) net.IP { return net.ParseIP("2001:db8::").To16().Mask(net.CIDRMask(64+i%60, 128)) }, maxOfAddress + 1},
		"some addresses":     {func(i int) net.IP { return net.IPv4(192, 0, 2, byte(i%20)) }, maxStrangers},
		"the node's address": {func(int) net.IP { return net.IPv4(198, 51, 100, 7) }, maxOfAddress},
	} {
		var all strangers
		node, _ := pipeFrom(net.IPv4(198, 51, 100, 7))
		known := all.enter(node)
		known.leave()
		other, _ := pipeFrom(net.IPv4(203, 0, 113, 7))
		single := all.enter(other)
		opened := []*stranger{}
		for i := range 900 {
			conn, _ := pipeFrom(c.address(i))
			opened = append(opened, all.enter(conn))
		}
		closed := 0
		for _, one := range opened {
			if one.closed != nil {
				closed++
			}
		}
		if n := len(all.open); n > c.most+1 || closed != 900-(n-1) {
			t.Errorf("%s: %d are open, %d of 900 closed", what, n, closed)
		}
		if single.leave() != nil || known.leave() != nil {
			t.Errorf("%s: a connection of another address, or of a known node, was closed", what)
		}
		for _, one := range opened {
			one.leave()
		}
		if len(all.open) != 0 {
			t.Errorf("%s: %d are left", what, len(all.open))
		}
	}
}

func TestSilentConnectionIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all strangers
		began := time.Now()
		conn, peer := pipeFrom(net.IPv4(192, 0, 2, 1))
		silent := all.enter(conn)
		if _, err := peer.Read(make([]byte, 1)); err != io.EOF || time.Since(began) != introductionTimeout {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if silent.leave() != errSilent {
			t.Error("it is not said why")
		}
	})
}
