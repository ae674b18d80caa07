package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/smtp"
	"net/textproto"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// floodConnections is how many connections TestTenThousandConnections opens, if the
// limit on descriptors allows.
const floodConnections = 10_000

// TestTenThousandConnections: they are silent, half open or reset, send garbage or
// half a message, or do not read. The session that exists goes on, or gives way if this machine is so busy
// that its client is slower than a round trip; those of the flood
// end after --command-timeout, and then others get in although all connections are
// still there. Memory and descriptors stay bounded.
func TestTenThousandConnections(t *testing.T) {
	p := newPlace(t, "domain ours.example\ncommand-timeout 5s\n")
	server, address := p.start()
	first, err := smtp.Dial(address)
	if err != nil {
		t.Fatal(err)
	}
	before := descriptors(t, server.Process.Pid)

	messages := 0
	flooded, sent := make(chan struct{}), make(chan error)
	go func() {
		for over := false; !over; messages++ {
			select {
			case <-flooded:
				over = true
			default:
			}
			err := send(first)
			for gaveWay(err) {
				first.Close()
				if first, err = dialPatiently(address); err == nil {
					err = send(first)
				}
			}
			if err != nil {
				sent <- err
				return
			}
		}
		sent <- first.Close()
	}()
	conns := openFlood(t, address)
	defer func() {
		for _, conn := range conns {
			conn.Close()
		}
	}()
	close(flooded)
	if err := <-sent; err != nil {
		t.Fatalf("a session from before the flood: %v", err)
	}
	other, err := dialPatiently(address)
	if err == nil {
		err = send(other)
	}
	if err != nil {
		t.Fatalf("a new session: %v", err)
	}
	other.Close()
	for deadline := time.Now().Add(time.Minute); descriptors(t, server.Process.Pid) > before; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the server has %d descriptors, and had %d", descriptors(t, server.Process.Pid), before)
		}
	}
	memory := mostMemory(t, server)
	if t.Logf("%d connections, %d messages meanwhile, %.0f MB", len(conns), messages, memory); memory > 60 && !raced {
		t.Error("that is too much memory")
	}
	files, err := filepath.Glob(filepath.Join(p.dir, "router", "*"))
	if err != nil || len(files) != messages+1 {
		t.Errorf("%d messages in router/, %v; want %d", len(files), err, messages+1)
	}
}

// gaveWay reports whether a session was ended for others. A command that was on its way then resets the
// connection, and the reply may be lost.
func gaveWay(err error) bool {
	reply, ok := errors.AsType[*textproto.Error](err)
	return ok && reply.Code == 421 && strings.Contains(reply.Msg, "this one was the slowest") ||
		errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// dialPatiently tries for a minute to begin a session.
func dialPatiently(address string) (c *smtp.Client, err error) {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if c, err = smtp.Dial(address); err == nil {
			return c, nil
		}
	}
	return nil, err
}

// openFlood opens connections, and does with each what no client should.
func openFlood(t *testing.T, address string) (conns []net.Conn) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	many := min(floodConnections, int(min(limit.Cur, 1<<20))-200)
	if raced {
		many /= 10
	}
	const dialers = 4
	var mu sync.Mutex
	var opening sync.WaitGroup
	for first := range dialers {
		opening.Go(func() {
			for n := first; n < many; n += dialers {
				conn, err := net.Dial("tcp", address)
				if err != nil {
					t.Error(err)
					return
				}
				misbehave(conn.(*net.TCPConn), n)
				mu.Lock()
				conns = append(conns, conn)
				mu.Unlock()
			}
		})
	}
	opening.Wait()
	return conns
}

func misbehave(conn *net.TCPConn, n int) {
	// A server that does not read must not hold the flood up.
	_ = conn.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	switch n % 7 {
	case 0: // silent
	case 1:
		io.WriteString(conn, "EHL")
	case 2:
		conn.Write(bytes.Repeat([]byte{0, 0xff, 0x80, '\n'}, 1000))
	case 3: // half open
		io.WriteString(conn, "EHLO x\r\nMAIL FROM:<a@far.example>\r\nRC")
		conn.CloseWrite()
	case 4:
		io.WriteString(conn, "EHLO x\r\nMAIL FROM:<a@far.example>\r\nRCPT TO:<b@ours.example>\r\nDATA\r\nSubject: half a message\r\n\r\nhal")
	case 5:
		_ = conn.SetLinger(0)
		conn.Close()
	case 6: // the replies are not read
		io.WriteString(conn, strings.Repeat("EHLO x\r\n", 2000))
	}
}

// descriptors counts those of a process.
func descriptors(t *testing.T, pid int) int {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("no /proc here")
	}
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
