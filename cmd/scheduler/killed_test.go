package main

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"
)

// TestKilledMailFreesItsSessions: mail for servers that say nothing has all sessions, and is
// killed. The agent ends its connections, and other mail has its turn, long before it
// would give up the servers.
func TestKilledMailFreesItsSessions(t *testing.T) {
	t.Parallel()
	const sessions = 4
	server, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	next := func() net.Conn {
		_ = server.(*net.TCPListener).SetDeadline(time.Now().Add(patience))
		conn, err := server.Accept()
		if err != nil {
			t.Fatal("no further connection: ", err)
		}
		_ = conn.SetDeadline(time.Now().Add(patience))
		return conn
	}
	p := &picker{t: t, office: linkBench(t, testBinary(t), map[string]string{"smtp": program(t, "smtp")})}
	p.po = p.office.postoffice(t)
	p.office.write(t, p.po, fmt.Sprintf("smtp/* overfeed=0 sessions=%[1]d maxring=%[1]d\n\tcommand=\"smtp -x -X -p %[2]d --sessions ${sessions}\"\n",
		sessions, server.Addr().(*net.TCPAddr).Port))
	for i := range sessions {
		p.submit("ann@a.example", fmt.Sprintf("[127.1.0.%d]", i+1))
	}
	sched := p.office.start(t, p.po, "-M", "2")
	var silent []net.Conn
	for range sessions {
		silent = append(silent, next())
	}
	runProgram(t, program(t, "mailq"), "-Z", filepath.Join(p.po, "zmailer.conf"), "-p", filepath.Join(p.po, "mailq"), "kill", "--yes", "channel=smtp")
	for _, conn := range silent {
		if _, err := io.Copy(io.Discard, conn); err != nil {
			t.Errorf("a connection for killed mail stays open: %v", err)
		}
		conn.Close()
	}
	p.submit("bob@b.example", "[127.9.0.1]")
	conn := next()
	if host, _, _ := net.SplitHostPort(conn.LocalAddr().String()); host != "127.9.0.1" {
		t.Errorf("the next connection is to %s", host)
	}
	conn.Close()
	sched.stop(t)
}
