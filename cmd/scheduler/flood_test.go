package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"zsched/mailq"
)

// floodConnections is many times what the sockets take at once. "make crash" gives more.
var floodConnections = flag.Int("connections", 600, "connections of TestSocketsUnderFlood, if the limit on descriptors allows")

// TestSocketsUnderFlood opens hundreds of connections to the sockets for queries and
// metrics. They are silent or half open, send garbage or endless lines, or do not read
// their replies. Others come and go, and datagrams flood the notify socket. Meanwhile
// mail is delivered, and the administrator can log in at the UNIX socket. A password is
// taken over TCP when the flood, which has all sessions of the loopback network, is over.
// Afterwards memory, log and descriptors are as before.
func TestSocketsUnderFlood(t *testing.T) {
	port, scrapes := freePort(t), freePort(t)
	s := newHostileSite(t, fmt.Sprintf("PARAMmailqsock=\"UNIX:%%s/mailq TCP:127.0.0.1:%s\"\nPARAMmetrics=TCP:127.0.0.1:%s\nPARAMauthfile=%%s/auth\n", port, scrapes))
	auth := filepath.Join(s.po, "auth")
	if err := os.WriteFile(auth, []byte("nobody:nobody:SNMP QQ TT: [127.0.0.1]\npostmaster:a long secret:ALL: [127.0.0.2]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	sched := s.office.start(t, s.po)
	pid := sched.cmd.Process.Pid
	s.deliver(1)
	before, memory := s.idle(pid, 1000), residentMB(t, pid, "VmHWM:")

	f := &flood{targets: []target{
		{"tcp", "127.0.0.1:" + port, "JSON SHOW QUEUE THREADS\n"},
		{"tcp", "127.0.0.1:" + scrapes, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"},
	}}
	if os.Geteuid() == 0 { // other users' connections are not the administrator's
		f.targets = append(f.targets, target{"unix", filepath.Join(s.po, "mailq"), "JSON SHOW QUEUE THREADS\n"})
	}
	f.open(t)
	f.notify(filepath.Join(s.po, ".scheduler.notify"))
	for range 10 {
		s.ask("unix", filepath.Join(s.po, "mailq"))
		s.deliver(1)
	}
	f.pause()
	reply, err := http.Get("http://127.0.0.1:" + scrapes + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	if reply.Body.Close(); reply.StatusCode != http.StatusOK {
		t.Errorf("the health check is answered with %s", reply.Status)
	}
	http.DefaultClient.CloseIdleConnections()
	f.close()
	s.idle(pid, before)
	s.ask("tcp", "127.0.0.1:"+port)
	most := residentMB(t, pid, "VmHWM:")
	t.Logf("%d connections; the scheduler took %.0f MB, and %.0f before", f.connections, most, memory)
	if most-memory > 100 && !raced {
		t.Error("the scheduler took too much memory")
	}
	f.notify(filepath.Join(s.po, ".scheduler.notify")) // also while it stops
	sched.stop(t)
	f.pause()
	if log, err := os.ReadFile(filepath.Join(s.po, "log")); err != nil || len(log) > 1<<20 {
		t.Errorf("the log has %d bytes, %v", len(log), err)
	}
}

func freePort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// deliver submits messages and waits until they are delivered.
func (s *hostileSite) deliver(messages int) {
	s.t.Helper()
	s.submit("polite", messages)
	s.awaitEvents("polite mail to be delivered", s.messages, func(e event) bool { return e.Channel == "polite" && e.Class == 2 })
}

// ask asks the scheduler for its totals, as the administrator.
func (s *hostileSite) ask(network, address string) {
	s.t.Helper()
	dialer := net.Dialer{Timeout: patience}
	if network == "tcp" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}
	}
	conn, err := dialer.Dial(network, address)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	in := bufio.NewReader(conn)
	line := func() string {
		text, err := in.ReadString('\n')
		if err != nil {
			s.t.Fatalf("the administrator cannot log in at %s: %v", address, err)
		}
		return strings.TrimSpace(text)
	}
	line()
	challenge := line()
	if network == "tcp" {
		fmt.Fprintf(conn, "AUTH postmaster %s\n", mailq.Digest(challenge, "a long secret"))
		if reply := line(); reply[0] != '+' {
			s.t.Fatalf("the administrator's login is answered with %q", reply)
		}
	}
	fmt.Fprint(conn, "SHOW SNMP\n")
	line()
	if totals := line(); !strings.HasPrefix(totals, "Kids:") {
		s.t.Fatalf("the administrator's query is answered with %q", totals)
	}
}

// target is a socket, and a request that has a long reply.
type target struct{ network, address, request string }

// flood is a set of hostile connections and datagrams.
type flood struct {
	targets     []target
	connections int

	mu      sync.Mutex
	conns   []net.Conn
	stop    chan struct{} // closed to end the short connections and the datagrams
	running sync.WaitGroup
}

// open opens many connections, and opens and closes others until pause.
func (f *flood) open(t *testing.T) {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	f.connections = min(*floodConnections, int(min(files.Cur, 1<<20))-200)
	if raced {
		f.connections /= 10
	}
	f.stop = make(chan struct{})
	const dialers = 4
	var opening sync.WaitGroup
	for first := range dialers {
		opening.Go(func() {
			for n := first; n < f.connections; n += dialers {
				if conn, err := f.connect(n); err != nil {
					t.Error(err)
				} else {
					f.mu.Lock()
					f.conns = append(f.conns, conn)
					f.mu.Unlock()
				}
			}
		})
	}
	opening.Wait()
	f.running.Go(func() {
		for n := 0; !f.stopped(); n++ {
			if conn, err := f.connect(n); err == nil {
				conn.Close()
			}
		}
	})
}

func (f *flood) stopped() bool {
	select {
	case <-f.stop:
		return true
	default:
		return false
	}
}

// connect makes the nth connection, and misuses it in one of seven ways.
func (f *flood) connect(n int) (net.Conn, error) {
	to := f.targets[n%len(f.targets)]
	dial := func() (net.Conn, error) { return net.Dial(to.network, to.address) }
	if to.network == "unix" {
		dial = asNobody(dial)
	}
	conn, err := dial()
	for errors.Is(err, syscall.EAGAIN) { // the queue of connections is full
		runtime.Gosched()
		conn, err = dial()
	}
	if err != nil {
		return nil, err
	}
	// A reader that stops must not hold the flood up.
	_ = conn.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	switch n / len(f.targets) % 7 {
	case 0: // silent
	case 1:
		io.WriteString(conn, to.request[:len(to.request)/2])
	case 2:
		garbage := make([]byte, 4096)
		for i := range garbage {
			garbage[i] = byte(rand.IntN(256))
		}
		conn.Write(garbage)
	case 3:
		io.WriteString(conn, strings.Repeat("x", 1<<18))
	case 4: // half open
		io.WriteString(conn, to.request[:len(to.request)/2])
		conn.(interface{ CloseWrite() error }).CloseWrite()
	case 5: // reset
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		conn.Close()
	case 6: // the replies are not read
		io.WriteString(conn, strings.Repeat(to.request, 500))
	}
	return conn, nil
}

// asNobody makes dial run in a thread that is user nobody for the other side of the
// connection. Files are still opened with the rights of this user.
func asNobody(dial func() (net.Conn, error)) func() (net.Conn, error) {
	return func() (conn net.Conn, err error) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
			keep := ^uintptr(0)
			if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, keep, 65534, keep); e != 0 {
				err = e
				return
			}
			unix.RawSyscall(unix.SYS_SETFSUID, 0, 0, 0)
			conn, err = dial()
		}()
		<-done
		return conn, err
	}
}

// notify sends datagrams, garbage and names that do not exist, until pause.
func (f *flood) notify(path string) {
	if f.stopped() {
		f.stop = make(chan struct{})
	}
	f.running.Go(func() {
		conn, err := net.Dial("unixgram", path)
		if err != nil {
			return
		}
		defer conn.Close()
		for n := 0; !f.stopped(); n++ {
			_ = conn.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
			switch n % 4 {
			case 0:
				fmt.Fprintf(conn, "NEW %d", 1_000_000+n%1000)
			case 1:
				fmt.Fprintf(conn, "NEW A/B/%s", strings.Repeat("9", n%2000))
			case 2:
				fmt.Fprintf(conn, "NEW ../../etc/passwd\x00\xff%d", n)
			default:
				conn.Write(make([]byte, n%3000))
			}
		}
	})
}

// pause ends the short connections and the datagrams.
func (f *flood) pause() {
	close(f.stop)
	f.running.Wait()
}

// close closes the connections.
func (f *flood) close() {
	for _, conn := range f.conns {
		conn.Close()
	}
}
